"""The name by which Snakemake finds the logger plugin that profiles/default selects: what it does is in progress.py."""

from kernelbench.running.snakemake_progress import LogHandler

__all__ = ["LogHandler"]
