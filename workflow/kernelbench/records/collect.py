"""Collect: from the records of a study to samples.parquet, jobs.parquet and environment.json.

Reads the records of the study's jobs and no others; refuses to mix hardware, software or GPUs within a repeat.
"""

import json
import sys
from array import array
from pathlib import Path

import numpy as np
import pandas as pd

from kernelbench.errors import InputError
from kernelbench.harness import record
from kernelbench.harness.environment import TOOLS
from kernelbench.running.job_process import DECIDED
from kernelbench.study.cells import Job
from kernelbench.study.study import Study

KEY = ["machine", "op", "dtype", "size", "mode", "repeat"]
# What two records must agree in to stand in one study, by column of the table of jobs.
SAME = {
    "environment.gpu.name": "GPU",
    "environment.gpu.memory": "GPU memory",
    "environment.gpu.driver": "driver",
    "environment.software.torch": "torch",
    "environment.software.triton": "triton",
    "environment.software.cuda": "CUDA",
    "environment.software.cudnn": "cuDNN",
    "environment.software.python": "Python",
    "environment.host.cpu": "CPU",
}
UUID = "environment.gpu.uuid"
# The variables that the processes of a study's jobs start with, but for the GPU of each and the seed of each repeat.
# Packages set others when they are imported: scikit-learn two of OpenMP's, and transformers imports it where it is
# installed. A job has those where it, or one that its warm parent ran before, needs the package.
SHARED_VARIABLES = {*TOOLS, *DECIDED} - {"CUDA_VISIBLE_DEVICES", "PYTHONHASHSEED"}

FLAGS = ("", "outlier", "uncovered", "slow host")
# Parts of a record whose names differ from job to job.
AS_JSON = {
    "inputs",
    "compile.autograd",
    "compile.inductor",
    "compile.seconds",
    "environment.variables",
    "code.files",
    "settings.run",
    "settings.workload",
    # Notes, each with fields of its own.
    "reason",
    "graph.reason",
    "accuracy.reason",
}
# What stays with the record: the variables that name the user and their directories, which nothing that is measured
# depends on, and what tells whether a run would measure it again.
RECORD_ONLY = {"environment.carried", "sources", "restored_with"}


def collect(study: Study, results: Path) -> tuple[pd.DataFrame, pd.DataFrame, dict]:
    """Return (samples, jobs, environment) of the study's records below `results`.

    samples: machine, op, dtype, size, mode, repeat, timer, index, value, flag; one row per raw sample in the
    timer's unit (µs; first_call s; peak_memory MiB; warm_up µs). jobs: one row per job, all other fields of its
    record, nested ones with dots in their names and lists as JSON. Raises InputError for a bad record.
    """
    series, jobs, first = _Series(), [], None
    for job in study.jobs:
        path = results / job.path
        entry = record.read(path)
        _check_is(entry, job, study, path)
        series.add(entry)
        jobs.append(_flat({k: v for k, v in entry.items() if k not in ("samples", "warm_up")}))
        if "process" in entry:  # The number of an exit, the name of a signal: one column holds both.
            jobs[-1]["process.code"] = str(entry["process"]["code"])
        jobs[-1]["settled"] = entry.get("warm_up", {}).get("settled")
        if first is None or (first["status"] == "unsupported" != entry["status"]):
            first = entry
    table = pd.DataFrame(jobs)
    # Jobs that a mode refused before it imported torch know no CUDA version.
    ran = table[table.status != "unsupported"]
    _refuse_mixture(ran, results)
    return series.table(table[KEY]), _rank(table), _environment(first["environment"], ran, table)


class _Series:
    """The samples of the records as columns: 9 bytes for each while they are read, where a tuple of objects has 200."""

    def __init__(self):
        self.records = 0
        self.runs = []  # (record, timer, number of samples) of each series
        self.values = array("d")
        self.flags = bytearray()  # places in FLAGS

    def add(self, entry: dict) -> None:
        """Add the samples and the warm-up of a record."""
        series = {**entry["samples"]}
        if "warm_up" in entry:
            series["warm_up"] = {"values": entry["warm_up"]["values"], "flags": None}
        for timer, data in series.items():
            count, flags = len(data["values"]), data["flags"]
            self.runs.append((self.records, timer, count))
            self.values.extend(data["values"])
            self.flags += bytes(map(FLAGS.index, flags)) if flags else bytes(count)
        self.records += 1

    def table(self, keys: pd.DataFrame) -> pd.DataFrame:
        """Return one row per sample; keys: one row per record, what the samples' rows begin with."""
        runs = pd.DataFrame(self.runs, columns=["record", "timer", "count"]).astype({"timer": "category"})
        of_run = np.repeat(np.arange(len(runs)), runs["count"].astype(int))
        index = np.arange(len(of_run))
        index -= (np.cumsum(runs["count"]) - runs["count"]).to_numpy(int)[of_run]
        # Categories: a byte or two a row in memory, where text has a pointer for each.
        texts = {name: "category" for name in KEY if name != "repeat"}
        head = keys.astype(texts).iloc[runs["record"]].assign(timer=runs["timer"].array)
        columns = {
            **{name: column.array.take(of_run) for name, column in head.items()},
            "index": index,
            "value": np.frombuffer(self.values),
            "flag": pd.Categorical.from_codes(np.frombuffer(self.flags, np.int8), FLAGS),
        }
        return pd.DataFrame(columns, copy=False)


