"""Attempts: a job in doubt is measured again at once.

Later would cost more. The gate would have all modes of its cell measured again, because pairs have to run next to each
other, and on another GPU the whole repeat.
"""

import time
from statistics import median

from kernelbench import notes
from kernelbench.notes import Note, PowerCap, RetryFailed, Unsettled
from kernelbench.running import job_process

# A GPU that is shared or too hot may need a while. A warm-up that did not settle has already gone on for
# `warmup_max_seconds`: on a good host one more process is enough, and on a slow one more would not help either.
ATTEMPTS, UNSETTLED_ATTEMPTS = 3, 2


def find_doubts(entry: dict) -> list[Note]:
    """Return what the gate refuses of a single record; it judges a power cap beside the other modes of a cell only."""
    doubts = [note for note in map(notes.load, entry.get("suspect") or ()) if not isinstance(note, PowerCap)]
    return doubts + [Unsettled()] * (entry.get("warm_up", {}).get("settled") is False)


def measure(request: dict, gpu: str, lock: int, timeout: float) -> tuple[dict, dict]:
    """Run a job as `job_process.measure` does, and again while it is in doubt.

    Returns (record, outcome) of the last try. The outcome's `again` holds the doubts, the seconds and the medians by
    timer of each try that was left out, so that anyone can see what leaving it out does. All tries share `timeout` (s);
    another begins only if it could take twice as long as the last. A try that runs out of memory or time is left out
    itself, and the one before it counts.
    """
    kept, out = None, []
    while True:
        before = time.perf_counter()
        entry, outcome = job_process.measure(request, gpu, lock, timeout)
        took = time.perf_counter() - before
        timeout -= took
        if kept and entry["status"] in ("oom", "timeout"):
            doubt = notes.dump(RetryFailed(entry["status"], notes.load(entry["reason"])))
            return kept[0], kept[1] | {"again": [*out[:-1], {"doubts": [doubt], "seconds": took, "medians": {}}]}
        doubts = find_doubts(entry) if entry["status"] == "ok" else []
        attempts = UNSETTLED_ATTEMPTS if doubts == [Unsettled()] else ATTEMPTS
        if not doubts or 2 * took > timeout or len(out) >= attempts - 1:
            return entry, outcome | {"again": out}
        kept = entry, outcome
        medians = {timer: median(series["values"]) for timer, series in entry["samples"].items()}
        out.append({"doubts": notes.dump(doubts), "seconds": took, "medians": medians})
        print(f"measured again at once: {notes.say(doubts)}", flush=True)
