"""Save what the compilation of one job makes: graph, IR before and after fusion, generated code."""

import argparse
import json
import os
from pathlib import Path

from kernelbench.errors import run
from kernelbench.harness import child, environment
from kernelbench.running import gpu_lanes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=json.loads, required=True, help="all of the job as JSON")
    parser.add_argument("--output", type=Path, required=True, help="the directory that the files go to")
    arguments = parser.parse_args()
    gpu = gpu_lanes.find_gpu(0, arguments.settings["device"])
    # As a job's process has it, before torch is imported.
    variables = environment.build(os.environ, child.variables(arguments.settings, gpu))
    os.environ.clear()
    os.environ |= variables
    from kernelbench.running.artefacts import save

    with gpu_lanes.hold(gpu):
        save(arguments.settings, arguments.output)


if __name__ == "__main__":
    run(main)
