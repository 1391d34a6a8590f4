"""Cells: which (op, dtype, size) a study has, and which modes each of them runs in.

All of it is said of the mapping of a study, that of config.yaml or of a recorded study.yaml.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from kernelbench.errors import InputError
from kernelbench.harness import plugins, workloads
from kernelbench.harness.workload import Workload, build

# What tells cells apart in tables, and cells in a mode.
CELL = ["op", "dtype", "size"]
ARM = [*CELL, "mode"]
# The A/A arm, and the mode that it runs once more: their differences are what the procedure makes of no difference.
CONTROL, TWIN = "eager-control", "eager"
# Keys of an op's entry that are not parameters of its workload.
ENTRY_KEYS = ("workload", "sizes", "draw", "dtypes", "modes")


@dataclass(frozen=True)
class Cell:
    """One (op, dtype, size)."""

    op: str
    dtype: str
    size: str


@dataclass(frozen=True)
class Job:
    """One (op, dtype, size, mode, repeat): one process, one exclusive GPU, one record."""

    cell: Cell
    mode: str
    repeat: int

    @property
    def directory(self) -> str:
        """Where the files of a cell in a mode go, below what is of one kind."""
        return "/".join([*vars(self.cell).values(), self.mode])

    @property
    def path(self) -> str:
        """The record's path below the machine's results."""
        return f"records/{self.directory}/{self.repeat}.json"


def cells_of(study: dict) -> list[Cell]:
    """Return every cell of a study in its order."""
    return [
        Cell(op, dtype, str(size))
        for op, entry in study["ops"].items()
        for dtype, size in product(entry.get("dtypes", study["dtypes"]), entry["sizes"])
    ]


def modes_of(study: dict, cell: Cell) -> list[str]:
    """Return the modes that a cell runs in: those of its op, else all, without those that are not for it.

    A mode is not for a cell that its `only` leaves out, nor for an op whose workload does not know its `library`.
    """
    return [mode for mode in study["ops"][cell.op].get("modes", study["modes"]) if _is_for(study, cell, mode)]


def _is_for(study: dict, cell: Cell, mode: str) -> bool:
    entry = study["modes"][mode]
    if "library" in entry and entry["library"] not in libraries(cell.op, study["ops"][cell.op]):
        return False
    return "only" not in entry or cell.size in map(str, entry["only"].get(cell.op, []))


def find_diagnosed(study: dict, mode: str) -> str | None:
    """Return the mode that `mode` is a variant of for diagnosis, None if it is to be judged by itself."""
    return study["modes"][mode].get("diagnoses")


def drop_diagnostic_arms(document: dict) -> dict:
    """Return summary.json's content without the rows of diagnostic arms, which are compared with one mode alone."""
    keep = {mode for mode in document["study"]["modes"] if not find_diagnosed(document["study"], mode)}
    return {**document, **{t: [row for row in document[t] if row["mode"] in keep] for t in ("summary", "speedups")}}


def workload_name(op: str, entry: dict) -> str:
    """Return the name of the workload that an op's entry runs."""
    return entry.get("workload", op)


def trains(op: str, entry: dict) -> bool:
    """Say whether a call of an op is a training step."""
    return entry.get("trains", _class(op, entry).trains)


def libraries(op: str, entry: dict) -> tuple[str, ...]:
    """Return the libraries that the workload of an op knows."""
    return _class(op, entry).libraries


def workload_of(op: str, entry: dict) -> Workload:
    """Return the workload of an op's entry, with its parameters; raise InputError for a wrong one."""
    workload = _class(op, entry)
    with name_errors_of(f"config: ops.{op}", workload.__module__):
        return build(workload, {key: value for key, value in entry.items() if key not in ENTRY_KEYS})


def _class(op: str, entry: dict) -> type[Workload]:
    with name_errors_of(f"config: ops.{op}", f"{workloads.__name__}.{workload_name(op, entry)}"):
        found = plugins.load(workloads, "workload", workload_name(op, entry))
    for name in ("shapes", "flops", *(["call"] if not hasattr(found, "module") else [])):
        if getattr(found, name) is getattr(Workload, name):
            file = f"workflow/{found.__module__.replace('.', '/')}.py"
            raise InputError(f"config: ops.{op}: {file} has no {name}; allowed: shapes, flops and call or a module")
    return found


@contextmanager
def name_errors_of(what: str, module: str) -> Iterator[None]:
    """Raise InputError, which begins with `what`, for whatever is refused or fails in the file of a module."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{what}: {error}") from None
    except Exception as error:
        file = f"workflow/{module.replace('.', '/')}.py"
        frames = traceback.extract_tb(error.__traceback__)
        frame = next((frame for frame in reversed(frames) if frame.filename.endswith(file)), frames[-1])
        said = f"{type(error).__name__}: {error}".removesuffix(": ")
        if not isinstance(error, SyntaxError):  # Which says its own place.
            said += f" in {frame.name} ({Path(frame.filename).name}:{frame.lineno})"
        raise InputError(f"{what}: {file}: {said}; allowed: what the files beside it have") from error
