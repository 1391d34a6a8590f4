"""Lanes: which GPU a repeat is measured on, which host cores go with it, and that no other job has them."""

import fcntl
import json
import os
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from pathlib import Path

from kernelbench.errors import InputError
from kernelbench.harness import cuda, provenance

CPU = "cpu"
# More jobs than could ever run at once.
SLOTS = 1000
# Not TMPDIR, which may differ between two runs: both must see the same lock.
LOCKS = Path("/tmp")


def list_gpus(device: str) -> list[str]:
    """Return the UUIDs of the GPUs that this process may use, in CUDA's order; ["cpu"] for a study of the CPU."""
    if device == CPU:
        return [CPU]
    library, uuids = provenance.nvml(), cuda.named()
    if library is None:
        raise InputError("GPU: NVML does not answer; a GPU is measured only where NVML can watch it")
    gone = [uuid for uuid in uuids if not provenance.answers(library, uuid)]
    if gone or not uuids:
        which = " ".join(["GPU", *gone[:1]])
        raise InputError(f"{which}: is not there or does not answer; allowed: what nvidia-smi -L lists")
    return uuids


def name_gpus(device: str) -> dict[str, str]:
    """Return the variable that names the GPUs to all jobs of a run: if one falls out, no lane moves to another."""
    if device == CPU or provenance.nvml() is None or not cuda.named():
        return {}
    return {cuda.NAMED: ",".join(list_gpus(device))}


def find_gpu(lane: int, device: str) -> str:
    """Return the UUID of a lane's GPU, or "cpu"."""
    if device != CPU and cuda.NAMED in os.environ:
        return cuda.named()[lane]  # The run has asked NVML, which takes 0.1 s to say the same.
    return list_gpus(device)[lane]


def share_cores(lane: int, lanes: int) -> list[int]:
    """Return the host cores of a lane: an equal share of those that this process may use, next to each other."""
    mine = sorted(os.sched_getaffinity(0))
    share = mine[lane * len(mine) // lanes : (lane + 1) * len(mine) // lanes]
    return share or mine  # With fewer cores than lanes there is nothing to divide.


@contextmanager
def hold(gpu: str):
    """Wait until no other job has a GPU (its UUID, or "cpu"), and yield the descriptor that holds it.

    The kernel releases it when the last process that has the descriptor ends, in whatever way.
    """
    path = LOCKS / f"kernelbench-{gpu}.lock"
    # All users of the machine share the file. In /tmp the kernel lets none but its owner open it with O_CREAT alone.
    with suppress(FileExistsError):
        made = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        os.fchmod(made, 0o644)  # Whatever the umask: others open it to wait for it.
        os.close(made)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting: another job computes on {gpu} (lock {path})", flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


class Lanes:
    """The lanes of a run: `count` (Snakemake's --resources gpu=<count>) GPUs that measure `study` side by side.

    Each lane is a resource of Snakemake's with SLOTS units. A measurement takes all units of its lane; any other job
    takes one unit of each lane. So the lanes measure side by side, and nothing else runs while any of them measures.
    """

    def __init__(self, study, count: int | None):
        self.study, self.count = study, 1 if count is None else count
        # No lanes where this machine only submits, and another measures.
        self.names = [f"lane{lane}" for lane in range(self.count)] if study.measures_here else []
        self.find = cache(self._find)

    @cached_property
    def gpus(self) -> list[str]:
        """The UUID of each lane's GPU; asking for it fails unless this is the study's machine with enough GPUs."""
        from kernelbench.study import machine  # Here and not at the top: a job, which names its GPU, does not ask.

        machine.require(self.study.machine)
        there = list_gpus(self.study.device)
        if not 1 <= self.count <= len(there):
            shown = "the CPU is one device" if self.study.device == CPU else f"GPUs shown: {len(there)}"
            allowed = f"1 to {len(there)}" if len(there) > 1 else "1"
            raise InputError(f"--resources gpu={self.count} is not allowed, {shown}; allowed: {allowed}")
        return there[: self.count]

    @property
    def planned(self) -> int:
        """The number of lanes, whose GPUs need not be here: a plan is made for other machines, too."""
        if self.count < 1:
            allowed = "1, as the CPU is one device" if self.study.device == CPU else "1 or more"
            raise InputError(f"--resources gpu={self.count} is not allowed; allowed: {allowed}")
        return self.count

    def _find(self, repeat: int) -> int:
        """Return the lane of a repeat: that of its GPU once it is begun, as pairs must not mix GPUs."""
        if not self.study.measures_here:  # The allocation that the repeat gets has one GPU.
            return 0
        paths = [Path(self.study.results, job.path) for job in self.study.jobs_of(repeat)]
        there = [path for path in paths if path.exists()]
        begun = _read_gpu(there[0]) if there else None
        if begun in self.gpus:
            return self.gpus.index(begun)
        if begun and len(there) < len(paths):
            raise InputError(f"repeat {repeat} was begun on {begun}, {self._explain(repeat, begun)}")
        return repeat % self.count

    def _explain(self, repeat: int, begun: str) -> str:
        """Return why a run cannot go on with a repeat that was begun on another GPU, and what to do."""
        shown = list_gpus(self.study.device)
        if begun in shown:
            place, refused = shown.index(begun) + 1, f"--resources gpu={self.count} is not allowed"
            return f"GPU {place} of {len(shown)} here, and {refused}; allowed: {place} to {len(shown)}"
        records = f"{self.study.results}/records/*/*/*/*/{repeat}.json"
        return f"which is not here; its pairs must not mix GPUs: measure it again whole after rm {records}"

    def measuring(self) -> dict:
        """Return the resources of a measurement."""
        return {
            name: lambda wildcards, lane=lane: SLOTS * (self.find(int(wildcards.repeat)) == lane)
            for lane, name in enumerate(self.names)
        }

    def beside(self) -> dict[str, int]:
        """Return the resources of a job that must not run beside a measurement."""
        return dict.fromkeys(self.names, 1)

    def alone(self) -> dict[str, int]:
        """Return the resources of a job beside which nothing else must run."""
        return dict.fromkeys(self.names, SLOTS)


def _read_gpu(path: Path) -> str | None:
    """Return the UUID of the GPU that the record at `path` names, None if it cannot be read: collect says so."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))["environment"]["gpu"]["uuid"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
