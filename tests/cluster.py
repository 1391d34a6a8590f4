"""A SLURM of one node and one fake GPU, of this user and beside whatever SLURM the machine has."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from checkout import PATIENCE

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
# Debian keeps daemons where a user's PATH does not look.
SEARCH = os.pathsep.join([os.environ["PATH"], "/usr/local/sbin", "/usr/sbin", "/sbin"])

SLURM_CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={home}/munge.socket
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.pid
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=64000 Gres=gpu:h200:1
PartitionName=main Nodes=ALL Default=YES State=UP
"""
GRES_CONF = "Name=gpu Type=h200 File=/dev/null\n"


def missing() -> list[str]:
    """Return the programs of SLURM that are not installed."""
    return [name for name in PROGRAMS if not shutil.which(name, path=SEARCH)]


class Cluster:
    """The running daemons; `environment` makes SLURM's commands talk to them."""

    def __init__(self):
        # Short, since a socket's path may have 107 characters, and open, since munge asks for that.
        self.home = Path(tempfile.mkdtemp(prefix="slurm-"))
        self.home.chmod(0o755)
        path = os.pathsep.join([str(self.home / "bin"), SEARCH])
        self.environment = {**os.environ, "PATH": path, "SLURM_CONF": str(self.home / "slurm.conf")}
        self.daemons = []

    def __enter__(self) -> "Cluster":
        try:
            self._configure()
            self._start("munged", "--foreground", "--force", f"--socket={self.home}/munge.socket",
                        f"--key-file={self.home}/key", f"--pid-file={self.home}/munged.pid",
                        f"--seed-file={self.home}/seed")  # fmt: skip
            self._wait_for("munge", "--no-input", f"--socket={self.home}/munge.socket")
            self._start("slurmctld", "-D")
            self._start("slurmd", "-D")
            self._wait_for("srun", "--gpus=1", "true")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait()
        shutil.rmtree(self.home)

    def command(self, *arguments: str) -> str:
        """Run a command of SLURM and return what it printed."""
        return subprocess.run(arguments, env=self.environment, capture_output=True, text=True, check=True).stdout

    def jobs(self) -> dict[int, dict[str, str]]:
        """Return what SLURM knows of every job submitted so far, by number."""
        lines = self.command("scontrol", "--oneliner", "show", "jobs").splitlines()
        jobs = [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in lines]
        return {int(job["JobId"]): job for job in jobs}

    def _configure(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
            ports = [s.getsockname()[1] for s in (one, two)]
        user = self.command("id", "-un").strip()
        host = socket.gethostname().split(".")[0]
        text = SLURM_CONF.format(home=self.home, ports=ports, user=user, host=host)
        (self.home / "slurm.conf").write_text(text)
        (self.home / "gres.conf").write_text(GRES_CONF)
        # Within an allocation the executor drops every variable of SLURM's but a few, and so SLURM_CONF.
        srun = self.home / "bin" / "srun"
        srun.parent.mkdir()
        srun.write_text(f'#!/bin/sh\nSLURM_CONF={self.home}/slurm.conf exec {shutil.which("srun")} "$@"\n')
        srun.chmod(0o755)
        (self.home / "key").write_bytes(os.urandom(1024))
        (self.home / "key").chmod(0o600)

    def _start(self, program: str, *arguments: str) -> None:
        with (self.home / f"{program}.log").open("w") as log:
            command = [program, *arguments]
            self.daemons.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log))

    def _wait_for(self, *command: str) -> None:
        """Return once `command` succeeds, which says that the daemon behind it is up."""
        deadline = time.monotonic() + PATIENCE
        while subprocess.run(command, env=self.environment, capture_output=True, timeout=PATIENCE).returncode:
            logs = "\n".join(f"{path}:\n{path.read_text()}" for path in self.home.glob("*.log"))
            assert all(daemon.poll() is None for daemon in self.daemons), logs
            assert time.monotonic() < deadline, logs
            time.sleep(0.2)
