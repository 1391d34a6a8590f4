"""Old records: the sentences that records of version 3 held, as the notes that they stand for.

Recorded files stay as they are. What reads a record or a jobs.parquet turns their sentences into notes here, so that
no later stage sees them.
"""

import re
from collections.abc import Callable
from functools import cache

from kernelbench import notes
from kernelbench.notes import Note, Throttled

VERSION = 3
THROTTLED: dict[str, type[Throttled]] = {
    "power cap": notes.PowerCap,
    "heat": notes.Heat,
    "hardware slowdown": notes.HardwareSlowdown,
    "software thermal slowdown": notes.SoftwareThermalSlowdown,
    "hardware thermal slowdown": notes.HardwareThermalSlowdown,
    "power brake": notes.PowerBrake,
}
# The sentences of version 3 that some later stage decides by, or that a recorded study has.
SENTENCES: dict[str, Callable[..., Note]] = {
    r"(?:(\S+) )?needs (\S+(?: or \S+)*), this machine is (\w+)": lambda what, devices, device: notes.NeedsDevice(
        what or "", devices.split(" or "), device
    ),
    r"(\S+) is not installed; (.+)": notes.NotInstalled,
    r"ONNX Runtime binds tensors of float16 and float32, not (\S+)": notes.DtypeNotSupported,
    r"(\S+) takes rows of at most (\d+) elements": lambda library, widest: notes.RowsTooWide(library, int(widest)),
    r"the mode replays CUDA graphs of its own": notes.OwnGraphs,
    r"cannot be captured: (.+)": notes.NotCaptured,
    r"NVML is missing: nobody watched the GPU": notes.NotMonitored,
    r"(\d+) other process(?:es)? on the GPU": lambda count: notes.OtherProcesses(int(count)),
    rf"throttled: ({'|'.join(THROTTLED)})(?: for ([\d.]+) ms)?": lambda cause, ms: THROTTLED[cause](
        None if ms is None else float(ms)
    ),
    r"its warm-up did not settle": notes.Unsettled,
}


@cache
def note_of(sentence: str) -> Note | None:
    """Return the note that a sentence of version 3 stands for, None of an empty one."""
    if not sentence:
        return None
    for pattern, make in SENTENCES.items():
        found = re.fullmatch(pattern, sentence)
        if found:
            return make(*found.groups())
    return notes.Unclassified(sentence)


def upgraded(entry: dict) -> dict:
    """Return a record of version 3 as one of version 4; any other record as it is."""
    if not isinstance(entry, dict) or entry.get("version") != VERSION:
        return entry
    entry = {**entry, "version": VERSION + 1}
    if "reason" in entry:
        entry["reason"] = notes.dump(note_of(entry["reason"]))
    if "suspect" in entry:
        entry["suspect"] = [notes.dump(note_of(said)) for said in entry["suspect"]]
    for part in ("graph", "accuracy"):
        if "reason" in entry.get(part, {}):
            entry[part] = {**entry[part], "reason": notes.dump(note_of(entry[part]["reason"]))}
    if "again" in entry.get("process", {}):
        entry["process"] = {**entry["process"], "again": [_dumped(try_of(out)) for out in entry["process"]["again"]]}
    return entry


def try_of(out: dict) -> dict:
    """Return a discarded try of a job, as a record of any version has it: {doubts (notes), seconds, medians}."""
    kept = {name: value for name, value in out.items() if name not in ("reason", "doubts")}
    doubts = notes.load(out["doubts"]) if "doubts" in out else list(map(note_of, out["reason"].split("; ")))
    return {"doubts": doubts, **kept}


def _dumped(out: dict) -> dict:
    return {**out, "doubts": notes.dump(out["doubts"])}
