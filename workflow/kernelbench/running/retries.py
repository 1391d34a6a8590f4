"""Attempts: a job whose times nobody could build on is measured again at once.

Later would cost more: its cell would be measured again with all its modes, as pairs have to run next to each other, and
on another GPU the whole repeat. At once it is still next to them.
"""

import time
from statistics import median

from kernelbench import notes
from kernelbench.notes import Note, PowerCap, RetryFailed, Unsettled
from kernelbench.running import job_process

ATTEMPTS = 3


def doubts(entry: dict) -> list[Note]:
    """Return what the gate refuses of a single record.

    The power cap is not: of that it asks which modes of a cell have it.
    """
    found = [note for note in map(notes.load, entry.get("suspect") or ()) if not isinstance(note, PowerCap)]
    if entry.get("warm_up", {}).get("settled") is False:
        found.append(Unsettled())
    return found


def measured(request: dict, gpu: str, lock: int, timeout: float) -> tuple[dict, dict]:
    """Run a job as `job_process.measured` does, again while in doubt; return (record, outcome) of the last try.

    outcome has `again`, of each try that was left out: doubts, seconds (s) and medians, by timer in its unit: what a
    repeat is in the statistics, so that anyone can see what that does. All tries share `timeout` (s); another begins
    only where it could take twice as long as the last. One that finds no memory or time left is no result, and is left
    out in the place of the one before.
    """
    kept, out = None, []
    while True:
        before = time.perf_counter()
        entry, outcome = job_process.measured(request, gpu, lock, timeout)
        took = time.perf_counter() - before
        timeout -= took
        if kept and entry["status"] in ("oom", "timeout"):
            doubt = notes.dump(RetryFailed(entry["status"], notes.load(entry["reason"])))
            return kept[0], kept[1] | {"again": [*out[:-1], {"doubts": [doubt], "seconds": took, "medians": {}}]}
        found = doubts(entry) if entry["status"] == "ok" else []
        if not found or 2 * took > timeout or len(out) == ATTEMPTS - 1:
            return entry, outcome | {"again": out}
        kept = entry, outcome
        medians = {timer: median(series["values"]) for timer, series in entry["samples"].items()}
        out.append({"doubts": notes.dump(found), "seconds": took, "medians": medians})
        print(f"measured again at once: {notes.say(found)}", flush=True)
