"""One measurement: from a job's settings to its record.

A change of what a file here does makes the records of the jobs that import it obsolete; comments, docstrings and layout
may change freely (kernelbench.code_digest). Nothing here reads the config or knows about the rest of the study.
"""
