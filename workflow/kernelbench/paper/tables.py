"""The article's tables by name, each from the studies that it is about."""

from collections.abc import Callable

from kernelbench import numbers
from kernelbench.analysis import host_law
from kernelbench.analysis.studies import CELL, OPS, NoData, Studies, list_cells, order, topic
from kernelbench.numbers import BLANK
from kernelbench.op_names import name
from kernelbench.paper import markdown
from kernelbench.paper.values import FACTS
from kernelbench.study.cells import CONTROL
from kernelbench.study.validation import require_known


def table(which: str, studies: Studies, earlier: dict) -> str:
    """Return a table by its name; raise NoData where no study has anything of it, InputError for an unknown name."""
    require_known("table", which, TABLES)
    header, rows, align = TABLES[which](studies, earlier)
    if not rows:
        raise NoData("no study has a row of this table")
    return markdown.table(header, rows, align)


def _studies(studies: Studies, _: dict) -> tuple:
    """What was recorded: a row for each study."""
    header = ["Study", "Device", "Cells", "Modes", "Repeats", "Jobs", "GPUs"]
    rows = []
    for document in studies.documents:
        cells, modes = (numbers.number(len(found)) for found in (list_cells(document), document["study"]["modes"]))
        repeats, jobs, gpus, device = (FACTS[fact](document) for fact in ("repeats", "jobs", "gpus", "gpu"))
        if not document["environment"]["gpu"]:
            device, gpus = "CPU", BLANK
        rows.append([topic(document["study"]), device, cells, modes, repeats, jobs, gpus])
    return header, rows, "llrrrrr"


def _models(studies: Studies, _: dict) -> tuple:
    """The models: speedups, the compiler's part, and calls until compiling has paid."""
    graph, compiled, reduced = "cuda-graph", "compile", "compile-reduce-overhead"
    header = ["Model", "`compile`", "`cuda-graph`", "`reduce-overhead`", "Compiler's part", "Paid after, `compile`"]
    speedups = [(compiled, "eager"), (graph, "eager"), (reduced, "eager"), (reduced, graph)]
    rows = []
    for at in _models_of(studies, "architectures"):
        # In one line: the other columns are narrow.
        title = name(at["op"], at["size"]).replace(" ", numbers.NBSP)
        shown = [_speedup(studies, "architectures", at, mode, "latency", over) for mode, over in speedups]
        paid = [
            studies.find("architectures", "payback", **at, mode=mode, metric="latency") for mode in (compiled, reduced)
        ]
        rows.append([title, *shown, *map(numbers.calls, paid)])
    return [*header, "`reduce-overhead`"], rows, "lrrrrrr"


def _models_of(studies: Studies, which: str) -> list[dict]:
    """Return {op, dtype, size} of the models of a study, in its order."""
    document = studies.of(which)
    cells = sorted(list_cells(document), key=order(document["study"]))
    return [dict(zip(CELL, cell, strict=True)) for cell in cells if "modes" not in document["study"]["ops"][cell[0]]]


def _speedup(studies: Studies, which: str, at: dict, mode: str, metric: str, over: str) -> str:
    return numbers.signed(studies.find(which, "speedups", **at, mode=mode, baseline=over, metric=metric))


def _law(studies: Studies, _: dict) -> tuple:
    """How well the law predicts each study that it was not fitted to."""
    titles = {host_law.COMPILED: "compiled", host_law.REPLAYED: "replayed"}
    pairs = [(mode, metric) for mode in titles for metric in host_law.PREDICTED]
    header = ["Study", *(f"{titles[mode]}, {metric}" for mode, metric in pairs)]
    rows = []
    for document in studies.documents:
        own = [row for row in studies.predictions if row.study == document["study"]["machine"] and not row.fitted]
        if own:
            by_pair = {(row["mode"], row["metric"]): row for row in document["law"]}
            alone = "{right} of {decided}".format(**host_law.accuracy(own, "by_kernels"))
            outside = "{missed} of {tested}".format(**host_law.accuracy(own))
            # A call has the same host time by either metric.
            host = numbers.percent(by_pair.get(pairs[0], {}).get("host"))
            right = [_right(by_pair.get(pair)) for pair in pairs]
            rows.append([studies.title(document), *right, alone, host, outside, _name_wrong_sides(own)])
    return [*header, "Kernels alone", "Host time", "Outside", "Wrong side"], rows, "lrrrrrrrl"


def _right(row: dict | None) -> str:
    return f"{row['right']} of {row['decided']}, {numbers.percent(row['error'])}" if row else BLANK


