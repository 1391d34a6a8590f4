"""Names that people give, as keys of files, paths and tables."""

import re
from collections.abc import Iterable

# What a table means by these words: a mean over all sizes, or a missing value, as pandas and spreadsheets read it.
RESERVED = {"all", "na", "nan", "none", "null", "n-a", "true", "false", "inf", "infinity"}

# Of a key, which is the name of a folder.
LONGEST = 60


def make_keys(names: Iterable, kind: str) -> dict[str, object]:
    """Return the names by keys that are all different: ASCII letters, digits, dots and `-`, and no reserved word.

    kind: what stands in front of a key that would be empty or reserved.
    """
    found: dict[str, object] = {}
    for name in names:
        key = re.sub(r"[^A-Za-z0-9.]+", "-", str(name)).strip("-.")[:LONGEST]
        if not key or key.lower() in RESERVED:
            key = f"{kind}-{key}".strip("-")
        others = (f"{key}-{number}" for number in range(2, len(found) + 2))
        found[key if key not in found else next(other for other in others if other not in found)] = name
    return found
