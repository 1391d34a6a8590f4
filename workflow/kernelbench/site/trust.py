"""How far each study can be trusted: its gate, its control, its host and its clocks, as rows of tables."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from kernelbench import numbers
from kernelbench.analysis.studies import Studies
from kernelbench.paper.provenance import machine
from kernelbench.records.job_table import compare_clocks, find_slowed
from kernelbench.records.job_table import read as read_jobs
from kernelbench.site.cells import device_of
from kernelbench.study.cells import ARM

# The metrics whose control is shown.
CONTROLLED = ("latency", "throughput", "device", "host", "first_call")


def assess(studies: Studies, data: dict[str, Path], defects: list[dict]) -> Iterator[dict]:
    """Yield of each study {label, device, jobs, doubtful, defects, control, slow_host, clocks, machine}.

    data: by label the directory with its samples.parquet and jobs.parquet; defects: the content of defects.json.
    control: by metric {p95, passes}, where it was measured; machine: (name, value) pairs.
    """
    for document in studies.documents:
        study, suspects = document["study"], document["jobs"]["suspects"]
        directory = data[study["machine"]]
        yield {
            "label": study["machine"],
            "device": device_of(document),
            "jobs": numbers.number(document["environment"]["jobs"]),
            "doubtful": " of ".join(numbers.number(suspects[key]) for key in ("jobs", "of"))
            if suspects
            else numbers.BLANK,
            "defects": [defect["what"] for defect in defects if Path(defect["study"]).name == directory.name],
            "control": {
                metric: {"p95": numbers.percent(found["p95"]), "passes": found["supports_delta"]}
                for metric, found in document["control"].items()
            },
            "slow_host": _find_slow_host(directory / "samples.parquet"),
            "clocks": _find_clocks(directory / "jobs.parquet", study["equivalence"]),
            "machine": [(name, value) for name, value in machine(document) if value],
        }


def _find_slow_host(samples: Path) -> str:
    """Return the share of the samples that were taken while the host was slow."""
    flags = pd.read_parquet(samples, columns=["flag"])["flag"]
    return numbers.percent(float(flags.eq("slow host").mean()))


def _find_clocks(path: Path, margins: dict) -> str:
    """Return in how many cells and modes single calls ran at a lower SM clock, by more than δ, and the lowest one."""
    jobs = read_jobs(path)
    clocks = compare_clocks(jobs, "single").dropna()
    if clocks.empty:
        return numbers.BLANK
    slowed = find_slowed(jobs, margins.get("device", margins["default"]), "single")
    lowest = f", at {numbers.percent(float(clocks.min()))} of the clock" if slowed.any() else ""
    return f"{slowed.sum()} of {jobs.groupby(ARM).ngroups}{lowest}"
