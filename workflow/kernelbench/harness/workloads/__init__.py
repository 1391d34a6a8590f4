"""The operations that can be measured, one file each; `load` finds them by file name."""

import pkgutil
from importlib import import_module

from kernelbench.errors import InputError, nearest


def load(name: str) -> type:
    """Return the `Workload` class of the file `name`.py; raise InputError for an unknown name."""
    known = sorted(module.name for module in pkgutil.iter_modules(__path__))
    if name not in known:
        hint = nearest(name, known)
        raise InputError(f"workload {name} is not known{hint}; allowed: {', '.join(known)}")
    return import_module(f"{__name__}.{name}").WORKLOAD
