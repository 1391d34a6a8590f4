"""Save what the compilation of one job makes: graph, IR before and after fusion, generated code."""

import argparse
import json
import tempfile
from pathlib import Path

from kernelbench.errors import InputError, run
from kernelbench.running import gpu_lanes, job_process

# The names that Inductor's trace gives the artefacts, by ours.
TRACED = {
    "graph.py": "fx_graph_readable.py",
    "before_fusion.txt": "ir_pre_fusion.txt",
    "after_fusion.txt": "ir_post_fusion.txt",
    "code.py": "output_code.py",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=json.loads, required=True, help="all of the job as JSON")
    parser.add_argument("--output", type=Path, nargs="+", required=True, help=f"files named {', '.join(TRACED)}")
    arguments = parser.parse_args()
    gpu = gpu_lanes.find_gpu(0, arguments.settings["device"])
    job_process.enter_environment(arguments.settings, gpu)
    with gpu_lanes.hold(gpu), tempfile.TemporaryDirectory() as root:
        compile_traced(arguments.settings, root)
        for path in arguments.output:
            graphs = sorted(Path(root).rglob(TRACED[path.name]))
            if not graphs:
                raise InputError(f"{name(arguments.settings)}: no {path.name}; allowed: what Inductor compiles")
            texts = (graph.read_text(encoding="utf-8").replace(root, "") for graph in graphs)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n\n".join(texts), encoding="utf-8")


def compile_traced(settings: dict, root: str) -> None:
    """Compile as the job of `settings` does, and have Inductor leave its trace below `root`."""
    import torch._inductor.config as inductor

    from kernelbench.harness import caches
    from kernelbench.harness.measure import first_call
    from kernelbench.harness.workload import Unsupported

    with caches.fresh(), inductor.patch({"trace.enabled": True, "trace.debug_dir": root}):
        try:
            first_call(settings)
        except Unsupported as error:
            raise InputError(f"{name(settings)}: {error}; allowed: what can run here") from None


def name(settings: dict) -> str:
    return f"{settings['op']} {settings['mode']}"


if __name__ == "__main__":
    run(main)