def _check_is(entry: dict, job: Job, study: Study, path: Path) -> None:
    cell = job.cell
    found = [entry[name] for name in KEY]
    if found != [study.machine, cell.op, cell.dtype, cell.size, job.mode, job.repeat]:
        raise InputError(f"{path}: is the record of {'/'.join(map(str, found))}; delete it to measure it again")
    wanted = study.settings(job)
    other = [name for name in wanted if entry["settings"].get(name) != wanted[name]]
    if other:
        raise InputError(f"{path}: was measured with other {', '.join(other)}; delete it to measure it again")


def _flat(nested: dict, prefix: str = "") -> dict:
    """Return one level of dotted names; what has no fixed names inside, and lists, as JSON text."""
    row = {}
    for name, value in nested.items():
        dotted = sys.intern(prefix + name)  # One text for all records, not 7 KB for each.
        if dotted in RECORD_ONLY:
            continue
        if isinstance(value, dict) and value and dotted not in AS_JSON:
            row |= _flat(value, f"{dotted}.")
        else:
            # Most texts stand in many records.
            row[dotted] = sys.intern(json.dumps(value)) if isinstance(value, dict | list) else value
    return row


def _rank(jobs: pd.DataFrame) -> pd.DataFrame:
    """Add `ran`, the job's place in the order in which its repeat really ran."""
    return jobs.assign(ran=jobs.groupby("repeat")["started"].rank().astype(int) - 1)


def _refuse_mixture(ran: pd.DataFrame, results: Path) -> None:
    """Raise InputError where jobs that ran differ in hardware or software, or one repeat has two GPUs."""

    def at(row: pd.Series) -> str:
        return str(results / "records" / "/".join(map(str, row[KEY[1:]]))) + ".json"

    # The packages that a mode or a model brings along are software as well.
    packages = {column: column.partition(".")[2] for column in sorted(ran) if column.startswith("library.")}
    variables = ran["environment.variables"].map(lambda text: json.dumps(_select_variables(text), sort_keys=True))
    ran = ran.assign(variables=variables)
    for column, name in {**SAME, **packages, "variables": "variables"}.items():
        # A process that died early knows no CUDA version, and not each job needs a package.
        known = (
            ran[ran[column].notna() | (ran.status.eq("ok") & (column not in packages))] if column in ran else ran[:0]
        )
        kinds = known.drop_duplicates(column)
        if len(kinds) > 1:
            found = "; ".join(f"{row[column]} in {at(row)}" for _, row in kinds.iterrows())
            raise InputError(f"records of different {name} cannot be mixed: {found}; delete those of one of them")
    for repeat, own in ran.groupby("repeat") if UUID in ran else ():
        gpus = own.drop_duplicates(UUID)
        if len(gpus) > 1:
            found = " and ".join(f"{row[UUID]} in {at(row)}" for _, row in gpus.iterrows())
            raise InputError(
                f"repeat {repeat} has two GPUs: {found}; delete all records */{repeat}.json to measure it again whole"
            )


def _select_variables(text: str) -> dict:
    """Return the variables that the jobs of a study share, from the JSON of those of one."""
    return {name: value for name, value in json.loads(text).items() if name in SHARED_VARIABLES}


def _environment(first: dict, ran: pd.DataFrame, jobs: pd.DataFrame) -> dict:
    """Return what all records share, and the sets of what may differ between repeats."""
    measured = ran if len(ran) else jobs[:1]

    def kinds(column: str, of: pd.DataFrame) -> list:
        return sorted(of[column].dropna().unique().tolist()) if column in of else []

    return {
        "gpu": {k: v for k, v in (first["gpu"] or {}).items() if k != "uuid"} or None,
        "gpu_uuids": kinds(UUID, ran),
        "host": {
            "cpu": first["host"]["cpu"],
            **{name: kinds(f"environment.host.{name}", measured) for name in ("cores", "kernel")},
            # Older records do not name it.
            **({"boots": boots} if (boots := kinds("environment.host.boot", ran)) else {}),
        },
        "software": first["software"],
        **_find_code(ran),
        "variables": _select_variables(json.dumps(first["variables"])),
        "threads": int(jobs["settings.threads"].iloc[0]),
        "first_started": jobs["started"].min(),
        "last_started": jobs["started"].max(),
        "job_seconds": round(float(jobs["seconds.wall"].sum()), 1),
        "jobs": len(jobs),
    }


def _find_code(ran: pd.DataFrame) -> dict:
    """Return {code: {scheme, protocol: those of the jobs, files: by path their digests}}, each a list of what differs.

    Of jobs that an older scheme recorded, {sources: their digests}; without any such job the key is missing.
    """
    of_older, *named, states = (
        ran[column].dropna().unique() if column in ran else []
        for column in ("environment.software.sources", "code.scheme", "code.protocol", "code.files")
    )
    code = {"sources": sorted(of_older)} if len(of_older) else {}
    if len(states):
        digests: dict[str, set[str]] = {}
        for file, digest in (pair for state in states for pair in json.loads(state).items()):
            digests.setdefault(file, set()).add(digest)
        scheme, protocol = (sorted(map(int, numbers)) for numbers in named)
        files = {file: sorted(digests[file]) for file in sorted(digests)}
        code["code"] = {"scheme": scheme, "protocol": protocol, "files": files}
    return code
