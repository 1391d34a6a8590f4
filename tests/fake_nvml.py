"""An NVML that answers what a test tells it to, in place of the driver's."""

from types import SimpleNamespace


class FakeNVML:
    """An NVML that knows one GPU, and the answers that a test gives."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 0, 1, 2
    NVML_PERF_POLICY_POWER, NVML_PERF_POLICY_THERMAL = 0, 1
    UUID = "GPU-0"

    def __init__(self, reasons=0, held=(0, 0), processes=0):
        self.reasons, self.held, self.processes = reasons, held, processes

    def nvmlDeviceGetHandleByUUID(self, name):
        if name != self.UUID:
            raise self.NVMLError("Not Found")
        return name

    def nvmlDeviceGetUUID(self, handle):
        return handle

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return self.reasons

    def nvmlDeviceGetViolationStatus(self, handle, policy):
        return SimpleNamespace(violationTime=self.held[policy])

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return [SimpleNamespace(pid=100 + index) for index in range(self.processes)]
