"""Timers: what one call costs, as raw samples. Nothing is dropped; what looks suspect is flagged.

`device` follows NVBench's cold measurement (a delay kernel ahead of the start event hides the host's work;
the L2 cache is flushed before each sample); `latency` is what an interactive user feels.
"""

import gc
from collections.abc import Callable
from contextlib import contextmanager
from statistics import median
from time import perf_counter, perf_counter_ns

# A sample further than this many median absolute deviations above the median is flagged, not dropped.
OUTLIER_MADS = 10
# The delay that hides the host's work starts at about 50 µs on a 2 GHz GPU and may double up to some 25 ms.
DELAY_CYCLES = 100_000
MAX_DELAY_CYCLES = 51_200_000


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
    synchronize()
    start = perf_counter_ns()
    output = call()
    synchronize()
    stop = perf_counter_ns()
    del output  # Only after the clock is read: freeing is not part of the call.
    return (stop - start) / 1e9


def _enough(samples: list, sampling: dict, started: float) -> bool:
    spent = perf_counter() - started
    return len(samples) >= sampling["samples"] or (
        len(samples) >= sampling["min_samples"] and spent > sampling["max_seconds"]
    )


def warm_up(call: Callable, synchronize: Callable, sampling: dict) -> dict:
    """Call until the medians of the last three windows agree, at most `warmup_max_seconds`.

    Returns {values: µs of each call, settled: whether the windows agreed}.
    """
    window, values, started = sampling["warmup_window"], [], perf_counter()
    with quiet_host():
        while True:
            values += [wall(call, synchronize) * 1e6 for _ in range(window)]
            if len(values) < 3 * window:
                continue
            last = [median(values[i : i + window]) for i in range(len(values) - 3 * window, len(values), window)]
            settled = max(last) <= min(last) * (1 + sampling["warmup_tolerance"])
            if settled or perf_counter() - started > sampling["warmup_max_seconds"]:
                return {"values": values, "settled": settled}


def latency(call: Callable, synchronize: Callable, sampling: dict) -> list[float]:
    """Return wall times of call + synchronization from an idle device, in µs."""
    values, started = [], perf_counter()
    with quiet_host():
        while not _enough(values, sampling, started):
            values.append(wall(call, synchronize) * 1e6)
    return values


class DeviceTimer:
    """GPU time of one call with a cold L2 cache, the host's work hidden behind a delay on the GPU."""

    def __init__(self):
        import torch

        self.torch = torch
        l2 = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        # Written once here and only read later: lines that a write leaves dirty would be evicted in the call's time.
        self.flush_buffer = torch.ones(2 * l2 // 4, dtype=torch.float32, device="cuda")
        self.cycles = DELAY_CYCLES
        self.redone = 0

    def sample(self, call: Callable) -> tuple[float, bool]:
        """Return (µs, whether the delay covered the host's work); an uncovered one is redone with twice the delay."""
        cuda = self.torch.cuda
        while True:
            start, stop = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            self.flush_buffer.sum()
            cuda._sleep(self.cycles)
            start.record()
            output = call()
            covered = not start.query()
            stop.record()
            stop.synchronize()
            del output
            if covered or self.cycles >= MAX_DELAY_CYCLES:
                return start.elapsed_time(stop) * 1e3, covered
            self.cycles *= 2
            self.redone += 1

    def samples(self, call: Callable, sampling: dict) -> tuple[list[float], list[bool]]:
        """Return the samples in µs and, for each, whether the host's work was covered."""
        values, covered, started = [], [], perf_counter()
        with quiet_host():
            while not _enough(values, sampling, started):
                value, hidden = self.sample(call)
                values.append(value)
                covered.append(hidden)
        return values, covered

    def floors(self, sampling: dict) -> dict[str, float]:
        """Return the medians in µs of an empty event pair and of a kernel that does nothing."""
        spin = self.torch.cuda._sleep
        nothing = {"event_pair": lambda: None, "empty_kernel": lambda: spin(1)}
        return {name: median(self.samples(call, sampling)[0]) for name, call in nothing.items()}


def flags(values: list[float], covered: list[bool] | None = None) -> list[str]:
    """Return '' or the reason of suspicion for each sample: 'uncovered' host work, or an 'outlier' above the rest."""
    middle = median(values)
    limit = middle + OUTLIER_MADS * median(abs(v - middle) for v in values)
    suspect = ["outlier" if v > limit > middle else "" for v in values]
    if covered:
        suspect = ["" if c else "uncovered" for c in covered] if not all(covered) else suspect
    return suspect
