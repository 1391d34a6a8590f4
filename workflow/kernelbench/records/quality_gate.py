"""The gate: what a study's data must not have if a paper is to be built on it.

Reads study.yaml, jobs.parquet, environment.json and speedups.csv of a directory. Each defect names its jobs and what
repairs it: a cell is measured again with all its modes, so that pairs stay next to each other.
"""

import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import yaml

from kernelbench import code_digest
from kernelbench.notes import Note, NotMonitored, OtherProcesses, PowerCap, Throttled
from kernelbench.numbers import name_some
from kernelbench.paths import ROOT
from kernelbench.records.collect import SAME
from kernelbench.records.job_table import compare_clocks, count_at_once, find_runs, find_slowed
from kernelbench.records.job_table import read as read_jobs
from kernelbench.study.cells import CELL, cells_of, find_diagnosed, modes_of

JOB = [*CELL, "mode", "repeat"]
RECORDED = ("results", "recorded")
# The configuration that a run has which names none.
DEFAULT = "config.yaml"
# The metrics of calls that are waited for one at a time.
SINGLE = ("device", "latency", "event")


@dataclass(frozen=True)
class Defect:
    """What is wrong, the jobs that have it (op/dtype/size/mode/repeat) and the command that repairs it."""

    what: str
    jobs: list[str]
    repair: str

    @property
    def where(self) -> str:
        """What is wrong, and the first of the jobs that have it."""
        return f"{self.what}: {name_some(self.jobs)}" if self.jobs else self.what

    def __str__(self) -> str:
        return f"{self.where}; repair: {self.repair}"


def is_recorded(directory: Path) -> bool:
    """Say whether a study's directory is below results/recorded."""
    return directory.parts[-3:-1] == RECORDED


