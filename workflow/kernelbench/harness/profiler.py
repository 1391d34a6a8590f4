"""Which kernels one call launches. Runs last and apart from timing: the profiler slows what it sees."""

import re
from collections import Counter
from collections.abc import Callable

CALLS = 10
# The calls of CUDA's runtime and driver that give the GPU work.
LAUNCHES = re.compile(r"(cuda|cu)(LaunchKernel|GraphLaunch|Memcpy|Memset|LaunchCooperativeKernel)")
ATTEMPTS = 3


def kernels(call: Callable, synchronize: Callable) -> dict:
    """Return {kernels, launches, checked} of `call`.

    kernels: [{name, count (per call), time (µs per call)}]; launches: those of the host per call, of which a CUDA graph
    is one, however many kernels it has; checked: whether the counts add up.

    The profiler can drop kernels at the start of a session without a word: a count that is no multiple of the
    number of calls is taken as that, and the session repeated.
    """
    for _ in range(ATTEMPTS):
        counts, times, launches = _session(call, synchronize)
        checked = bool(counts) and all(count % CALLS == 0 for count in counts.values())
        if checked:
            break
    listing = [
        {"name": name, "count": counts[name] / CALLS, "time": round(times[name] / CALLS, 3)} for name in sorted(counts)
    ]
    return {"kernels": listing, "launches": launches / CALLS, "checked": checked}


def _session(call: Callable, synchronize: Callable) -> tuple[Counter, Counter, int]:
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as session:
        for _ in range(CALLS):
            call()
        synchronize()
    counts, times, launches = Counter(), Counter(), 0
    for event in session.events():
        launches += bool(LAUNCHES.match(event.name))
        if event.device_type == DeviceType.CUDA:
            counts[event.name] += 1
            times[event.name] += event.time_range.elapsed_us()
    return counts, times, launches
