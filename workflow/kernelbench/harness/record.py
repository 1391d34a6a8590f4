"""A job's record: one JSON file, written whole or not at all, checked against its schema when read."""

import json
import os
from functools import cache
from pathlib import Path

from kernelbench import old_records
from kernelbench.errors import InputError

VERSION = 4
SCHEMA = Path(__file__).resolve().parents[2] / "schemas" / "record.schema.json"


@cache
def _schema() -> dict:
    return json.loads(SCHEMA.read_text(encoding="utf-8"))


@cache
def validator():
    """Return what raises ValueError for a record that does not follow the schema; made once in a process."""
    import fastjsonschema  # Here and not at the top, like jsonschema below: a job's process has nothing to check yet.

    return fastjsonschema.compile(_schema())


def problem(record: dict) -> str | None:
    """Return in one line what is wrong with `record`, None where it follows the schema."""
    if isinstance(record, dict) and record.get("version", VERSION) != VERSION:
        return f"version: {record['version']} is not {VERSION}, the one that this checkout reads"
    try:
        validator()(record)
    except ValueError:
        return _sentence(record)
    for timer, series in record["samples"].items():
        if len(series["flags"]) != len(series["values"]):
            return f"samples.{timer}: {len(series['values'])} values have {len(series['flags'])} flags"
    return None


def _sentence(record: dict) -> str:
    # It says what is wrong better, and would take 30 times as long to find that nothing is.
    import jsonschema

    error = next(jsonschema.Draft7Validator(_schema()).iter_errors(record))
    return f"{'.'.join(map(str, error.absolute_path)) or 'record'}: {error.message[:200]}"


def write(path: Path, record: dict) -> None:
    """Write `record` as JSON to `path` atomically: after a crash the old file or the whole new one is there.

    It is checked against its schema by the job's process before, and by whoever reads it. Raises OSError, with the
    name of `path`, where there is no room or no right to write it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{path.name}.*"):  # By a writer that was killed.
        left.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as stream:
            json.dump(record, stream, allow_nan=False)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:  # A full disk names no file by itself.
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def read(path: Path) -> dict:
    """Return the record at `path` as one of today; raise InputError naming the file and what is wrong with it."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; run snakemake to measure it") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable record ({error}); delete it to measure it again") from None
    record = old_records.upgraded(record)
    wrong = problem(record)
    if wrong:
        raise InputError(f"{path}: {wrong}; delete it to measure it again")
    return record
