# Site: the recorded results on one page, on which a reader chooses.
#
# needs  summary.json and the files of each recorded study, and what the paper makes of them: claims.json, defects.json,
#        coverage.json, paper.pdf and supplement.pdf
# makes  results/site/index.html, which needs nothing beside it but the two PDFs that it links


# Seconds each: on a cluster the login node runs them, and none waits for an allocation.
localrules:
    write_site,
    copy_to_site,
    site,


# Write the page.
rule write_site:
    input:
        documents=expand("{directory}/summary.json", directory=recorded),
        data=expand(
            "{directory}/{file}",
            directory=recorded_data,
            file=["samples.parquet", "jobs.parquet", "speedups.csv", "summary.csv", "study.yaml", "environment.json"],
        ),
        claims="paper/build/claims.json",
        defects="paper/build/defects.json",
        coverage="paper/build/coverage.json",
        looks=expand(
            "workflow/kernelbench/{file}", file=["site/site.html", "site/site.css", "site/site.js", "page/page.css"]
        ),
        code=sources("write_site"),
    output:
        report("results/site/index.html", caption="../report/site.rst", category="Site"),
    log:
        "results/site/logs/write_site.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    params:
        data=recorded_data,
    shell:
        "python workflow/scripts/write_site.py --documents {input.documents:q} --data {params.data:q}"
        " --claims {input.claims:q} --defects {input.defects:q} --coverage {input.coverage:q}"
        " --output {output:q} > {log:q} 2>&1"


# Put a document beside the page, which links it.
rule copy_to_site:
    input:
        "paper/{document}.pdf",
    output:
        "results/site/{document}.pdf",
    log:
        "results/site/logs/copy_{document}.log",
    wildcard_constraints:
        document="paper|supplement",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    shell:
        "cp {input:q} {output:q} > {log:q} 2>&1"


rule site:
    input:
        "results/site/index.html",
        expand("results/site/{document}.pdf", document=["paper", "supplement"]),
