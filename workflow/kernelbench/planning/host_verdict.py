"""Judge what a host is good for from what `host_probe` found, by the checks of a job and by limits on its noise."""

from kernelbench import notes
from kernelbench.notes import CoresWorthLess, FewCores, LaunchesVary, Note, OtherProcesses, TurnsTakenAgain, Unsettled
from kernelbench.numbers import percent
from kernelbench.running.retries import find_doubts

# The limits beyond which times that a host has a part in are not to be trusted; the GPU's own are. From what the
# recorded studies met, and what was seen of a host on which a job took 6.6 s in place of 2.6.
LIMITS = {
    # Cores that are free: one for timed calls, and one for what starts the jobs, or to go to when the first is slow.
    "cores": 2,
    # How many cores at full speed all at once must be worth: less than one and the machine does not get what it shows.
    # No more is asked, as two that share a physical core are worth little more than one, and do for a job's one thread.
    "worth": 1,
    # How often turns are taken again, for each that is kept. A job keeps some 50 turns; in recorded studies it took
    # 4 again (median), or 20 (95th percentile); on that host 48.
    "again": 0.5,
    # By how much the 95th percentile of launches is above their median. In recorded jobs of eager with a latency
    # below 60 µs it is 0.2 to 0.4 in the median, and below 0.6 in 95 % of each study looked at. On an H200's host on
    # which 2 of 1,061 jobs did not settle, the probe found 0.51 to 0.61, with and without load; on two busy cores 1.1.
    "launches": 0.8,
}
# What can be measured on a device, as the metrics of its jobs; without the host's part of it only the first.
MEASURABLE = {"cuda": ("device", "latency"), "cpu": ("latency",)}
WORDS = {"device": "device time", "latency": "latency"}


def judge(found: dict, device: str) -> dict:
    """Return {good_for: what of MEASURABLE, doubts: why no job would be believed, noise: what the host adds to times}.

    A job in doubt is measured again at once, so doubts leave nothing; noise leaves the times that the GPU takes alone.
    """
    launch = found["launch"]
    entry = {"suspect": found["suspect"], "warm_up": {"settled": launch["settled"]} if launch else {}}
    doubts = find_doubts(entry)
    noise = [note for note in doubts if isinstance(note, Unsettled)] + find_noise(found)
    doubts = [note for note in doubts if not isinstance(note, Unsettled)]
    alone = [metric for metric in MEASURABLE[device] if metric == "device"]
    good_for = [] if doubts else alone if noise else [*MEASURABLE[device]]
    return {"good_for": good_for, "doubts": notes.dump(doubts), "noise": notes.dump(noise)}


def find_noise(found: dict) -> list[Note]:
    """Return which of LIMITS the host is beyond."""
    cores, launch, noise = found["cores"], found["launch"], []
    if cores["free"] < LIMITS["cores"]:
        noise.append(FewCores(cores["free"], cores["count"], LIMITS["cores"]))
    if cores["worth"] < LIMITS["worth"]:
        noise.append(CoresWorthLess(cores["count"], cores["worth"]))
    if launch and launch["again"] > LIMITS["again"] * launch["turns"]:
        noise.append(TurnsTakenAgain(launch["again"] / launch["turns"]))
    if launch and launch["p95"] > (1 + LIMITS["launches"]) * launch["median"]:
        noise.append(LaunchesVary(launch["p95"] / launch["median"] - 1))
    return noise


def format_verdict(found: dict) -> str:
    """Return the verdict in one line: what this host is good for, and why not for more."""
    verdict = found["verdict"]
    said = notes.say([*verdict["doubts"], *verdict["noise"]])
    if found["processes"] and notes.find(verdict["doubts"], OtherProcesses):
        said += f" (pid {', '.join(map(str, found['processes']))})"
    if not verdict["good_for"]:
        return f"not now: {said}"
    good_for = " and ".join(WORDS[metric] for metric in verdict["good_for"])
    return f"good for {good_for} only: {said}" if said else f"good for: {good_for}"


def format_host(found: dict) -> list[str]:
    """Return what a person reads of a host, the verdict last."""
    host, cores, launch, gpu = found["host"], found["cores"], found["launch"], found["gpu"]
    stolen = "" if cores["stolen"] is None else f", {percent(cores['stolen'])} of the time stolen"
    lines = [
        f"host: {host['cpu']}, load {host['load']:.1f}",
        f"cores: {cores['free']} of {cores['count']} free; all at once do the work of {cores['worth']:.1f}{stolen}",
    ]
    lines += _format_gpu(gpu, found["load"], found["processes"]) if gpu else []
    if launch:
        times = f"median {launch['median']:.1f} µs, 95 % below {launch['p95']:.1f}, worst {launch['worst']:.0f}"
        again = f"; turns taken again: {percent(launch['again'] / launch['turns'])}" if gpu else ""
        lines.append(f"{'launch' if gpu else 'a small call'}: {times}{again}")
        lines.append(f"copy: {found['copy']['gbps']:,.0f} GB/s, read and written")
    return [*lines, format_verdict(found)]


def _format_gpu(gpu: dict, load: dict | None, processes: list[int]) -> list[str]:
    """Return the lines of a GPU; what it does not answer is a question mark."""
    state = {name: "?" if value is None else value for name, value in {**gpu["state"], **(load or {})}.items()}
    limit, fastest = (_whole(gpu[name]) for name in ("power_limit", "max_sm_clock"))
    clocks = f"SM at {state['sm_clock']} of {fastest} MHz, {_whole(state['power'])} of {limit} W"
    reasons = state["throttle_reasons"]
    held = f", throttle reasons {reasons:#x}" if isinstance(reasons, int) else ""
    return [
        f"GPU: {gpu['name']}, driver {gpu['driver']}; {len(processes)} other processes",
        f"clocks {'at work' if load else 'idle'}: {clocks}, {state['temperature']} °C{held}",
    ]


def _whole(number: float | str | None) -> str:
    return f"{number:.0f}" if isinstance(number, int | float) else "?"
