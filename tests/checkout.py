"""A copy of the checkout in which a test may run, change and break things."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import yaml

ROOT = Path(__file__).parents[1]
# The directories that runs and tools make anywhere in a checkout.
MADE = {".git", ".snakemake", ".venv", "__pycache__", "build", ".pytest_cache", ".ruff_cache"}

# How long (s) a test waits for what is to come before it fails: a busy host takes its time.
PATIENCE = 300

# A study of seconds: two ops, and one mode that cannot run on a CPU. What compiles stops short of Inductor, whose C++
# takes ten seconds a job; test_start.py and test_compiler.py go all the way. Its limits are for a host that is busy: no
# warm-up ends before it settles, and no job is ended.
TINY = {
    "machine": "cpu-test",
    "seed": 1,
    "repeats": 2,
    "dtypes": ["float32"],
    "baselines": ["eager"],
    "ops": {"softmax": {"rows": 64, "sizes": [128]}, "copy": {"sizes": ["1MiB"], "modes": ["eager"]}},
    "modes": {
        "eager": {"runner": "eager"},
        "eager-control": {"runner": "eager"},
        "compile": {"runner": "compile", "backend": "aot_eager"},
        "triton": {"runner": "kernel", "devices": ["cuda"]},
    },
    "sampling": {
        "samples": 5,
        "min_samples": 3,
        "max_seconds": 0.1,
        "warmup_window": 2,
        "warmup_tolerance": 0.5,
        "warmup_max_seconds": 30,
    },
    "threads": 1,
    "start": "warm",
    "timeout": 900,
    "equivalence": {"default": 0.03},
    "recorded": [],
}

# What lets a job go on: a file `ticket` one of them, a file `open` all.
HELD = """
import os, time

while not os.path.exists("open"):
    try:
        os.remove("ticket")
        break
    except FileNotFoundError:
        time.sleep(0.02)
"""


def _sources() -> list[str]:
    """Return the project's files: what git knows or, where there is no git, all that no run makes."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True)
        names = filter(None, done.stdout.decode().split("\0"))
    except (OSError, subprocess.CalledProcessError):
        paths = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
        names = [str(path) for path in paths if not MADE & set(path.parts) and _is_source(path.parts)]
    return [name for name in names if (ROOT / name).is_file()]


def _is_source(parts: tuple[str, ...]) -> bool:
    return parts[0] != "results" or parts[1:2] in (("recorded",), ("README.md",))


def _is_wanted(parts: tuple[str, ...], recorded: tuple[str, ...]) -> bool:
    # The claims' names are those of all studies: their mappings alone are no data.
    return parts[:2] != ("results", "recorded") or parts[2] in recorded or parts[-1] == "study.yaml"


class Work(NamedTuple):
    """What a command did: the calls of functions in all its Pythons, and the most threads that one of them started."""

    calls: int
    threads: int


