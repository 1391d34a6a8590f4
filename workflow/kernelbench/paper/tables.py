"""The article's tables by name, each from the studies that it is about."""

from collections.abc import Callable

from kernelbench import numbers
from kernelbench.analysis import host_law
from kernelbench.analysis.studies import CELL, OPS, NoData, Studies, order, topic
from kernelbench.op_names import name
from kernelbench.paper import markdown
from kernelbench.study.study import CONTROL, require_known

# How a verdict looks beside a number.
SIGNS = {"faster": "↑", "slower": "↓", "equivalent": "=", "inconclusive": "?"}
BLANK = "–"


def table(which: str, studies: Studies, earlier: dict) -> str:
    """Return a table by its name; raise NoData where no study has anything of it, InputError for an unknown name."""
    require_known("table", which, TABLES)
    return TABLES[which](studies, earlier)


def _studies(studies: Studies, _: dict) -> str:
    """What was recorded: a row for each study."""
    header = ["Study", "Device", "Cells", "Modes", "Repeats", "Jobs", "GPUs"]
    rows = []
    for document in studies.documents:
        study, environment = document["study"], document["environment"]
        cells = {tuple(row[key] for key in CELL) for row in document["summary"]}
        gpus = len(environment["gpu_uuids"]) if environment["gpu"] else BLANK
        device = environment["gpu"]["name"].removeprefix("NVIDIA ").split()[0] if environment["gpu"] else "CPU"
        counts = (len(cells), len(study["modes"]), study["repeats"], environment["jobs"])
        rows.append([topic(study), device, *map(numbers.number, counts), str(gpus)])
    return markdown.table(header, rows, "llrrrrr")


def _models(studies: Studies, _: dict) -> str:
    """The models: speedups, the compiler's part, and calls until compiling has paid."""
    modes = ("compile", "cuda-graph", "compile-reduce-overhead")
    header = [
        "Model",
        "`compile`",
        "`cuda-graph`",
        "`reduce-overhead`",
        "Compiler's part",
        "Paid after, `compile`",
        "`reduce-overhead`",
    ]
    rows = []
    for cell in _cells(studies, "architectures", models=True):
        speedups = [_speedup(studies, "architectures", cell, mode) for mode in modes]
        part = _speedup(studies, "architectures", cell, "compile-reduce-overhead", over="cuda-graph")
        paid = [_payback(studies, cell, mode) for mode in ("compile", "compile-reduce-overhead")]
        # In one line: the other columns are narrow.
        rows.append([name(cell[0], cell[2]).replace(" ", numbers.NBSP), *speedups, part, *paid])
    return _or_none(header, rows, "lrrrrrr")


def _cells(studies: Studies, which: str, models: bool) -> list[tuple]:
    """Return the cells of a study in its order: of models, or of single operations."""
    study = studies.of(which)["study"]
    cells = dict.fromkeys(tuple(row[key] for key in CELL) for row in studies.of(which)["summary"])
    return sorted((cell for cell in cells if ("modes" not in study["ops"][cell[0]]) == models), key=order(study))


def _speedup(studies: Studies, which: str, cell: tuple, mode: str, metric: str = "latency", over: str = "eager") -> str:
    where = dict(zip(CELL, cell, strict=True)) | {"mode": mode, "baseline": over, "metric": metric}
    row = studies.find(which, "speedups", "speedup", **where)
    return f"{numbers.ci(row)} {SIGNS.get(row['verdict'], '')}".strip() if row else BLANK


def _payback(studies: Studies, cell: tuple, mode: str) -> str:
    where = dict(zip(CELL, cell, strict=True)) | {"mode": mode, "metric": "latency"}
    row = studies.find("architectures", "payback", "kind", **where)
    return numbers.calls(row) if row else BLANK


def _law(studies: Studies, _: dict) -> str:
    """How well the law predicts each study that it was not fitted to."""
    pairs = [(mode, metric) for mode in host_law.MODES for metric in host_law.PREDICTED]
    titles = {host_law.COMPILED: "compiled", host_law.REPLAYED: "replayed"}
    header = [
        "Study",
        *(f"{titles[mode]}, {metric}" for mode, metric in pairs),
        "By device time alone",
        "Host time",
        "Missed",
    ]
    rows = []
    for document in studies.documents:
        own = [row for row in studies.predictions if row.study == document["study"]["machine"] and not row.fitted]
        if own:
            judged = [*(_accuracy(own, *pair) for pair in pairs), _alone(own), _host(own)]
            rows.append([topic(document["study"]), *judged, _missed(own)])
    return _or_none(header, rows, "lrrrrrrl")


