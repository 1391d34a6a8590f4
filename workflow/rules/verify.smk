# Verify: measure a random part of a recorded study again and compare.
#
# needs  a recorded study and paper/claims.yaml
# makes  results/<label>-verify, by a run of its own: verify.yaml (the study that is measured), what any study has, and
#        verify.csv; prints what is confirmed, contradicted or not told


# It starts a run of Snakemake and computes nothing itself: on a cluster it would hold an allocation for nothing.
localrules:
    verify,


# Measure a part again and say which figures and claims it confirms. No resource gpu: the run inside has the GPUs.
rule verify:
    input:
        claims="paper/claims.yaml",
    log:
        f"{study.results}/logs/verify.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.alone(),
    params:
        verify=json.dumps(study.verify),
        recorded=study.recorded,
        gpus=lambda wildcards: lanes.planned,  # When asked for: a paper needs no GPU.
    shell:
        "python workflow/scripts/verify.py --verify {params.verify:q} --claims {input.claims:q} --recorded {params.recorded}"
        " --gpus {params.gpus}"
        " 2>&1 | tee {log:q}"
