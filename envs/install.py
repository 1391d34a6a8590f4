"""Make a virtual environment from the lock: python3 envs/install.py .venv

Whatever is in the way is said in one line: what a machine lacks before anything is installed, and
why pip failed (its log stays in the environment, as install.log).

Only the standard library, and syntax that Python 3.6 reads, so that an old Python gets the message
and not a SyntaxError.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OLDEST, NEWEST = (3, 11), (3, 13)  # what the lock has wheels for
GB = 1e9
CPU_BUILD, CUDA_BUILD = 3 * GB, 7 * GB  # measured: 2.5 and 5.6 on disk, and some air


def check_system():
    if not sys.platform.startswith("linux"):
        return f"KernelBench needs Linux (Triton has no other wheels); this is {sys.platform}"


def check_python():
    this = tuple(sys.version_info[:2])
    if not OLDEST <= this <= NEWEST:
        return "the lock supports Python {}.{} to {}.{}, this is {}.{}; name another: {}".format(
            *OLDEST, *NEWEST, *this, "make PYTHON=python3.12"
        )


def check_venv():
    missing = [name for name in ("venv", "ensurepip") if not importlib.util.find_spec(name)]
    if missing:
        return "this Python has no {}; install it (Debian: python{}.{}-venv)".format(
            " and no ".join(missing), *sys.version_info[:2]
        )


def check_headers():
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    if not os.path.exists(header):
        return "torch.compile needs {}; install it (Debian: python{}.{}-dev)".format(header, *sys.version_info[:2])


def check_compiler():
    # g++ or $CXX is where Inductor looks too: an unnamed clang++ would be found here and not there.
    name = os.environ.get("CXX") or "g++"
    if not shutil.which(name):
        return (
            f"torch.compile needs a C++ compiler, and {name} is not on PATH; "
            "install g++, or name yours: export CXX=clang++"
        )


def check_disk(venv):
    if os.path.isdir(venv):
        return None  # most of it may be there already; if not, pip's failure says so
    has_gpu = shutil.which("nvidia-smi") or os.path.exists("/dev/nvidiactl")
    need = CUDA_BUILD if has_gpu else CPU_BUILD
    have = shutil.disk_usage(ROOT).free
    if have < need:
        return f"the install needs {need / GB:.1f} GB in {ROOT}, which has {have / GB:.1f} GB free"


def problems(venv):
    """What this machine lacks, one line each."""
    checks = [
        check_system(),
        check_python(),
        check_venv(),
        check_headers(),
        check_compiler(),
        check_disk(venv),
    ]
    return [line for line in checks if line]


def explain(log):
    """Why pip failed, in one line, from what it printed."""
    if "No space left on device" in log:
        return "the disk is full (the environment, the temporary files or pip's cache)"
    unreachable = r"connection broken by|Max retries exceeded|name resolution|timed out"
    if re.search(unreachable, log):
        return "the package index cannot be reached; is there a network, or a proxy to set?"
    missing = re.search(r"No matching distribution found for (\S+)", log)
    if missing and "(from versions: none)" in log:  # all that pip says without retries
        return f"the package index cannot be reached, or has no {missing.group(1)} for this machine"
    if missing:
        return f"the package index has no {missing.group(1)} for this Python and machine"
    errors = re.findall(r"^\s*(?:ERROR|error): (.*)", log, re.MULTILINE)
    return errors[-1] if errors else "pip gave no reason"


def run(command, log):
    """Run a step of the install with its output appended to the log, or end with one line."""
    with open(log, "ab") as sink:
        start = sink.tell()
        status = subprocess.call(command, cwd=ROOT, stdout=sink, stderr=subprocess.STDOUT)
    if status:
        with open(log, encoding="utf-8", errors="replace") as source:
            source.seek(start)
            sys.exit(f"set-up failed: {explain(source.read())} (all of it: {log})")


def install(venv):
    os.makedirs(venv, exist_ok=True)
    log = os.path.join(venv, "install.log")
    print(f"installing the lock into {venv}: one to two minutes after the download; log: {log}")
    sys.stdout.flush()
    run([sys.executable, "-m", "venv", venv], log)
    pip = [os.path.join(venv, "bin", "python"), "-m", "pip", "--disable-pip-version-check"]
    lock = ["-r", "envs/requirements.txt", "-c", "envs/constraints-cuda.txt"]
    run([*pip, "install", *lock], log)
    run([*pip, "install", "--no-build-isolation", "--no-deps", "-e", "."], log)


def main():
    venv = os.path.abspath(sys.argv[1])
    found = problems(venv)
    if found:
        sys.exit("\n".join("set-up: " + line for line in found))
    try:
        install(venv)
    except KeyboardInterrupt:
        sys.exit("set-up interrupted; the next make goes on with it")


if __name__ == "__main__":
    main()
