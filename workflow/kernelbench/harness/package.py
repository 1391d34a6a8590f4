"""A package that is not among those of the environment."""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from kernelbench.harness.workload import Unsupported
from kernelbench.notes import NotImportable, NotInstalled


@dataclass(frozen=True)
class Package:
    """Its name, the module to import, and an extra to install or the file of envs/ that pins it."""

    distribution: str
    module: str
    extra: str = ""
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
        return f"pip install '{self.distribution}[{self.extra}]'" if self.extra else f"pip install {self.distribution}"
