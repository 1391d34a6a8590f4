"""A job's record: one JSON file, written whole or not at all, checked against its schema when read."""

import json
import os
from functools import cache
from pathlib import Path

import jsonschema

from kernelbench.errors import InputError

VERSION = 2
SCHEMA = Path(__file__).resolve().parents[2] / "schemas" / "record.schema.json"


@cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def problem(record: dict) -> str | None:
    """Return in one line what is wrong with `record`, None where it follows the schema."""
    error = next(_validator().iter_errors(record), None)
    if error is None:
        return None
    return f"{'.'.join(map(str, error.absolute_path)) or 'record'}: {error.message[:200]}"


def write(path: Path, record: dict) -> None:
    """Write `record` as JSON to `path` atomically: after a crash the old file or the whole new one is there.

    It is checked against its schema by the job's process before, and by whoever reads it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as stream:
            json.dump(record, stream, allow_nan=False)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read(path: Path) -> dict:
    """Return the record at `path`; raise InputError naming the file and what is wrong with it."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable record ({error}); delete it to measure it again") from None
    wrong = problem(record)
    if wrong:
        raise InputError(f"{path}: {wrong}; delete it to measure it again")
    return record
