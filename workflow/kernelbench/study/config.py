"""The config: what config.yaml, or another study's file, may say.

The models check each key by itself; `check` what several of them say together. A mode's options are those of its
runner, which declares them with their types (`Runner.options`).
"""

from functools import cache
from importlib.metadata import entry_points
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from kernelbench.errors import InputError
from kernelbench.harness import modes as harness_modes
from kernelbench.harness import plugins, runners
from kernelbench.harness.dtypes import DTYPES
from kernelbench.harness.workload import Workload
from kernelbench.paths import ROOT
from kernelbench.study import cells
from kernelbench.study.cells import CONTROL, TWIN, Cell, cells_of, libraries, modes_of, workload_of
from kernelbench.study.metrics import MEASURED
from kernelbench.study.validation import (
    ABSENT,
    Label,
    Model,
    Several,
    Size,
    check_model,
    matching,
    refuse,
    require_any,
    require_known,
    validate,
)  # fmt: skip

RECORDED = ROOT / "results" / "recorded"
# What a target compares a mode with besides other modes: the rate of the study's fastest copy or matrix product.
LIMIT = "limit"
# The backends of torch.compile that PyTorch brings along; other packages announce theirs as entry points.
BACKENDS = (
    *("inductor", "cudagraphs", "eager", "aot_eager", "aot_eager_decomp_partition", "aot_eager_default_partitioner"),
    *("ts", "aot_ts", "openxla", "tvm"),
)
# The dtypes of one workload alone.
CLAIMED = ("float8", "own")
# What torch and the 64 bits of a table can hold.
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
Repeats = Annotated[int, Field(ge=1, le=1000)]
Count = Annotated[int, Field(ge=2, le=100_000)]
Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]
Start = Literal["warm", "fresh"]
Timeout = Annotated[int, Field(ge=1, le=86_400)]
Sizes = Several[Size]
Margin = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class Op(BaseModel):
    """An op's entry; other keys are the parameters of its workload, which checks them itself."""

    model_config = ConfigDict(extra="allow", strict=True)
    sizes: Sizes
    draw: Annotated[int, Field(ge=1)] = ABSENT
    dtypes: Several[str] = ABSENT
    workload: str = ABSENT
    modes: Several[str] = ABSENT


class Process(Model):
    """What a mode's entry says of how its jobs are run."""

    start: Start = ABSENT
    timeout: Timeout = ABSENT


class Selection(Model):
    """What a mode's entry says of where it runs, and of what it is compared with."""

    only: dict[str, Sizes] = ABSENT
    diagnoses: str = ABSENT


class Mode(Process, Selection):
    """What a mode of any runner may have."""

    runner: str
    devices: Several[Literal["cuda", "cpu"]] = ABSENT
    flush: Literal["read", "write", "none"] = ABSENT
    trace_seconds: Seconds = ABSENT
    series: dict[str, Sizes] = ABSENT


class Sampling(Model):
    """The limits of each timer."""

    samples: Count
    min_samples: Count
    max_seconds: Seconds
    warmup_window: Count
    warmup_tolerance: Seconds
    warmup_max_seconds: Seconds
    do_bench: bool = ABSENT


class Call(Model):
    """A target for the host time of a call, in µs over that of other modes."""

    ops: Several[str]
    sizes: Sizes = ABSENT
    of: Several[str]
    must: Seconds = ABSENT
    aim: Seconds = ABSENT

    @check_model(mode="after")
    def require_goal(self):
        """Refuse a target without a goal."""
        require_any(self, "must", "aim")
        return self


class Ratio(Call):
    """A target for the ratio of rates by device time, over other modes or the limit of the machine."""

    mean: bool = ABSENT
    floor: Seconds = ABSENT
    group: Label = ABSENT
    best: bool = ABSENT

    @check_model(mode="after")
    def require_sense(self):
        """Refuse a floor that says nothing beside the goal, and the limit as one of several modes."""
        if self.floor and not self.mean:
            raise refuse("a floor with mean: true; without it must is of each cell")
        if self.floor and self.floor > (self.must or self.aim):
            raise refuse("a floor of at most must, or of aim where there is no must")
        if self.best and LIMIT in self.of:
            raise refuse(f"best: true without {LIMIT}")
        return self


class Targets(Model):
    """What a mode is to reach, set before it is tuned."""

    mode: str
    ratios: Several[Ratio]
    calls: Several[Call] = ABSENT


