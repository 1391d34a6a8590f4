"""The process of one job: what is set before torch is imported, and what the process itself does.

However the process was started, its environment is `environment.build` of `variables`, and `main` runs in it:
    python -m kernelbench.harness.child FD < request
"""

import ctypes
import hashlib
import json
import os
import signal
import sys
import tempfile

from kernelbench.harness import caches, cuda

PR_SET_PDEATHSIG = 1
# Raise this by hand when measuring changes outside the files that a job imports: another order of the jobs, say. Every
# job imports this file, so that this makes all records obsolete.
PROTOCOL = 1
# What a measurement depends on.
SETTINGS = (
    *("machine", "device", "op", "dtype", "size", "mode", "repeat"),
    *("workload", "run", "sampling", "threads", "start", "seed"),
)
# Inductor compiles in the job's own process: a pool that starts up beside the job would disturb what it measures. What
# it tries when it tunes is compiled by threads of that process (kernelbench.harness.runners.compile).
COMPILE_WORKERS = 1


def variables(settings: dict, gpu: str) -> dict[str, str]:
    """Return the environment variables of a job's process that must be set before Python or torch starts.

    gpu: the UUID of the one GPU that the job sees; "cpu": it sees none. The hash seed is that of the repeat: all modes
    of a repeat share it, repeats differ, as their memory layouts do.
    """
    seed = hashlib.sha256(f"{settings['seed']}/{settings['repeat']}".encode()).digest()
    threads = str(settings["threads"])
    return {
        "CUDA_VISIBLE_DEVICES": "" if gpu == "cpu" else gpu,
        cuda.NAMED: "" if gpu == "cpu" else gpu,
        # One queue of work in place of eight: a job has one stream, and the more a context makes in the driver, the
        # longer the jobs of a host wait for one another.
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": "1",  # NumPy's own threads would start at its import, before a fork.
        "PYTHONHASHSEED": str(int.from_bytes(seed[:4], "big")),
        # No locale is taken over: torch reads files of its own in the locale's encoding, which may be ASCII.
        "PYTHONUTF8": "1",
        "PYTHONCOERCECLOCALE": "0",  # Else Python sets LC_CTYPE by itself.
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # Else an import opens the GPU, after which a fork cannot use it.
        "TORCHINDUCTOR_COMPILE_THREADS": str(COMPILE_WORKERS),
    }


def main(request: dict, result: int) -> None:
    """Measure in this process; leave the record, as far as it gets, in the file of descriptor `result`.

    request: {settings, place, cores (the host cores that the process keeps to), scratch (its temporary directory),
    headers (`caches.confine_headers`), starter (the id of the process that waits for it)}.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # It must not go on when nobody waits for it.
    if os.getppid() != request["starter"]:  # Nobody did already.
        sys.exit("the process that started this job is gone")
    os.sched_setaffinity(0, request["cores"])
    os.environ["TMPDIR"] = tempfile.tempdir = request["scratch"]
    caches.confine_headers(request["headers"])
    from kernelbench.harness import record
    from kernelbench.harness.measure import measure

    entry = measure(request["settings"], request["place"], lambda entry: _publish(entry, result))
    wrong = record.problem(entry)
    if wrong:
        raise ValueError(wrong)
    _publish(entry, result)


def _publish(entry: dict, result: int) -> None:
    """Append the record as a line: the last whole line is how far the job got."""
    text = json.dumps(entry, allow_nan=False) + "\n"
    with open(result, "a", encoding="utf-8", closefd=False) as stream:
        stream.write(text)


def finish(code: int) -> None:
    """End the process at once: what torch tears down at exit takes longer than the end of a process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(json.load(sys.stdin), int(sys.argv[1]))
    finish(0)
