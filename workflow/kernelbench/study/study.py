"""The study: what config.yaml describes, checked, with everything resolved that depends on the machine.

Importing this imports no torch: Snakemake reads the study at every call.
"""

import ast
import hashlib
import json
import math
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib.metadata import entry_points
from itertools import product
from pathlib import Path

import jsonschema
import yaml
from referencing import Registry, Resource

from kernelbench.errors import InputError, nearest
from kernelbench.harness import modes, plugins, runners, workloads
from kernelbench.harness.dtypes import DTYPES
from kernelbench.harness.provenance import ROOT
from kernelbench.harness.workload import Workload
from kernelbench.harness.workload import build as build_workload
from kernelbench.study import machine

SCHEMA = ROOT / "workflow" / "schemas" / "config.schema.yaml"
# The A/A arm, and the mode that it runs once more: their differences are what the procedure makes of no difference.
CONTROL, TWIN = "eager-control", "eager"
# What a target compares a mode with besides other modes: the rate of the study's fastest copy or matrix product.
LIMIT = "limit"
# The name of the study in which snakemake verify measures a part of another one.
AGAIN = "verify"
# Keys of a mode's entry that say how its jobs are run, not what is run; where it runs; and what it is compared with.
PROCESS_KEYS = ("start", "timeout")
PLAN_KEYS = ("only", "diagnoses")
# Keys that say how a mode is measured, of whatever runner.
MEASURE_KEYS = ("devices", "flush", "trace_seconds", "series", *PROCESS_KEYS, *PLAN_KEYS)
# Keys of an op's entry that are not parameters of its workload.
ENTRY_KEYS = ("workload", "sizes", "dtypes", "modes")
# The backends of torch.compile that PyTorch brings along; other packages announce theirs as entry points.
BACKENDS = (
    *("inductor", "cudagraphs", "eager", "aot_eager", "aot_eager_decomp_partition", "aot_eager_default_partitioner"),
    *("ts", "aot_ts", "openxla", "tvm"),
)
# What studies are of: how processes start, what the protocol does, kernels beside those of libraries, a part of another
# study measured again, other operations, modes or dtypes on such a machine, a machine.
HARNESS = Path("workflow/kernelbench/harness")
RECORDED = ROOT / "results" / "recorded"


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


