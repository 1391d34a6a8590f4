"""A package that is not among those of the environment."""

import shlex
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from kernelbench.harness.workload import Unsupported
from kernelbench.notes import NotImportable, NotInstalled


@dataclass(frozen=True)
class Package:
    """Its name, the module to import, and an extra and a version to install or the file of envs/ that pins it.

    version: as in ">=4.0.0b1", which lets pip take a pre-release of this package and of no other.
    """

    distribution: str
    module: str
    extra: str = ""
    version: str = ""
    requirements: str = ""

    def require(self) -> None:
        """Import it; raise Unsupported, with the line that installs it, where it is missing or cannot be imported."""
        if not find_spec(self.module.partition(".")[0]):
            raise Unsupported(NotInstalled(self.distribution, self.install))
        try:
            import_module(self.module)
        except Exception as error:  # Of no particular type where a package was built for another torch.
            said = " ".join(str(error).split())[:150]
            raise Unsupported(NotImportable(self.distribution, said, self.install)) from None

    @property
    def install(self) -> str:
        """The line that installs it."""
        if self.requirements:
            return f"pip install -r {self.requirements}"
        wanted = self.distribution + (f"[{self.extra}]" if self.extra else "") + self.version
        return f"pip install {shlex.quote(wanted)}"
