"""Artefacts of a compilation: the FX graph, Inductor's IR before and after fusion, and the code that it generated."""

import tempfile
from pathlib import Path

from kernelbench.errors import InputError
from kernelbench.harness import caches
from kernelbench.harness.measure import first_call
from kernelbench.harness.workload import Unsupported

# Our names, with those that Inductor's trace gives them.
ARTEFACTS = {
    "graph.py": "fx_graph_readable.py",
    "before_fusion.txt": "ir_pre_fusion.txt",
    "after_fusion.txt": "ir_post_fusion.txt",
    "code.py": "output_code.py",
}


def save(settings: dict, output: Path) -> None:
    """Compile as the job of `settings` does and write the ARTEFACTS below `output`, each of all its graphs.

    Raises InputError where the job cannot run here, or compiles nothing with Inductor.
    """
    import torch._inductor.config as inductor

    with caches.fresh(), tempfile.TemporaryDirectory() as root:
        with inductor.patch({"trace.enabled": True, "trace.debug_dir": root}):
            try:
                first_call(settings)
            except Unsupported as error:
                raise InputError(f"{settings['op']} {settings['mode']}: {error}; allowed: what can run here") from None
        output.mkdir(parents=True, exist_ok=True)
        for name, traced in ARTEFACTS.items():
            graphs = sorted(Path(root).rglob(traced))
            if not graphs:
                raise InputError(f"{settings['op']} {settings['mode']}: no {traced}; allowed: what Inductor compiles")
            texts = (graph.read_text(encoding="utf-8").replace(root, "") for graph in graphs)
            (output / name).write_text("\n\n".join(texts), encoding="utf-8")