class Study:
    """A checked config, with the preset of the machine's device laid over it.

    config: the mapping of config.yaml (study.yaml holds one that is already resolved).
    here: whether this machine measures; the login node of a cluster only submits.
    given: what of it the command line gave, as `typed` reads it; laid over all else.
    Raises InputError, one line, for whatever is wrong with it.
    """

    def __init__(self, config: dict, here: bool = True, given: dict | None = None):
        config, given = (_overlay(config, given), given) if given else (config, {})
        validate(config, SCHEMA, "config")
        self.here = here
        label, self.device = machine.resolve(config["machine"], here)
        own = f"-{config['study']}" if "study" in config else ""
        self.machine = label if label.endswith(own) else label + own  # as it does where the study is resolved
        # What is shown or compared besides is no part of what is measured.
        apart = ("presets", "recorded", "draft", "verify")
        own = {key: value for key, value in config.items() if key not in apart}
        preset = _overlay(own, config.get("presets", {}).get(self.device, {}))
        # Not those of `given` that are no part of what is measured.
        merged = _overlay(preset, {key: value for key, value in given.items() if key in own})
        for layer in (own, merged):  # A preset must not hide what is wrong below it.
            validate(layer, SCHEMA, "config")
            _check_ops(layer)
        _check_only(own)
        # What a preset says itself; what else it keeps of a mode's cells is its own.
        said = config.get("presets", {}).get(self.device, {}).get("modes", {})
        _check_only({**preset, "modes": {m: preset["modes"][m] for m, entry in said.items() if "only" in entry}})
        _check_targets(own)
        self.recorded = config.get("recorded", [])
        self.draft = config.get("draft", False)
        self.verify = config.get("verify")
        _check_recorded("recorded", self.recorded)
        _check_recorded("verify.study", [self.verify["study"]] if self.verify else [])
        self.modes = {mode: _only_there(mode, entry, merged["ops"]) for mode, entry in merged["modes"].items()}
        self.config = {**merged, "machine": self.machine, "modes": self.modes}
        if not any(modes_of(self.config, cell) for cell in self.cells()):
            raise InputError(
                f"config: modes: none of {', '.join(self.modes)} is for a cell of the study, which has no job; "
                "allowed: one mode or more whose only, if it has one, names a cell"
            )
        _check_baselines(merged)
        self.repeats = merged["repeats"]
        self.workloads = {op: workload_of(op, entry) for op, entry in merged["ops"].items()}

    @property
    def results(self) -> str:
        """The directory of this machine's own results."""
        return f"results/{self.machine}"

    @property
    def gpu_model(self) -> str:
        """The GPU to ask a cluster for, as in the machine's label; empty where the study is of CPUs."""
        return self.machine.split("-")[0] if self.device == "cuda" else ""

    def cells(self) -> list[Cell]:
        """Return every cell in the order of the config."""
        return cells_of(self.config)

    @cached_property
    def jobs(self) -> list[Job]:
        """Every job in the planned order.

        Repeats are blocks in time. Within one the cells come in seeded random order, and the modes of a cell next
        to each other in seeded random order, so that drift hits them alike. The order is by a hash of what is
        ordered: growing the study leaves the order of what was there unchanged.
        """
        return [
            Job(cell, mode, repeat)
            for repeat in range(self.repeats)
            for cell in sorted(self.cells(), key=lambda c: self._rank(repeat, c))
            for mode in sorted(modes_of(self.config, cell), key=lambda m: self._rank(repeat, cell, m))
        ]

    def jobs_of(self, repeat: int) -> list[Job]:
        """Return the jobs of one repeat in the planned order."""
        each = len(self.jobs) // self.repeats
        return self.jobs[repeat * each : (repeat + 1) * each]

    # Snakemake asks six times for each job: whatever it asks must not search the study or the disk.
    @cached_property
    def _places(self) -> dict[Job, int]:
        return {job: place for place, job in enumerate(self.jobs)}

    @cached_property
    def _by_name(self) -> dict[tuple, Job]:
        return {(*vars(job.cell).values(), job.mode, job.repeat): job for job in self.jobs}

    @cached_property
    def _harness(self) -> list[str]:
        return [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / HARNESS).glob("*.py"))]

    def place(self, job: Job) -> int:
        """Return the job's place in the planned order, from 0."""
        return self._places[job]

    def priority(self, job: Job) -> int:
        """Return Snakemake's priority of the job: higher runs earlier."""
        return len(self.jobs) - self.place(job)

    def records(self, repeat: int | None = None) -> list[str]:
        """Return the path of every job's record, or of those of one repeat."""
        return [f"{self.results}/{job.path}" for job in self.jobs if repeat in (None, job.repeat)]

    def compiled(self) -> list[Job]:
        """Return the first job of each cell and mode that Inductor compiles on this machine."""
        entries = self.modes.items()
        here = [mode for mode, entry in entries if self.device in entry.get("devices", [self.device])]
        chosen = {mode for mode in here if _is_inductor(self.modes[mode])}
        return [job for job in self.jobs_of(0) if job.mode in chosen]

    def settings(self, job: Job) -> dict:
        """Return all that the measurement of `job` depends on, and nothing of the rest of the study."""
        entry, mode = self.config["ops"][job.cell.op], self.modes[job.mode]
        parameters = {k: v for k, v in entry.items() if k not in ENTRY_KEYS}
        return {
            "machine": self.machine,
            "device": self.device,
            "op": job.cell.op,
            "dtype": job.cell.dtype,
            "size": job.cell.size,
            "mode": job.mode,
            "repeat": job.repeat,
            "workload": {"name": _workload_name(job.cell.op, entry), **parameters},
            "run": _run(mode, job.cell.op),
            "sampling": self.config["sampling"],
            "threads": self.config["threads"],
            "start": mode.get("start", self.config["start"]),
            "seed": self.config["seed"],
        }

    def settings_json(self, job: Job) -> str:
        """Return `settings` as text, for a command line and for Snakemake to compare with the last run's."""
        return json.dumps(self.settings(job))

    def timeout(self, job: Job) -> int:
        """Return the job's time limit in s. A changed limit measures nothing anew."""
        return self.modes[job.mode].get("timeout", self.config["timeout"])

    def sources(self, job: Job) -> list[str]:
        """Return the files that the measurement of `job` depends on: harness, workload, runner, its kernel if any."""
        name = _workload_name(job.cell.op, self.config["ops"][job.cell.op])
        classes = (of.__module__.split(".") for of in type(self.workloads[job.cell.op]).__mro__)
        bases = [f"workloads/{module[-1]}" for module in classes if "workloads" in module]
        runner = self.modes[job.mode]["runner"]
        kernel = _with_imports(ROOT / "kernels", name) if runner == "kernel" else []
        return [
            *self._harness,
            *(f"{HARNESS.as_posix()}/{file}.py" for file in (*bases, f"runners/{runner}")),
            *kernel,
        ]

    def job_of(self, wildcards) -> Job:
        """Return the job of a record's path, from the wildcards that Snakemake matched in it."""
        w = wildcards
        return self.job(w.op, w.dtype, w.size, w.mode, int(w.repeat))

    def first_job_of(self, wildcards) -> Job:
        """Return the job of the first repeat, from the wildcards of a path that has none."""
        w = wildcards
        return self.job(w.op, w.dtype, w.size, w.mode, 0)

    def job(self, op: str, dtype: str, size: str, mode: str, repeat: int) -> Job:
        """Return the job of these names; raise InputError naming the one that the study does not have."""
        name = (op, dtype, size, mode, repeat)
        if name not in self._by_name:
            self._refuse(*name)
        return self._by_name[name]

    def _refuse(self, op: str, dtype: str, size: str, mode: str, repeat: int) -> None:
        cells = self.cells()
        require_known("op", op, self.config["ops"])
        require_known("dtype", dtype, {cell.dtype for cell in cells if cell.op == op})
        require_known("size", size, [cell.size for cell in cells if (cell.op, cell.dtype) == (op, dtype)])
        require_known("mode", mode, modes_of(self.config, Cell(op, dtype, size)))
        require_known("repeat", repeat, range(self.repeats))

    def _rank(self, *what) -> bytes:
        text = json.dumps([self.config["seed"], *[vars(w) if isinstance(w, Cell) else w for w in what]])
        return hashlib.sha256(text.encode()).digest()


