# Tables: from the records to the files that others read.
#
# needs  the records of this machine, or the samples of a recorded study
# makes  study.yaml, samples.parquet, jobs.parquet, environment.json; from these summary.csv, speedups.csv,
#        summary.json, below results/<machine> and, for a recorded study, results/rebuilt/<study>


# Seconds each: on a cluster the login node runs them, and none waits for an allocation.
localrules:
    write_study,
    collect,
    summarize,
    summarize_recorded,


# Write the study as it is run: the config with everything resolved that depends on the machine.
rule write_study:
    output:
        "results/{machine}/study.yaml",
    log:
        "results/{machine}/logs/write_study.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    params:
        study=json.dumps(study.config),
    shell:
        "python workflow/scripts/write_study.py --study {params.study:q} --output {output:q} > {log:q} 2>&1"


# Collect the records of all jobs.
rule collect:
    input:
        study="results/{machine}/study.yaml",
        records=study.records(),
        # The repeats and not only their records, so that a cluster gets a repeat as one job.
        repeats=expand("results/{{machine}}/repeats/{repeat}.done", repeat=range(study.repeats)),
        code=sources("collect"),
    output:
        samples="results/{machine}/samples.parquet",
        jobs="results/{machine}/jobs.parquet",
        environment="results/{machine}/environment.json",
    log:
        "results/{machine}/logs/collect.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    params:
        results=lambda wildcards, output: Path(output.samples).parent,
    shell:
        "python workflow/scripts/collect.py --study {input.study:q} --results {params.results:q} > {log:q} 2>&1"


# Estimate times and speedups with their intervals.
rule summarize:
    input:
        samples="results/{machine}/samples.parquet",
        jobs="results/{machine}/jobs.parquet",
        environment="results/{machine}/environment.json",
        study="results/{machine}/study.yaml",
        code=sources("summarize"),
    output:
        summary="results/{machine}/summary.csv",
        speedups="results/{machine}/speedups.csv",
        document="results/{machine}/summary.json",
    log:
        "results/{machine}/logs/summarize.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    params:
        data=lambda wildcards, input: Path(input.samples).parent,
        tables=lambda wildcards, output: Path(output.summary).parent,
    shell:
        "python workflow/scripts/summarize.py --data {params.data:q} --output {params.tables:q} > {log:q} 2>&1"


# The same for a recorded study, whose files are sources: no rule makes them.
use rule summarize as summarize_recorded with:
    input:
        samples="results/recorded/{recorded}/samples.parquet",
        jobs="results/recorded/{recorded}/jobs.parquet",
        environment="results/recorded/{recorded}/environment.json",
        study="results/recorded/{recorded}/study.yaml",
        code=sources("summarize"),
    output:
        summary="results/rebuilt/{recorded}/summary.csv",
        speedups="results/rebuilt/{recorded}/speedups.csv",
        document="results/rebuilt/{recorded}/summary.json",
    log:
        "results/rebuilt/{recorded}/logs/summarize.log",
    # The largest first: what follows waits for all of them.
    priority: lambda wildcards: os.path.getsize(f"results/recorded/{wildcards.recorded}/samples.parquet")