class Verify(Model):
    """Which part of a recorded study is measured again."""

    study: str
    minutes: Annotated[float, Field(gt=0, le=1440, allow_inf_nan=False)]
    repeats: Annotated[int, Field(ge=2, le=1000)]
    seed: Seed
    claim: str = ABSENT


class Config(Model):
    """A study's file."""

    machine: Annotated[str, matching("[a-z0-9][a-z0-9-]*", "auto, cpu, or the label of a GPU such as h200, a100 or t4")]
    study: Annotated[Label, matching("[a-z][a-z0-9]*", "a name of lower-case letters and digits")] = ABSENT
    note: str = ABSENT
    seed: Seed
    repeats: Repeats
    looks: Several[Annotated[int, Field(ge=1)]] = ABSENT
    dtypes: Several[str]
    baselines: Several[str]
    metric: Literal["latency", "throughput", "device"] = ABSENT
    ops: Annotated[dict[Label, Op], Field(min_length=1)]
    modes: Annotated[dict[Label, dict], Field(min_length=1)]
    sampling: Sampling
    threads: Annotated[int, Field(ge=1, le=256)]
    start: Start
    timeout: Timeout
    equivalence: dict[str, Margin]
    targets: Targets = ABSENT
    recorded: list[str] = ABSENT
    draft: bool = ABSENT
    verify: Verify = ABSENT
    presets: dict[Literal["cpu"], dict] = ABSENT


# Keys that say how a mode's jobs are run, where it runs, and how it is measured, whatever its runner.
PROCESS_KEYS, PLAN_KEYS = (*Process.model_fields,), (*Selection.model_fields,)
MEASURE_KEYS = tuple(key for key in Mode.model_fields if key != "runner")


@cache
def _mode_model(runner: str) -> type[Model]:
    """Return the model of a mode with this runner: what any mode may have, and the options of the runner."""
    found = plugins.load(runners, "runner", runner)
    fields: dict[str, Any] = {
        key: (
            Annotated[int, Field(ge=kind[0], le=kind[-1])] if isinstance(kind, range) else kind,
            ... if key in found.needed else ABSENT,
        )
        for key, kind in found.options.items()
    }
    return create_model(f"Mode of {runner}", __base__=Mode, **fields)


def check(config: dict) -> dict[str, Workload]:
    """Return the workload of each op; raise InputError, one line, for the first thing wrong with a study's mapping."""
    validate(Config, config, "config")
    for mode, entry in config["modes"].items():
        _check_mode(config, mode, entry)
    for key, names, known in (
        ("baselines", config["baselines"], config["modes"]),
        ("dtypes", config["dtypes"], DTYPES),
    ):
        for name in names:
            require_known(f"config: {key}", name, known)
    require_known("config: equivalence", "default", config["equivalence"])
    for metric in config["equivalence"]:
        require_known("config: equivalence", metric, ["default", *MEASURED])
    workloads = {op: _check_op(config, op, entry) for op, entry in config["ops"].items()}
    for cell in cells_of(config):
        _check_cell(cell, workloads[cell.op])
    for mode, entry in config["modes"].items():
        for op, sizes in entry.get("series", {}).items():
            require_known(f"config: modes.{mode}.series", op, workloads)
            for size in sizes:
                _check_size(f"config: modes.{mode}.series.{op}", workloads[op], str(size), 1)
    return workloads


def _check_mode(config: dict, mode: str, entry: dict) -> None:
    what = f"config: modes.{mode}"
    if isinstance(entry.get("runner"), str):
        with cells.name_errors_of(what, f"{runners.__name__}.{entry['runner']}"):
            harness_modes.runner_of(entry)
    validate(_mode_model(entry["runner"]) if isinstance(entry.get("runner"), str) else Mode, entry, what)
    known = {
        "backend": lambda: [*BACKENDS, *(found.name for found in entry_points(group="torch_dynamo_backends"))],
        "library": lambda: list(dict.fromkeys(name for op, of in config["ops"].items() for name in libraries(op, of))),
        "diagnoses": lambda: [name for name in config["modes"] if name != mode],
    }
    for key in known.keys() & entry.keys():
        require_known(f"{what}.{key}", entry[key], known[key]())


