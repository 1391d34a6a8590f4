"""Timers: what one call costs, as raw samples. Nothing is dropped; what looks suspect is flagged.

Each timer is a function without arguments that takes one sample: ({metric: µs}, flag). `in_turns` takes the samples of
several of them, in the same stretch of time.

`device` follows NVBench's cold measurement (a delay kernel ahead of the start event hides the host's work; the L2
cache is flushed before each sample); `latency` is what an interactive user feels, `host` the part of it until the call
returns; `event`, CUDA events around a call, and `do_bench`, Triton's timer, are what most published benchmarks print;
`throughput` and `graph` are many calls back to back, from the host and from one captured graph.
"""

import gc
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from math import ceil
from statistics import median
from time import perf_counter, perf_counter_ns

from kernelbench.harness.core import Core

# A sample further than this many median absolute deviations above the median is flagged, not dropped.
OUTLIER_MADS = 10
# A window of the warm-up ends after so many seconds, but not before so many calls: one that is longer than the host's
# spells of quiet is seldom undisturbed, and would be taken again and again.
WINDOW_SECONDS = 0.05
WINDOW_CALLS = 3
# Timers take their samples in this many turns each; in more, if they have taken so many seconds in one.
TURNS = 10
TURN_SECONDS = 0.005
# The delay that hides the host's work starts at about 50 µs on a 2 GHz GPU and may double up to some 25 ms.
DELAY_CYCLES = 100_000
MAX_DELAY_CYCLES = 51_200_000
# Calls back to back are timed for about this long (µs), so that the start of the first one weighs little; and between
# these numbers of them: the driver's queue holds some thousand launches.
BATCH = 5000
BATCH_CALLS = (2, 100)
TRACE_BATCH = 50_000
# Calls in one captured graph; fewer where so many would take longer than this (µs).
GRAPH_CALLS = 20
GRAPH = 20_000

Sample = tuple[dict[str, float], str]


