"""Verdicts under another estimate: how many stand, become undecided, or turn round."""

from collections.abc import Iterable

DECIDED = ("faster", "slower")


def compare_verdicts(verdicts: Iterable[str], others: Iterable[str]) -> dict[str, int]:
    """Return {decided, same, undecided, opposite}: what becomes of decided verdicts under another estimate.

    decided: how many verdicts are faster or slower; same: how many of these the other estimate gives, too; undecided:
    how many it leaves open; opposite: how many it turns round.
    """
    both = [(one, other) for one, other in zip(verdicts, others, strict=True) if one in DECIDED]
    same = sum(one == other for one, other in both)
    undecided = sum(other not in DECIDED for _, other in both)
    return {"decided": len(both), "same": same, "undecided": undecided, "opposite": len(both) - same - undecided}