def _check_op(config: dict, op: str, entry: dict) -> Workload:
    for dtype in entry.get("dtypes", []):
        require_known(f"config: ops.{op}.dtypes", dtype, DTYPES)
    for mode in entry.get("modes", []):
        require_known(f"config: ops.{op}.modes", mode, config["modes"])
        if library := config["modes"][mode].get("library"):
            require_known(f"config: ops.{op}.modes: {mode}: library", library, libraries(op, entry))
    return workload_of(op, entry)


def _check_cell(cell: Cell, workload: Workload) -> None:
    known = [workload.only_dtype] if workload.only_dtype else [name for name in DTYPES if name not in CLAIMED]
    require_known(f"config: ops.{cell.op}: dtypes", cell.dtype, known)
    _check_size(f"config: ops.{cell.op}.sizes", workload, cell.size, DTYPES[cell.dtype].itemsize)


def _check_size(what: str, workload: Workload, size: str, itemsize: int) -> None:
    with cells.name_errors_of(what, type(workload).__module__):
        workload.check_size(size, itemsize)


def check_only(config: dict) -> None:
    """Raise InputError where the `only` of a mode names a cell that the study does not have."""
    for mode, entry in config["modes"].items():
        for op, sizes in entry.get("only", {}).items():
            require_known(f"config: modes.{mode}.only", op, config["ops"])
            if mode not in config["ops"][op].get("modes", [mode]):
                raise InputError(
                    f"config: modes.{mode}.only: {op} has modes of its own without {mode}; add {mode} to ops.{op}.modes"
                )
            for size in sizes:
                require_known(f"config: modes.{mode}.only.{op}", str(size), list(map(str, config["ops"][op]["sizes"])))


def check_comparable(config: dict) -> None:
    """Raise InputError for a study without jobs, for a baseline that not all can be compared with, and for a wrong A/A.

    config: as it is measured, with the preset of the device.
    """
    modes = config["modes"]
    if not any(modes_of(config, cell) for cell in cells_of(config)):
        raise InputError("config: modes: no mode applies to any cell; check each mode's `only`")
    whole = [mode for mode, entry in modes.items() if mode != CONTROL and not {"diagnoses", "only"} & set(entry)]
    for place, baseline in enumerate(config["baselines"]):
        reasons = {
            f"is {TWIN} again": baseline == CONTROL,
            "diagnoses another mode": "diagnoses" in modes[baseline],
            "is only for some cells": place == 0 and "only" in modes[baseline],
        }
        for reason in (reason for reason, applies in reasons.items() if applies):
            raise InputError(
                f"config: baselines: {baseline} is not allowed, as it {reason}; allowed: {', '.join(whole)}"
            )
    control, twin = (
        {key: value for key, value in modes.get(mode, {}).items() if key not in PLAN_KEYS} for mode in (CONTROL, TWIN)
    )
    if control and control != twin:
        raise InputError(f"config: modes.{CONTROL}: {control} is not allowed; allowed: what {TWIN} is, {twin}")
    if control and TWIN not in config["baselines"]:
        raise InputError(f"config: modes.{CONTROL} is compared with {TWIN} alone; add {TWIN} to baselines")


def check_targets(config: dict) -> None:
    """Raise InputError where a target names an unknown mode, op or size, or a group as an op is named."""
    targets = config.get("targets", {})
    if targets:
        require_known("config: targets.mode", targets["mode"], config["modes"])
    for kind, others in (("ratios", [LIMIT, *config["modes"]]), ("calls", config["modes"])):
        for target in targets.get(kind, []):
            if target.get("group") in config["ops"]:
                raise InputError(
                    f"config: targets.{kind}.group: {target['group']} is an op; allowed: a name that no op has"
                )
            for op in target["ops"]:
                require_known(f"config: targets.{kind}.ops", op, config["ops"])
                for size in target.get("sizes", []):
                    known = list(map(str, config["ops"][op]["sizes"]))
                    require_known(f"config: targets.{kind}.sizes of {op}", str(size), known)
            for of in target["of"]:
                require_known(f"config: targets.{kind}.of", of, others)


def check_recorded(key: str, names: list[str]) -> None:
    """Raise InputError for a name that is no recorded study, and for one that lacks a file that rebuilds it."""
    there = sorted(path.name for path in RECORDED.glob("*") if path.is_dir())
    for name in names:
        require_known(f"config: {key}", name, there)
        for source in ("samples.parquet", "jobs.parquet", "study.yaml", "environment.json"):
            if not (RECORDED / name / source).is_file():
                raise InputError(f"config: {key}: {name} has no {source}; restore results/recorded/{name}/{source}")