class Checkout:
    """A copy of the project's files at `path`, with commands that run in it.

    It has nothing that the project built and, of the recorded studies, only the data of those that `recorded` names.
    Its jobs take turns on a device with those of other copies that have the same `locks`, by default with none: no test
    waits for the jobs of another.
    """

    def __init__(
        self, path: Path, config: dict | None = None, recorded: tuple[str, ...] = (), locks: Path | None = None
    ):
        self.path = path
        self.locks = locks or path / ".locks"
        # What all processes of this copy inherit; a name of its own tells them from others.
        self.environment = {"KERNELBENCH_TEST": uuid4().hex}
        for name in _sources():
            if _is_wanted(Path(name).parts, recorded):
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, path / name)
        (path / "results" / "recorded").mkdir(parents=True, exist_ok=True)
        self.locks.mkdir(exist_ok=True)
        lanes = path / "workflow" / "kernelbench" / "running" / "gpu_lanes.py"
        before, found, after = lanes.read_text(encoding="utf-8").partition('LOCKS = Path("/tmp")')
        assert found, "the place of the locks is no longer said there"
        lanes.write_text(f"{before}LOCKS = Path({str(self.locks)!r}){after}", encoding="utf-8")
        if config:
            self.configure(config)

    def configure(self, config: dict) -> None:
        """Make `config` the study of this checkout."""
        (self.path / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")

    def hold(self) -> None:
        """Have each job wait until the test lets it through, see HELD."""
        script = self.path / "workflow" / "scripts" / "measure.py"
        script.write_text(HELD + script.read_text(encoding="utf-8"), encoding="utf-8")

    @property
    def variables(self) -> dict[str, str]:
        """All environment variables of a command in this copy: its library, not that of the checkout installed."""
        others = filter(None, [os.environ.get("PYTHONPATH")])
        library = os.pathsep.join([str(self.path / "workflow"), str(self.path), *others])
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return os.environ | {"PYTHONPATH": library, "PATH": path} | self.environment

    def start(self, *arguments: str, cores: int = 1, prepare=lambda: None, **options) -> subprocess.Popen:
        """Start Snakemake in a process group of its own; `prepare` runs in its process, options are Popen's."""
        return subprocess.Popen(
            # Targets come first: --resources would take them for its own.
            [sys.executable, "-m", "snakemake", *arguments, "--cores", str(cores), "--resources", "gpu=1"],
            cwd=self.path,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            # A test run started in the background may have Ctrl-C ignored, which children inherit.
            preexec_fn=lambda: (signal.signal(signal.SIGINT, signal.SIG_DFL), prepare()),
            **options,
        )

    def processes(self, *words: str) -> dict[int, str]:
        """Return the command lines, by id, of this copy's processes that have all `words` in them."""
        mark, found = f"KERNELBENCH_TEST={self.environment['KERNELBENCH_TEST']}", {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                environment = (path / "environ").read_bytes().decode(errors="replace").split("\0")
                command = (path / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            except OSError:  # It has ended, or is another user's.
                continue
            if mark in environment and all(word in command for word in words):
                found[int(path.name)] = command
        return found

    def assert_nothing_is_alive(self) -> None:
        """Wait until all processes of this copy have ended; fail the test where one goes on."""
        deadline = time.monotonic() + PATIENCE
        while alive := self.processes():
            assert time.monotonic() < deadline, f"still there: {alive}"
            time.sleep(0.05)

    def run(self, *arguments: str, cores: int = 1) -> str:
        """Run Snakemake to its end and return what it printed; fail the test where it fails."""
        process = self.start(*arguments, cores=cores)
        output = process.communicate()[0]
        assert process.returncode == 0, output
        return output

    def refuse(self, *arguments: str, **options) -> str:
        """Return the line with which Snakemake ends; fail the test where it does not fail, or shows a traceback."""
        process = self.start(*arguments, **options)
        output = process.communicate()[0]
        assert process.returncode == 1 and "Traceback" not in output, output
        return output.splitlines()[-1]

    def work(self, command: Callable[[], object]) -> Work:
        """Return what the Pythons of this copy did while `command` ran."""
        counting, counts = self.path / "sitecustomize.py", self.path / "counts"
        shutil.rmtree(counts, ignore_errors=True)
        shutil.copyfile(ROOT / "tests" / "counting.py", counting)
        try:
            command()
        finally:
            counting.unlink()
        found = [json.loads(path.read_text()) for path in counts.iterdir()]
        return Work(sum(one["calls"] for one in found), max(one["threads"] for one in found))

    def planned(self, *arguments: str) -> list[str]:
        """Return the records that a dry run would measure."""
        lines = self.run("--dry-run", *arguments).splitlines()
        return [line.split("output: ")[1] for line in lines if "output: " in line and "/records/" in line]

    def records(self) -> dict[str, float]:
        """Return the records that are there, with the time they were written."""
        return {str(p.relative_to(self.path)): p.stat().st_mtime for p in self.path.glob("results/*/records/**/*.json")}


def wait_for(found, process: subprocess.Popen | None = None):
    """Wait until `found()` is true and return it; fail the test where the process, if there is one, ends before."""
    deadline = time.monotonic() + PATIENCE
    while not (result := found()):
        assert process is None or process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)
    return result
