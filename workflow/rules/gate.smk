# Gate: refuse data that no paper should be built on.
#
# needs  jobs.parquet, study.yaml, environment.json and speedups.csv of this machine or of a recorded study
# makes  defects.json beside the tables, and paper/build/defects.json of all recorded studies, which fails where there
#        are any, unless a draft was asked for


# Seconds each: on a cluster the login node runs them, and none waits for an allocation.
localrules:
    find_defects,
    find_defects_recorded,
    check,


# What repairs this machine's study has to name; a draft is asked for by itself.
configured = ["--configfile", *map(os.path.relpath, workflow.configfiles)]
if overlaid := {key: value for key, value in workflow.config_settings.config.items() if key != "draft"}:
    configured += ["--config", *(f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in overlaid.items())]


# This machine's report shows what is wrong with its data, as a draft; it is never refused.
rule find_defects:
    input:
        jobs="results/{machine}/jobs.parquet",
        environment="results/{machine}/environment.json",
        study="results/{machine}/study.yaml",
        speedups="results/{machine}/speedups.csv",
        code=sources("check"),
    output:
        "results/{machine}/defects.json",
    log:
        "results/{machine}/logs/find_defects.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    params:
        data=lambda wildcards, input: Path(input.jobs).parent,
        options=["--draft", *configured],
    shell:
        "python workflow/scripts/check.py --data {params.data:q} {params.options:q} --output {output:q} > {log:q} 2>&1"


# Those of all recorded studies, which fail the build unless a draft was asked for.
use rule find_defects as find_defects_recorded with:
    input:
        jobs=expand("{data}/jobs.parquet", data=recorded_data),
        environment=expand("{data}/environment.json", data=recorded_data),
        study=expand("{data}/study.yaml", data=recorded_data),
        speedups=expand("{data}/speedups.csv", data=recorded_data),
        code=sources("check"),
    output:
        "paper/build/defects.json",
    log:
        "paper/build/find_defects.log",
    params:
        data=recorded_data,
        options=["--draft"] if study.draft else [],


# List the defects of the recorded studies, and of what this machine measured; fail if there are any.
rule check:
    log:
        f"{study.results}/logs/check.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    params:
        data=[*recorded_data, study.results],
        options=configured,
    shell:
        "python workflow/scripts/check.py --data {params.data:q} {params.options:q} 2>&1 | tee {log:q}"