def _accuracy(rows: list[host_law.Prediction], mode: str, metric: str) -> str:
    own = host_law.select(rows, mode, metric)
    if not own:
        return BLANK
    found = host_law.accuracy(own)
    return f"{found['right']} of {found['decided']}, {numbers.percent(found['error'])}"


def _alone(rows: list[host_law.Prediction]) -> str:
    decided = [row for row in rows if row.right is not None]
    return f"{sum((row.by_device > 1) == (row.verdict == 'faster') for row in decided)} of {len(decided)}"


def _host(rows: list[host_law.Prediction]) -> str:
    """How far the host times of compiled calls are off; a call has the same by either metric."""
    own = host_law.select(rows, host_law.COMPILED, host_law.PREDICTED[0])
    return numbers.percent(host_law.accuracy(own)["host"]) if own else BLANK


def _missed(rows: list[host_law.Prediction]) -> str:
    wrong = [row for row in rows if row.right is False]
    named = [
        f"{name(row.op, row.size)} ({numbers.factor(row.predicted)}, {numbers.factor(row.measured)})" for row in wrong
    ]
    return "; ".join(named) or BLANK


def _kernels(studies: Studies, _: dict) -> str:
    """The Triton kernels over everything that they are compared with: ranges over the sizes by device time."""
    study = studies.of("kernels")["study"]
    header = ["Kernel", *(f"over {over}" for over in study["baselines"])]
    rows = []
    for op, entry in study["ops"].items():
        if entry.get("dtypes", study["dtypes"]) != study["dtypes"]:
            continue  # The other dtypes are in the supplement.
        spans = [
            _span(studies.rows("kernels", "speedups", op=op, mode="triton", baseline=over, metric="device"))
            for over in study["baselines"]
        ]
        if any(span != BLANK for span in spans):
            rows.append([name(op), *spans])
    return _or_none(header, rows, "l" + "r" * len(study["baselines"]))


def _span(rows: list[dict]) -> str:
    found = [row["speedup"] for row in rows if row["speedup"] is not None]
    return numbers.between(min(found), max(found)) if found else BLANK


def _timers(studies: Studies, _: dict) -> str:
    """The same calls by three timers."""
    header = ["Cell", "Device time", "CUDA events", "`do_bench`"]
    metrics = ("device", "event", "do_bench")
    cells = _cells(studies, "timers", models=True)
    rows = [
        [name(cell[0], cell[2]), *(_speedup(studies, "timers", cell, "compile", metric) for metric in metrics)]
        for cell in cells
    ]
    return _or_none(header, rows, "lrrr")


def _options(studies: Studies, _: dict) -> str:
    """Options of torch.compile beside its default."""
    study = studies.of("modes")["study"]
    header = ["Mode", "Passed to `torch.compile`", "Cells", "Latency", "First call"]
    rows = []
    for mode, entry in study["modes"].items():
        if entry["runner"] != "compile" or mode in ("compile", CONTROL):
            continue
        own = {
            metric: studies.rows("modes", "speedups", mode=mode, baseline="compile", metric=metric)
            for metric in ("latency", "first_call")
        }
        count = sum(row["speedup"] is not None for row in own["latency"])
        passed = ", ".join(
            f"`{key}={value}`"
            for key, value in entry.items()
            if key not in ("runner", "devices", "only", "series", "timeout")
        )
        rows.append([f"`{mode}`", passed or BLANK, str(count), _span(own["latency"]), _span(own["first_call"])])
    return _or_none(header, rows, "llrrr")


def _published(studies: Studies, earlier: dict) -> str:
    """The earlier study's means beside ours."""
    header = ["Operation", earlier["machine"], "Device time", "Throughput", "Latency"]
    rows = []
    for op, found in earlier["ops"].items():
        means = {
            row["metric"]: row
            for row in studies.of(OPS)["speedups"]
            if (row["op"], row["size"], row["mode"], row["baseline"])
            == (op, "all", earlier["mode"], earlier["baseline"])
        }
        ours = [
            numbers.ci(means[metric]) if metric in means else BLANK for metric in ("device", "throughput", "latency")
        ]
        rows.append([name(op), numbers.factor(found["mean"]), *ours])
    return _or_none(header, rows, "lrrrr")


def _or_none(header: list[str], rows: list[list[str]], align: str) -> str:
    if not rows:
        raise NoData("no study has a row of this table")
    return markdown.table(header, rows, align)


TABLES: dict[str, Callable[[Studies, dict], str]] = {
    "studies": _studies,
    "models": _models,
    "law": _law,
    "kernels": _kernels,
    "timers": _timers,
    "options": _options,
    "published": _published,
}
