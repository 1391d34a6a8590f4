"""Which GPU is measured, and under which label: what CUDA says, beside an NVML that knows more or nothing.

CUDA's driver is a library of our own here, which is loaded as the real one would be. FAKE_GPUS names its GPUs.
"""

import json
import os
import subprocess
import sys

import pytest

from kernelbench.study import machine

DRIVER = r"""
#include <stdlib.h>
#include <string.h>
static char *line(int index) {          /* FAKE_GPUS: name|32 hexadecimal digits, one on a line */
    static char text[4096];
    strncpy(text, getenv("FAKE_GPUS"), sizeof text - 1);
    char *found = strtok(text, "\n");
    while (found && index--) found = strtok(NULL, "\n");
    return found;
}
int cuInit(unsigned flags) { return getenv("FAKE_ERROR") ? atoi(getenv("FAKE_ERROR")) : 0; }
int cuDeviceGetCount(int *count) { for (*count = 0; line(*count);) ++*count; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int size, int device) {
    strncpy(name, strtok(line(device), "|"), size);
    return 0;
}
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    char *digits = strchr(line(device), '|') + 1, byte[3] = {0};
    for (int i = 0; i < 16; i++) { memcpy(byte, digits + 2 * i, 2); uuid[i] = strtol(byte, NULL, 16); }
    return 0;
}
"""
# The machine's label, its lanes' GPUs, and what a record says of the first of them, in a process with a CUDA build.
ASK = """
import json, sys
from types import SimpleNamespace
from pathlib import Path
from kernelbench.running import gpu_lanes
from kernelbench.study import machine
from kernelbench.harness import provenance

class NVML:
    NVMLError, NVML_CLOCK_SM, NVML_CLOCK_MEM = RuntimeError, 0, 1
    known = json.loads(sys.argv[1])
    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid not in self.known:
            raise RuntimeError("Not Found")
        return uuid
    def nvmlDeviceGetUUID(self, handle):
        return handle
    def nvmlDeviceGetName(self, handle):
        return self.known[handle]
    def nvmlDeviceGetCount(self):
        return len(self.known)

machine.metadata = SimpleNamespace(version=lambda name: "2.13.0")
machine.DEVICES = Path(sys.argv[2])
provenance.nvml = lambda: NVML() if NVML.known else None
label, device, name = machine.present()
gpu = provenance.gpu() if device == "cuda" else {}
print(json.dumps([label, device, gpu_lanes.list_gpus(device), gpu and [gpu["name"], gpu["uuid"]]]))
"""
A100, H100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"
SLICE = f"{H100} MIG 1g.10gb"


def uuid_of(kind: str, digit: int) -> str:
    """Return the UUID whose hexadecimal digits are all `digit`."""
    text = str(digit) * 32
    return f"{kind}-" + "-".join([text[:8], text[8:12], text[12:16], text[16:20], text[20:]])


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """Return the directory of the driver."""
    path = tmp_path_factory.mktemp("driver")
    (path / "cuda.c").write_text(DRIVER)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "libcuda.so.1", "cuda.c"], cwd=path, check=True)
    return path


@pytest.fixture
def ask(driver, tmp_path):
    """Return a function that asks which GPU is measured; gpus: names as CUDA has them; known: NVML's, by UUID."""

    def ask(gpus: list[str], known: dict[str, str], **variables: str) -> subprocess.CompletedProcess:
        lines = "\n".join(f"{name}|{str(digit) * 32}" for digit, name in enumerate(gpus, 1))
        hidden = {name: value for name, value in os.environ.items() if not name.startswith("CUDA")}
        environment = hidden | {"LD_LIBRARY_PATH": str(driver), "FAKE_GPUS": lines, **variables}
        command = [sys.executable, "-c", ASK, json.dumps(known), str(tmp_path)]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    return ask


def answer(done: subprocess.CompletedProcess):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refusal(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    (line,) = done.stderr.splitlines()
    return line


def test_a_whole_gpu_is_itself(ask):
    gpu = uuid_of("GPU", 1)
    assert answer(ask([H100], {gpu: H100})) == ["h100", "cuda", [gpu], [H100, gpu]]


def test_a_slice_of_a_gpu_is_measured_as_that_slice(ask):
    part = uuid_of("MIG", 1)
    label, _, shown, gpu = answer(ask([SLICE], {uuid_of("GPU", 7): H100, part: SLICE}))
    assert label == "h100mig1g10gb" and shown == [part] and gpu == [SLICE, part]


def test_the_first_gpu_is_cudas_and_not_nvmls(ask):
    first, second = uuid_of("GPU", 1), uuid_of("GPU", 2)
    label, _, shown, gpu = answer(ask([H100, A100], {second: A100, first: H100}))
    assert label == "h100" and shown == [first, second] and gpu == [H100, first]


def test_a_gpu_without_nvml_is_refused_though_the_driver_has_no_file_for_it(ask):
    said = refusal(ask([H100], {}))
    assert H100 in said and "NVML" in said and 'CUDA_VISIBLE_DEVICES=""' in said


def test_a_gpu_that_nvml_does_not_know_is_refused(ask):
    assert H100 in refusal(ask([H100], {uuid_of("GPU", 7): A100}))


def test_a_driver_that_fails_is_no_machine_without_a_gpu(ask):
    said = refusal(ask([H100], {}, FAKE_ERROR="802"))
    assert "cuInit" in said and "802" in said and 'CUDA_VISIBLE_DEVICES=""' in said


def test_a_gpu_whose_driver_finds_none_is_refused(ask, tmp_path):
    (tmp_path / "nvidia0").touch()
    assert "nvidia0" in refusal(ask([], {}, FAKE_ERROR="100"))


def test_a_machine_without_a_gpu_is_its_cpu(ask):
    assert answer(ask([], {}, FAKE_ERROR="100"))[1:] == ["cpu", ["cpu"], {}]
    assert answer(ask([H100], {}, CUDA_VISIBLE_DEVICES=""))[1] == "cpu", "hidden by its user"


def test_a_gpu_that_is_named_and_not_there_is_refused(ask):
    said = refusal(ask([], {uuid_of("GPU", 1): H100}, FAKE_ERROR="100", CUDA_VISIBLE_DEVICES="7"))
    assert "CUDA_VISIBLE_DEVICES: 7" in said


def test_a_run_names_its_gpus_to_its_jobs_by_uuid(ask):
    gpu = uuid_of("GPU", 2)
    assert answer(ask([A100, H100], {gpu: H100, uuid_of("GPU", 1): A100}, KERNELBENCH_GPUS=gpu))[2:] == [
        [gpu],
        [H100, gpu],
    ]


def test_a_study_of_a_whole_gpu_is_not_measured_on_a_slice_of_it(monkeypatch):
    monkeypatch.setattr(machine, "present", lambda: (machine.gpu_label(SLICE), "cuda", SLICE))
    machine.require("h100mig1g10gb")
    machine.require("h100mig1g10gb-start")
    for other in ("h100", "h100-start"):
        with pytest.raises(SystemExit, match="h100mig1g10gb"):
            machine.require(other)
