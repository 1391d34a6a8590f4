# Paper: one text, two papers.
#
# needs  paper/ (text, published figures, claims, bibliography, template), summary.json, figures and defects of each machine,
#        and the order of the first of them for what is simulated
# makes  paper/paper.pdf from the recorded studies alone, results/<machine>/paper.pdf with this machine beside them


# Seconds each: on a cluster the login node runs them, and none waits for an allocation.
localrules:
    simulate_coverage,
    write_numbers,
    write_numbers_recorded,
    render_paper,
    render_local_paper,
    typeset_paper,
    typeset_local_paper,


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


# Write what the text says about this machine.
rule write_numbers:
    input:
        document="results/{machine}/summary.json",
        published="paper/published.yaml",
        claims="paper/claims.yaml",
        code=sources("write_numbers"),
    output:
        "results/{machine}/numbers.json",
    log:
        "results/{machine}/logs/write_numbers.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    params:
        more="--local",
    shell:
        "python workflow/scripts/write_numbers.py --document {input.document:q} --published {input.published:q}"
        " --claims {input.claims:q} {params.more} --output {output:q} > {log:q} 2>&1"


use rule write_numbers as write_numbers_recorded with:
    input:
        document="results/rebuilt/{recorded}/summary.json",
        published="paper/published.yaml",
        claims="paper/claims.yaml",
        code=sources("write_numbers"),
        again=lambda wildcards: (
            f"results/rebuilt/{wildcards.recorded}/again.json"
            if f"{wildcards.recorded}-{AGAIN}" in study.recorded
            else []
        ),
    output:
        "results/rebuilt/{recorded}/numbers.json",
    log:
        "results/rebuilt/{recorded}/logs/write_numbers.log",
    params:
        more=lambda wildcards, input: f"--again {input.again}" if input.again else "",


# Fill the numbers into the text.
rule render_paper:
    input:
        text="paper/paper.md",
        macros="paper/macros.md",
        code=sources("render_paper"),
        published="paper/published.yaml",
        coverage="paper/build/coverage.json",
        numbers=expand("{directory}/numbers.json", directory=recorded),
        defects=expand("{directory}/defects.json", directory=recorded),
    output:
        "paper/build/paper.md",
    log:
        "paper/build/render_paper.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    shell:
        "python workflow/scripts/render_paper.py --text {input.text:q} --published {input.published:q}"
        " --coverage {input.coverage:q} --numbers {input.numbers:q} --defects {input.defects:q}"
        " --output {output:q} > {log:q} 2>&1"


use rule render_paper as render_local_paper with:
    input:
        text="paper/paper.md",
        macros="paper/macros.md",
        code=sources("render_paper"),
        published="paper/published.yaml",
        coverage="paper/build/coverage.json",
        numbers=expand("{directory}/numbers.json", directory=[*recorded, study.results]),
        defects=expand("{directory}/defects.json", directory=[*recorded, study.results]),
    output:
        "results/{machine}/paper/paper.md",
    log:
        "results/{machine}/logs/render_paper.log",


# Typeset the text.
rule typeset_paper:
    input:
        text="paper/build/paper.md",
        defaults="paper/pandoc.yaml",
        template="paper/template.typ",
        bibliography="paper/references.bib",
        code=sources("typeset_paper"),
        figures=recorded_figures,
    output:
        report("paper/paper.pdf", caption="../report/paper.rst", category="Paper"),
    log:
        "paper/build/typeset_paper.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    shell:
        "python workflow/scripts/typeset_paper.py --text {input.text:q} --defaults {input.defaults:q}"
        " --output {output:q} > {log:q} 2>&1"


use rule typeset_paper as typeset_local_paper with:
    input:
        text="results/{machine}/paper/paper.md",
        defaults="paper/pandoc.yaml",
        template="paper/template.typ",
        bibliography="paper/references.bib",
        code=sources("typeset_paper"),
        figures=[*recorded_figures, *expand(f"{study.results}/figures/{{figure}}.svg", figure=FIGURES)],
    output:
        report("results/{machine}/paper.pdf", caption="../report/paper.rst", category="Paper"),
    log:
        "results/{machine}/logs/typeset_paper.log",