def _name_wrong_sides(rows: list[host_law.Prediction]) -> str:
    named = [
        f"{name(row.op, row.size)} ({numbers.factor(row.predicted)}, {numbers.factor(row.measured)})"
        for row in rows
        if row.on_wrong_side
    ]
    return "; ".join(named) or BLANK


def _kernels(studies: Studies, _: dict) -> tuple:
    """The Triton kernels over everything that they are compared with: ranges over the sizes by device time."""
    study = studies.of("kernels")["study"]
    rows = []
    for op, entry in study["ops"].items():
        spans = [_span(studies, "kernels", "triton", "device", over, op=op) for over in study["baselines"]]
        # The other dtypes are in the supplement.
        if entry.get("dtypes", study["dtypes"]) == study["dtypes"] and set(spans) != {BLANK}:
            rows.append([name(op), *spans])
    return ["Kernel", *(f"over {over}" for over in study["baselines"])], rows, "l" + "r" * len(study["baselines"])


def _heldout(studies: Studies, _: dict) -> tuple:
    """What the Triton kernels reach on shapes that were drawn after they were tuned, by group."""
    rows = []
    for row in studies.of("heldout")["targets"]:
        mean = {"speedup": row["reached"], "ci_low": row["low"], "ci_high": row["high"], "n": row["n"]}
        goals = [(row["must"], row["reached"]), (row["floor"], row["least"])]
        goal, floor = (f"{numbers.factor(set_)}, {'reached' if got >= set_ else 'missed'}" for set_, got in goals)
        cells, others = numbers.number(len(row["sizes"])), [row["of"]] if isinstance(row["of"], str) else row["of"]
        best = ", ".join(f"`{mode}`" for mode in others)
        worst = f"{numbers.factor(row['least'])}: `{row['least_at']}`"
        rows.append([name(row["op"]), cells, best, numbers.ci(mean), goal, worst, floor])
    return ["Shapes", "Cells", "Fastest of", "Mean", "Goal", "Least", "Floor"], rows, "lrlrlll"


def _span(studies: Studies, which: str, mode: str, metric: str, over: str, **where) -> str:
    """Return the least and the greatest speedup over the cells of a study."""
    rows = studies.rows(which, "speedups", mode=mode, metric=metric, baseline=over, **where)
    found = [row["speedup"] for row in rows if row["speedup"] is not None]
    return numbers.span(found) if found else BLANK


def _timers(studies: Studies, _: dict) -> tuple:
    """The same calls by four timers."""
    timers = ("kernels", "device", "event", "do_bench")
    rows = [
        [name(at["op"], at["size"]),
         *(_speedup(studies, "timers", at, "compile", metric, "eager") for metric in timers)]
        for at in _models_of(studies, "timers")
    ]  # fmt: skip
    return ["Cell", "Kernel time", "Device time", "CUDA events", "`do_bench`"], rows, "lrrrr"


def _options(studies: Studies, _: dict) -> tuple:
    """Options of torch.compile beside its default."""
    rows = []
    for mode, entry in studies.of("modes")["study"]["modes"].items():
        if entry["runner"] != "compile" or mode in ("compile", CONTROL):
            continue
        own = studies.rows("modes", "speedups", mode=mode, baseline="compile", metric="latency")
        options = {key: entry[key] for key in entry if key not in ("runner", "devices", "only", "series", "timeout")}
        passed = ", ".join(f"`{key}={value}`" for key, value in options.items()) or BLANK
        spans = [_span(studies, "modes", mode, metric, "compile") for metric in ("latency", "first_call")]
        rows.append([f"`{mode}`", passed, str(sum(row["speedup"] is not None for row in own)), *spans])
    return ["Mode", "Passed to `torch.compile`", "Cells", "Latency", "First call"], rows, "llrrr"


def _published(studies: Studies, earlier: dict) -> tuple:
    """The earlier study's means beside ours."""
    at = {"size": "all", "mode": earlier["mode"], "baseline": earlier["baseline"]}
    studies.of(OPS)  # It raises NoData where no study has that topic.
    rows = []
    for op, found in earlier["ops"].items():
        means = [studies.find(OPS, "speedups", op=op, **at, metric=m) for m in ("kernels", "throughput", "latency")]
        rows.append([name(op), numbers.factor(found["mean"]), *(numbers.ci(row) if row else BLANK for row in means)])
    return ["Operation", earlier["machine"], "Kernel time", "Throughput", "Latency"], rows, "lrrrr"


# Each returns the header, the rows and the alignment.
TABLES: dict[str, Callable[[Studies, dict], tuple[list[str], list[list[str]], str]]] = {
    "studies": _studies,
    "models": _models,
    "law": _law,
    "kernels": _kernels,
    "heldout": _heldout,
    "timers": _timers,
    "options": _options,
    "published": _published,
}
