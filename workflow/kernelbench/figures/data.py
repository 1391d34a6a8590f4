"""What the figures of a single study ask of its summary.json."""

from kernelbench.analysis.studies import Studies, topic
from kernelbench.figures.style import BASELINE, CONTROL_LOOK, LIBRARIES, SHARED, look
from kernelbench.study.cells import CONTROL, drop_diagnostic_arms

# The time metrics that figures show, with their names in full.
TIMES = {"device": "device time", "latency": "latency"}


class Data:
    """A summary.json without its diagnostic arms. A group is an (op, dtype): what shares a panel."""

    def __init__(self, document: dict):
        document = drop_diagnostic_arms(document)
        study = document["study"]
        self.baseline, self.ops, self.configs = study["baselines"][0], study["ops"], study["modes"]
        self.summary, self.traces = document["summary"], document["traces"]
        self.speedups = [row for row in document["speedups"] if row["baseline"] == self.baseline]
        self.metrics = [metric for metric in TIMES if any(row["metric"] == metric for row in self.summary)]
        # The ops and the modes in the order of the config, since the rows come in the order of the run.
        groups = dict.fromkeys((row["op"], row["dtype"]) for row in self.summary)
        self.groups = sorted(groups, key=lambda group: list(self.ops).index(group[0]))
        self.modes = [mode for mode in self.configs if any(row["mode"] == mode for row in self.summary)]
        self._studies, self._topic = Studies([document]), topic(study)

    def find(self, table: str, value: str, group: tuple[str, str], **where) -> dict | None:
        """Return the row of a table, None where it or its value is missing; all are comparisons but the summary's."""
        where |= {"op": group[0], "dtype": group[1]} | ({} if table == "summary" else {"baseline": self.baseline})
        return self._studies.find(self._topic, table, value, **where)

    def list_sizes(self, group: tuple[str, str]) -> list[str]:
        """Return the sizes of a group, ascending; in the order of the config if not numbers."""
        found = {row["size"] for row in self.summary if (row["op"], row["dtype"]) == group}
        sizes = [str(size) for size in self.ops[group[0]]["sizes"] if str(size) in found]
        return sorted(sizes, key=int) if all(size.isdigit() for size in sizes) else sizes

    def name_group(self, group: tuple[str, str]) -> str:
        """Return the name of a panel: the op, and its dtype where the study has several."""
        return group[0] if len({dtype for _, dtype in self.groups}) == 1 else ", ".join(group)

    def look(self, mode: str) -> dict:
        """Return the colour and the marker of a mode; those of a mode of this study alone depend on its place."""
        if mode in (self.baseline, CONTROL):
            return BASELINE if mode == self.baseline else CONTROL_LOOK
        return look(mode, [own for own in self.modes if own not in (*SHARED, *LIBRARIES, self.baseline, CONTROL)])
