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
    """Compile as the job of `settings` does and write the ARTEFACTS of all its graphs below `output`."""
    import torch._inductor.config as inductor

    job = f"{settings['op']} {settings['mode']}"
    trace = tempfile.TemporaryDirectory()
    with caches.fresh(), trace as root, inductor.patch({"trace.enabled": True, "trace.debug_dir": trace.name}):
        try:
            first_call(settings)
        except Unsupported as error:
            raise InputError(f"{job}: {error}; allowed: what can run here") from None
        output.mkdir(parents=True, exist_ok=True)
        for name, traced in ARTEFACTS.items():
            graphs = [path.read_text(encoding="utf-8").replace(root, "") for path in sorted(Path(root).rglob(traced))]
            if not graphs:
                raise InputError(f"{job}: no {traced}; allowed: what Inductor compiles")
            (output / name).write_text("\n\n".join(graphs), encoding="utf-8")
