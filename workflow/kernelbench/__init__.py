"""KernelBench: does torch.compile pay?

A folder for each stage. A module imports only from its own stage and from those above it:

    harness   one measurement: from a job's settings to its record
    study     the study file, its cells and jobs, and their order
    running   on which GPU and in which process a job runs, and whether its record is still current
    records   from records to samples.parquet and jobs.parquet, and back; the quality gate
    analysis  intervals, speedups, causes: summary.csv, speedups.csv and summary.json
    planning  what a study costs, and how many repeats it needs
    claims    rules on the tables, and measuring their rows again
    figures   from the tables to SVG
    paper     from the tables to the article, its supplement and the report of a machine
    page      which mode to run a model in, as an HTML page and in the terminal

`code_digest`, `errors`, `imports`, `notes`, `numbers`, `op_names` and `paths` are for all of them.
"""
