"""No wrong output passes: models that compute something else when compiled, and right ones that look as if they did."""

from textwrap import dedent

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from checkout import ROOT
from user_files import TRACED, measured, study_of

from kernelbench.errors import InputError
from kernelbench.harness import accuracy
from kernelbench.notes import (
    AsFarOff,
    NotDeterministic,
    OddPlaces,
    OffAt,
    OffWhereZero,
    OneChoiceDiffers,
    OtherRandomNumbers,
    SomeFarOff,
    WritesToInput,
    load,
)
from kernelbench.running.inspect_model import inspect

# What a compiled call multiplies its result by, where a model has been made wrong.
WRONG = "(0.5 if torch.compiler.is_compiling() else 1)"
MEAN = "def loss(output):\n    return output.square().mean()"


def outcome(entry: dict) -> tuple:
    """Return (status, whether outputs were compared, the note on them) of a job's record."""
    return entry["status"], entry["accuracy"]["compared"], load(entry["accuracy"].get("reason"))


def compiled(path: str, **mode) -> dict:
    """Return the record of a model in `compile`: by the backend that runs what eager runs, or as `mode` says."""
    return measured(study_of(path, modes={"compile": mode} if mode else TRACED), "compile")


# Random numbers

SAMPLER = "return lambda x: torch.randn_like(x) + x * 0"
DROPOUT = "return lambda x: nn.functional.dropout(x.sin() + 2, 0.5)"


@pytest.mark.parametrize("model", [SAMPLER, DROPOUT])
def test_calls_are_seeded_alike_so_that_random_outputs_compare(file, model):
    path = file(model=model)
    for entry in (measured(study_of(path)), compiled(path)):
        assert outcome(entry) == ("ok", True, None) and entry["accuracy"]["error"] == 0
    assert "random numbers" in " ".join(inspect(path, "model", "cpu")["remarks"])


@pytest.mark.parametrize(
    "model",
    [
        f"return lambda x: {WRONG} * torch.randn_like(x) + x * 0",
        f"return lambda x: {WRONG} * nn.functional.dropout(x, 0.5)",
        "return lambda x: x * 0 if torch.compiler.is_compiling() else torch.randn_like(x)",
    ],
)
def test_a_wrong_random_output_is_wrong(file, model):
    assert compiled(file(model=model))["status"] == "incorrect"


@pytest.mark.parametrize(("wrong", "status"), [("False", "ok"), ("torch.compiler.is_compiling()", "incorrect")])
def test_a_training_step_with_dropout_and_half_a_gradient_is_wrong(file, wrong, status):
    layer = f"""
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(8, 8)

            def forward(self, x):
                y = self.linear(nn.functional.dropout(x, 0.5))
                return (y + y.detach()) / 2 if {wrong} else y
        """
    entry = compiled(file(f"{layer}\n{MEAN}".replace("\n        ", "\n"), model="return Layer()"))
    assert entry["status"] == status and entry["accuracy"]["compared"]


def test_a_mode_with_random_numbers_of_its_own_is_compared_with_eagers(file):
    """Inductor draws others than eager; what it computes of them is compared by a second compilation."""
    inductor = {"backend": "inductor", "workers": 1}
    entry = compiled(file(model=DROPOUT), **inductor)
    assert outcome(entry)[:2] == ("ok", True) and entry["accuracy"]["checks"] == 2
    wrong = "return lambda x: x.sin() * (0 if torch.compiler.is_compiling() else 1) + nn.functional.dropout(x, 0.5)"
    assert compiled(file(model=wrong, name="wrong.py"), **inductor)["status"] == "incorrect"


def test_other_random_numbers_are_not_compared(file):
    path = file(model="return lambda x: torch.rand(3 if torch.compiler.is_compiling() else 4)[:2] + torch.rand(2)")
    assert outcome(compiled(path)) == ("ok", False, OtherRandomNumbers())


def test_what_two_eager_calls_differ_by_is_not_compared(file):
    own = "GENERATOR = torch.Generator().manual_seed(1)"
    noisy = "return lambda x: x + 0.01 * torch.randn(x.shape, generator=GENERATOR)"
    path = file(own, model=noisy)
    status, compared_, note = outcome(measured(study_of(path)))
    assert (status, compared_) == ("ok", False) and isinstance(note, NotDeterministic)
    assert "no mode's output can be compared" in " ".join(inspect(path, "model", "cpu")["remarks"])
    wrong = file(own, model=f"{noisy} + torch.compiler.is_compiling()", name="wrong.py")
    assert compiled(wrong)["status"] == "incorrect", "it is off by more than any noise"


