# Measure: one record for each job of the study.
#
# needs  the job's settings (from the config), the harness, the op's workload, and its kernel if it runs one
# makes  results/<machine>/records/<op>/<dtype>/<size>/<mode>/<repeat>.json, and an empty
#        results/<machine>/repeats/<repeat>.done once all of a repeat are there


# Measure one job: one process, one exclusive GPU.
rule measure:
    input:
        lambda wildcards: study.sources(study.job_of(wildcards)),
    output:
        "results/{machine}/records/{op}/{dtype}/{size}/{mode}/{repeat}.json",
    log:
        "results/{machine}/logs/{op}/{dtype}/{size}/{mode}/{repeat}.log",
    priority: lambda wildcards: study.priority(study.job_of(wildcards))
    group:
        "repeat"
    conda:
        "../../envs/environment.yaml"
    resources:
        gpu=1,
        gpu_model=study.gpu_model,
        runtime=lambda wildcards: math.ceil(study.timeout(study.job_of(wildcards)) / 60),
        # A resource and not a parameter: a study that grows moves the places of jobs that are already measured.
        place=lambda wildcards: study.place(study.job_of(wildcards)),
    params:
        settings=lambda wildcards: study.settings_json(study.job_of(wildcards)),
    shell:
        "python workflow/scripts/measure.py --settings {params.settings:q} --place {resources.place}"
        " --output {output:q} > {log:q} 2>&1"


# Join the jobs of a repeat: a cluster runs what a rule joins in one allocation, and so on one GPU. Elsewhere it costs
# nothing: it reads no record.
rule bundle_repeat:
    input:
        lambda wildcards: study.records(int(wildcards.repeat)),
    output:
        touch("results/{machine}/repeats/{repeat}.done"),
    group:
        "repeat"
