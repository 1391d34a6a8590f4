"""Reasons: one line for a person on why a mode of a recommendation wins, or why none does.

They take the modes as recommendation.json has them.
"""

from collections import defaultdict

from kernelbench.numbers import ci, percent, whole, with_unit
from kernelbench.study.metrics import CLOCKS, UNEXPLAINED

# A part of what a mode saves is named from this share on; kernels that take that share of a call, the GPU holds it up.
NAMED, BOUND = 0.25, 0.5
# Causes that are no merit of the mode, or none at all.
NO_MERIT = {
    CLOCKS: "the GPU ran at a higher clock in this mode: measure again before you rely on it",
    "autotune": "its repeats ran different generated code: measure again before you rely on it",
    UNEXPLAINED: "the timers show no cause",
}
# Causes in words, for a mode without a profile.
WITHOUT_PROFILE = {"host": "host-bound: the host does less for a call", "kernel": "its kernels take less time"}
# What a speedup by the metric is a speedup of, where it is not the obvious one.
METRICS = {"latency": "", "throughput": ", call after call", "device": " on the GPU"}
# How a person reads verdicts, and those statuses that are no plain words.
VERDICTS = {"faster": "faster", "slower": "slower", "equivalent": "as fast", "inconclusive": "undecided"}
STATUSES = {"oom": "out of memory", "incorrect": "wrong result"}


def headline(case: dict, recommendation: dict) -> str:
    """Return how much faster the recommended mode of a case is, or that there is none."""
    if case["mode"] is None:
        return "no recommendation"
    if case["speedup"] is None:
        return "leave the model as it is"
    return f"{ci(case)} times as fast as {recommendation['baseline']}{METRICS[recommendation['metric']]}"


def explain_faster(eager: dict, mode: dict, modes: list[dict], metric: str, cause: str | None) -> str:
    """Return why a mode is faster than eager by the metric; cause: what the table of causes has for it."""
    known = (NO_MERIT.get(cause or ""), _split_saving(eager, mode, metric), WITHOUT_PROFILE.get(cause or ""))
    why = next(filter(None, [*known, _tell_fusion(mode)]), NO_MERIT[UNEXPLAINED])
    return _join(why, _tell_breaks(mode, modes))


def explain_nothing_faster(eager: dict, modes: list[dict], metric: str) -> str:
    """Return what became of the other modes where none is faster, and what eager's call waits for."""
    if eager["status"] != "ok":
        said = STATUSES.get(eager["status"], eager["status"])
        return _join(f"there is nothing to compare with ({eager['mode']}: {said})", eager["note"])
    by_outcome = defaultdict(list)
    for mode in modes:
        if mode is not eager:
            verdict = (mode["speedup"] or {}).get("verdict", "")
            by_outcome[VERDICTS.get(verdict) or STATUSES.get(mode["status"], mode["status"])].append(mode["mode"])
    outcomes = "; ".join(f"{outcome}: {', '.join(names)}" for outcome, names in by_outcome.items())
    ran = any(mode["status"] == "ok" for mode in modes if mode is not eager)
    head = "no mode is shown to be faster" if ran else "no other mode ran"
    return _join(f"{head} ({outcomes})" if outcomes else head, _tell_bound(eager, metric), _tell_breaks(eager, modes))


def _join(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def _tell_bound(eager: dict, metric: str) -> str:
    # The time of the device alone has nothing of the host in it.
    whole_call = eager["latency" if metric == "device" else metric]
    if eager["kernels"] is None or whole_call is None:
        return ""
    share = min(1.0, eager["kernels"]["estimate"] / whole_call["estimate"])
    bound = "GPU-bound" if share >= BOUND else "host-bound"
    return f"{bound}: kernels take {percent(share)} of a call in {eager['mode']}"


def _split_saving(eager: dict, mode: dict, metric: str) -> str:
    """Return which of the host and the kernels save the time, or both; nothing without both profiles.

    The causes of the tables are no help here: where host and device overlap, either may differ by all of it.
    """
    if eager["kernels"] is None or mode["kernels"] is None:
        return ""
    saved = eager[metric]["estimate"] - mode[metric]["estimate"]
    of_kernels = (eager["kernels"]["estimate"] - mode["kernels"]["estimate"]) / saved
    by_kernels = _tell_kernels(eager, mode) if of_kernels >= NAMED else ""
    # Without a graph the host launches each kernel, and the kernels are counted already.
    counted = by_kernels and mode["launches"] == mode["launched"]
    by_host = _tell_launches(eager, mode) if 1 - of_kernels >= NAMED and not counted else ""
    return _join(_tell_bound(eager, metric), by_host, by_kernels)


def _tell_launches(eager: dict, mode: dict) -> str:
    # Older records have the kernels of a profile, and not how many launches these took.
    if None not in (mode["launches"], eager["launches"]) and mode["launches"] < eager["launches"]:
        how = "after capture" if mode["launches"] < mode["launched"] else "compiled"
        return f"{whole(eager['launches'])} launches a call, {whole(mode['launches'])} {how}"
    if not (eager["host"] and mode["host"]):
        return ""
    took = [with_unit([each["host"]["estimate"]], "µs") for each in (mode, eager)]
    return f"the host takes {took[0]} for a call, not {took[1]}"


def _tell_kernels(eager: dict, mode: dict) -> str:
    took = [with_unit([each["kernels"]["estimate"]], "µs") for each in (mode, eager)]
    return (
        f"{whole(mode['launched'])} kernels replace {whole(eager['launched'])} and take {took[0]}, not {took[1]}"
        if mode["launched"] != eager["launched"]
        else f"as many kernels take {took[0]}, not {took[1]}"
    )


def _tell_fusion(mode: dict) -> str:
    if not (mode["nodes"] and mode["generated"]):
        return ""
    verb = "fused" if mode["generated"] < mode["nodes"] else "compiled"
    return f"Inductor {verb} {whole(mode['nodes'])} operations into {whole(mode['generated'])} kernels"


def _tell_breaks(mode: dict, modes: list[dict]) -> str:
    """Return the graph breaks of a mode or, where that is not compiled, of the first mode that has some."""
    broken = next((each for each in ([mode] if mode["graphs"] else modes) if each["breaks"]), None)
    if broken is None:
        return ""
    first, count = broken["breaks"][0], sum(each["count"] for each in broken["breaks"])
    told = f"{whole(count)} graph break{'s, the first' if count > 1 else ''} at {first['place']} ({first['code']})"
    return told if broken is mode else f"{broken['mode']} has {told}"
