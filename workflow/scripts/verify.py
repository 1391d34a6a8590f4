"""Measure a part of a recorded study again, and print which of its figures and of the paper's claims that confirms."""

import argparse
import json
from pathlib import Path

import yaml
from rich.console import Console

from kernelbench.analysis.measurements import Measurements
from kernelbench.analysis.summary import summarize, write_csv
from kernelbench.claims import rules
from kernelbench.claims.comparison import compare, judge, report
from kernelbench.claims.remeasure import choose, find_claim, find_study, preview, require_rows, require_same
from kernelbench.claims.rule_file import values
from kernelbench.errors import InputError, run
from kernelbench.paper.provenance import find_differences
from kernelbench.records.job_table import read as read_jobs
from kernelbench.running import job_process, nested_run
from kernelbench.study.config import RECORDED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verify", type=json.loads, required=True, help="the config's verify as JSON")
    parser.add_argument("--claims", type=Path, required=True, help="claims.yaml")
    parser.add_argument("--recorded", nargs="*", default=[], help="the recorded studies, in the order of the config")
    parser.add_argument("--gpus", type=int, required=True, help="GPUs that measure at once")
    arguments = parser.parse_args()
    job_process.end_with_run()
    wanted = arguments.verify
    if wanted is None:
        raise InputError("config: verify is missing; leave out --configfile, or copy the key from config.yaml")
    known, rule, name = rules.load(arguments.claims), None, wanted["study"]
    if "claim" in wanted:
        known = [find_claim(known, wanted["claim"])]
        rule, name = known[0]["rule"], find_study(known[0], arguments.recorded)
    recorded = RECORDED / name
    study = yaml.safe_load((recorded / "study.yaml").read_text(encoding="utf-8"))
    label = require_same(study, json.loads((recorded / "environment.json").read_text(encoding="utf-8")))
    document = summarize(recorded)[2]
    if rule:
        require_rows(known[0], name, document)
    part = choose(study, read_jobs(recorded / "jobs.parquet"), wanted, rule)
    console = Console(highlight=False, markup=False)
    console.print(preview(name, part, wanted, arguments.gpus), soft_wrap=True)
    results = Path("results", f"{label}-verify")
    nested_run.make(part.config, results, "summary.csv", arguments.gpus, "verify")
    figures = compare(Measurements(recorded), Measurements(results))
    write_csv(figures, results / "verify.csv")
    again = json.loads((results / "summary.json").read_text(encoding="utf-8"))
    own = rules.file_by_topic(document)  # A claim about the default study is one about a CPU's as well.
    about = [
        claim
        for claim in known
        if rules.is_about_cells(claim["rule"])
        and all(name in own for name in values(claim["rule"].get("study", [])))
        and rules.find_documents(claim["rule"], own)
    ]
    for part in find_differences(again, document):
        console.print(f"differs: {part['differs']} {part['here']}, recorded with {part['recorded']}", soft_wrap=True)
    for piece in report(figures, judge(about, document, again)):
        console.print(piece, soft_wrap=True)


if __name__ == "__main__":
    run(main)
