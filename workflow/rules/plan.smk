# Plan: what a run would do.
#
# needs  the study, and whatever records there are of this machine or recorded studies
# makes  nothing but its log; prints how many jobs are left, how long they take and how much disk


# Say how many jobs, how long, how much disk.
rule plan:
    log:
        f"{study.results}/logs/plan.log",
    conda:
        "../../envs/environment.yaml"
    params:
        study=json.dumps(study.config),
        gpus=lanes.count,
    shell:
        "python workflow/scripts/plan.py --study {params.study:q} --gpus {params.gpus} 2>&1 | tee {log:q}"
