"""Attempts: a job whose times nobody could build on is measured again at once.

Later would cost more: its cell would be measured again with all its modes, as pairs have to run next to each other, and
on another GPU the whole repeat. At once it is still next to them.
"""

import time
from statistics import median

from kernelbench import start

ATTEMPTS = 3


def doubts(entry: dict) -> list[str]:
    """Return what the gate refuses of a single record.

    The power cap is not: of that it asks which modes of a cell have it.
    """
    found = [said for said in entry.get("suspect") or () if "power cap" not in said]
    if entry.get("warm_up", {}).get("settled") is False:
        found.append("its warm-up did not settle")
    return found


def measured(request: dict, gpu: str, lock: int, timeout: float) -> tuple[dict, dict]:
    """Run a job as `start.measured` does, again while its record is in doubt; return (record, outcome) of the last try.

    outcome has `again`, of each try that was left out: reason, seconds (s) and medians, by timer in its unit: what a
    repeat is in the statistics, so that anyone can see what that does. All tries share `timeout` (s); another begins
    only where it could take twice as long as the last. One that finds no memory or time left is no result, and is left
    out in the place of the one before.
    """
    kept, out = None, []
    while True:
        before = time.perf_counter()
        entry, outcome = start.measured(request, gpu, lock, timeout)
        took = time.perf_counter() - before
        timeout -= took
        if kept and entry["status"] in ("oom", "timeout"):
            reason = f"{entry['status']}: {entry['reason']}"
            return kept[0], kept[1] | {"again": [*out[:-1], {"reason": reason, "seconds": took, "medians": {}}]}
        reason = "; ".join(doubts(entry)) if entry["status"] == "ok" else ""
        if not reason or 2 * took > timeout or len(out) == ATTEMPTS - 1:
            return entry, outcome | {"again": out}
        kept = entry, outcome
        medians = {timer: median(series["values"]) for timer, series in entry["samples"].items()}
        out.append({"reason": reason, "seconds": took, "medians": medians})
        print(f"measured again at once: {reason}", flush=True)
