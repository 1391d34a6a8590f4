"""The files that the documents are made from."""

import json
from pathlib import Path

from kernelbench.paper.results import CAPTIONS


def read(path: Path):
    """Return the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def shown(folder: Path) -> dict[str, str]:
    """Return the paths of a folder's figures by name, in their order; typst takes one from the top after a slash."""
    return {name: f"/{folder.as_posix()}/{name}.svg" for name in CAPTIONS if (folder / f"{name}.svg").is_file()}
