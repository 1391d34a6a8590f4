"""Numbers as text: as many digits as an interval supports, and units that fit."""

import pytest

from kernelbench import numbers
from kernelbench.op_names import NAMES, name


@pytest.mark.parametrize(
    ("low", "estimate", "high", "text"),
    [
        (1.8629, 1.8654, 1.8679, "1.865 [1.863, 1.868]"),
        (1.205, 1.2526, 1.302, "1.253 [1.205, 1.302]"),
        (0.545, 0.6617, 0.803, "0.66 [0.55, 0.80]"),
        (0.03, 0.27, 2.11, "0.27 [0.03, 2.11]"),
        (0.00536, 0.005609, 0.00588, "0.0056 [0.0054, 0.0059]"),
        (None, 1.5, None, "1.50"),
        (None, None, None, "–"),
    ],
)
def test_interval_as_text(low, estimate, high, text):
    assert numbers.ci({"speedup": estimate, "ci_low": low, "ci_high": high}).replace("\u00a0", " ") == text


def test_interval_breaks_only_before_its_bracket():
    assert numbers.ci({"speedup": 1.5, "ci_low": 1.4, "ci_high": 1.6}) == "1.50 [1.40,\u00a01.60]"


@pytest.mark.parametrize(
    ("share", "text"), [(0.0123, "1.2 %"), (0.98, "98 %"), (0.997, "100 %"), (1.013, "101 %"), (2.346, "235 %")]
)
def test_shares_have_two_digits_below_the_whole(share, text):
    assert numbers.percent(share).replace(numbers.NBSP, " ") == text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (numbers.with_unit([18.23], "µs"), "18.2 µs"),
        (numbers.with_unit([5267.4], "µs"), "5.27 ms"),
        (numbers.with_unit([4000, 12.3], "µs"), "0.0123–4.00 ms"),
        (numbers.with_unit([1.5, 1.5001], "s"), "1.50 s"),
        (numbers.span([0.812, 1, 2.8249]), "0.81–2.82"),
        (numbers.span([1.001, 1.002]), "1.00"),
        (numbers.span([0.5, 21.04]), "0.50–21.0"),
        (numbers.span([1005.6, 17977.2], numbers.whole), "1,006–17,977"),
        (numbers.calls({"kind": "after", "calls": 5088.7}), "5,089"),
        (numbers.calls({"kind": "never", "calls": None}), "never"),
        (numbers.calls({"kind": "open", "calls": None}), "undecided"),
        (numbers.number(1240), "1,240"),
        (numbers.value(None), "–"),
        (numbers.value(-0.01234), "−0.0123"),
    ],
)
def test_values_as_text(text, wanted):
    assert text.replace(numbers.NBSP, " ") == wanted


def test_cells_have_names():
    assert name("resnet50", "64") == "ResNet-50, batch 64"
    assert name("llama_1b_decode", "16x1024") == "Llama 1B decode, batch 16"
    assert name("softmax", "16384") == "softmax 16,384"
    assert name("gpt2_prefill", "1x512") == "GPT-2 prefill 1×512"
    assert name("silu", "7x9") == "silu 7x9" and name("matmul") == NAMES["matmul"]


def test_sizes_read_as_people_write_them():
    assert [numbers.size(text) for text in ("20971520", "256MiB", "1x128")] == ["20,971,520", "256\u00a0MiB", "1x128"]
