# Preflight: what this host is good for, before a run or before a host is rented for long.
#
# needs  the study, of which it takes the device and how calls are timed
# makes  results/<machine>/preflight.json; prints free cores, launch time, clocks, the copy's rate, and a verdict


# Ask the host, in about a minute. The file is no output: each time it is asked anew.
rule preflight:
    log:
        f"{study.results}/logs/preflight.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.alone(),
        gpu=1,
        gpu_model=study.gpu_model,
    params:
        study=json.dumps(study.config),
        output=f"{study.results}/preflight.json",
    shell:
        "python workflow/scripts/preflight.py --study {params.study:q} --output {params.output:q} 2>&1 | tee {log:q}"
