"""One measurement: from a job's settings to its record.

Every file here is a declared input of each measurement (a workload's only of its own op), so that a change
re-measures what it touches. Nothing here reads the config or knows about the rest of the study.
"""