class Gate:
    """The checks of the study in `directory`, which `configfiles` and `config` ask for if it is this machine's own.

    configfiles: in the order in which each is laid over those before it; config: what the command line gave of it, each
    as key=value.
    """

    def __init__(self, directory: Path, configfiles: Iterable[str] = (DEFAULT,), config: Iterable[str] = ()):
        self.directory = directory
        self.asked = ["--configfile", *configfiles] if [*configfiles] != [DEFAULT] else []
        self.asked += ["--config", *config] if config else []
        self.study = yaml.safe_load((directory / "study.yaml").read_text(encoding="utf-8"))
        self.environment = json.loads((directory / "environment.json").read_text(encoding="utf-8"))
        self.jobs = read_jobs(directory / "jobs.parquet").reset_index(drop=True)
        self.speedups = pd.read_csv(directory / "speedups.csv", dtype={"size": str})
        self.is_recorded = is_recorded(directory)

    def find_defects(self) -> list[Defect]:
        """Return all that is wrong, in the order of the checks."""
        checks = (
            self.find_missing, self.find_wrong, self.find_shared, self.find_throttled, self.find_unsettled,
            self.find_unordered, self.find_mixed, self.find_uncommitted,
        )  # fmt: skip
        return [defect for check in checks for defect in check()]

    def find_missing(self) -> Iterator[Defect]:
        """Jobs of the study that are not there, or there twice."""
        planned = [
            (cell.op, cell.dtype, cell.size, mode, repeat)
            for repeat in range(self.study["repeats"])
            for cell in cells_of(self.study)
            for mode in modes_of(self.study, cell)
        ]
        there = list(self.jobs[JOB].itertuples(index=False, name=None))
        absent = sorted(set(planned) - set(there))
        if absent:
            yield Defect("missing", _names(absent), self._repair_command([]))
        more = sorted({job for job in there if there.count(job) > 1} if len(set(there)) < len(there) else ())
        more += sorted(set(there) - set(planned))
        if more:
            yield Defect("not of the study, or there twice", _names(more), self._repair_command(more))

    def find_wrong(self) -> Iterator[Defect]:
        """Modes that computed something wrong, or crashed; but not what a library does in every repeat of a cell.

        That is a finding about the library, which the tables show: no second measurement would repair it.
        """
        library = self.jobs["mode"].map(lambda mode: self.study["modes"].get(mode, {}).get("runner") == "library")
        alike = self.jobs.groupby([*CELL, "mode"]).status.transform("nunique") == 1
        for status in ("incorrect", "crashed"):
            yield from self._of((self.jobs.status == status) & ~(library & alike), status)

    def find_shared(self) -> Iterator[Defect]:
        """Jobs beside which another process computed on the GPU, or that nobody watched."""
        yield from self._of(self._suspected(OtherProcesses), "another process was on the GPU")
        yield from self._of(self._suspected(NotMonitored), "nobody watched the GPU")

    def find_throttled(self) -> Iterator[Defect]:
        """Clocks held back by heat or hardware in any job, or by whatever in one arm by more than δ in single calls.

        Many calls back to back are a load that runs into the power cap by itself: what a mode makes of that is its own
        doing, and so it is in single calls where all modes of a cell run into it. Neither is a defect. If only some
        modes run into it, that is no defect either as long as no verdict between one that does and one that does not
        would change if times were scaled by the clocks.
        """
        hot = [kind for kind in Throttled.__subclasses__() if kind is not PowerCap]
        yield from self._of(self._suspected(*hot), "clocks were held back")
        margins = self.study["equivalence"]
        slow = find_slowed(self.jobs, margins.get("device", margins["default"]), "single")
        by_mode = self._suspected(PowerCap).groupby([self.jobs[name] for name in (*CELL, "mode")])
        capped = by_mode.mean() >= 0.5
        slow &= ~capped.groupby(level=CELL).transform("all")
        for *cell, mode in slow.index[slow]:
            if capped[(*cell, mode)] and not self._hangs_on_clock(cell, mode, ~capped[tuple(cell)]):
                continue
            mine = (self.jobs[[*CELL, "mode"]] == [*cell, mode]).all(axis=1)
            yield from self._of(mine, "the SM clock was lower than in other modes")

    def _hangs_on_clock(self, cell: list[str], mode: str, free: pd.Series) -> bool:
        """Say whether a verdict on single calls of a mode could be another one at the clock of the modes that are free.

        free: by mode, whether it stays below the power cap. The most that a clock can do is to make time go with it:
        each interval is moved by that.
        """
        rows = self.speedups[(self.speedups[CELL] == cell).all(axis=1) & self.speedups.metric.isin(SINGLE)]
        rows = rows[(rows["mode"] == mode) & rows.baseline.map(free) | (rows.baseline == mode) & rows["mode"].map(free)]
        clocks = compare_clocks(self.jobs, "single")[tuple(cell)]
        moved = clocks[rows.baseline].to_numpy() / clocks[rows["mode"]].to_numpy()
        low, high, bound = rows.ci_low * moved, rows.ci_high * moved, 1 + rows.delta
        kept = {"faster": low > 1, "slower": high < 1, "equivalent": (low >= 1 / bound) & (high <= bound)}
        return any((rows.verdict.eq(verdict) & ~same).any() for verdict, same in kept.items())

    def find_unsettled(self) -> Iterator[Defect]:
        """Jobs whose warm-up did not settle."""
        yield from self._of(self.jobs.settled.eq(False), "warm-up did not settle")

    def find_unordered(self) -> Iterator[Defect]:
        """Modes that did not run next to those that they are compared with, or cells in another order than planned.

        Also modes that were measured in two runs, which may be any time apart.
        """
        pieces = [*CELL, "repeat"]
        ordered = self.jobs.sort_values(["repeat", "ran"])
        begins = (ordered[pieces] != ordered[pieces].shift()).any(axis=1)
        ordered = ordered.assign(block=begins.cumsum())
        found = ordered.groupby("block").place.transform(lambda places: not places.is_monotonic_increasing)
        where = ordered.assign(run=find_runs(ordered)).groupby([*pieces, "mode"])[["block", "run"]].first()
        for mode, own in ordered.groupby("mode"):
            other = find_diagnosed(self.study, mode)
            for baseline in [other] if other else self.study["baselines"]:
                mine, beside = (
                    where.reindex(pd.MultiIndex.from_frame(own[pieces].assign(mode=of))).set_axis(own.index)
                    for of in (mode, baseline)
                )
                known = beside.notna() & mine.notna()
                found |= (known & (beside != mine)).any(axis=1).reindex(found.index, fill_value=False)
        yield from self._of(found.reindex(self.jobs.index), "pairs did not run as planned")

    def find_mixed(self) -> Iterator[Defect]:
        """Hardware, software or code of more than one kind."""
        ran = self.jobs[self.jobs.status != "unsupported"]
        for column, name in SAME.items():
            kinds = ran[column].dropna().unique() if column in ran else ()
            if len(kinds) > 1:
                rare = ran[ran[column] == ran[column].value_counts().index[-1]]
                yield Defect(f"two kinds of {name} ({', '.join(map(str, kinds))})", *self._named(rare))
        yield from self._find_mixed_code(ran)

    def _find_mixed_code(self, ran: pd.DataFrame) -> Iterator[Defect]:
        """Yield a defect for each file of which several states measured jobs, with the jobs that today's did not."""
        code, older = self.environment.get("code", {"files": {}})["files"], self.environment.get("sources", [])
        if len(older) + bool(code) > 1:  # A record of an older scheme does not say by file what measured it.
            digests = ran["environment.software.sources"]
            old = ran[digests.notna() if code else digests == digests.value_counts().index[-1]]
            yield Defect(f"measured by {len(older) + bool(code)} states of the code", *self._named(old))
        mixed = [file for file, digests in code.items() if len(digests) > 1]
        states = ran["code.files"].dropna().map(json.loads) if mixed else ()
        for file in mixed:
            measured = pd.Series({index: state.get(file) for index, state in states.items()}).dropna()
            today = code_digest.of_file(ROOT / file) if (ROOT / file).is_file() else None
            old = ran.loc[measured[measured != today].index]
            yield Defect(f"measured by {len(code[file])} states of {file}", *self._named(old))

    def find_uncommitted(self) -> Iterator[Defect]:
        """A recorded study that the code of no commit measured."""
        if self.is_recorded and not self.environment.get("commit"):
            yield Defect("no commit has the code that measured it", [], "commit it, measure again, promote again")

    def _suspected(self, *kinds: type[Note]) -> pd.Series:
        """Return for each job whether a note of one of these kinds speaks against its times."""
        return self.jobs.suspect.map(lambda said: any(isinstance(note, kinds) for note in said or ())).astype(bool)

    def _of(self, which: pd.Series, what: str) -> Iterator[Defect]:
        found = self.jobs[which.fillna(False).astype(bool)]
        if len(found):
            yield Defect(what, *self._named(found))

    def _named(self, jobs: pd.DataFrame) -> tuple[list[str], str]:
        keys = list(jobs[JOB].itertuples(index=False, name=None))
        return _names(keys), self._repair_command(keys)

    def _repair_command(self, jobs: list[tuple]) -> str:
        """Return the command that measures the cells of `jobs` again, in the repeats that have them.

        Where a recorded study's records are not here, they are first brought back: else all of it were measured.
        """
        results = f"results/{self.study['machine']}"
        restored = self.is_recorded and not Path(results, "records").is_dir()
        back = f"python workflow/scripts/restore.py {self.directory}; " if restored else ""
        cells = dict.fromkeys(f"{results}/records/{op}/{dtype}/{size}/*/{r}.json" for op, dtype, size, _, r in jobs)
        removal = f"rm {' '.join(cells)}; " if cells else ""
        promotion = f"; python workflow/scripts/promote.py {results}" if self.is_recorded else ""
        study = ["--configfile", str(self.directory / "study.yaml")] if self.is_recorded else self.asked
        # As many GPUs as measured at once: a repeat goes on on its own, which may be the last of them.
        gpus = count_at_once(self.jobs) or 1
        cores = f" --cores {gpus}" if gpus > 1 else ""
        on_gpu = f"{cores} --resources gpu={gpus}" if self.environment["gpu"] else ""
        return f"{back}{removal}snakemake{on_gpu}{' ' if study else ''}{shlex.join(study)}{promotion}"


def _names(jobs: list[tuple]) -> list[str]:
    return ["/".join(map(str, job)) for job in jobs]
