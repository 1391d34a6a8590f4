"""Set-up: what is missing is said in one line, the lock is whole, a second make does nothing."""

import ast
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
INSTALL = ROOT / "envs" / "install.py"


@pytest.fixture
def install():
    spec = importlib.util.spec_from_file_location("install", INSTALL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_install(venv, **environment):
    return subprocess.run(
        [sys.executable, INSTALL, venv],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )


# What a machine lacks


def fake_python(*version):
    return lambda patch, install: patch.setattr(install.sys, "version_info", version)


def fake_system(patch, install):
    patch.setattr(install.sys, "platform", "darwin")


def fake_no_compiler(patch, install):
    patch.setenv("CXX", "no-such-compiler")


def fake_no_headers(patch, install):
    patch.setattr(install.sysconfig, "get_path", lambda name: "/nowhere")


def fake_no_ensurepip(patch, install):
    patch.setattr(install.importlib.util, "find_spec", lambda name: name != "ensurepip")


def fake_full_disk(patch, install):
    patch.setattr(install.shutil, "disk_usage", lambda path: SimpleNamespace(free=1.5e9))


@pytest.mark.parametrize(
    ("fake", "said"),
    [
        (fake_python(3, 10, 13), r"3\.11 to 3\.13, this is 3\.10; .*make PYTHON=python3\.12"),
        (fake_python(3, 14, 0), r"3\.11 to 3\.13, this is 3\.14; .*make PYTHON=python3\.12"),
        (fake_system, "needs Linux.*darwin"),
        (fake_no_compiler, r"C\+\+ compiler, and no-such-compiler is not on PATH"),
        (fake_no_headers, r"needs /nowhere/Python\.h"),
        (fake_no_ensurepip, r"no ensurepip; install it"),
        (fake_full_disk, r"needs [37]\.0 GB in .*, which has 1\.5 GB free"),
    ],
)
def test_a_missing_thing_is_one_line_and_a_failure(install, monkeypatch, capsys, tmp_path, fake, said):
    monkeypatch.setattr(install.sys, "argv", ["install.py", str(tmp_path / "venv")])
    monkeypatch.setattr(install, "install", lambda venv: pytest.fail("it went on to install"))
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as end:
        fake(patch, install)
        install.main()
    assert re.search(said, end.value.code)  # a text as exit code: printed to stderr, exit status 1
    assert len(end.value.code.splitlines()) == 1
    assert not (tmp_path / "venv").exists()


def test_a_machine_without_compiler_fails_as_a_process(tmp_path):
    done = run_install(tmp_path / "venv", PATH=str(tmp_path), CXX="")
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.fullmatch(r"set-up: .*g\+\+ is not on PATH.*\n", done.stderr)


def test_an_old_python_can_read_the_script():
    ast.parse(INSTALL.read_text(encoding="utf-8"), feature_version=(3, 6))


# Why pip failed


@pytest.mark.nightly
def test_an_unreachable_index_is_one_line(tmp_path):
    done = run_install(
        tmp_path / "venv",
        PIP_CONFIG_FILE="/dev/null",
        PIP_INDEX_URL="http://127.0.0.1:9/simple",
        PIP_EXTRA_INDEX_URL="",
        PIP_FIND_LINKS="",
        PIP_RETRIES="0",
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "index cannot be reached" in done.stderr
    assert str(tmp_path / "venv" / "install.log") in done.stderr


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("ERROR: Could not install: [Errno 28] No space left on device", "disk is full"),
        ("WARNING: Retrying after connection broken by 'x'", "index cannot be reached; is there"),
        ("ERROR: No matching distribution found for torch==2.13.0", "has no torch==2.13.0"),
        ("Collecting a\nERROR: one\n  error: the last\n", "the last"),
        ("", "no reason"),
    ],
)
def test_other_failures_of_pip(install, log, said):
    assert said in install.explain(log)


# The lock


