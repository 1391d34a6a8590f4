"""Restore: from a recorded study back to the records that it was collected from, so that it can be grown.

The inverse of `records.collect`, which makes the same study of what is restored. A restored record is current as long
as the code does what it did when it measured. One of an older scheme does not say by file what measured it
(kernelbench.code_digest): it is current as long as the code does what it does when it is restored.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from kernelbench import code_digest, old_records
from kernelbench.errors import InputError
from kernelbench.harness import record
from kernelbench.records.collect import KEY
from kernelbench.study.cells import Cell, Job
from kernelbench.study.study import Study

FILES = ("study.yaml", "samples.parquet", "jobs.parquet")
UNITS = {"first_call": "s", "peak_memory": "MiB"}  # of all other timers: us
# What collect adds to a row, or takes there from a series.
ADDED = ("settled", "ran")


def restore(recorded: Path, results: Path) -> tuple[Path, int]:
    """Write the records of the study in `recorded` below results/<machine>; return that directory and how many.

    Raises InputError where a file of the study is missing, a record would not follow the schema of today, or records
    are there already: they may be of the same jobs, measured again.
    """
    if not recorded.is_dir():
        raise InputError(f"{recorded}: no such directory; allowed: results/recorded/<name>")
    missing = [name for name in FILES if not (recorded / name).is_file()]
    if missing:
        raise InputError(f"{recorded}: {', '.join(missing)} missing; allowed: results/recorded/<name>")
    study = Study(yaml.safe_load((recorded / "study.yaml").read_text(encoding="utf-8")), here=False)
    directory = results / study.machine
    if (directory / "records").exists():
        raise InputError(f"{directory}/records: is there already; move it away to restore those of {recorded}")
    entries = list(_entries(recorded))
    for entry in entries:
        if "code" not in entry:
            entry["restored_with"] = code_digest.of_job(study.settings(_job(entry)))
        wrong = record.problem(entry)
        if wrong:
            raise InputError(f"{recorded}: {_path(entry)}: {wrong}")
    for entry in entries:
        record.write(directory / _path(entry), entry)
    return directory, len(entries)


def _path(entry: dict) -> str:
    return _job(entry).path


def _job(entry: dict) -> Job:
    return Job(Cell(entry["op"], entry["dtype"], entry["size"]), entry["mode"], entry["repeat"])


def _entries(recorded: Path):
    """Yield the record of each row of jobs.parquet."""
    jobs = pd.read_parquet(recorded / "jobs.parquet")
    texts = [name for name in KEY if name != "repeat"]
    samples = pd.read_parquet(recorded / "samples.parquet").astype(dict.fromkeys(texts, str))
    series = dict(iter(samples.groupby(KEY, sort=False)))
    schema = json.loads(record.SCHEMA.read_text(encoding="utf-8"))
    # No value: null where no row has one, where a row has, missing in the others.
    null = {name for name in jobs if jobs[name].isna().all()}
    for row in jobs.to_dict("records"):
        own = {name: _value(value) for name, value in row.items() if name in null or not pd.isna(value)}
        entry = _nested({name: value for name, value in own.items() if name not in ADDED})
        entry |= _series(series.get(tuple(row[name] for name in KEY)), row["settled"])
        if "process" in entry and entry["process"]["code"].lstrip("-").isdigit():
            entry["process"]["code"] = int(entry["process"]["code"])
        entry = old_records.upgraded(entry)
        _complete(entry, schema)
        yield entry


def _series(samples: pd.DataFrame | None, settled) -> dict:
    """Return {samples, warm_up} of a record from its rows of samples.parquet, None where it has none."""
    found = {"samples": {}}
    for timer, own in samples.groupby("timer", sort=False, observed=True) if samples is not None else ():
        values = own.value.tolist()
        if timer == "warm_up":
            found["warm_up"] = {"values": values, "settled": bool(settled)}
        else:
            found["samples"][timer] = {"unit": UNITS.get(timer, "us"), "values": values, "flags": own.flag.tolist()}
    return found


def _complete(entry: dict, schema: dict) -> None:
    """Set to None what `schema` requires: a table does not tell null from missing."""
    for name in schema.get("required", ()):
        entry.setdefault(name, None)
    for name, inner in schema.get("properties", {}).items():
        if isinstance(entry.get(name), dict):
            _complete(entry[name], inner)


def _value(value):
    """Return what a column's value stands for: lists, and what has no fixed names inside, are there as JSON."""
    if pd.isna(value):
        return None
    if isinstance(value, str) and value[:1] in ("[", "{"):
        return json.loads(value)
    return value.item() if isinstance(value, np.generic) else value


def _nested(row: dict) -> dict:
    """Return the record of a row, whose names have dots where it is nested."""
    entry = {}
    for name, value in row.items():
        *path, last = name.split(".")
        inner = entry
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return entry