def _is_inductor(mode: dict) -> bool:
    return mode["runner"] == "compile" and mode.get("backend", "inductor") == "inductor"


def _run(mode: dict, op: str) -> dict:
    """Return what of a mode's entry the measurement of an op depends on; of a series only that of the op."""
    run = {key: value for key, value in mode.items() if key not in (*PROCESS_KEYS, *PLAN_KEYS, "series")}
    series = mode.get("series", {}).get(op)
    return {**run, "series": [str(size) for size in series]} if series else run


@cache
def _with_imports(package: Path, module: str) -> list[str]:
    """Return the module's file, if there is one, and those of the package that it imports, itself or through others."""
    found, todo = [], [module]
    while todo:
        path = package / f"{todo.pop()}.py"
        if path in found or not path.is_file():
            continue
        found.append(path)
        with suppress(SyntaxError):  # which the job that runs it will tell
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.level < 2:
                    start = [package.name] if node.level else []
                    start += node.module.split(".") if node.module else []
                    names = [[*start, alias.name] for alias in node.names]
                    todo += [name[1] for name in names if name[0] == package.name]
    return sorted(path.relative_to(package.parent).as_posix() for path in found)


def cells_of(config: dict) -> list[Cell]:
    """Return every cell of a study's mapping (config.yaml's or study.yaml's) in its order."""
    return [
        Cell(op, dtype, str(size))
        for op, entry in config["ops"].items()
        for dtype, size in product(entry.get("dtypes", config["dtypes"]), entry["sizes"])
    ]


def modes_of(config: dict, cell: Cell) -> list[str]:
    """Return the modes that `cell` runs in: those of its op's entry, else all of the study, that are not for others.

    Not for it are modes that are `only` for other cells, and libraries that its workload does not know.
    """
    return [mode for mode in config["ops"][cell.op].get("modes", config["modes"]) if _has(config, cell, mode)]


def _has(config: dict, cell: Cell, mode: str) -> bool:
    entry = config["modes"][mode]
    if "library" in entry and entry["library"] not in _libraries(cell.op, config["ops"][cell.op]):
        return False
    only = entry.get("only")
    return only is None or cell.size in map(str, only.get(cell.op, []))


def diagnosed(config: dict, mode: str) -> str | None:
    """Return the mode that `mode` is a variant of for diagnosis, None where it is one to be judged by itself."""
    return config["modes"][mode].get("diagnoses")


