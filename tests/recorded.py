"""What is rebuilt from a recorded study, which keeps no summary.json."""

import json
from functools import cache

from kernelbench.analysis import host_law
from kernelbench.analysis.studies import Studies
from kernelbench.analysis.summary import summarize
from kernelbench.study.config import RECORDED


def rebuilt(name: str) -> dict:
    """Return the content of summary.json for the recorded study `name`, a new one that a test may change."""
    return json.loads(_text(name))


@cache
def _text(name: str) -> str:
    """Summarize once in a process: h200-kernels takes ten seconds."""
    return json.dumps(summarize(RECORDED / name)[2])


def studied(*names: str) -> Studies:
    """Return these recorded studies with the law applied to them, new ones that a test may change."""
    found = Studies([rebuilt(name) for name in names])
    host_law.apply(found)
    return found
