"""YAML files and values of the command line, read so that nothing is dropped or guessed."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import yaml

from kernelbench.errors import InputError


def read(path: Path):
    """Return the content of the YAML file at `path`; raise InputError where it is none, or has a key twice."""
    refuse_duplicates([path])
    return _parse(path, yaml.safe_load)


def refuse_duplicates(paths: Iterable) -> None:
    """Raise InputError for a key given twice in one of the YAML files: YAML itself would drop the first unseen."""
    for path in paths:
        _walk(_parse(path, partial(yaml.compose, Loader=yaml.SafeLoader)), Path(path).name)


def _parse(path, parse: Callable):
    try:
        return parse(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None


def _walk(node, file: str) -> None:
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            where = f"{file}: line {key.start_mark.line + 1}"
            if not isinstance(key, yaml.ScalarNode):
                raise InputError(
                    f"{where}: a {'list' if key.id == 'sequence' else key.id} is not allowed as a key; allowed: text"
                )
            if key.value in seen:
                raise InputError(f"{where}: {key.value} is given twice; allowed: each key once")
            seen.add(key.value)
            _walk(value, file)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _walk(value, file)


def parse_values(given):
    """Return what the command line gives with numbers, yes or no, and null where Snakemake leaves text.

    So they are in a config file, whose values must not be read twice: text that looks like a number is text there.
    """
    if isinstance(given, Mapping):
        return {key: parse_values(value) for key, value in given.items()}
    if isinstance(given, list):
        return [parse_values(value) for value in given]
    if not isinstance(given, str):
        return given
    try:
        value = yaml.safe_load(given)
    except yaml.YAMLError:
        return given
    return value if value is None or isinstance(value, bool | int | float) else given


def overlay(below: dict, above: dict) -> dict:
    """Return `below` with the keys of `above` laid over it, mapping by mapping."""
    result = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = overlay(result[key], value) if both else value
    return result