@contextmanager
def quiet_host():
    """Keep Python's garbage collector from running inside a sample."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def synchronizer(device: str) -> Callable[[], None]:
    """Return what waits until the device is idle."""
    import torch

    return torch.cuda.synchronize if device == "cuda" else lambda: None


def wall(call: Callable, synchronize: Callable) -> float:
    """Return the wall time of one call and synchronization from an idle device, in seconds."""
    return _walls(call, synchronize)[0] / 1e9


def _walls(call: Callable, synchronize: Callable) -> tuple[int, int]:
    """Return ns of one call from an idle device: until the device is idle again, and until the call returns."""
    synchronize()
    start = perf_counter_ns()
    output = call()
    returned = perf_counter_ns()
    synchronize()
    stop = perf_counter_ns()
    del output  # Only after the clock is read: freeing is not part of the call.
    return stop - start, returned - start


def warm_up(call: Callable, synchronize: Callable, sampling: dict, core: Core | None = None) -> dict:
    """Call until the medians of the last three windows agree, at most `warmup_max_seconds`.

    With a `core`, a window in which the host was slow is taken again elsewhere: it says nothing of what warms up.
    Returns {values: µs of each call of the windows, settled: whether the windows agreed}.
    """
    take = partial(_window, call, synchronize, sampling)
    windows, started = [], perf_counter()
    with quiet_host():
        while True:
            windows.append(core.undisturbed(take)[0] if core else take())
            if len(windows) < 3:
                continue
            last = [median(window) for window in windows[-3:]]
            settled = max(last) <= min(last) * (1 + sampling["warmup_tolerance"])
            if settled or perf_counter() - started > sampling["warmup_max_seconds"]:
                return {"values": [value for window in windows for value in window], "settled": settled}


def _window(call: Callable, synchronize: Callable, sampling: dict) -> list[float]:
    """Return the µs of `warmup_window` calls; of fewer, but WINDOW_CALLS, once they have taken WINDOW_SECONDS."""
    values, started = [], perf_counter()
    while len(values) < sampling["warmup_window"]:
        values.append(wall(call, synchronize) * 1e6)
        if perf_counter() - started > WINDOW_SECONDS and len(values) >= WINDOW_CALLS:
            break
    return values


def in_turns(
    timers: list[Callable[[], Sample]], settle: Callable, sampling: dict, core: Core | None = None
) -> dict[str, tuple[list, list]]:
    """Return by metric (values in µs, flags) of the samples of all `timers`, taken in turns.

    A slow moment of the host thus falls on some samples of each timer, not on all of one's. With a `core`, the samples
    of a turn in which the host was slow are taken again elsewhere, and flagged where it stays so. `settle` begins each
    turn, so that it finds the device as a call leaves it. A timer takes `samples` of them; once it has `min_samples`
    and has taken `max_seconds`, no more.
    """
    taken, spent = [[] for _ in timers], [0.0] * len(timers)

    def enough(which: int) -> bool:
        count = len(taken[which])
        slow = count >= sampling["min_samples"] and spent[which] > sampling["max_seconds"]
        return count >= sampling["samples"] or slow

    def turn(which: int) -> list[tuple[float, dict, str]]:
        """Return (s, values, flag) of the samples of one turn."""
        settle()
        found, began = [], perf_counter()
        most = min(ceil(sampling["samples"] / TURNS), sampling["samples"] - len(taken[which]))
        while len(found) < most and (not found or perf_counter() - began < TURN_SECONDS):
            before = perf_counter()
            values, flag = timers[which]()
            found.append((perf_counter() - before, values, flag))
        return found

    with quiet_host():
        while left := [which for which in range(len(timers)) if not enough(which)]:
            for which in left:
                found, quiet = core.undisturbed(partial(turn, which)) if core else (turn(which), True)
                for seconds, values, flag in found:
                    taken[which].append((values, flag if quiet else flag or "slow host"))
                    spent[which] += seconds
    series = {}
    for samples in taken:
        for metric in samples[0][0]:
            series[metric] = ([values[metric] for values, _ in samples], [flag for _, flag in samples])
    return series


def latency(call: Callable, synchronize: Callable, apart: bool) -> Callable[[], Sample]:
    """Return the timer of `latency`, the wall time of call + synchronization from an idle device.

    apart: the device works beside the host, so that `host`, the time until the call returns, is another one.
    """

    def sample() -> Sample:
        whole, host = _walls(call, synchronize)
        return {"latency": whole / 1e3, **({"host": host / 1e3} if apart else {})}, ""

    return sample


def event(call: Callable, synchronize: Callable) -> Callable[[], Sample]:
    """Return the timer of `event`: CUDA events around one call from an idle device, the host's work not hidden."""
    start, stop = _events()

    def sample() -> Sample:
        synchronize()
        start.record()
        output = call()
        stop.record()
        stop.synchronize()
        del output
        return {"event": start.elapsed_time(stop) * 1e3}, ""

    return sample


def _events() -> list:
    """Return two CUDA events that exist already: the driver makes one when it is first recorded."""
    import torch

    pair = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    for one in pair:
        one.record()
    return pair


def batch(latency: float, together: float = BATCH) -> int:
    """Return how many calls of a `latency` in µs take about `together` µs; some, and no more than the queue holds."""
    return min(max(ceil(together / latency), BATCH_CALLS[0]), BATCH_CALLS[1])


def throughput(call: Callable, synchronize: Callable, calls: int) -> Callable[[], Sample]:
    """Return the timer of `throughput`: wall time of `calls` calls back to back, divided by their number."""

    def sample() -> Sample:
        synchronize()
        start = perf_counter_ns()
        for _ in range(calls):
            call()
        synchronize()
        return {"throughput": (perf_counter_ns() - start) / 1e3 / calls}, ""

    return sample


def graph_calls(latency: float) -> int:
    """Return how many calls of a `latency` in µs go into one graph."""
    return min(max(int(GRAPH / latency), 1), GRAPH_CALLS)


def captured(call: Callable, calls: int) -> Callable[[], None]:
    """Return what replays one graph of `calls` calls; raise RuntimeError where they cannot be captured."""
    import torch

    graph = torch.cuda.CUDAGraph()
    try:
        # The outer context goes back to the stream even where the end of a capture fails.
        with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph):
            for _ in range(calls):
                call()
    except RuntimeError:
        _end_capture()
        raise
    return graph.replay


