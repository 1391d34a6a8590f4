"""The cells and the modes that the article's figures show, and their names."""

from collections.abc import Iterator

from kernelbench.analysis.studies import CELL, Studies
from kernelbench.figures.parts import make_key
from kernelbench.figures.style import look

# The modes of the article, with their names in its text.
MODES = {"eager": "eager", "compile": "compile", "cuda-graph": "cuda-graph",
         "compile-reduce-overhead": "reduce-overhead", "triton": "triton"}  # fmt: skip
WAITED, QUEUED = "latency", "throughput"
# A group of cells is what one row of the article's first table is about; each is from the study of one topic.
ARCHITECTURES = "architectures"
GROUPS = {
    "one tuned operation": ("ops", "matmul 512, matmul 4096, attention 128, attention 2048"),
    "one memory-bound operation": (
        "ops", "softmax 1024, softmax 4096, softmax 16384, layer_norm 256, layer_norm 4096"),
    "element-wise operations": ("elementwise", "elementwise_chain 65536, elementwise_chain 20971520"),
    "model, small batch": (
        ARCHITECTURES, "resnet50 1, vit_b_16 1, bert_base 1x128, gpt2_prefill 1x512, llama_1b_decode 1x1024"),
    "model, large batch": (
        ARCHITECTURES, "resnet50 64, vit_b_16 32, convnext_tiny 64, bert_base 32x128, llama_1b_prefill 1x1024"),
    "batched decoding": (ARCHITECTURES, "llama_1b_decode 16x1024"),
    "fused layers": (ARCHITECTURES, "transformer_fast 128"),
    "training step": (ARCHITECTURES, "resnet50_training 64, gpt2_training 8x512"),
}  # fmt: skip


def locate(studies: Studies, which: str, cells: str) -> list[dict]:
    """Return {op, dtype, size} of those of "softmax 1024, …" that a topic has, of several dtypes the first."""
    found = {}
    for row in studies.of(which)["summary"] if which in studies else []:
        found.setdefault(f"{row['op']} {row['size']}", {key: row[key] for key in CELL})
    return [found[cell] for cell in cells.split(", ") if cell in found]


def find_groups(studies: Studies, columns: list[tuple[str, str]], only: str = "") -> Iterator[tuple]:
    """Yield (heading, [(cell, its speedups)]) with a row or None for each (mode, metric) of the columns.

    Cells and groups without any speedup are left out; `only`: the topic of the groups.
    """
    for heading, (which, cells) in GROUPS.items():
        entries = []
        for at in locate(studies, which, cells) if only in ("", which) else []:
            where = [{**at, "mode": mode, "metric": metric, "baseline": "eager"} for mode, metric in columns]
            entries.append((at, [studies.find(which, "speedups", "speedup", **one) for one in where]))
        if entries := [entry for entry in entries if any(entry[1])]:
            yield heading, entries


def list_modes(modes) -> list:
    """Return entries of a legend for modes with their names."""
    return [make_key(MODES[mode], **look(mode)) for mode in modes]
