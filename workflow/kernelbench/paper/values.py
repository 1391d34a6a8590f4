"""The values of the article's text, each by its address: which study, which cell, which mode, which metric.

An address names a study by its topic and never a machine. `only` narrows it to some cells: a group of constants.yaml,
ops and cells as in "softmax, resnet50 1", or all. Every function returns text as the article shows it. It raises NoData
where no study has what the address names, InputError where nothing could have it.
"""

from collections.abc import Callable
from functools import wraps
from inspect import signature

from kernelbench import numbers
from kernelbench.analysis import host_law
from kernelbench.analysis.studies import CELL, NoData, Studies
from kernelbench.claims.known_names import known
from kernelbench.errors import InputError
from kernelbench.study.validation import require_known

# The parameters whose arguments are names, by the kind of the name.
NAMED = {"study": "study", "mode": "mode", "over": "mode", "metric": "metric"}


class Values:
    """What the text may ask for, by the names of these methods."""

    def __init__(self, studies: Studies, constants: dict, earlier: dict):
        self.studies = studies
        self.constants = constants
        self.earlier = earlier
        self.names = known(*(document["study"] for document in studies.documents))

    def functions(self) -> dict[str, Callable[..., str]]:
        """Return by name what an address may call; each raises InputError for a name that no study could have."""
        names = (
            "speedup", "ratio", "span", "count", "total", "time", "times", "payback", "paybacks", "launches",
            "setting", "fact", "control", "constant", "law", "predicted", "gpus", "first",
            "published", "arm", "busy", "toll", "alone", "size",
        )  # fmt: skip
        return {name: self._checked(getattr(self, name)) for name in names}

    def _checked(self, function: Callable[..., str]) -> Callable[..., str]:
        """Return the function with its arguments checked by the names of its parameters."""

        @wraps(function)
        def call(*positional, **named) -> str:
            for parameter, name in signature(function).bind(*positional, **named).arguments.items():
                if parameter in NAMED:
                    require_known(parameter, name, self.names[NAMED[parameter]])
            return function(*positional, **named)

        return call

    def speedup(self, study: str, cell: str, mode: str, metric: str = "latency", over: str = "eager") -> str:
        """Return a speedup with its interval: 1.28 [1.26, 1.30]."""
        return numbers.ci(self._speedup(study, cell, mode, metric, over))

    def ratio(self, study: str, cell: str, mode: str, metric: str = "latency", over: str = "eager") -> str:
        """Return a speedup without its interval: 1.28."""
        return numbers.factor(self._speedup(study, cell, mode, metric, over)["speedup"])

    def span(self, study: str, only: str, mode: str, metric: str = "latency", over: str = "eager") -> str:
        """Return the least and the greatest speedup over these cells: 0.81–2.82."""
        found = [row["speedup"] for row in self._rows(study, only, mode, metric, over)]
        return numbers.between(min(found), max(found))

    def count(
        self, verdict: str, study: str, only: str, mode: str, metric: str = "latency", over: str = "eager"
    ) -> str:
        """Return how many of these cells have this verdict."""
        require_known("verdict", verdict, ("faster", "slower", "equivalent", "inconclusive"))
        return numbers.number(sum(row["verdict"] == verdict for row in self._rows(study, only, mode, metric, over)))

    def total(self, study: str, only: str, mode: str, metric: str = "latency", over: str = "eager") -> str:
        """Return how many of these cells have a speedup."""
        return numbers.number(len(self._rows(study, only, mode, metric, over)))

    def time(self, study: str, cell: str, mode: str, metric: str = "latency") -> str:
        """Return what a call takes, or the first call, with its unit: 18.2 µs."""
        row = self.studies.row(study, "summary", **self._cell(study, cell), mode=mode, metric=metric)
        return numbers.with_unit(self._measured(row, "estimate"), row["unit"])

    def times(self, study: str, only: str, mode: str, metric: str = "latency") -> str:
        """Return the least and the greatest time over these cells with its unit: 18.2–403 µs."""
        rows = self._selected(study, only, "summary", mode=mode, metric=metric)
        found = [row["estimate"] for row in rows if row["estimate"] is not None]
        if not found:
            raise NoData(f"no {metric} of {mode} for {only} in the study of {study}")
        return numbers.range_with_unit(min(found), max(found), rows[0]["unit"])

    def payback(self, study: str, cell: str, mode: str, metric: str = "latency") -> str:
        """Return after how many calls compiling has paid for itself: 2,885; or never, or undecided."""
        row = self.studies.row(study, "payback", **self._cell(study, cell), mode=mode, metric=metric)
        return numbers.calls(row)

    def paybacks(self, study: str, only: str, mode: str, metric: str = "latency") -> str:
        """Return the least and the greatest number of calls after which compiling has paid, where it does."""
        rows = self._selected(study, only, "payback", mode=mode, metric=metric)
        found = [row["calls"] for row in rows if row["kind"] == "after"]
        if not found:
            raise NoData(f"{mode} is paid back for none of {only} in the study of {study}")
        return numbers.whole_range(min(found), max(found))

    def launches(self, study: str, cell: str, mode: str) -> str:
        """Return how many kernels a call launches."""
        row = self.studies.row(study, "compilation", **self._cell(study, cell), mode=mode)
        return numbers.number(self._measured(row, "launched"))

    def setting(self, study: str, path: str) -> str:
        """Return what the study's mapping says at a path such as sampling.samples: 100, or 256 MiB."""
        found = self.studies.of(study)["study"]
        for key in path.split("."):
            if not isinstance(found, dict) or key not in found:
                raise InputError(f"setting: {path} is not in the study of {study}; allowed: a path in its study.yaml")
            found = found[key]
        return numbers.number(found) if isinstance(found, int | float) else numbers.size(str(found))

    def fact(self, study: str, name: str) -> str:
        """Return what is known of a study as a whole, by one of the names of FACTS."""
        require_known("fact", name, FACTS)
        return FACTS[name](self.studies.of(study))

    def control(self, study: str, metric: str) -> str:
        """Return what share 95 % of the A/A comparisons stay below by a metric: 1.4 %."""
        found = self.studies.of(study)["control"]
        if metric not in found:
            raise NoData(f"the study of {study} has no A/A comparison by {metric}")
        return numbers.percent(found[metric]["p95"])

    def gpus(self, study: str, metric: str, name: str) -> str:
        """Return how the GPUs of a study differ: in `apart` of `of` cells, by a `median` or `p95` of that share."""
        found = self.studies.of(study)["by_gpu"].get(metric, {})
        if not found.get("of"):
            raise NoData(f"the study of {study} has too few repeats for each GPU to compare GPUs by {metric}")
        require_known("gpus", name, found)
        return numbers.percent(found[name]) if name in ("median", "p95") else numbers.number(found[name])

    def first(self, study: str, metric: str, name: str) -> str:
        """Return how many verdicts of all repeats the first ones give as well: `decided`, `same`, `opposite`, …"""
        found = self.studies.row(study, "first_repeats", metric=metric)
        require_known("first", name, found)
        return numbers.number(found[name])

    def size(self, size: str) -> str:
        """Return a size as people write it: 20,971,520."""
        return numbers.size(size)

    def constant(self, name: str) -> str:
        """Return a number of constants.yaml."""
        require_known("constant", name, self.constants["numbers"])
        return str(self.constants["numbers"][name])

    def published(self, op: str, name: str) -> str:
        """Return what the earlier study published about an op: its `mean`, `low` or `high` speedup."""
        require_known("published", op, self.earlier["ops"])
        require_known("published", name, ("mean", "low", "high"))
        return numbers.factor(self.earlier["ops"][op][name])

    def arm(self, study: str, mode: str, over: str, metric: str) -> str:
        """Return the mean speedup of a diagnostic arm over what it diagnoses, with its interval."""
        return numbers.ci(self.studies.row(study, "arms", mode=mode, baseline=over, metric=metric))

    def busy(self, study: str, cell: str, mode: str) -> str:
        """Return the device's time of a call in the law, with its unit."""
        calls = host_law.calls(self.studies.of(study))
        key = (*self._cell(study, cell).values(), mode)
        if key not in calls:
            raise NoData(f"the study of {study} has no device time of {cell} in {mode}")
        return numbers.with_unit(calls[key].device, "µs")

    def toll(self, study: str, only: str, mode: str) -> str:
        """Return how much longer than eager a mode keeps the host, in the mean over these cells, with its unit."""
        cells = self._rows(study, only, mode, "host", "eager")
        host = {
            tuple(row[k] for k in (*CELL, "mode")): row["estimate"]
            for row in self.studies.rows(study, "summary", metric="host")
        }
        longer = [host[*at, mode] - host[*at, "eager"] for row in cells for at in [tuple(row[key] for key in CELL)]]
        return numbers.with_unit(sum(longer) / len(longer), "µs")

    def alone(self, name: str) -> str:
        """Return of the predictions by device time alone how many are `right`, of how many `decided`."""
        require_known("alone", name, ("right", "decided"))
        rows = [row for row in self.studies.predictions if not row.fitted and row.right is not None]
        right = sum((row.by_device > 1) == (row.verdict == "faster") for row in rows)
        return numbers.number(right if name == "right" else len(rows))

    def law(self, mode: str, name: str) -> str:
        """Return a constant of the law in µs: `call`, or `each` launch or copy."""
        laws = self.studies.laws
        if mode not in laws:
            raise NoData(f"no study fits the law of {mode}")
        return numbers.value(getattr(laws[mode], name))

    def predicted(self, name: str, study: str = "", mode: str = "") -> str:
        """Return of the predictions that were not fitted how many there are, are decided or right, or their error.

        study, mode: of one study or mode alone; name: a key of host_law.accuracy.
        """
        label = self.studies.of(study)["study"]["machine"] if study else ""
        rows = [
            row
            for row in self.studies.predictions
            if not row.fitted and label in ("", row.study) and mode in ("", row.mode)
        ]
        if not rows:
            raise NoData("no study but the fitted one has what the law predicts")
        require_known("predicted", name, ("rows", "decided", "right", "error", "host"))
        found = host_law.accuracy(rows)[name]
        return numbers.percent(found) if name in ("error", "host") else numbers.number(found)

    def _cell(self, study: str, cell: str) -> dict:
        require_known("op", cell.split()[0], self.names["op"])
        return dict(zip(CELL, self.studies.cell(study, cell), strict=True))

    def _speedup(self, study: str, cell: str, mode: str, metric: str, over: str) -> dict:
        at = self._cell(study, cell)
        row = self.studies.row(study, "speedups", **at, mode=mode, baseline=over, metric=metric)
        self._measured(row, "speedup")
        return row

    def _measured(self, row: dict, column: str) -> float:
        if row.get(column) is None:
            raise NoData(f"{' '.join(row[key] for key in (*CELL, 'mode'))}: {row.get('reason') or 'has no value'}")
        return row[column]

    def _rows(self, study: str, only: str, mode: str, metric: str, over: str) -> list[dict]:
        given = {"mode": mode, "baseline": over, "metric": metric}
        rows = [row for row in self._selected(study, only, "speedups", **given) if row["speedup"] is not None]
        if not rows:
            raise NoData(f"no speedup of {mode} over {over} by {metric} for {only} in the study of {study}")
        return rows

    def _selected(self, study: str, only: str, table: str, **given) -> list[dict]:
        wanted = self.wanted(only)
        rows = self.studies.rows(study, table, **given)
        return [row for row in rows if not wanted or any(_fits(row, *one) for one in wanted)]

    def wanted(self, only: str) -> list[tuple[str, str | None]]:
        """Return the (op, size or None) that `only` names; none where it is "all"."""
        if only == "all":
            return []
        found = []
        for part in self.constants["groups"].get(only, only).split(","):
            op, *size = part.split() or [""]
            require_known("op", op, self.names["op"])
            found.append((op, size[0] if size else None))
        return found


def _fits(row: dict, op: str, size: str | None) -> bool:
    return row["op"] == op and size in (None, row["size"])


def _gpu(document: dict) -> str:
    gpu = document["environment"]["gpu"]
    return (gpu["name"] if gpu else document["environment"]["host"]["cpu"]).removeprefix("NVIDIA ").split()[0]


# What is known of a study as a whole.
FACTS: dict[str, Callable[[dict], str]] = {
    "gpu": _gpu,
    "gpus": lambda document: numbers.number(len(document["environment"]["gpu_uuids"])),
    "repeats": lambda document: numbers.number(document["study"]["repeats"]),
    "jobs": lambda document: numbers.number(document["environment"]["jobs"]),
    "minutes": lambda document: numbers.number(round(document["environment"]["job_seconds"] / 60)),
    "torch": lambda document: document["environment"]["software"]["torch"].split("+")[0],
    "triton": lambda document: document["environment"]["software"]["triton"],
    "cuda": lambda document: document["environment"]["software"]["cuda"],
    "cpu": lambda document: document["environment"]["host"]["cpu"],
}