def _end_capture() -> None:
    """Have the random number generator know that a capture has failed, which a capture that succeeds tells it."""
    import torch

    number = torch.zeros(1, device="cuda")
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        number.add_(1)


class DeviceTimer:
    """GPU time, the host's work hidden behind a delay on the GPU.

    cycles: the delay, doubled whenever it was too short; redone: how often it was.
    """

    def __init__(self):
        import torch

        self.torch = torch
        l2 = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        # Written once here and, to flush, only read: lines that a write leaves dirty are evicted in the call's time.
        self.buffer = torch.ones(2 * l2 // 4, dtype=torch.float32, device="cuda")
        self.start, self.stop = _events()
        self.cycles = DELAY_CYCLES
        self.redone = 0

    def device(self, call: Callable, flush: str) -> Callable[[], Sample]:
        """Return the timer of `device`: one call, the L2 cache flushed by a `flush`: read, write or none."""
        prepare = {"read": self.buffer.sum, "write": self.buffer.zero_, "none": lambda: None}[flush]

        def sample() -> Sample:
            value, covered = self._sample(call, prepare)
            return {"device": value}, "" if covered else "uncovered"

        return sample

    def graph(self, replay: Callable, calls: int) -> Callable[[], Sample]:
        """Return the timer of `graph`: a replay of `calls` calls, warm L2, divided by their number."""

        def sample() -> Sample:
            value, covered = self._sample(replay, lambda: None)
            return {"graph": value / calls}, "" if covered else "uncovered"

        return sample

    def floors(self, count: int) -> dict[str, float]:
        """Return the medians of `count` samples in µs of an empty event pair and of a kernel that does nothing.

        By the GPU's clock, and for the kernel also by the wall (`launch`): where that is long, the host was slow.
        """
        cuda = self.torch.cuda
        found = {}
        for name, call in {"event_pair": lambda: None, "empty_kernel": lambda: cuda._sleep(1)}.items():
            found[name] = median(self._sample(call, self.buffer.sum)[0] for _ in range(count))
        return {**found, "launch": median(wall(lambda: cuda._sleep(1), cuda.synchronize) * 1e6 for _ in range(count))}

    def _sample(self, call: Callable, prepare: Callable) -> tuple[float, bool]:
        """Return (µs, whether the delay covered the host's work); an uncovered one is redone with twice the delay."""
        while True:
            prepare()
            self.torch.cuda._sleep(self.cycles)
            self.start.record()
            output = call()
            covered = not self.start.query()
            self.stop.record()
            self.stop.synchronize()
            del output
            if covered or self.cycles >= MAX_DELAY_CYCLES:
                return self.start.elapsed_time(self.stop) * 1e3, covered
            self.cycles *= 2
            self.redone += 1


def do_bench(call: Callable) -> list[float]:
    """Return µs of all samples of `triton.testing.do_bench` with its defaults: the timer that most people print.

    It writes 256 MB before each call to flush the L2 cache, and does not wait in between: a call whose host takes
    longer than that write is timed as its host.
    """
    from triton.testing import do_bench

    return [time * 1e3 for time in do_bench(call, return_mode="all")]


def flagged(values: list[float], flags: list[str]) -> list[str]:
    """Return the flags with 'outlier' where a sample lies far above the rest; all else that is wrong goes first."""
    middle = median(values)
    limit = middle + OUTLIER_MADS * median(abs(v - middle) for v in values)
    return flags if any(flags) else ["outlier" if v > limit > middle else "" for v in values]


def trace(call: Callable, synchronize: Callable, calls: int, seconds: float, state: Callable) -> list[dict]:
    """Run batches of `calls` calls for `seconds` without a pause; return for each {at (s), call (µs), and `state()`}.

    The state of the device is asked for while it still works on the batch.
    """
    points, began = [], perf_counter_ns()
    while not points or points[-1]["at"] < seconds:
        before = perf_counter_ns()
        for _ in range(calls):
            call()
        during = state()
        synchronize()
        now = perf_counter_ns()
        points.append({"at": (now - began) / 1e9, "call": (now - before) / 1e3 / calls, **during})
    return points
