"""The values of the article's text, each by its address: which study, which cell, which mode, which metric.

An address names a study by its topic and never a machine; where it asks for several rows, it may name several studies,
as in "ops, kernels", or `every` one of a GPU. `only` narrows it to some cells: a group of constants.yaml, or ops and
cells as in "softmax, resnet50 1"; in several studies an op's name is that of its workload, too. Every function returns
text as the article shows it. It raises NoData where no study has what the address names, InputError where nothing could
have it.
"""

from collections.abc import Callable
from functools import wraps
from inspect import signature

import pandas as pd

from kernelbench import numbers
from kernelbench.analysis import host_law, two_gpus
from kernelbench.analysis.reasons import headline
from kernelbench.analysis.recommendation import recommend
from kernelbench.analysis.studies import CELL, GPU, NoData, Studies, name_device
from kernelbench.analysis.verdicts import DECIDED
from kernelbench.claims.known_names import known
from kernelbench.errors import InputError
from kernelbench.study.cells import CONTROL, TWIN, workload_name
from kernelbench.study.metrics import ALL
from kernelbench.study.validation import require_known


def _time(rows: list[dict]) -> str:
    return numbers.with_unit([row["estimate"] for row in rows], rows[0]["unit"])


# The parameters whose arguments are names, by the kind of the name.
NAMED = {"study": "study", "mode": "mode", "over": "mode", "metric": "metric"}
# In the place of a study: every recorded study of a GPU.
EVERY = "every"
# What an address says of the cells that it names, by its function: the table, the column that must have a value,
# whether it names several cells, and what it shows of their rows.
SHOWN: dict[str, tuple[str, str, bool, Callable[[list[dict]], str]]] = {
    # A speedup with its interval, 1.28 [1.26, 1.30]; without it, 1.28; the least and the greatest, 0.81–2.82.
    "speedup": ("speedups", "speedup", False, lambda rows: numbers.ci(rows[0])),
    "ratio": ("speedups", "speedup", False, lambda rows: numbers.factor(rows[0]["speedup"])),
    "span": ("speedups", "speedup", True, lambda rows: numbers.span([row["speedup"] for row in rows])),
    # How many cells have a speedup.
    "total": ("speedups", "speedup", True, lambda rows: numbers.number(len(rows))),
    # What a call takes, or the first call, 18.2 µs; the least and the greatest such time, 18.2–403 µs.
    "time": ("summary", "estimate", False, _time),
    "times": ("summary", "estimate", True, _time),
    # After how many calls compiling has paid for itself: 2,885, never or undecided; the range of those where it does.
    "payback": ("payback", "kind", False, lambda rows: numbers.calls(rows[0])),
    "paybacks": ("payback", "calls", True, lambda rows: numbers.span([row["calls"] for row in rows], numbers.whole)),
}


