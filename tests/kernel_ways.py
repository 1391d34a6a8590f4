"""Which kernels start on an A100 and on a T4 for each cell of the studies, and the shared memory that they take.

A process of its own, in which Triton compiles rather than interprets: python tests/kernel_ways.py [compile]. It prints
a line of JSON for each launch that differs from the others: the GPU and a cell that has it. With `compile` it compiles
some of them, and the line has the bytes of shared memory, or why it does not compile.
"""

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import torch
from test_kernels_compile import GPUS, launch_for, source

from kernelbench.harness.dtypes import DTYPES
from kernelbench.study import yaml_files
from kernelbench.study.study import Study

ROOT = Path(__file__).parents[1]
OLDER = (80, 75)


def cells():
    """Yield (workload, size, dtype) of each cell of a study that has the hand-written kernels; of a draw, all sizes."""
    for path in (ROOT / "config.yaml", *sorted((ROOT / "workflow" / "studies").glob("*.yaml"))):
        config = {**yaml_files.read(path), "machine": "a100", "recorded": []}
        config.pop("verify", None)
        for entry in config["ops"].values():
            entry.pop("draw", None)
        study = Study(config, here=False)
        kernels = [mode for mode, entry in study.modes.items() if entry["runner"] == "kernel"]
        for job in study.jobs_of(0):
            if job.mode in kernels:
                yield study.workloads[job.cell.op], job.cell.size, job.cell.dtype


def launches() -> dict[tuple, tuple]:
    """Return the different launches: {(GPU, kernel, constants): (GPU, workload, size, dtype)}."""
    found = {}
    for cell in cells():
        for gpu in OLDER:
            with pytest.MonkeyPatch.context() as patch:
                kernel, arguments, options = started(gpu, *cell, patch)
            made = source(kernel, arguments)
            found.setdefault((gpu, made.hash(), str(options)), (gpu, *cell))
    return found


def started(gpu, workload, size, dtype, patch):
    """Return the kernel, arguments and options with which the cell would start on that GPU."""
    kind = DTYPES[dtype]
    shapes = workload.shapes(size, kind.itemsize).items()
    given = {name: torch.empty(shape, dtype=getattr(torch, kind.storage), device="meta") for name, shape in shapes}
    tensors = list(workload.lay_out(given).values())
    return launch_for(gpu, workload._name, tensors, getattr(workload, "causal", False), patch)


def shared(cell: tuple) -> int | str:
    """Return the bytes of shared memory that a cell's kernel takes, or why it does not compile."""
    import triton
    from triton.backends.compiler import GPUTarget

    with pytest.MonkeyPatch.context() as patch:
        kernel, arguments, options = started(*cell, patch)
    try:
        compiled = triton.compile(source(kernel, arguments), target=GPUTarget("cuda", cell[0], 32), options=options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return compiled.metadata.shared


def main() -> None:
    chosen = list(launches().values())
    taken = [None] * len(chosen)
    if sys.argv[1:] == ["compile"]:
        # All of them take a quarter of an hour; test_kernels_compile.py has the tiles of each table.
        chosen = chosen[::8]
        with ProcessPoolExecutor(min(4, os.cpu_count())) as pool:
            taken = pool.map(shared, chosen, chunksize=4)
    for (gpu, workload, size, dtype), found in zip(chosen, taken, strict=True):
        told = {"gpu": gpu, "op": workload._name, "size": size, "dtype": dtype, "shared": found, "limit": GPUS[gpu][2]}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
