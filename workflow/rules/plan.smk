# Plan: what a run would do, and what narrower intervals would take.
#
# needs  the study, and whatever records and tables there are of this machine or recorded studies
# makes  nothing but logs; prints how many jobs are left, how long they take and how much disk; and how many repeats
#        narrow intervals need


# Say how many jobs, how long, how much disk.
rule plan:
    log:
        f"{study.results}/logs/plan.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    params:
        study=json.dumps(study.config),
        gpus=lambda wildcards: lanes.planned,  # When asked for: a paper needs no GPU.
    shell:
        "python workflow/scripts/plan.py --study {params.study:q} --gpus {params.gpus} 2>&1 | tee {log:q}"


# Say how many repeats intervals of ±1 % need: of this machine, or of a recorded study where it has measured nothing.
rule precision:
    log:
        f"{study.results}/logs/precision.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    params:
        data=[study.results, f"results/recorded/{study.machine}", *recorded_data],
        output=f"{study.results}/precision.csv",
    shell:
        "python workflow/scripts/precision.py --data {params.data:q} --output {params.output:q} 2>&1 | tee {log:q}"