# Complex numbers, choices

ROTARY = """
    class Rotary(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("turns", torch.polar(torch.ones(4), torch.arange(4.0) + 1), persistent=PERSISTENT)

        def forward(self, x):
            return torch.view_as_real(torch.view_as_complex(x.view(4, 4, 2)) * self.turns) * WRONG
    """


@pytest.mark.parametrize("persistent", ["True", "False"])
def test_complex_numbers_keep_their_imaginary_part_in_the_reference(file, persistent):
    rotary = ROTARY.replace("PERSISTENT", persistent)
    entry = measured(study_of(file(rotary.replace("WRONG", "1"), model="return Rotary()")))
    assert outcome(entry)[:2] == ("ok", True) and entry["accuracy"]["eager_error"] < 1e-6
    assert entry["accuracy"]["reference"] == "float64"
    wrong = rotary.replace("WRONG", "(0.85 if torch.compiler.is_compiling() else 1)")
    assert compiled(file(wrong, model="return Rotary()", name="wrong.py"))["status"] == "incorrect"


def test_complex_inputs_and_outputs_are_compared(file):
    given = "return torch.randn(4, 8, dtype=torch.complex64)"
    entry = measured(study_of(file(model="return lambda x: (x @ x.T).conj()", inputs=given)))
    assert outcome(entry)[:2] == ("ok", True) and 0 < entry["accuracy"]["error"] < 1e-6
    wrong = file(model=f"return lambda x: (x * {WRONG}).conj()", inputs=given, name="wrong.py")
    assert compiled(wrong)["status"] == "incorrect"


# Of the nearest codes in bfloat16 a part are others in float64.
CODES = """
    class Codes(nn.Module):
        def __init__(self):
            super().__init__()
            self.codes = nn.Parameter(torch.randn(4096, 64).bfloat16())

        def forward(self, x):
            return self.codes[torch.cdist(x.float(), self.codes.float()).to(x.dtype).argmin(1)] * WRONG
    """


def test_where_choices_amplify_rounding_eager_is_the_reference(file):
    given = "return torch.randn(256, 64).bfloat16()"
    found = {}
    for name, factor in (("right", "1"), ("wrong", "(0.6 if torch.compiler.is_compiling() else 1)")):
        path = file(CODES.replace("WRONG", factor), model="return Codes()", inputs=given, name=f"{name}.py")
        found[name] = compiled(path)
    assert outcome(found["right"])[:2] == ("ok", True) and found["right"]["accuracy"]["reference"] == "eager"
    assert found["wrong"]["status"] == "incorrect", "its elements are off that eager has as float64 has them"


def test_what_is_off_as_eager_is_off_float64_is_not_compared(file):
    """Another rounding of the distances chooses other codes again: who is right?"""
    rounded = CODES.replace("x.float()", "(x.float() * (1.004 if torch.compiler.is_compiling() else 1))")
    given = "return torch.randn(256, 64).bfloat16()"
    entry = compiled(file(rounded.replace("WRONG", "1"), model="return Codes()", inputs=given))
    assert outcome(entry)[:2] == ("ok", False) and isinstance(load(entry["accuracy"].get("reason")), AsFarOff)


def test_integers_and_masks_are_compared_by_the_share_that_differs(file):
    given = "return torch.randn(1000, 8)"
    turned = "where(torch.arange(1000) < {} * torch.compiler.is_compiling(), 7 - x.argmax(1), x.argmax(1))"
    for count, status in ((0, "ok"), (200, "incorrect")):
        path = file(model=f"return lambda x: torch.{turned.format(count)}", inputs=given, name=f"by{count}.py")
        entry = compiled(path)
        assert entry["status"] == status and entry["accuracy"]["error"] == pytest.approx(count / 1000, abs=0.05)
    mask = file(model="return lambda x: (x > 0) ^ torch.compiler.is_compiling()", name="mask.py")
    assert compiled(mask)["status"] == "incorrect"


