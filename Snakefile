"""KernelBench: does torch.compile pay? The workflow that is also the paper.

snakemake plan                          how many jobs are left, how long they take, how much disk; measures nothing
snakemake preflight                     what this host is good for now: cores, launches, clocks; takes a minute
snakemake --cores 1 --resources gpu=1   measure this machine; make its tables, figures and report
snakemake model --config model=FILE.py  measure a model of your own: which mode pays, and why, on one page
snakemake --profile profiles/slurm      the same on a cluster, each repeat in an allocation of one GPU
snakemake paper                         the article and its supplement, from the recorded studies; measures nothing
snakemake site                          every recorded result on one page to choose from; measures nothing
snakemake check                         what is wrong with the data that papers are built on, and what repairs it
snakemake precision                     how many repeats intervals of ±1 % need, and what they cost
snakemake artefacts                     what each compilation makes: graphs, IR before and after fusion, generated code
snakemake verify                        measure a part of a recorded study again; say what of it and of the claims holds
snakemake reproduce                     measure every recorded study again, which takes hours; each gets a report
"""

import functools
import importlib
import json
import math
import os
from pathlib import Path

from snakemake.logging import logger

from kernelbench import code_digest
from kernelbench.imports import sources
from kernelbench.running import freshness, gpu_lanes, job_process, preflight, snakemake_progress, user_model
from kernelbench.study import machine, model_study, yaml_files
from kernelbench.study.config import RECORDED
from kernelbench.study.study import Study
from kernelbench.study.yaml_files import overlay, parse_values

preflight.require_checkout(Path(workflow.basedir), workflow.configfiles if workflow.overwrite_configfiles else [])
preflight.require_writable()
if not workflow.remote_exec:
    freshness.require_past_tree()

# A --configfile replaces config.yaml; Snakemake would merge the two.
if not workflow.overwrite_configfiles:

    configfile: "workflow/model.yaml" if "model" in config else "config.yaml"


yaml_files.refuse_duplicates(workflow.configfiles)
# With profiles/slurm each allocation has a GPU of its own, and the process that submits it measures nothing.
submits = workflow.is_main_process and workflow.resource_scopes.is_local("gpu")
# What runs in the allocation is not told of --resources, and would measure as many jobs at once as it has cores.
if workflow.remote_exec:
    workflow.register_resource("gpu", 1)

given = parse_values(workflow.config_settings.config)
if "model" in config:
    device = machine.resolve(overlay(config, given)["machine"], here=not submits)[1]
    is_here = not submits and device == machine.present()[1]  # A plan is made for other machines, too.
    found = user_model.inspect(str(config["model"]), device, is_here)
    base = functools.reduce(overlay, map(yaml_files.read, workflow.configfiles))
    study = Study(*model_study.make(base, given, found, device), here=not submits)
    if workflow.is_main_process:
        logger.info(model_study.describe(found, list(study.modes), study.repeats))
else:
    study = Study(config, given, here=not submits)
lanes = gpu_lanes.Lanes(study, workflow.global_resources["gpu"].value if "gpu" in workflow.global_resources else 1)
for name, slots in lanes.alone().items():
    workflow.register_resource(name, slots)
os.environ |= gpu_lanes.name_gpus(study.device) | job_process.prepare_run(remote=workflow.remote_exec)
recorded = [f"results/rebuilt/{name}" for name in study.recorded]
recorded_data = [f"results/recorded/{name}" for name in study.recorded]


report: "workflow/report/workflow.rst"


wildcard_constraints:
    machine=study.machine,
    recorded="|".join(study.recorded) or "none",


include: "workflow/rules/plan.smk"
include: "workflow/rules/preflight.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/gate.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/paper.smk"
include: "workflow/rules/verify.smk"
include: "workflow/rules/model.smk"
include: "workflow/rules/site.smk"
include: "workflow/rules/artefacts.smk"


onstart:
    # Imported only when asked for: it reads tables, which few runs need.
    planned = lambda: importlib.import_module("kernelbench.planning.estimate").expect_seconds(
        study, Path(study.results), RECORDED
    )
    snakemake_progress.announce(study.results, list(workflow.dag.needrun_jobs()), planned)
    # Snakemake's limit of job starts a second has it look at all ready jobs once a second for each job that has ended: by
    # the two hundredth that keeps a core busy, beside what is measured. Only submissions need a limit.
    if not submits:
        workflow.scheduler.job_rate_limiter = None


onerror:
    preflight.say_if_full(Path(study.results))


# What is made of the recorded studies: the article, which must say what they do, and its supplement.
documents = ["paper/paper.pdf", "paper/build/claims.done", "paper/supplement.pdf"]


rule all:
    default_target: True
    input:
        # A study with a name is one of many that the article is about: its own answer is its report, of a model its page.
        [*documents, "results/site/index.html"] if recorded and "study" not in config else [],
        f"{study.results}/{'report.html' if 'model' in config else 'report.pdf'}",
        expand(f"{study.results}/{{table}}.csv", table=["summary", "speedups"]),
        # Snakemake does not miss a file that only made others: a deleted record has to be wanted for itself.
        study.records(),


rule paper:
    input:
        documents,
