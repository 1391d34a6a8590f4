"""The study: its config with everything resolved that depends on the machine, and its jobs in their order.

Importing this imports no torch: Snakemake reads the study at every call.
"""

import hashlib
import json
from functools import cached_property
from pathlib import Path

from kernelbench.study import config as checks
from kernelbench.study import machine, yaml_files
from kernelbench.study.cells import ENTRY_KEYS, Cell, Job, cells_of, modes_of, workload_name
from kernelbench.study.config import PLAN_KEYS, PROCESS_KEYS
from kernelbench.study.draw import draw_sizes
from kernelbench.study.validation import require_known, validate
from kernelbench.study.yaml_files import overlay

# The name of the study in which snakemake verify measures a part of another one.
VERIFY = "verify"
# Keys that say what is shown or compared besides, and do not change what is measured.
NOT_MEASURED = ("presets", "recorded", "draft", "verify", "metric")


class Study:
    """A checked config, with the preset of the machine's device laid over it.

    config: the mapping of config.yaml (study.yaml holds one that is already resolved).
    given: values from the command line, parsed by `yaml_files.parse_values`; they override everything else.
    here: whether this machine measures; the login node of a cluster only submits.
    Raises InputError, one line, for whatever is wrong with it.
    """

    def __init__(self, config: dict, given: dict | None = None, here: bool = True):
        given = given or {}
        config = overlay(config, given) if given else config
        validate(checks.Config, config, "config")
        self.measures_here = here
        label, self.device = machine.resolve(config["machine"], here)
        name = f"-{config['study']}" if "study" in config else ""
        self.machine = label if label.endswith(name) else label + name  # as it does where the study is resolved
        own = {key: value for key, value in config.items() if key not in NOT_MEASURED}
        preset = config.get("presets", {}).get(self.device, {})
        merged = _resolve(own, preset, {key: value for key, value in given.items() if key in own})
        merged["ops"] = draw_sizes(merged["ops"])
        self.recorded, self.draft = config.get("recorded", []), config.get("draft", False)
        self.verify = config.get("verify")
        self.metric = config.get("metric", "latency")
        checks.check_recorded("recorded", self.recorded)
        checks.check_recorded("verify.study", [self.verify["study"]] if self.verify else [])
        self.modes = {mode: _trim_only(mode, entry, merged["ops"]) for mode, entry in merged["modes"].items()}
        self.config = {**merged, "machine": self.machine, "modes": self.modes}
        checks.check_comparable(self.config)
        self.repeats = merged["repeats"]
        self.workloads = checks.check(merged)

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

    def _rank(self, *what) -> bytes:
        text = json.dumps([self.config["seed"], *[vars(w) if isinstance(w, Cell) else w for w in what]])
        return hashlib.sha256(text.encode()).digest()

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
            "workload": {"name": workload_name(job.cell.op, entry), **parameters},
            "run": _select_run(mode, job.cell.op),
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

    def job_of(self, wildcards, repeat: int = 0) -> Job:
        """Return the job of the wildcards that Snakemake matched in a path, of the first repeat if that has none."""
        w = wildcards
        return self.job(w.op, w.dtype, w.size, w.mode, int(getattr(w, "repeat", repeat)))

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


def load(path: Path) -> Study:
    """Return the study of the YAML file at `path`."""
    return Study(yaml_files.read(path))


def _resolve(own: dict, preset: dict, given: dict) -> dict:
    """Return a study's mapping with its preset and then what the command line gave laid over it.

    The config without its preset is checked too, so that a preset cannot hide an error.
    """
    checks.check(own)
    checks.check_only(own)
    checks.check_targets(own)
    whole = overlay(own, preset)
    # Of a mode that has its `only` from below, a preset may well have left out cells.
    said = [mode for mode, entry in preset.get("modes", {}).items() if "only" in entry]
    checks.check_only({**whole, "modes": {mode: whole["modes"][mode] for mode in said}})
    return overlay(whole, given)


def _trim_only(mode: str, entry: dict, ops: dict) -> dict:
    """Return a mode's entry with `only` reduced to cells of the study: a preset may have removed some, or all."""
    if "only" not in entry:
        return entry
    have = [op for op in entry["only"] if op in ops and mode in ops[op].get("modes", [mode])]
    there = {op: {str(size) for size in ops[op]["sizes"]} for op in have}
    only = {op: [size for size in entry["only"][op] if str(size) in sizes] for op, sizes in there.items()}
    return {**entry, "only": {op: sizes for op, sizes in only.items() if sizes}}


def _is_inductor(mode: dict) -> bool:
    return mode["runner"] == "compile" and mode.get("backend", "inductor") == "inductor"


def _select_run(mode: dict, op: str) -> dict:
    """Return what of a mode's entry the measurement of an op depends on; of a series only that of the op."""
    run = {key: value for key, value in mode.items() if key not in (*PROCESS_KEYS, *PLAN_KEYS, "series")}
    series = mode.get("series", {}).get(op)
    return {**run, "series": [str(size) for size in series]} if series else run
