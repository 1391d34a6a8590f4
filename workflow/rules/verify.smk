# Verify: measure recorded studies again.
#
# needs  recorded studies and paper/claims.yaml
# makes  verify: a random part of one in results/<label>-verify, by a run of its own, and verify.csv; prints what is
#        confirmed or contradicted. reproduce: all of each, in results/<label> and results/<label>-<study>, with a report


# It starts a run of Snakemake and computes nothing itself: on a cluster it would hold an allocation for nothing.
localrules:
    verify,
    reproduce,


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


# Measure every recorded study again, one after the other. What is measured already stays.
rule reproduce:
    log:
        f"{study.results}/logs/reproduce.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.alone(),
    params:
        recorded=study.recorded,
        gpus=lambda wildcards: lanes.planned,  # When asked for: a paper needs no GPU.
    shell:
        "python workflow/scripts/reproduce.py --recorded {params.recorded} --gpus {params.gpus} 2>&1 | tee {log:q}"
