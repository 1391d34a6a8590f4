"""The studies that a document is built from, found by topic, so that no sentence or table names a machine."""

from collections.abc import Callable

from kernelbench.analysis.metrics import ALL
from kernelbench.errors import InputError

# The topic of the default study, which has no name of its own.
OPS = "ops"
CELL = ("op", "dtype", "size")


def order(study: dict) -> Callable[[tuple], tuple]:
    """Return a key that sorts (op, dtype, size) and (op, dtype, size, mode) as a study's mapping has them."""
    ops = list(study["ops"])
    sizes = {op: [*map(str, entry["sizes"]), ALL] for op, entry in study["ops"].items()}
    modes = list(study["modes"])

    def key(row: tuple) -> tuple:
        op, dtype, size, *mode = row
        return (ops.index(op), dtype, sizes[op].index(size), *map(modes.index, mode))

    return key


class NoData(Exception):
    """What an address names is no mistake, but no study that the document is built from has it."""


def topic(study: dict) -> str:
    """Return the topic of a study's mapping: its name, `ops` where it has none, after `cpu-` on a CPU."""
    prefix = "cpu-" if study["machine"].startswith("cpu") else ""
    return prefix + (study.get("study") or OPS)


class Studies:
    """Documents of summary.json by topic: of two studies of a topic the one that the config names first.

    by_topic: which document stands for which topic, where that is another.
    """

    def __init__(self, documents: list[dict], by_topic: dict[str, dict] | None = None):
        self.documents = documents
        first = {topic(document["study"]): document for document in reversed(documents)}
        self._by_topic = first if by_topic is None else by_topic
        self._rows = {}
        # The law, with what it predicts of these studies: law.apply sets both.
        self.laws, self.predictions = {}, []

    def __contains__(self, name: str) -> bool:
        return name in self._by_topic

    def get(self, name: str) -> dict | None:
        """Return the document of a topic, None where no study has it."""
        return self._by_topic.get(name)

    def of(self, name: str) -> dict:
        """Return the document of a topic; raise NoData where no study has it."""
        if name not in self._by_topic:
            raise NoData(f"no recorded study is about {name}")
        return self._by_topic[name]

    def cell(self, name: str, words: str) -> tuple[str, str, str]:
        """Return the (op, dtype, size) that `words` name in a topic: "softmax 1024", or "gpt 12 bfloat16".

        Without a dtype it is the only one that the op has at that size. Raises NoData where the study has no such cell,
        InputError where the words are too few, too many, or fit cells of several dtypes.
        """
        parts = words.split()
        if len(parts) not in (2, 3):
            raise InputError(f"{words}: is no cell; allowed: an op and a size, and a dtype where there are several")
        cells = dict.fromkeys(tuple(row[key] for key in CELL) for row in self.of(name)["summary"])
        found = [cell for cell in cells if [cell[0], cell[2], *([cell[1]] if len(parts) == 3 else [])] == parts]
        if not found:
            raise NoData(f"the study of {name} has no {words}")
        if len(found) > 1:
            raise InputError(f"{name}: {words}: has several dtypes; allowed: one of {[cell[1] for cell in found]}")
        return found[0]

    def row(self, name: str, table: str, **where) -> dict:
        """Return the row of a table of a topic's document that has these values; raise NoData where there is none."""
        keys = tuple(sorted(where))
        at = (name, table, keys)
        if at not in self._rows:
            rows = self.of(name)[table]
            self._rows[at] = {tuple(row.get(key) for key in keys): row for row in rows}
        values = tuple(where[key] for key in keys)
        if values not in self._rows[at]:
            raise NoData(f"{table} of the study of {name} has no row of {' '.join(map(str, where.values()))}")
        return self._rows[at][values]

    def find(self, name: str, table: str, value: str, **where) -> dict | None:
        """Return the row that `row` returns, None where it or its value is missing."""
        try:
            row = self.row(name, table, **where)
        except NoData:
            return None
        return None if row[value] is None else row

    def rows(self, name: str, table: str, **where) -> list[dict]:
        """Return the rows of a table in which each column has the value, or one of the list of values; no means."""
        wanted = {key: value if isinstance(value, list | tuple) else [value] for key, value in where.items()}
        return [
            row
            for row in self.of(name)[table]
            if row.get("size") != ALL and all(row.get(key) in values for key, values in wanted.items())
        ]
