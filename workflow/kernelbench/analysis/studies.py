"""The studies that a document is built from, found by topic, so that no sentence or table names a machine."""

from collections import Counter
from collections.abc import Callable

from kernelbench.errors import InputError
from kernelbench.study.metrics import ALL

# The topic of the default study, which has no name of its own.
OPS = "ops"
GPU = "cuda"
CELL = ("op", "dtype", "size")


class NoData(Exception):
    """What an address names is no mistake, but no study that the document is built from has it."""


def order(study: dict) -> Callable[[tuple], tuple]:
    """Return a key that sorts (op, dtype, size) and (op, dtype, size, mode) as a study's mapping has them."""
    ops, modes = list(study["ops"]), list(study["modes"])
    sizes = {op: [*map(str, entry["sizes"]), ALL] for op, entry in study["ops"].items()}

    def key(row: tuple) -> tuple:
        op, dtype, size, *mode = row
        return (ops.index(op), dtype, sizes[op].index(size), *map(modes.index, mode))

    return key


def topic(study: dict) -> str:
    """Return the topic of a study's mapping: its name, `ops` where it has none, after `cpu-` on a CPU."""
    prefix = "cpu-" if study["machine"].startswith("cpu") else ""
    return prefix + (study.get("study") or OPS)


def name_device(document: dict) -> str:
    """Return the model of the GPU, or else of the CPU, that a study was measured on, in one word: H200."""
    gpu = document["environment"]["gpu"]
    return (gpu["name"] if gpu else document["environment"]["host"]["cpu"]).removeprefix("NVIDIA ").split()[0]


def list_cells(document: dict) -> list[tuple[str, str, str]]:
    """Return every (op, dtype, size) of a document."""
    return list(dict.fromkeys(tuple(row[key] for key in CELL) for row in document["summary"]))


class Studies:
    """Documents of summary.json by topic.

    Of two studies on one topic, the one that the config names first has the topic as its name, the second one
    `architectures 2`.
    by_topic: which document stands for which topic, where that is another; device: "cuda" or "cpu", on which all of
    them count as measured, beside their own.
    """

    def __init__(self, documents: list[dict], by_topic: dict[str, dict] | None = None, device: str | None = None):
        self.documents = documents
        self._device = device
        self._by_topic = _number(documents) if by_topic is None else by_topic
        self._indexes: dict[tuple, dict] = {}
        # The law, with what it predicts of these studies: host_law.apply sets both.
        self.laws: dict = {}
        self.predictions: list = []

    def __contains__(self, name: str) -> bool:
        return name in self._by_topic

    def measured_on(self, device: str) -> list[dict]:
        """Return the documents that were measured on GPUs ("cuda") or on CPUs ("cpu")."""

        def is_on(document: dict) -> bool:
            return device in (self._device, "cpu" if topic(document["study"]).startswith("cpu-") else GPU)

        return list(filter(is_on, self.documents))

    def title(self, document: dict) -> str:
        """Return the topic of a document, with its device where several documents are about that topic."""
        name = topic(document["study"])
        several = sum(topic(other["study"]) == name for other in self.documents) > 1
        return f"{name} ({name_device(document)})" if several else name

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

        Words without a dtype name the only one that the op has at that size. Raises NoData where the study has no such
        cell, InputError where the words are too few, too many, or fit cells of several dtypes.
        """
        parts = words.split()
        if len(parts) not in (2, 3):
            raise InputError(f"{words}: is no cell; allowed: an op and a size, and a dtype where there are several")
        found = [
            cell for cell in list_cells(self.of(name)) if parts in ([cell[0], cell[2]], [cell[0], cell[2], cell[1]])
        ]
        if not found:
            raise NoData(f"the study of {name} has no {words}")
        if len(found) > 1:
            raise InputError(f"{name}: {words}: has several dtypes; allowed: one of {[cell[1] for cell in found]}")
        return found[0]

    def find(self, name: str, table: str, value: str | None = None, /, **where) -> dict | None:
        """Return the row of a topic's table that has these values, None where it or its `value` is missing."""
        if name not in self:
            return None
        at = (name, table, *where)
        if at not in self._indexes:
            self._indexes[at] = {tuple(row.get(key) for key in where): row for row in self.of(name)[table]}
        row = self._indexes[at].get(tuple(where.values()))
        return None if row is None or (value and row[value] is None) else row

    def row(self, name: str, table: str, **where) -> dict:
        """Return the row of a table of a topic's document that has these values; raise NoData where there is none."""
        self.of(name)
        found = self.find(name, table, **where)
        if found is None:
            raise NoData(f"{table} of the study of {name} has no row of {' '.join(map(str, where.values()))}")
        return found

    def rows(self, name: str, table: str, **where) -> list[dict]:
        """Return the rows of a table, of single sizes, whose columns have the value or one of the list of values."""
        wanted = {key: value if isinstance(value, list) else [value] for key, value in where.items()}
        return [
            row
            for row in self.of(name)[table]
            if row.get("size") != ALL and all(row.get(key) in values for key, values in wanted.items())
        ]


def _number(documents: list[dict]) -> dict[str, dict]:
    found: dict[str, dict] = {}
    seen: Counter[str] = Counter()
    for document in documents:
        name = topic(document["study"])
        seen[name] += 1
        found[f"{name} {seen[name]}" if seen[name] > 1 else name] = document
    return found