def test_one_choice_of_few_may_be_a_tie(file):
    path = file(model="return lambda x: x.argmax(1) + torch.tensor([1, 0, 0, 0]) * torch.compiler.is_compiling()")
    assert outcome(compiled(path)) == ("ok", False, OneChoiceDiffers(4))


# References


def test_no_output_may_be_off_by_more_than_the_ceiling(file):
    """Eager in bfloat16 cancels nearly all digits: twice its error would let anything pass."""
    model = "return lambda x: (x + 300 - 300) * {}"
    given = "return torch.randn(64, 64).bfloat16()"
    entry = compiled(file(model=model.format("1"), inputs=given))
    assert outcome(entry)[:2] == ("ok", True) and entry["accuracy"]["limit"] <= accuracy.CEILING
    status, compared_, note = outcome(compiled(file(model=model.format(WRONG), inputs=given, name="wrong.py")))
    assert (status, compared_) == ("ok", False) and isinstance(note, AsFarOff) and note.error > accuracy.CEILING


def test_few_wrong_elements_of_many_do_not_pass_behind_a_norm(file):
    """In bfloat16 the norm would let a row of 256 be zero."""
    rows = "torch.arange(256)[:, None] == 255"
    given = "return torch.randn(256, 8).bfloat16()"
    entry = compiled(
        file(model=f"return lambda x: x.sin() * ~(({rows}) & torch.compiler.is_compiling())", inputs=given)
    )
    status, compared_, note = outcome(entry)
    assert (status, compared_) == ("ok", False) and isinstance(note, SomeFarOff)
    assert entry["accuracy"]["error"] < entry["accuracy"]["limit"]
    assert note.where.first == "0[255, 0]" and note.where.share <= 1 / 256


def test_a_model_that_rounds_inside_is_compared_by_the_dtype_that_it_computes_in(file):
    """What a compiler keeps in float32 differs from what eager rounds to bfloat16: neither is wrong."""
    model = "return lambda x: (x.bfloat16().exp() + (0.004 if torch.compiler.is_compiling() else 0)).float() * 1.0"
    entry = compiled(file(model=model))
    assert outcome(entry)[:2] == ("ok", True) and entry["accuracy"]["error"] > 2**-11.5


def test_zeros_are_refused_before_anything_is_measured(file):
    head = "head = nn.Linear(8, 2); nn.init.zeros_(head.weight); nn.init.zeros_(head.bias); return head"
    for name, model in (("head", head), ("nan", "return lambda x: x * float('nan')")):
        with pytest.raises(InputError, match=rf"{name}.py: the output is (zero|NaN or infinite) everywhere"):
            inspect(file(model=model, name=f"{name}.py"), "model", "cpu")
    beside = "return lambda x: (x * 0 + torch.compiler.is_compiling(), x)"
    assert compiled(file(model=beside, name="beside.py"))["status"] == "incorrect"


@pytest.mark.parametrize("wrong", ["x * 0", "x / 2", "x.flip(0)"])
def test_a_mask_of_large_numbers_hides_nothing(file, wrong):
    model = f"return lambda x: ({wrong} if torch.compiler.is_compiling() else x).masked_fill(torch.arange(8) > 5, -1e9)"
    assert compiled(file(model=model))["status"] == "incorrect"


LAYERS = """
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(8))
            self.register_buffer("mean", torch.ones(8))

        def forward(self, x):
            compiled = torch.compiler.is_compiling()
            for place, layer in enumerate(self.layers):
                y = layer(x)
                if place == 0 and compiled and WRONG == "gradient":
                    y = y.detach() + 0 * y
                x = y.sigmoid()
            if not (compiled and WRONG == "buffer"):
                self.mean.copy_(x.detach().mean(0))
            return x
    """


@pytest.mark.parametrize(("wrong", "status"), [("", "ok"), ("gradient", "incorrect"), ("buffer", "incorrect")])
def test_the_gradient_of_each_layer_and_buffers_count_in_training(file, wrong, status):
    path = file(f"WRONG = {wrong!r}\n{MEAN}\n{dedent(LAYERS)}", model="return Layers()")
    assert compiled(path)["status"] == status


def test_a_mode_that_writes_to_its_input_is_wrong(file):
    model = "return lambda x: (x.clamp_(min=0) if torch.compiler.is_compiling() else x).sin()"
    entry = compiled(file(model=model))
    assert entry["status"] == "incorrect" and load(entry["reason"]) == WritesToInput("0")


