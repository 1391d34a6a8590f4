"""Sizes that are drawn: an op with `draw: N` is measured at N of its sizes, chosen by what is in `kernels/`.

Whoever tunes a kernel cannot know which sizes the tuned kernel will be judged by: every change of what it does draws
anew.
"""

import hashlib

from kernelbench import code_digest
from kernelbench.errors import InputError


def draw_sizes(ops: dict) -> dict:
    """Return the ops of a study with the sizes drawn of those that have `draw`, in the order of their sizes.

    Raises InputError where more are to be drawn than there are. A study's files hold what was drawn, without `draw`.
    """
    if not any("draw" in entry for entry in ops.values()):
        return ops
    seed = code_digest.combine(code_digest.of_kernels())
    return {op: _draw(op, entry, seed) if "draw" in entry else entry for op, entry in ops.items()}


def _draw(op: str, entry: dict, seed: str) -> dict:
    sizes, number = entry["sizes"], entry["draw"]
    if number > len(sizes):
        raise InputError(f"config: ops.{op}.draw: {number} of {len(sizes)} sizes; allowed: at most {len(sizes)}")
    drawn = sorted(sizes, key=lambda size: hashlib.sha256(f"{seed} {op} {size}".encode()).digest())[:number]
    rest = {key: value for key, value in entry.items() if key != "draw"}
    return {**rest, "sizes": [size for size in sizes if size in drawn]}
