# Model: which mode pays for a user's model, and why.
#
# needs  --config model=FILE.py, and the tables of this machine's study of that model
# makes  results/<machine>-<name>/recommendation.json and report.html; prints the recommendation


# Seconds each: on a cluster the login node runs them, and none waits for an allocation.
localrules:
    recommend,
    model,


# Recommend a mode for each case, and show why on a page.
rule recommend:
    input:
        document="results/{machine}/summary.json",
        code=sources("write_page"),
    output:
        recommendation="results/{machine}/recommendation.json",
        page="results/{machine}/report.html",
    log:
        "results/{machine}/logs/recommend.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    params:
        metric=study.metric,
    shell:
        "python workflow/scripts/write_page.py --document {input.document:q} --metric {params.metric}"
        " --recommendation {output.recommendation:q} --output {output.page:q} > {log:q} 2>&1"


# Measure the model and print the recommendation.
rule model:
    input:
        lambda wildcards: model_study.require_named(config, f"{study.results}/recommendation.json"),
        f"{study.results}/summary.csv",
        study.records(),
    log:
        f"{study.results}/logs/model.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    params:
        recommendation=f"{study.results}/recommendation.json",
        page=f"{study.results}/report.html",
    shell:
        "python workflow/scripts/show_recommendation.py --recommendation {params.recommendation:q} --page {params.page:q}"
        " 2>&1 | tee {log:q}"
