"""What the article's figures have in common: which cells and modes they show, under which names, and their numbers."""

from collections.abc import Iterator

from kernelbench.documents.names import name
from kernelbench.documents.studies import CELL, NoData, Studies
from kernelbench.figures import parts
from kernelbench.figures.style import look

# The modes of the article, with their names in its text.
MODES = {
    "eager": "eager",
    "compile": "compile",
    "cuda-graph": "cuda-graph",
    "compile-reduce-overhead": "reduce-overhead",
    "triton": "triton",
}
WAITED, QUEUED = "latency", "throughput"
# A group of cells is what one row of the article's first table is about; each is from the study of one topic.
GROUPS = {
    "one tuned operation": ("ops", ("matmul 512", "matmul 4096", "attention 128", "attention 2048")),
    "one memory-bound operation": (
        "ops",
        ("softmax 1024", "softmax 4096", "softmax 16384", "layer_norm 256", "layer_norm 4096"),
    ),
    "element-wise operations": ("elementwise", ("elementwise_chain 65536", "elementwise_chain 20971520")),
    "model, small batch": (
        "architectures",
        ("resnet50 1", "vit_b_16 1", "bert_base 1x128", "gpt2_prefill 1x512", "llama_1b_decode 1x1024"),
    ),
    "model, large batch": (
        "architectures",
        ("resnet50 64", "vit_b_16 32", "convnext_tiny 64", "bert_base 32x128", "llama_1b_prefill 1x1024"),
    ),
    "batched decoding": ("architectures", ("llama_1b_decode 16x1024",)),
    "fused layers": ("architectures", ("transformer_fast 128",)),
    "training step": ("architectures", ("resnet50_training 64", "gpt2_training 8x512")),
}


def locate(studies: Studies, which: str, cell: str) -> dict | None:
    """Return {op, dtype, size} of "softmax 1024" in a topic, of several dtypes the first; None where it is missing."""
    op, size = cell.split()
    rows = studies.rows(which, "summary", op=op, size=size) if which in studies else []
    return {key: rows[0][key] for key in CELL} if rows else None


def find(studies: Studies, which: str, table: str, cell: str, **where) -> dict | None:
    """Return the row of a table for a cell, None where it was not measured."""
    at = locate(studies, which, cell)
    try:
        return at and studies.row(which, table, **at, **where)
    except NoData:
        return None


def find_speedup(studies: Studies, which: str, cell: str, mode: str, metric: str) -> dict | None:
    """Return the row of a speedup over eager, None where it was not measured."""
    row = find(studies, which, "speedups", cell, mode=mode, baseline="eager", metric=metric)
    return row if row and row["speedup"] is not None else None


def find_groups(studies: Studies, columns: list[tuple[str, str]], topics: tuple[str, ...]) -> Iterator[tuple]:
    """Yield (heading, [(topic, cell, its speedups)]) with a speedup or None for each (mode, metric) of `columns`.

    Only of groups from these topics; cells and groups without any speedup are left out.
    """
    for heading, (which, cells) in GROUPS.items():
        found = [(which, cell, [find_speedup(studies, which, cell, *column) for column in columns]) for cell in cells]
        found = [entry for entry in found if any(entry[2])]
        if found and which in topics:
            yield heading, found


def name_cell(cell: str) -> str:
    """Return the name of "softmax 1024" in the text."""
    return name(*cell.split())


def interval(row: dict, value: str) -> tuple[float, float, float]:
    """Return (value, low, high) of a row; without an interval (one repeat) the bounds are the value itself."""
    ends = (row["ci_low"], row["ci_high"])
    return row[value], *(row[value] if end is None else end for end in ends)


def mode_keys(modes, **style) -> list:
    """Return entries of a legend for modes with their names."""
    return [parts.key(MODES[mode], **look(mode), **style) for mode in modes]


def is_decided(row: dict) -> bool:
    """Return whether a speedup is faster or slower, and not undecided or too small to matter."""
    return row["verdict"] in ("faster", "slower")
