"""Sizes that are drawn: by what is in kernels/ and by nothing else, and what a study's file then says."""

from pathlib import Path

import pytest
import yaml
from checkout import TINY

from kernelbench import code_digest
from kernelbench.errors import InputError
from kernelbench.study import machine, yaml_files
from kernelbench.study.draw import draw_sizes
from kernelbench.study.study import Study, load

HELDOUT = Path(__file__).parents[1] / "workflow" / "studies" / "heldout.yaml"
SIZES = [*range(100, 130), "7x8x9"]
OPS = {"one": {"sizes": SIZES, "draw": 5, "rows": 3}, "two": {"sizes": SIZES, "draw": 5}, "all": {"sizes": SIZES}}


def changed(monkeypatch, *paths: str) -> None:
    """Let these kernels do something else."""
    kernels = code_digest.of_kernels()
    monkeypatch.setattr(code_digest, "of_kernels", lambda: kernels | dict.fromkeys(paths, "changed"))


def test_a_draw_is_so_many_of_the_sizes_in_their_order_and_the_same_at_each_call():
    drawn = draw_sizes(OPS)
    assert drawn == draw_sizes(OPS)
    assert drawn["one"] == {"sizes": [size for size in SIZES if size in drawn["one"]["sizes"]], "rows": 3}
    assert len(drawn["one"]["sizes"]) == len(drawn["two"]["sizes"]) == 5
    assert drawn["one"]["sizes"] != drawn["two"]["sizes"], "each op has a draw of its own"
    assert drawn["all"] == OPS["all"]


def test_a_larger_draw_keeps_what_a_smaller_one_drew():
    few, many = (draw_sizes({"one": {"sizes": SIZES, "draw": number}})["one"]["sizes"] for number in (5, 9))
    assert set(few) < set(many)
    assert draw_sizes({"one": {"sizes": SIZES, "draw": len(SIZES)}})["one"]["sizes"] == SIZES


@pytest.mark.parametrize("path", ["kernels/softmax.py", "kernels/new.py"])
def test_a_change_in_kernels_draws_anew(monkeypatch, path):
    before = draw_sizes(OPS)
    changed(monkeypatch, path)
    assert draw_sizes(OPS) != before


def test_the_study_as_run_has_what_was_drawn_and_draws_no_more(monkeypatch):
    study = Study({**TINY, "ops": {"softmax": {"rows": 64, "sizes": SIZES[:-1], "draw": 3}}})
    entry = study.config["ops"]["softmax"]
    assert entry == {"rows": 64, "sizes": [int(cell.size) for cell in study.cells()]} and len(entry["sizes"]) == 3
    assert "draw" not in study.settings(study.jobs[0])["workload"]
    written = yaml.safe_load(yaml.safe_dump(study.config))
    changed(monkeypatch, "kernels/softmax.py")
    assert Study(written).jobs == study.jobs


ANCHORED = """
ops:
  one: &short {sizes: [1, 2], draw: 1, modes: &few [eager]}
  two:
    <<: *short
    draw: 2
  three: {sizes: [3], modes: *few}
"""


def test_a_file_may_repeat_itself_by_anchors_and_merges(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(ANCHORED, encoding="utf-8")
    short = {"sizes": [1, 2], "draw": 1, "modes": ["eager"]}
    assert yaml_files.read(path)["ops"] == {
        "one": short,
        "two": {**short, "draw": 2},
        "three": {"sizes": [3], "modes": ["eager"]},
    }


def test_a_key_that_is_given_twice_beside_a_merge_is_refused(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(ANCHORED.replace("draw: 2", "draw: 2\n    draw: 1"), encoding="utf-8")
    with pytest.raises(InputError, match=r"^study.yaml: line 7: draw is given twice; allowed: each key once$"):
        yaml_files.read(path)


def test_the_held_out_study_is_drawn_and_small(monkeypatch):
    monkeypatch.setattr(machine, "present", lambda: ("h200", "cuda", "NVIDIA H200"))
    asked, study = yaml_files.read(HELDOUT)["ops"], load(HELDOUT)
    assert {op: len(entry["sizes"]) for op, entry in study.config["ops"].items()} == {
        op: entry.get("draw", len(entry["sizes"])) for op, entry in asked.items()
    }
    assert len(study.cells()) <= 60 and len(study.jobs) <= 900