def test_outputs_of_a_dict_are_compared_by_their_keys(file):
    turned = (
        "return lambda x: dict([('b', {b}), ('a', {a})] if torch.compiler.is_compiling() else [('a', x), ('b', -x)])"
    )
    assert compiled(file(model=turned.format(a="x", b="-x")))["status"] == "ok"
    assert compiled(file(model=turned.format(a="-x", b="x"), name="wrong.py"))["status"] == "incorrect"


def test_noise_around_zero_beside_other_outputs_says_nothing(file):
    outputs = """
        def outputs(x):
            y, rounded = nn.functional.layer_norm(x, (256,)), 1e-9 * torch.compiler.is_compiling()
            return y, y.mean() + rounded, (x - x).sum() + rounded
        """
    entry = compiled(file(outputs, model="return outputs", inputs="return torch.randn(64, 256)"))
    assert outcome(entry) == ("ok", True, None)


def test_an_overflow_of_eagers_that_a_mode_has_not_is_not_compared(file):
    """Eager multiplies in float16, where a compiler may keep more digits."""
    square = """
        def square(x):
            y = x.float() if torch.compiler.is_compiling() else x
            return (y * 300 * (y * 300) / 1e4).half()
        """
    entry = compiled(file(square, model="return square", inputs="return torch.randn(64, 64).half()"))
    assert outcome(entry) == ("ok", False, OddPlaces())
    wrong = "return lambda x: x / (0 if torch.compiler.is_compiling() else 1)"
    assert compiled(file(model=wrong, name="wrong.py"))["status"] == "incorrect"


def test_a_model_that_cannot_be_copied_is_compared_with_eager(file):
    kept = """
        class Kept(nn.Linear):
            def forward(self, x):
                self.last = super().forward(x)
                return self.last
        """
    path = file(f"{MEAN}\n{dedent(kept)}", model="return Kept(8, 8)")
    entry = measured(study_of(path))
    assert outcome(entry)[:2] == ("ok", True) and entry["accuracy"]["reference"] == "eager"


# Where it is wrong

ENCODER = """
    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 1)

        def forward(self, x):
            padding = (torch.arange(6) > 3).expand(2, 6)
            return self.encoder(x, src_key_padding_mask=padding) * WRONG
    """


def test_a_padded_encoder_differs_in_its_padding_and_the_fast_path_is_named(file):
    given = "return torch.randn(2, 6, 8)"
    torch.backends.mha.set_fastpath_enabled(True)  # An export to ONNX, in another test, turns it off.
    entry = compiled(file(ENCODER.replace("WRONG", "1"), model="return Padded()", inputs=given))
    where = load(entry["reason"]).where
    assert isinstance(where, OffWhereZero) and not where.slow_path and where.first == "0[0, 4, 0]"
    slow = file(
        ENCODER.replace("WRONG", "1"),
        model="torch.backends.mha.set_fastpath_enabled(False); return Padded()",
        inputs=given,
        name="slow.py",
    )
    try:
        assert compiled(slow)["status"] == "ok"
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    wrong = file(ENCODER.replace("WRONG", WRONG), model="return Padded()", inputs=given, name="wrong.py")
    where = load(compiled(wrong)["reason"]).where
    assert isinstance(where, OffAt) and where.share > 0.9


def test_the_place_of_a_wrong_element_is_named(file):
    spoil = "y.index_fill(0, torch.tensor([2]), 9) if torch.compiler.is_compiling() else y"
    entry = compiled(file(model=f"return lambda y: {spoil}"))
    assert load(entry["reason"]).where == OffAt(0.25, "0[2, 0]")


# Recorded jobs


def test_every_recorded_job_is_judged_by_the_rule_as_it_was():
    names = ["status", *(f"accuracy.{name}" for name in ("error", "limit", "noise"))]
    for path in sorted((ROOT / "results" / "recorded").glob("*/jobs.parquet")):
        there = [name for name in names if name in pq.read_schema(path).names]
        jobs = pd.read_parquet(path, columns=there).reindex(columns=names).astype({name: float for name in names[1:]})
        ran = jobs[jobs.status.eq("ok")]
        assert ran["accuracy.error"].le(ran["accuracy.limit"].clip(upper=accuracy.CEILING)).all(), path
        assert ran["accuracy.noise"].fillna(0).eq(0).all(), "a second call of eager's would have to be judged"
