"""The words of the tables, for those who write and those who read them: metrics with their units, causes."""

# The metrics that speedups exist for, with the unit of their samples.
MEASURED = {
    **dict.fromkeys(("device", "latency", "event", "do_bench", "host", "throughput", "graph"), "µs"),
    "first_call": "s",
    "peak_memory": "MiB",
}
DERIVED = {"tflops": "TFLOP/s", "gbps": "GB/s", "roofline": "1"}
# Device time less what a pair of events with nothing in between takes in the same job, which on two machines with the
# same GPU was seen to differ by more than a microsecond: a figure beside device time and no metric of the tables.
LESS_FLOOR = "device less floor"
# In the place of a size: the mean over all of them.
ALL = "all"
# Below this multiple of the timer's floor a device time says little.
FLOOR_FACTOR = 10
# Causes: the same kernels at another clock, and none that was found.
CLOCKS = "clocks"
UNEXPLAINED = "unexplained"
