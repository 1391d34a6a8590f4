"""The words of the tables, for those who write and those who read them: metrics with their units, causes."""

# The metrics that speedups exist for, with their units. All but KERNELS are timers, whose samples have these units.
KERNELS = "kernels"
MEASURED = {
    **dict.fromkeys(("device", KERNELS, "latency", "event", "do_bench", "host", "throughput", "graph"), "µs"),
    "first_call": "s",
    "peak_memory": "MiB",
}
DERIVED = {"tflops": "TFLOP/s", "gbps": "GB/s", "roofline": "1"}
# Device time less what a pair of events with nothing in between takes in the same job, which on two machines with the
# same GPU was seen to differ by more than a microsecond: a figure beside device time and no metric of the tables.
LESS_FLOOR = "device less floor"
# In the place of a size: the mean over all of them.
ALL = "all"
# Below this multiple of what a pair of events takes by itself, no verdict rests on a device time.
FLOOR_FACTOR = 10
# Causes: the same kernels at another clock, and none that was found.
CLOCKS = "clocks"
UNEXPLAINED = "unexplained"
