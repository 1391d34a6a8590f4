"""Collect: from the records of a study to samples.parquet, jobs.parquet and environment.json.

Reads the records of the study's jobs and no others; refuses to mix hardware, software or GPUs within a repeat.
"""

import json
from pathlib import Path

import pandas as pd

from kernelbench.errors import InputError
from kernelbench.harness import record
from kernelbench.study import Job, Study

KEY = ["machine", "op", "dtype", "size", "mode", "repeat"]
# What two records must agree in to stand in one study: (path into the environment, name for people).
SAME = (
    (("gpu", "name"), "GPU"),
    (("gpu", "memory"), "GPU memory"),
    (("gpu", "driver"), "driver"),
    (("software", "torch"), "torch"),
    (("software", "triton"), "triton"),
    (("software", "cuda"), "CUDA"),
    (("host", "cpu"), "CPU"),
)

# Parts of a record whose names differ from job to job.
FREE = {"inputs", "compile.inductor", "compile.seconds", "environment.variables", "settings.run", "settings.workload"}


def collect(study: Study, results: Path) -> tuple[pd.DataFrame, pd.DataFrame, dict]:
    """Return (samples, jobs, environment) of the study's records below `results`.

    samples: machine, op, dtype, size, mode, repeat, timer, index, value, flag; one row per raw sample in the
    timer's unit (µs; first_call s; peak_memory MiB; warm_up µs). jobs: one row per job, all other fields of its
    record, nested ones with dots in their names and lists as JSON. Raises InputError for a bad record.
    """
    samples, jobs, entries = [], [], []
    for job in study.jobs:
        path = results / job.path
        entry = record.read(path)
        _check_is(entry, job, study, path)
        samples += _samples(entry)
        jobs.append(_flat({k: v for k, v in entry.items() if k not in ("samples", "warm_up")}))
        jobs[-1]["settled"] = entry.get("warm_up", {}).get("settled")
        entries.append((path, entry))
    _refuse_mixture(entries)
    columns = [*KEY, "timer", "index", "value", "flag"]
    table = pd.DataFrame(samples, columns=columns).astype({"flag": "category", "timer": "category"})
    return table, _ranked(pd.DataFrame(jobs)), _environment(entries)


def _check_is(entry: dict, job: Job, study: Study, path: Path) -> None:
    cell = job.cell
    found = [entry[name] for name in KEY[1:]]
    if found != [cell.op, cell.dtype, cell.size, job.mode, job.repeat]:
        raise InputError(f"{path}: is the record of {'/'.join(map(str, found))}; delete it to measure it again")
    wanted = study.settings(job)
    other = [name for name in wanted if entry["settings"].get(name) != wanted[name]]
    if other:
        raise InputError(f"{path}: was measured with other {', '.join(other)}; delete it to measure it again")


def _samples(entry: dict) -> list[tuple]:
    key = tuple(entry[name] for name in KEY)
    series = {**entry["samples"]}
    if "warm_up" in entry:
        series["warm_up"] = {"values": entry["warm_up"]["values"], "flags": None}
    return [
        (*key, timer, index, value, data["flags"][index] if data["flags"] else "")
        for timer, data in series.items()
        for index, value in enumerate(data["values"])
    ]


def _flat(nested: dict, prefix: str = "") -> dict:
    """Return one level of dotted names; what has no fixed names inside, and lists, as JSON text."""
    row = {}
    for name, value in nested.items():
        dotted = prefix + name
        if isinstance(value, dict) and value and dotted not in FREE:
            row |= _flat(value, f"{dotted}.")
        else:
            row[dotted] = json.dumps(value) if isinstance(value, dict | list) else value
    return row


def _ranked(jobs: pd.DataFrame) -> pd.DataFrame:
    """Add `ran`, the job's place in the order in which its repeat really ran."""
    return jobs.assign(ran=jobs.groupby("repeat")["started"].rank().astype(int) - 1)


def _dig(entry: dict, path: tuple):
    part, name = path
    return (entry["environment"][part] or {}).get(name)


def _refuse_mixture(entries: list[tuple[Path, dict]]) -> None:
    """Raise InputError where records differ in hardware or software, or one repeat has two GPUs."""
    # Jobs that a mode refused before it imported torch know no CUDA version.
    measured = [(path, entry) for path, entry in entries if entry["status"] != "unsupported"]
    for where, name in SAME:
        values = {}
        for path, entry in measured:
            value = _dig(entry, where)
            if value is not None or entry["status"] == "ok":  # A process that died early knows no CUDA version.
                values.setdefault(value, path)
        if len(values) > 1:
            found = "; ".join(f"{value} in {path}" for value, path in values.items())
            raise InputError(f"records of different {name} cannot be mixed: {found}; delete those of one of them")
    uuids = {}
    for path, entry in measured:
        uuid = _dig(entry, ("gpu", "uuid"))
        first, known = uuids.setdefault(entry["repeat"], (path, uuid))
        if uuid != known:
            raise InputError(
                f"repeat {entry['repeat']} has two GPUs: {known} in {first} and {uuid} in {path}; "
                f"delete all records */{entry['repeat']}.json to measure it again whole"
            )


def _environment(entries: list[tuple[Path, dict]]) -> dict:
    """Return what all records share, and the sets of what may differ between repeats."""
    measured = [entry["environment"] for _, entry in entries if entry["status"] != "unsupported"]
    first = measured[0] if measured else entries[0][1]["environment"]
    gpu = {k: v for k, v in (first["gpu"] or {}).items() if k != "uuid"} or None
    started = sorted(entry["started"] for _, entry in entries)
    return {
        "gpu": gpu,
        "gpu_uuids": sorted({e["gpu"]["uuid"] for e in measured if e["gpu"]}),
        "host": {k: first["host"][k] for k in ("cpu", "cores", "kernel")},
        "software": first["software"],
        "sources": sorted({e["software"]["sources"] for e in measured}),
        "variables": {k: v for k, v in first["variables"].items() if k != "CUDA_VISIBLE_DEVICES"},
        "threads": entries[0][1]["settings"]["threads"],
        "first_started": started[0],
        "last_started": started[-1],
        "job_seconds": round(sum(entry["seconds"]["wall"] for _, entry in entries), 1),
        "jobs": len(entries),
    }
