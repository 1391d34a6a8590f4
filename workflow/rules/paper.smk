# Paper: three documents.
#
# needs  paper/ (text, claims, constants, published figures, bibliography, templates), and summary.json, figures and defects
#        of each study
# makes  paper/paper.pdf (the article) and paper/supplement.pdf from the recorded studies alone; results/<machine>/report.pdf
#        from this machine's study beside them


# Seconds each: on a cluster the login node runs them, and none waits for an allocation.
localrules:
    simulate_coverage,
    draw_article,
    write_article,
    require_claims,
    write_supplement,
    write_report,
    typeset_article,
    typeset_supplement,
    typeset_report,


# Simulate how often the intervals hold the truth.
rule simulate_coverage:
    input:
        study="{}/study.yaml".format([*recorded_data, study.results][0]),
        code=sources("simulate_coverage"),
    output:
        "paper/build/coverage.json",
    log:
        "paper/build/simulate_coverage.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    shell:
        "python workflow/scripts/simulate_coverage.py --study {input.study:q} --output {output:q} > {log:q} 2>&1"


# Draw the article's figures, all in one process: to import what draws them takes longer than to draw them.
rule draw_article:
    input:
        documents=expand("{directory}/summary.json", directory=recorded),
        code=sources("draw_article"),
    output:
        directory("paper/build/figures"),
    log:
        "paper/build/draw_article.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    shell:
        "python workflow/scripts/draw_article.py --documents {input.documents:q} --output {output:q} > {log:q} 2>&1"


# Fill the values into the text and judge its claims; check the README against the same data.
rule write_article:
    input:
        text="paper/paper.md",
        readme=["README.md", "paper/readme.md"],
        claims="paper/claims.yaml",
        constants="paper/constants.yaml",
        published="paper/published.yaml",
        documents=expand("{directory}/summary.json", directory=recorded),
        defects="paper/build/defects.json",
        code=sources("write_article"),
    output:
        text="paper/build/paper.md",
        outcomes="paper/build/claims.json",
    log:
        "paper/build/write_article.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    shell:
        "python workflow/scripts/write_article.py --text {input.text:q} --readme {input.readme:q} --claims {input.claims:q}"
        " --constants {input.constants:q} --published {input.published:q} --documents {input.documents:q}"
        " --defects {input.defects:q} --figures paper/build/figures --outcomes {output.outcomes:q}"
        " --output {output.text:q} > {log:q} 2>&1"


# Typeset the article; one that says what its data do not is marked as a draft on each page.
rule typeset_article:
    input:
        text="paper/build/paper.md",
        defaults="paper/pandoc.yaml",
        template="paper/template.typ",
        bibliography="paper/references.bib",
        code=sources("typeset"),
        figures="paper/build/figures",
    output:
        report("paper/paper.pdf", caption="../report/paper.rst", category="Paper"),
    log:
        "paper/build/typeset_article.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    shell:
        "python workflow/scripts/typeset.py --text {input.text:q} --defaults {input.defaults:q}"
        " --template {input.template:q} --output {output:q} > {log:q} 2>&1"


# Refuse a draft that nobody asked for. It comes after the PDF, so that there is one to look at.
rule require_claims:
    input:
        outcomes="paper/build/claims.json",
        article="paper/paper.pdf",
        code=sources("require_claims"),
    output:
        touch("paper/build/claims.done"),
    log:
        "paper/build/require_claims.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    params:
        draft="--draft" if study.draft else "",
    shell:
        "python workflow/scripts/require_claims.py --outcomes {input.outcomes:q} {params.draft} 2>&1 | tee {log:q}"


# Write the supplement: all that the article leaves out.
rule write_supplement:
    input:
        documents=expand("{directory}/summary.json", directory=recorded),
        figures=expand("{directory}/figures", directory=recorded),
        outcomes="paper/build/claims.json",
        published="paper/published.yaml",
        coverage="paper/build/coverage.json",
        code=sources("write_supplement"),
    output:
        "paper/build/supplement.md",
    log:
        "paper/build/write_supplement.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    shell:
        "python workflow/scripts/write_supplement.py --documents {input.documents:q} --figures {input.figures:q}"
        " --claims {input.outcomes:q} --published {input.published:q} --coverage {input.coverage:q}"
        " --output {output:q} > {log:q} 2>&1"


use rule typeset_article as typeset_supplement with:
    input:
        text="paper/build/supplement.md",
        defaults="paper/pandoc.yaml",
        template="paper/supplement.typ",
        bibliography="paper/references.bib",
        code=sources("typeset"),
        figures=expand("{directory}/figures", directory=recorded),
    output:
        report("paper/supplement.pdf", caption="../report/supplement.rst", category="Paper"),
    log:
        "paper/build/typeset_supplement.log",


# Write what this machine measured itself, beside what is recorded.
rule write_report:
    input:
        document="results/{machine}/summary.json",
        defects="results/{machine}/defects.json",
        figures="results/{machine}/figures",
        claims="paper/claims.yaml",
        recorded=expand("{directory}/summary.json", directory=recorded),
        recorded_figures=expand("{directory}/figures", directory=recorded),
        code=sources("write_report"),
    output:
        "results/{machine}/report.md",
    log:
        "results/{machine}/logs/write_report.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    shell:
        "python workflow/scripts/write_report.py --document {input.document:q} --defects {input.defects:q}"
        " --figures {input.figures:q} --claims {input.claims:q} --recorded {input.recorded:q}"
        " --recorded-figures {input.recorded_figures:q} --output {output:q} > {log:q} 2>&1"


use rule typeset_article as typeset_report with:
    input:
        text="results/{machine}/report.md",
        defaults="paper/pandoc.yaml",
        template="paper/supplement.typ",
        bibliography="paper/references.bib",
        code=sources("typeset"),
        figures=["results/{machine}/figures", *expand("{directory}/figures", directory=recorded)],
    output:
        report("results/{machine}/report.pdf", caption="../report/report.rst", category="Report"),
    log:
        "results/{machine}/logs/typeset_report.log",