class Values:
    """What the text may ask for: an address names an entry of SHOWN or a public method."""

    def __init__(self, studies: Studies, constants: dict, earlier: dict):
        self._studies = studies
        self._constants = constants
        self._earlier = earlier
        self._names = known(*(document["study"] for document in studies.documents))

    def functions(self) -> dict[str, Callable[..., str]]:
        """Return by name what an address may call; each raises InputError for a name that no study could have."""
        methods = [name for name in vars(Values) if not name.startswith("_") and name != "functions"]
        found = {name: getattr(self, name) for name in methods}
        found |= {name: self._shown(*how) for name, how in SHOWN.items()}
        return {name: self._checked(function) for name, function in found.items()}

    def _checked(self, function: Callable[..., str]) -> Callable[..., str]:
        """Return the function with its arguments checked by the names of its parameters."""

        @wraps(function)
        def call(*positional, **named) -> str:
            for parameter, name in signature(function).bind(*positional, **named).arguments.items():
                for each in name.split(", ") if parameter in NAMED else ():
                    also = [EVERY] if parameter == "study" else []
                    require_known(parameter, each, [*self._names[NAMED[parameter]], *also])
            return function(*positional, **named)

        return call

    def _shown(self, table: str, column: str, several: bool, show: Callable[[list[dict]], str]) -> Callable[..., str]:
        """Return the function of an entry of SHOWN."""
        select = self._rows if several else self._row

        def of_times(study: str, only: str, mode: str, metric: str = "latency") -> str:
            return show(select(study, table, column, only, mode=mode, metric=metric))

        def of_speedups(study: str, only: str, mode: str, metric: str = "latency", over: str = "eager") -> str:
            return show(select(study, table, column, only, mode=mode, metric=metric, baseline=over))

        return of_speedups if table == "speedups" else of_times

    def count(
        self, verdict: str, study: str, only: str, mode: str, metric: str = "latency", over: str = "eager"
    ) -> str:
        """Return how many of these cells have this verdict."""
        require_known("verdict", verdict, numbers.SIGNS)
        rows = self._rows(study, "speedups", "speedup", only, mode=mode, metric=metric, baseline=over)
        return numbers.number(sum(row["verdict"] == verdict for row in rows))

    def arm(self, study: str, mode: str, over: str, metric: str) -> str:
        """Return the mean speedup of a diagnostic arm over what it diagnoses, with its interval."""
        return numbers.ci(self._studies.row(study, "arms", mode=mode, baseline=over, metric=metric))

    def toll(self, study: str, only: str, mode: str) -> str:
        """Return how much longer than eager a mode keeps the host, in the mean over these cells, with its unit."""
        own, eager = (
            self._rows(study, "summary", "estimate", only, mode=one, metric="host") for one in (mode, "eager")
        )
        host = pd.DataFrame([*own, *eager]).pivot_table(index=list(CELL), columns="mode", values="estimate")
        return numbers.with_unit([(host[mode] - host["eager"]).mean()], "µs")

    def setting(self, study: str, path: str) -> str:
        """Return what the study's mapping says at a path such as sampling.samples: 100, or 256 MiB."""
        found = self._studies.of(study)["study"]
        for key in path.split("."):
            if not isinstance(found, dict) or key not in found:
                raise InputError(f"setting: {path} is not in the study of {study}; allowed: a path in its study.yaml")
            found = found[key]
        return numbers.number(found) if isinstance(found, int | float) else numbers.size(str(found))

    def fact(self, study: str, name: str) -> str:
        """Return what is known of a study as a whole, by one of the names of FACTS; raise NoData where it has none."""
        found = _pick("fact", name, FACTS)(self._studies.of(study))
        if found is None:
            raise NoData(f"the study of {study} ran without {name}")
        return found

    def control(self, study: str, metric: str) -> str:
        """Return what share 95 % of the A/A comparisons stay below by a metric: 1.4 %."""
        return numbers.percent(self._by_metric(study, "control", metric)["p95"])

    def gpus(self, study: str, metric: str, name: str) -> str:
        """Return how the GPUs of a study differ: in `apart` of `of` cells, by a `median` or `p95` of that share."""
        found = _pick("gpus", name, self._by_metric(study, "by_gpu", metric))
        return numbers.percent(found) if name in ("median", "p95") else numbers.number(found)

    def _by_metric(self, study: str, table: str, metric: str) -> dict:
        found = self._studies.of(study)[table].get(metric)
        # GPUs are compared where each has several repeats.
        if not found or found.get("of") == 0:
            raise NoData(f"the study of {study} compares nothing by {metric} in {table}")
        return found

    def both_gpus(self, metric: str, name: str) -> str:
        """Return a figure of two_gpus.compare_speedups by a metric: `of`, `decided`, `same`, `median`."""
        found = _pick("both_gpus", name, two_gpus.compare_speedups(self._pairs("speedups", metric)))
        return numbers.percent(found) if name == "median" else numbers.number(found)

    def slowed(self, mode: str, metric: str) -> str:
        """Return how many times as long a mode takes on the second GPU model as on the first: least and greatest."""
        pairs = [pair for pair in self._pairs("summary", metric) if pair.mode == mode]
        if not pairs:
            raise NoData(f"no studies of two GPU models measured the same calls in {mode}")
        return numbers.span([pair.second["estimate"] / pair.first["estimate"] for pair in pairs])

    def _pairs(self, table: str, metric: str) -> list[two_gpus.Pair]:
        pairs = [pair for pair in two_gpus.pair_rows(self._studies, table) if pair.metric == metric]
        if not pairs:
            raise NoData(f"no studies of two GPU models measured the same calls by {metric}")
        return pairs

    def mistaken(self, metric: str) -> str:
        """Return how many A/A comparisons of GPU studies, of those with a verdict, are faster or slower: 1 of 109."""
        rows = [
            row
            for document in self._studies.measured_on(GPU)
            for row in document["speedups"]
            if (row["mode"], row["baseline"], row["metric"]) == (CONTROL, TWIN, metric)
            and row["size"] != ALL
            and row["verdict"]
        ]
        return f"{sum(row['verdict'] in DECIDED for row in rows)} of {len(rows)}"

    def clustered(self, study: str, metric: str, name: str) -> str:
        """Return how many verdicts of a study stand with GPUs for repeats: `decided`, `same`, `undecided`."""
        return numbers.number(_pick("clustered", name, self._studies.row(study, "clustered", metric=metric)))

    def first(self, study: str, metric: str, name: str) -> str:
        """Return how many verdicts of all repeats the first ones give as well: `decided`, `same`, `opposite`, …"""
        return numbers.number(_pick("first", name, self._studies.row(study, "first_repeats", metric=metric)))

    def law(self, mode: str, name: str) -> str:
        """Return a constant of the law in µs: `call`, or `each` launch or copy."""
        if mode not in self._studies.laws:
            raise NoData(f"no study fits the law of {mode}")
        return numbers.value(getattr(self._studies.laws[mode], name))

    def prediction(self, study: str, cell: str, mode: str, metric: str = "latency") -> str:
        """Return the speedup over eager that the law predicts of a cell: 1.28."""
        return numbers.factor(self._prediction(study, cell, mode, metric).predicted)

    def predicted_host(self, study: str, cell: str, mode: str) -> str:
        """Return the host time that the law predicts of a cell, with its unit."""
        return numbers.with_unit([self._prediction(study, cell, mode, "latency").host_predicted], "µs")

    def _prediction(self, study: str, cell: str, mode: str, metric: str) -> host_law.Prediction:
        at = (self._studies.of(study)["study"]["machine"], *self._at(study, cell).values(), mode, metric)
        for row in self._studies.predictions:
            if (row.study, row.op, row.dtype, row.size, row.mode, row.metric) == at:
                return row
        raise NoData(f"the law predicts nothing of {cell} in {mode} by {metric}")

    def predicted(
        self, name: str, study: str = "", mode: str = "", by: str = "the law", known: bool | None = None
    ) -> str:
        """Return a figure of host_law.accuracy for the predictions that the law was not fitted to.

        study, mode: of one study or mode alone; by: what predicts, of host_law.PREDICTORS; known: only those of
        workloads that the fitted study has, or only the others.
        """
        label = self._studies.of(study)["study"]["machine"] if study else ""
        rows = [
            row
            for row in self._studies.predictions
            if not row.fitted and label in ("", row.study) and mode in ("", row.mode) and known in (None, row.known)
        ]
        if not rows:
            raise NoData("no study but the fitted one has what the law predicts")
        found = _pick("predicted", name, host_law.accuracy(rows, _pick("predictor", by, host_law.PREDICTORS)))
        return numbers.percent(found) if name in ("share", "error", "host") else numbers.number(found)

    def recommended(self, study: str, case: str) -> str:
        """Return the mode that a user's model is best run in, and how much faster that is, as the command prints it."""
        found = recommend(self._studies.of(study))
        own = self._case(found, case)
        return ", ".join(filter(None, [own["mode"], headline(own, found)]))

    def reason(self, study: str, case: str) -> str:
        """Return why that mode is best, as the command prints it."""
        return self._case(recommend(self._studies.of(study)), case)["reason"]

    def _case(self, recommendation: dict, case: str) -> dict:
        return _pick("case", case, {each["case"]: each for each in recommendation["cases"]})

    def studies(self) -> str:
        """Return how many recorded studies of GPUs there are."""
        return numbers.number(len(self._studies.measured_on(GPU)))

    def size(self, size: str) -> str:
        """Return a size as people write it: 20,971,520."""
        return numbers.size(size)

    def constant(self, name: str) -> str:
        """Return a number of constants.yaml."""
        return str(_pick("constant", name, self._constants["numbers"]))

    def published(self, op: str, name: str) -> str:
        """Return what the earlier study published about an op: its `mean`, `low` or `high` speedup."""
        return numbers.factor(_pick("published", name, _pick("published", op, self._earlier["ops"])))

    def _at(self, study: str, cell: str) -> dict[str, str]:
        require_known("op", cell.split()[0], self._names["op"])
        return dict(zip(CELL, self._studies.cell(study, cell), strict=True))

    def _row(self, study: str, table: str, column: str, cell: str, **where) -> list[dict]:
        """Return the row of a cell; raise NoData where its column has no value."""
        row = self._studies.row(study, table, **self._at(study, cell), **where)
        if row[column] is None:
            raise NoData(f"{cell} {' '.join(where.values())}: {row.get('reason') or 'has no value'}")
        return [row]

    def _rows(self, study: str, table: str, column: str, only: str, **where) -> list[dict]:
        """Return the rows of the cells that `only` names whose column has a value; raise NoData where none has one."""
        wanted = self._wanted(only)
        rows = [
            row
            for document in self._documents(study)
            for row in document[table]
            if row.get("size") != ALL
            and all(row.get(key) == value for key, value in where.items())
            and row[column] is not None
            and any(
                op in self._words_of(study, document, row["op"]) and size in ("", row["size"]) for op, size in wanted
            )
        ]
        if not rows:
            raise NoData(f"the study of {study} has no {column} of {only} for {' '.join(where.values())}")
        return rows

    def _documents(self, study: str) -> list[dict]:
        """Return the documents of an address: of every GPU study, or of the topics between its commas."""
        if study == EVERY:
            return self._studies.measured_on(GPU)
        return [self._studies.of(name) for name in study.split(", ")]

    def _words_of(self, study: str, document: dict, op: str) -> set[str]:
        """Return what `only` may call an op of a document."""
        one = study in self._studies
        return {op} if one else {op, workload_name(op, document["study"]["ops"][op])}

    def _wanted(self, only: str) -> list[tuple[str, str]]:
        """Return the (op, size) that `only` names; without a size, an op is meant at every size."""
        wanted = []
        for part in self._constants["groups"].get(only, only).split(","):
            op, *sizes = part.split() or [""]
            require_known("op", op, [*self._names["op"], *self._names["workload"]])
            wanted.append((op, sizes[0] if sizes else ""))
        return wanted


def _pick(what: str, name: str, given: dict):
    """Return what goes by a name; raise InputError, which says what has no such name, where nothing does."""
    require_known(what, name, given)
    return given[name]


def _say_whole(number: float) -> str:
    """Return a number as people say it: nine, 54."""
    words = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    return words[round(number)] if round(number) < len(words) else f"{number:,.0f}"


# What is known of a study as a whole.
FACTS: dict[str, Callable[[dict], str | None]] = {
    "gpu": name_device,
    "gpus": lambda document: numbers.number(len(document["environment"]["gpu_uuids"])),
    "repeats": lambda document: numbers.number(document["study"]["repeats"]),
    "jobs": lambda document: numbers.number(document["environment"]["jobs"]),
    "torch": lambda document: document["environment"]["software"]["torch"].split("+")[0],
    "triton": lambda document: document["environment"]["software"]["triton"],
    "transformers": lambda document: document["packages"].get("transformers"),
    "cpu": lambda document: document["environment"]["host"]["cpu"],
    "minutes": lambda document: _say_whole(document["environment"]["job_seconds"] / 60),
    "commit": lambda document: document["environment"].get("commit", "")[:7] or None,
    "date": lambda document: document["environment"]["first_started"][:10],
}
