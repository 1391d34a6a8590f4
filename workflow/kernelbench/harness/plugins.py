"""Things that are added as a file of a package, found by the file's name: workloads and runners."""

import pkgutil
from importlib import import_module
from types import ModuleType

from kernelbench.errors import InputError, nearest


def names(package: ModuleType) -> list[str]:
    """Return the names of the files of `package`."""
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__))


def load(package: ModuleType, kind: str, name: str):
    """Return the WORKLOAD or RUNNER, by `kind`, of the file `name`.py; raise InputError for an unknown name."""
    known = names(package)
    if name not in known:
        raise InputError(f"{kind} {name} is not known{nearest(name, known)}; allowed: {', '.join(known)}")
    return getattr(import_module(f"{package.__name__}.{name}"), kind.upper())
