"""Numbers: from a machine's summary.json to what the paper's text says about it.

Every number of the text, and every pattern that its words depend on, has its name here. No time or speedup is
estimated: this selects, counts, compares and judges by the stated rules. An op is known by its label: its name, with
its dtype where the study has several of them.
"""

from kernelbench import prior
from kernelbench.numbers import checks, costs, select, tables, topics, verdicts
from kernelbench.study import without_arms
from kernelbench.words import DERIVED


def numbers(document: dict, published: dict, local: bool) -> dict:
    """Return the paper's numbers of one machine.

    document: summary.json; published: paper/published.yaml; local: measured here rather than recorded.
    """
    study, environment = document["study"], document["environment"]
    gpu, baseline, compiled = environment["gpu"], study["baselines"][0], published["mode"]
    arms, document = topics.arms(document), without_arms(document)
    metrics = [m for m in select.TIMES if any(row["metric"] == m for row in document["summary"])]
    ops = tables.ops(document)
    causes = tables.causes(document, baseline, metrics)
    explained = tables.explained(ops, causes)
    means = costs.means(document)
    return {
        "label": study["machine"],
        "title": gpu["name"] if gpu else environment["host"]["cpu"],
        "local": local,
        "gpu": bool(gpu),
        "gpus": len(environment.get("gpu_uuids", [])),
        "at_once": document["jobs"]["at_once"],
        "blocks": document["jobs"]["blocks"],
        "baseline": baseline,
        "metrics": metrics,
        "timed": list(dict.fromkeys(row["metric"] for row in document["summary"] if row["metric"] not in DERIVED)),
        "primary": metrics[0],
        "deltas": {m: study["equivalence"].get(m, study["equivalence"]["default"]) for m in metrics},
        "environment": environment,
        "packages": document["packages"],
        "study": study,
        "dtypes": list(dict.fromkeys(op["dtype"] for op in ops.values())),
        "modes": (modes := tables.modes(document, ops)),
        "compilers": [mode for mode, entry in modes.items() if entry["runner"] == "compile"],
        "starts": topics.starts(study, modes),
        "start_pairs": topics.start_pairs(document),
        "apart": [{**row, "label": select.label_of(document, row)} for row in document["jobs"]["apart"]],
        "costs": costs.costs(document),
        "suspects": checks.suspects(document),
        "jobs": costs.jobs(document),
        "ops": ops,
        "overall": (overall := {m: verdicts.overall(document, baseline, m) for m in metrics}),
        "family": max(sum(row["cells"] for row in by.values()) for by in overall.values()),
        "beside": verdicts.beside(document, ops, means, compiled, metrics) if compiled in study["baselines"] else {},
        "by_timer": verdicts.by_timer(document, baseline),
        "runners": verdicts.runners(document, compiled, metrics) if compiled in study["baselines"] else {},
        "untimed": verdicts.untimed(document, baseline, metrics),
        "ceilings": tables.ceilings(document),
        "control": checks.control(document, metrics),
        "host_control": checks.control(document, ["host"]),
        "control_apart": checks.control_apart(document),
        "drift": document["drift"],
        "host_speed": document["host"],
        "clocks": checks.clocks(document),
        "peaks": checks.peaks(document, baseline, metrics),
        "peaked": sum(select.is_flagged(row) for row in document["summary"]),
        "exact": checks.exact(document, baseline, metrics),
        "noise": checks.noise(ops, metrics),
        "unsteady_factor": checks.UNSTEADY_FACTOR,
        "turns": verdicts.turns(ops, metrics),
        "turned": verdicts.turned(document, baseline),
        "loss": costs.loss(ops, baseline, compiled, metrics),
        "host": costs.host(ops, means, baseline),
        "pipelined": costs.pipelined(ops),
        "layers": costs.layers(study, ops, means),
        "first_call": costs.first_call(ops, means.get("first_call", {})),
        "arms": arms,
        "payback": costs.payback(document, ops, compiled),
        "compilation": [
            {**row, "label": label}
            for row in document["compilation"]
            if (label := select.label_of(document, row)) in ops and row["mode"] in ops[label]["estimates"]
        ],
        "tuning_threads": max((row.get("tuning_threads", 1) for row in document["compilation"]), default=1),
        "causes": causes,
        "libraries": [mode for mode, entry in modes.items() if entry["runner"] == "library"],
        "rivals": {
            mode: verdicts.rivals(ops, mode, baseline, metrics)
            for mode, entry in modes.items()
            if entry["runner"] == "kernel"
        },
        "anomalies": checks.anomalies(ops, modes),
        "targets": topics.targets(document),
        "flushes": topics.flushes(document),
        "traces": topics.traces(document),
        "answers": {
            mode: verdicts.answer(explained, mode, metrics, study["repeats"])
            for mode in dict.fromkeys([compiled, *study["modes"]])
        },
        "failures": tables.failures(document),
        "unsettled": document["unsettled"],
        "tries": document["tries"],
        "near_floor": checks.near_floor(document),
        "less_floor": checks.less_floor(document),
        "by_gpu": checks.by_gpu(document),
        "prior": prior.judged(published["claims"], document),
        "claims": {op: verdicts.claim(ops, op, published, metrics, baseline) for op in published["ops"]},
    }
