"""Which files this process reads: an audit hook sees each one that Python opens.

safetensors opens its files by itself, unseen; its `safe_open` is watched apart.
"""

import os
import sys
from functools import cache, wraps
from importlib.util import find_spec
from pathlib import Path

from kernelbench.harness.object_graph import is_installed

# Folders of the system and of Python, whose files no model is made of, and folders of compilers' caches.
FOLDERS = ("/proc", "/sys", "/dev", "/etc", "/usr", "/lib", "/lib64", "/run", sys.prefix, sys.base_prefix)
SYSTEM = tuple(Path(folder).resolve() for folder in FOLDERS)
CACHES = ("__pycache__", ".triton", "torchinductor_")

_read: set[str] = set()
_written: set[str] = set()


def start() -> None:
    """Forget what was read, and watch from now on."""
    _watch()
    _read.clear()
    _written.clear()


def list_data() -> list[Path]:
    """Return the files that were read since `start`, or looked for in vain: no module, and nothing installed."""
    modules = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
    paths = {Path(name).resolve() for name in _read - _written if name not in modules}
    return sorted(path for path in paths if _is_data(path) and not is_installed(path) and not _is_of_system(path))


def _is_data(path: Path) -> bool:
    return path.is_file() or (path.parent.is_dir() and not path.exists())


def _is_of_system(path: Path) -> bool:
    return any(folder in path.parents for folder in SYSTEM) or any(part.startswith(CACHES) for part in path.parts)


@cache
def _watch() -> None:
    """Install the hook, which no process can take back."""
    sys.addaudithook(_note)
    if find_spec("safetensors"):
        import safetensors

        safetensors.safe_open = _noting(safetensors.safe_open)


def _note(event: str, arguments: tuple) -> None:
    if event == "ctypes.dlopen" and "/" in str(arguments[0]):
        arguments = (arguments[0], None, 0)
    elif event != "open":
        return
    if not isinstance(arguments[0], str | bytes | os.PathLike):
        return
    path, mode, flags = arguments
    writes = set(mode) & set("wax+") if mode else (flags or 0) & (os.O_WRONLY | os.O_RDWR)
    (_written if writes else _read).add(os.path.abspath(os.fsdecode(path)))


def _noting(opening):
    @wraps(opening)
    def safe_open(filename, *arguments, **named):
        _read.add(os.path.abspath(os.fsdecode(filename)))
        return opening(filename, *arguments, **named)

    return safe_open