def requirements(name):
    lines = (ROOT / "envs" / name).read_text(encoding="utf-8").splitlines()
    found = [Requirement(text) for line in lines if (text := line.split("#")[0].strip())]
    return {canonicalize_name(r.name): r for r in found}


def pins(name):
    """Name to version; fails on a line that is not one exact version."""
    found = {}
    for key, requirement in requirements(name).items():
        (pin,) = requirement.specifier
        assert pin.operator == "==" and "*" not in pin.version, str(requirement)
        found[key] = pin.version
    return found


def test_the_lock_pins_what_was_asked_for():
    asked, lock = requirements("requirements.in"), requirements("requirements.txt")
    for name, requirement in asked.items():
        assert name in lock
        assert requirement.specifier.contains(pins("requirements.txt")[name])
        assert requirement.marker == lock[name].marker


def needs(name, extras):
    """What an installed distribution requires on this machine, with the extras asked for."""
    for text in importlib.metadata.requires(name) or []:
        requirement = Requirement(text)
        contexts = [{"extra": extra} for extra in ("", *extras)]
        if not requirement.marker or any(requirement.marker.evaluate(c) for c in contexts):
            yield requirement


def test_the_lock_is_whole_and_is_what_is_installed():
    pinned = {**pins("requirements.txt"), **pins("constraints-cuda.txt")}
    todo = [r for r in requirements("requirements.txt").values() if not r.marker or r.marker.evaluate()]
    seen = set()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        if (name, *sorted(requirement.extras)) in seen:
            continue
        seen.add((name, *sorted(requirement.extras)))
        assert name in pinned, f"{requirement} is needed and not in the lock"
        version = importlib.metadata.version(name).split("+")[0]  # 2.13.0+cpu is build, not version
        assert version == pinned[name], f"{name} {version} is installed; run make"
        todo += needs(name, requirement.extras)


# make


@pytest.fixture
def checkout(tmp_path):
    """The files of set-up, in a path with a space, and a Python that only notes its call."""
    root = tmp_path / "a checkout"
    shutil.copytree(ROOT / "envs", root / "envs", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    (root / "python").write_text('#!/bin/sh\necho "$@" >> calls\nmkdir -p "$2"\nexit "${FAIL:-0}"\n')
    (root / "python").chmod(0o755)
    return root


def make(checkout, *arguments, **environment):
    # MAKEFLAGS and VENV of the make that started this test would reach into this one.
    outer = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "VENV")}
    return subprocess.run(
        ["make", "PYTHON=./python", *arguments],
        cwd=checkout,
        env={**outer, **environment},
        capture_output=True,
        text=True,
    ).returncode


def calls(checkout):
    return (checkout / "calls").read_text().splitlines()


def test_a_second_make_installs_nothing(checkout):
    assert make(checkout) == 0
    assert make(checkout, "setup") == 0
    assert calls(checkout) == ["envs/install.py .venv"]
    assert make(checkout, "-q", "setup") == 0


@pytest.mark.parametrize(
    "name",
    ["envs/requirements.txt", "envs/constraints-cuda.txt", "envs/install.py", "pyproject.toml"],
)
def test_a_changed_lock_installs_again(checkout, name):
    assert make(checkout) == 0
    later = (checkout / ".venv" / ".installed").stat().st_mtime + 1
    os.utime(checkout / name, (later, later))
    assert make(checkout, "-q", "setup") == 1


def test_a_failed_setup_is_done_again(checkout):
    assert make(checkout, FAIL="1") != 0
    assert make(checkout) == 0
    assert len(calls(checkout)) == 2


def test_the_packages_import_from_anywhere(tmp_path):
    code = "import importlib.util as u; print(*(u.find_spec(n).origin for n in %r), sep='\\n')"
    names = ["kernelbench", "kernels"]
    done = subprocess.run([sys.executable, "-c", code % names], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, "the project is not installed here; run make"
    homes = [Path(line).parent for line in done.stdout.splitlines()]
    assert homes == [ROOT / "workflow" / "kernelbench", ROOT / "kernels"]
