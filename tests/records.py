"""Records of jobs that never ran, for tests of the tables: every mode takes its time of TIMES."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from kernelbench import code_digest
from kernelbench.analysis.summary import summarize
from kernelbench.harness import record
from kernelbench.harness.child import PROTOCOL
from kernelbench.records.collect import collect
from kernelbench.study import machine
from kernelbench.study.study import Study

CONFIG = yaml.safe_load((Path(__file__).parents[1] / "config.yaml").read_text(encoding="utf-8"))
ENVIRONMENT = {
    "gpu": {"name": "NVIDIA H200", "uuid": "GPU-1", "memory": 1, "driver": "580"},
    "host": {"cpu": "X", "cores": 1, "kernel": "6"},
    "software": {"torch": "2", "triton": "3", "cuda": "13"},
    "variables": {},
}
TIMES = {"eager": 40.0, "eager-control": 40.0, "compile": 20.0, "triton": 80.0, "compile-arm": 18.0, "liger": 100.0}


def small_study(monkeypatch) -> Study:
    """Return two sizes of one op and a copy, four modes, five repeats, on a GPU."""
    monkeypatch.setattr(machine, "present", lambda: ("h200", "cuda", "NVIDIA H200"))
    ops = {"softmax": {"rows": 8, "sizes": [512, 1024]}, "copy": {"sizes": ["1MiB"], "modes": ["eager"]}}
    modes = {mode: CONFIG["modes"][mode] for mode in TIMES if mode in CONFIG["modes"]}
    return Study({**CONFIG, "ops": ops, "modes": modes, "repeats": 5, "recorded": []})


def write_records(study: Study, directory: Path, change=lambda job, entry: None) -> None:
    """Write a record of each job: the mode's time times a block effect of the repeat and a jitter of its own."""
    rng = np.random.default_rng(3)
    for place, job in enumerate(study.jobs):
        time = TIMES[job.mode] * (1 + 0.2 * job.repeat) * np.exp(rng.normal(0, 0.002))
        entry = _entry(study, job, place, float(time))
        change(job, entry)
        if entry["status"] != "ok":
            entry["samples"] = {}
        record.write(directory / job.path, entry)


def code_of(settings: dict) -> dict:
    """Return what a record of today says of the code that measured it."""
    return {"scheme": code_digest.SCHEME, "protocol": PROTOCOL, "files": code_digest.of_job(settings)}


def _entry(study: Study, job, place: int, time: float) -> dict:
    values = [time * jitter for jitter in (0.99, 1.0, 1.01, 5.0, 1.0)]
    microseconds = {"unit": "us", "values": values, "flags": ["", "", "", "outlier", ""]}
    workload = study.workloads[job.cell.op]
    return {
        "version": record.VERSION,
        **{key: study.settings(job)[key] for key in ("machine", "op", "dtype", "size", "mode", "repeat")},
        "status": "ok",
        "reason": None,
        "settings": study.settings(job),
        "code": code_of(study.settings(job)),
        "place": place,
        "started": f"2026-01-01T00:{place // 60:02d}:{place % 60:02d}+00:00",
        "seconds": {"wall": 1.0},
        "suspect": [],
        "samples": {
            "device": microseconds,
            "latency": microseconds,
            "throughput": microseconds,
            "first_call": {"unit": "s", "values": [time / 10], "flags": [""]},
            "peak_memory": {"unit": "MiB", "values": [8.0], "flags": [""]},
        },
        "seeds": [1, 2],
        "inputs": {},
        "work": {
            "flops": workload.flops(job.cell.size, 2),
            "bytes": workload.necessary_bytes(job.cell.size, 2),
            "bound": workload.bound,
        },
        "warm_up": {"values": [time] * 6, "settled": True},
        "floors": {"event_pair": 1.0, "empty_kernel": 2.5},
        "accuracy": {"ok": True, "checks": 4},
        "environment": json.loads(json.dumps(ENVIRONMENT)),
    }


def tables(study: Study, directory: Path):
    """Return (summary, speedups, document) of the records below `directory`."""
    samples, jobs, environment = collect(study, directory)
    samples.to_parquet(directory / "samples.parquet")
    jobs.to_parquet(directory / "jobs.parquet")
    (directory / "environment.json").write_text(json.dumps(environment))
    (directory / "study.yaml").write_text(yaml.safe_dump(study.config, sort_keys=False))
    return summarize(directory)


def row(table: pd.DataFrame, **wanted) -> pd.Series:
    for key, value in wanted.items():
        table = table[table[key] == value]
    assert len(table) == 1
    return table.iloc[0]


def kernel_study(monkeypatch) -> Study:
    """Return the small study with a library beside the kernel: 100 µs to the 80 of that and the 40 of eager."""
    small = small_study(monkeypatch)
    modes = {**small.config["modes"], "liger": {"runner": "library", "library": "liger", "devices": ["cuda"]}}
    ratios = [
        {"ops": ["softmax"], "of": ["eager", "liger"], "must": 0.4, "aim": 1.2},
        {"ops": ["softmax"], "of": ["limit"], "sizes": [1024], "must": 0.9},
        {"ops": ["softmax"], "of": ["compile"], "aim": 0.2, "mean": True},
    ]
    calls = [{"ops": ["softmax"], "of": ["eager"], "must": 5, "aim": 2.5}]
    targets = {"mode": "triton", "ratios": ratios, "calls": calls}
    study = {"modes": modes, "baselines": ["eager", "compile", "liger"], "study": "kernels", "targets": targets}
    return Study({**CONFIG, **{k: small.config[k] for k in ("ops", "repeats")}, **study, "recorded": []})
