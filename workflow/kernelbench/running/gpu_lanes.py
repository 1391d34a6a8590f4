"""Lanes: which GPU a repeat is measured on, which host cores go with it, and that no one else has them.

With N GPUs a repeat keeps to lane `repeat mod N`, so that pairs never mix GPUs.
"""

import fcntl
import json
import os
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from kernelbench.errors import InputError
from kernelbench.harness import cuda, provenance

CPU = "cpu"
# How many jobs that do not measure may run at once, if there are the cores: more than there ever are.
SLOTS = 1000
# Not TMPDIR, in which two runs may differ: a lock that only one of them sees is none.
LOCKS = Path("/tmp")


def visible(device: str) -> list[str]:
    """Return the UUIDs of the GPUs that this process may use, in CUDA's order; ["cpu"] for a study of the CPU.

    Raises InputError where NVML is missing or one of the GPUs does not answer.
    """
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


def environment(device: str) -> dict[str, str]:
    """Return the variable that names the GPUs to all jobs of a run: one that falls out moves no lane to another."""
    if device == CPU or provenance.nvml() is None or not cuda.named():
        return {}
    return {cuda.NAMED: ",".join(visible(device))}


def gpu_of(lane: int, device: str) -> str:
    """Return the UUID of a lane's GPU, or "cpu"."""
    if device != CPU and cuda.NAMED in os.environ:
        return cuda.named()[lane]  # The run has asked NVML, which takes 0.1 s to say the same.
    return visible(device)[lane]


class Lanes:
    """The lanes of a run: `count` (Snakemake's --resources gpu=<count>) GPUs that measure `study` side by side."""

    def __init__(self, study, count: int | None):
        self.study, self.count = study, 1 if count is None else count
        self._of = {}

    @cached_property
    def gpus(self) -> list[str]:
        """The GPU of each lane, by UUID.

        Raises InputError unless this is the machine that the study names, with as many GPUs as lanes.
        """
        from kernelbench.study import machine  # Here and not at the top: a job, which names its GPU, does not ask.

        machine.require(self.study.machine)
        there = visible(self.study.device)
        if not 1 <= self.count <= len(there):
            shown = "the CPU is one device" if self.study.device == CPU else f"GPUs shown: {len(there)}"
            allowed = f"1 to {len(there)}" if len(there) > 1 else "1"
            raise InputError(f"--resources gpu={self.count} is not allowed, {shown}; allowed: {allowed}")
        return there[: self.count]

    @property
    def planned(self) -> int:
        """`count`, of GPUs that need not be here: a plan is made for other machines, too.

        Raises InputError for a number that nothing can be measured with.
        """
        if self.count < 1:
            allowed = "1, as the CPU is one device" if self.study.device == CPU else "1 or more"
            raise InputError(f"--resources gpu={self.count} is not allowed; allowed: {allowed}")
        return self.count

    def require(self) -> None:
        """Raise InputError where this machine measures, and is not what the study names or has too few GPUs."""
        if self.study.here:
            self.gpus  # noqa: B018  (it raises where it cannot)

    def of(self, repeat: int) -> int:
        """Return the lane of a repeat: that of its GPU where it is begun already, else `repeat mod count`.

        Raises InputError where only a part of it is measured and its GPU is not here.
        """
        if repeat not in self._of:
            self._of[repeat] = self._lane(repeat)
        return self._of[repeat]

    def _lane(self, repeat: int) -> int:
        if not self.study.here:  # The allocation that the repeat gets has one GPU.
            return 0
        paths = [Path(self.study.results, job.path) for job in self.study.jobs_of(repeat)]
        there = [path for path in paths if path.exists()]
        begun = _gpu_of(there[0]) if there else None
        if begun in self.gpus:
            return self.gpus.index(begun)
        if begun and len(there) < len(paths) and begun in (shown := visible(self.study.device)):
            raise InputError(
                f"repeat {repeat} was begun on {begun}, GPU {shown.index(begun) + 1} of {len(shown)} here, and "
                f"--resources gpu={self.count} is not allowed; allowed: {shown.index(begun) + 1} to {len(shown)}"
            )
        if begun and len(there) < len(paths):
            raise InputError(
                f"repeat {repeat} was begun on {begun}, which is not here; its pairs must not mix GPUs: measure it "
                f"again whole after rm {self.study.results}/records/*/*/*/*/{repeat}.json"
            )
        return repeat % self.count

    # Each lane is a resource of Snakemake's with SLOTS units. A measurement takes all units of its lane; any other job
    # takes one unit of each lane. So the lanes measure side by side, and nothing else runs while any of them measures.

    def names(self) -> list[str]:
        """Return the resource of each lane; none where this machine only submits, and another measures."""
        return [f"lane{lane}" for lane in range(self.count)] if self.study.here else []

    def measuring(self) -> dict:
        """Return the resources that a measurement needs."""
        return {
            name: lambda wildcards, lane=lane: SLOTS * (self.of(int(wildcards.repeat)) == lane)
            for lane, name in enumerate(self.names())
        }

    def beside(self) -> dict[str, int]:
        """Return the resources that a job needs which does not measure, and must not run beside one that does."""
        return dict.fromkeys(self.names(), 1)

    def alone(self) -> dict[str, int]:
        """Return the resources that a job needs beside which nothing else must run."""
        return dict.fromkeys(self.names(), SLOTS)


def _gpu_of(path: Path) -> str | None:
    """Return the UUID of the GPU that the record at `path` names, None where it cannot be read: collect says so."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))["environment"]["gpu"]["uuid"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def cores(lane: int, lanes: int) -> list[int]:
    """Return the host cores of a lane: an equal share of those that this process may use, next to each other."""
    mine = sorted(os.sched_getaffinity(0))
    share = mine[lane * len(mine) // lanes : (lane + 1) * len(mine) // lanes]
    return share or mine  # Fewer cores than lanes: there is nothing to divide.


@contextmanager
def hold(gpu: str):
    """Hold a GPU (its UUID, or "cpu") for one job: wait until no other job has it; yield the lock's descriptor.

    The lock is the kernel's (flock): it ends with the last process that has the descriptor, however that ends.
    """
    path = LOCKS / f"kernelbench-{gpu}.lock"
    descriptor = _open(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting: another job computes on {gpu} (lock {path})", flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Open the lock file, which all users of the machine share; the first one makes it."""
    while True:
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            try:
                made = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            except FileExistsError:
                continue
            os.fchmod(made, 0o644)  # Whatever the umask: others open it to wait for it.
            return made
