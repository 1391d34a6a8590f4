# Measure: one record for each job of the study.
#
# needs  the job's settings (from the config), the harness, the op's workload, and its kernel if it runs one; none of these
#        is an input file: kernelbench.running.freshness compares contents
# makes  results/<machine>/records/<op>/<dtype>/<size>/<mode>/<repeat>.json, and an empty
#        results/<machine>/repeats/<repeat>.done once all of a repeat are there


# Measure one job: one process, one exclusive GPU.
rule measure:
    input:
        lambda wildcards: freshness.find_inputs(workflow, lanes, study.job_of(wildcards)),
    output:
        "results/{machine}/records/{op}/{dtype}/{size}/{mode}/{repeat}.json",
    log:
        "results/{machine}/logs/{op}/{dtype}/{size}/{mode}/{repeat}.log",
    priority: lambda wildcards: study.priority(study.job_of(wildcards))
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.measuring(),
        gpu=1,
        gpu_model=study.gpu_model,
        runtime=lambda wildcards: math.ceil(study.timeout(study.job_of(wildcards)) / 60),
        # Resources and not parameters: a study that grows, or runs on more GPUs, changes them for jobs that are
        # measured already.
        place=lambda wildcards: study.place(study.job_of(wildcards)),
        timeout=lambda wildcards: study.timeout(study.job_of(wildcards)),
        # With --resources gpu=N, N jobs run at once, each on a GPU of its own.
        lane=lambda wildcards: lanes.find(int(wildcards.repeat)),
        lanes=lanes.count,
    params:
        # With `output` among its arguments a parameter is nothing that Snakemake compares with the last run's.
        settings=lambda wildcards, output: study.settings_json(study.job_of(wildcards)),
        code=lambda wildcards, output: json.dumps(code_digest.of_job(study.settings(study.job_of(wildcards)))),
    shell:
        "python workflow/scripts/measure.py --settings {params.settings:q} --code {params.code:q}"
        " --place {resources.place}"
        " --lane {resources.lane} --lanes {resources.lanes} --timeout {resources.timeout}"
        " --output {output:q} > {log:q} 2>&1"


# Join the jobs of a repeat: a cluster runs what a rule joins in one allocation, and so on one GPU. Elsewhere it costs
# nothing: it reads no record.
rule bundle_repeat:
    input:
        lambda wildcards: study.records(int(wildcards.repeat)),
    output:
        touch("results/{machine}/repeats/{repeat}.done"),
    resources:
        **lanes.beside(),