def without_arms(document: dict) -> dict:
    """Return summary.json's content without the rows of diagnostic arms, which are compared with one mode alone."""
    keep = {mode for mode in document["study"]["modes"] if not diagnosed(document["study"], mode)}
    return {**document, **{t: [row for row in document[t] if row["mode"] in keep] for t in ("summary", "speedups")}}


def load(path: Path) -> Study:
    """Return the study of the YAML file at `path`."""
    refuse_duplicates([path])
    return Study(_read(path, yaml.safe_load))


def _read(path, parse: Callable):
    """Return what `parse` makes of the text of the YAML file at `path`; raise InputError where it is none."""
    try:
        return parse(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None


def typed(given):
    """Return the command line's config with numbers, yes or no, and null where Snakemake leaves text: inside of values.

    As in a config file, whose values must not be read twice: there text that looks like a number is text.
    """
    if isinstance(given, Mapping):
        return {key: typed(value) for key, value in given.items()}
    if isinstance(given, list):
        return [typed(value) for value in given]
    if not isinstance(given, str):
        return given
    try:
        value = yaml.safe_load(given)
    except yaml.YAMLError:
        return given
    return value if value is None or isinstance(value, bool | int | float) else given


def refuse_duplicates(paths) -> None:
    """Raise InputError for a key given twice in one of the YAML files: YAML itself would drop the first unseen."""
    for path in paths:
        _walk(_read(path, partial(yaml.compose, Loader=yaml.SafeLoader)), path)


def _walk(node, path) -> None:
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            where = f"{Path(path).name}: line {key.start_mark.line + 1}"
            if not isinstance(key, yaml.ScalarNode):
                kind = "list" if isinstance(key, yaml.SequenceNode) else "mapping"
                raise InputError(f"{where}: a {kind} is not allowed as a key; allowed: text")
            if key.value in seen:
                raise InputError(f"{where}: {key.value} is given twice; allowed: each key once")
            seen.add(key.value)
            _walk(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _walk(value, path)


def _check_ops(config: dict) -> None:
    """Raise InputError for an unknown name, a wrong parameter or an impossible size."""
    for baseline in config["baselines"]:
        require_known("config: baselines", baseline, config["modes"])
    for dtype in config["dtypes"]:
        require_known("config: dtypes", dtype, DTYPES)
    for op, entry in config["ops"].items():
        for dtype in entry.get("dtypes", []):
            require_known(f"config: ops.{op}.dtypes", dtype, DTYPES)
        for mode in entry.get("modes", []):
            require_known(f"config: ops.{op}.modes", mode, config["modes"])
            library = config["modes"][mode].get("library")
            if library:
                require_known(f"config: ops.{op}.modes: {mode}: library", library, _libraries(op, entry))
        sizes = [str(size) for size in entry["sizes"]]
        if len(set(sizes)) < len(sizes):
            raise InputError(f"config: ops.{op}.sizes: {', '.join(sizes)} is not allowed; allowed: each size once")
    for mode, entry in config["modes"].items():
        _check_passed(mode, entry)
        if "library" in entry:
            known = dict.fromkeys(name for op, of in config["ops"].items() for name in _libraries(op, of))
            require_known(f"config: modes.{mode}.library", entry["library"], known)
        if "diagnoses" in entry:
            require_known(
                f"config: modes.{mode}.diagnoses", entry["diagnoses"], [m for m in config["modes"] if m != mode]
            )
    workloads_of = {op: workload_of(op, entry) for op, entry in config["ops"].items()}
    for mode, entry in config["modes"].items():
        for op, sizes in entry.get("series", {}).items():
            require_known(f"config: modes.{mode}.series", op, config["ops"])
            for size in sizes:
                _check_size(f"config: modes.{mode}.series.{op}", workloads_of[op], str(size), 1)
    for cell in cells_of(config):
        workload = workloads_of[cell.op]
        known = [name for name in DTYPES if (name == "float8") == workload.float8]
        require_known(f"config: ops.{cell.op}: dtypes", cell.dtype, known)
        _check_size(f"config: ops.{cell.op}.sizes", workload, cell.size, DTYPES[cell.dtype].itemsize)


def _check_baselines(config: dict) -> None:
    """Raise InputError for a baseline that not all can be compared with, and an A/A arm that is another mode."""
    modes = config["modes"].items()
    whole = [mode for mode, entry in modes if mode != CONTROL and not {"diagnoses", "only"} & set(entry)]
    for place, baseline in enumerate(config["baselines"]):
        entry = config["modes"][baseline]
        if baseline == CONTROL:
            raise InputError(
                f"config: baselines: {CONTROL} is not allowed, as it is {TWIN} again; allowed: {', '.join(whole)}"
            )
        if "diagnoses" in entry or (place == 0 and "only" in entry):
            raise InputError(
                f"config: baselines: {baseline} is not allowed, as it "
                f"{'diagnoses another mode' if 'diagnoses' in entry else 'is only for some cells'}; "
                f"allowed: {', '.join(whole)}"
            )
    control, twin = (
        {key: value for key, value in config["modes"].get(mode, {}).items() if key not in PLAN_KEYS}
        for mode in (CONTROL, TWIN)
    )
    if control and control != twin:
        raise InputError(f"config: modes.{CONTROL}: {control} is not allowed; allowed: what {TWIN} is, {twin}")
    if control and TWIN not in config["baselines"]:
        raise InputError(
            f"config: modes.{CONTROL} is not allowed without {TWIN}, which alone it is compared with; "
            f"allowed: {TWIN} among the baselines"
        )


def _check_size(what: str, workload: Workload, size: str, itemsize: int) -> None:
    with _said_of(what, type(workload).__module__):
        workload.check_size(size, itemsize)


def _check_passed(mode: str, entry: dict) -> None:
    """Raise InputError where a mode has a key that its runner does not know, or lacks one that it needs."""
    with _said_of(f"config: modes.{mode}", f"{runners.__name__}.{entry['runner']}"):
        runner = modes.runner_of(entry)
    for key in entry:
        if key not in ("runner", *runner.options, *MEASURE_KEYS):
            allowed = ", ".join([*runner.options, *MEASURE_KEYS])
            raise InputError(
                f"config: modes.{mode}: {key} is not known to the runner {entry['runner']}; allowed: {allowed}"
            )
    if "backend" in entry:
        known = [*BACKENDS, *(found.name for found in entry_points(group="torch_dynamo_backends"))]
        require_known(f"config: modes.{mode}.backend", entry["backend"], known)
    for key in runner.needed:
        if key not in entry:
            raise InputError(f"config: modes.{mode}: {key} is missing; allowed: the name of a {key}")


def _check_only(config: dict) -> None:
    """Raise InputError where a mode is only for cells that there are none of; a preset may well have others."""
    for mode, entry in config["modes"].items():
        for op, sizes in entry.get("only", {}).items():
            require_known(f"config: modes.{mode}.only", op, config["ops"])
            of_op = config["ops"][op].get("modes", [mode])
            if mode not in of_op:
                raise InputError(
                    f"config: modes.{mode}.only: {op} has modes of its own without {mode}; "
                    f"allowed: ops whose modes have it, or {op} with it in ops.{op}.modes"
                )
            for size in sizes:
                require_known(f"config: modes.{mode}.only.{op}", str(size), list(map(str, config["ops"][op]["sizes"])))


def _check_targets(config: dict) -> None:
    """Raise InputError where the targets name what there is not."""
    targets = config.get("targets")
    if not targets:
        return
    require_known("config: targets.mode", targets["mode"], config["modes"])
    for kind, others in (("ratios", [LIMIT, *config["modes"]]), ("calls", config["modes"])):
        for target in targets.get(kind, []):
            for op in target["ops"]:
                require_known(f"config: targets.{kind}.ops", op, config["ops"])
                for size in target.get("sizes", []):
                    known = list(map(str, config["ops"][op]["sizes"]))
                    require_known(f"config: targets.{kind}.sizes of {op}", str(size), known)
            for of in target["of"]:
                require_known(f"config: targets.{kind}.of", of, others)


def _only_there(mode: str, entry: dict, ops: dict) -> dict:
    """Return a mode's entry that is only for cells that have it: a preset may have left some out, or all."""
    if "only" not in entry:
        return entry
    have = [op for op in entry["only"] if op in ops and mode in ops[op].get("modes", [mode])]
    there = {op: {str(size) for size in ops[op]["sizes"]} for op in have}
    only = {op: [size for size in entry["only"][op] if str(size) in sizes] for op, sizes in there.items()}
    return {**entry, "only": {op: sizes for op, sizes in only.items() if sizes}}


def _check_recorded(key: str, names: list[str]) -> None:
    there = sorted(path.name for path in RECORDED.glob("*") if path.is_dir())
    for name in names:
        require_known(f"config: {key}", name, there)
        for source in ("samples.parquet", "jobs.parquet", "study.yaml", "environment.json"):
            if not (RECORDED / name / source).is_file():
                raise InputError(f"config: {key}: {name} has no {source}; restore results/recorded/{name}/{source}")


@contextmanager
def _said_of(what: str, module: str) -> Iterator[None]:
    """Raise InputError, which begins with `what`, for what is refused, and for whatever fails in a user's own file."""
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


def require_known(what: str, name, known) -> None:
    """Raise InputError, which begins with `what`, unless `name` is one of `known`."""
    if name not in known:
        allowed = ", ".join(str(k) for k in known)
        raise InputError(f"{what}: {name} is not known{nearest(name, known)}; allowed: {allowed or 'none'}")


def _workload_name(op: str, entry: dict) -> str:
    return entry.get("workload", op)


def _libraries(op: str, entry: dict) -> tuple[str, ...]:
    """Return the libraries that the workload of an op knows."""
    return _class(op, entry).libraries


def _class(op: str, entry: dict) -> type:
    with _said_of(f"config: ops.{op}", f"{workloads.__name__}.{_workload_name(op, entry)}"):
        found = plugins.load(workloads, "workload", _workload_name(op, entry))
    for name in ("shapes", "flops", *(["call"] if not hasattr(found, "module") else [])):
        if getattr(found, name) is getattr(Workload, name):
            file = f"workflow/{found.__module__.replace('.', '/')}.py"
            raise InputError(f"config: ops.{op}: {file} has no {name}; allowed: shapes, flops and call or a module")
    return found


def workload_of(op: str, entry: dict) -> Workload:
    """Return the workload of an op's entry, with its parameters; raise InputError for a wrong one."""
    workload = _class(op, entry)
    with _said_of(f"config: ops.{op}", workload.__module__):
        return build_workload(workload, {k: v for k, v in entry.items() if k not in ENTRY_KEYS})


def _overlay(below: dict, above: dict) -> dict:
    """Return `below` with the keys of `above` laid over it, mapping by mapping."""
    result = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = _overlay(result[key], value) if both else value
    return result


def _is_integer(checker, value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(checker, value) -> bool:
    return _is_integer(checker, value) or (isinstance(value, float) and math.isfinite(value))


# To JSON Schema 3.0 is an integer and NaN a number within all bounds; to what reads the numbers neither is.
_TYPES = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many({"integer": _is_integer, "number": _is_number})
_Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=_TYPES)


@cache
def _schema(path: Path) -> dict:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def validate(document, schema: Path, what: str) -> None:
    """Raise InputError, which begins with `what`, for the first thing of `document` that the YAML `schema` refuses."""
    schemas = Registry(retrieve=lambda name: Resource.from_contents(_schema(schema.parent / name)))
    errors = list(_Validator(_schema(schema), registry=schemas).iter_errors(document))
    if errors:
        # A misspelt key is both unknown and missing: the former says what was meant.
        worst = min(errors, key=lambda e: (e.validator != "additionalProperties", list(map(str, e.absolute_path))))
        raise InputError(f"{what}: {_sentence(worst)}")


def _sentence(error: jsonschema.ValidationError) -> str:
    """Return one line for a schema error: the key, its value and what is allowed."""
    where = ".".join(map(str, error.absolute_path))
    at = f"{where}: " if where else ""
    if error.validator == "additionalProperties":
        known = error.schema["properties"]
        name = next(key for key in error.instance if key not in known)
        return f"{at}{name} is not a known key{nearest(name, known)}; allowed: {', '.join(known)}"
    if error.validator == "required":
        missing = next(key for key in error.validator_value if key not in error.instance)
        allowed = error.schema.get("properties", {}).get(missing, {}).get("description", "a value for each key")
        return f"{at}{missing} is missing; allowed: {allowed}"
    allowed = error.schema.get("description", f"{error.validator} {error.validator_value}")
    hint = nearest(error.instance, error.validator_value) if error.validator == "enum" else ""
    return f"{at}{json.dumps(error.instance, default=str)} is not allowed{hint}; allowed: {allowed}"
