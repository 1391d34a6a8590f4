# Artefacts: what each compilation makes, for the reader of the report.
#
# needs  the job's settings (from the config), the harness, the op's workload
# makes  results/<machine>/artefacts/<op>/<dtype>/<size>/<mode>/: graph.py, before_fusion.txt, after_fusion.txt, code.py


ARTEFACTS = ["graph.py", "before_fusion.txt", "after_fusion.txt", "code.py"]


# Save the artefacts of one compiled cell. No figure comes of it: it is only made on request.
rule save_artefacts:
    input:
        lambda wildcards: code_digest.files_of_job(study.settings(study.job_of(wildcards))),
    output:
        report(
            expand("results/{{machine}}/artefacts/{{op}}/{{dtype}}/{{size}}/{{mode}}/{file}", file=ARTEFACTS),
            category="Artefacts",
            subcategory="{op} {size} {dtype}",
            labels={"mode": "{mode}"},
        ),
    log:
        "results/{machine}/logs/artefacts/{op}/{dtype}/{size}/{mode}.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
        gpu=1,
        gpu_model=study.gpu_model,
    params:
        settings=lambda wildcards: study.settings_json(study.job_of(wildcards)),
    shell:
        "python workflow/scripts/artefacts.py --settings {params.settings:q} --output {output:q} > {log:q} 2>&1"


rule artefacts:
    input:
        expand(
            f"{study.results}/artefacts/{{cell}}/{{file}}",
            cell=[job.directory for job in study.compiled()],
            file=ARTEFACTS,
        ),
