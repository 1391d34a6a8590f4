# Figures: from a machine's summary.json to vector graphics.
#
# needs  summary.json of this machine or of a recorded study, and paper/published.yaml
# makes  <figure>.svg below results/<machine>/figures and, for a recorded study, results/rebuilt/<study>/figures


# Seconds each: on a cluster the login node runs them, and none waits for an allocation.
localrules:
    draw_figure,
    draw_figure_recorded,


# Draw one figure.
rule draw_figure:
    input:
        document="results/{machine}/summary.json",
        published="paper/published.yaml",
        code=sources("draw_figure"),
    output:
        report(
            "results/{machine}/figures/{figure}.svg",
            caption="../report/figure.rst",
            category="Figures",
            subcategory="{machine}",
            labels={"figure": "{figure}"},
        ),
    log:
        "results/{machine}/logs/draw_figure/{figure}.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    shell:
        "python workflow/scripts/draw_figure.py --figure {wildcards.figure} --document {input.document:q} "
        "--published {input.published:q} --output {output:q} > {log:q} 2>&1"


# The same for a recorded study.
use rule draw_figure as draw_figure_recorded with:
    input:
        document="results/rebuilt/{recorded}/summary.json",
        published="paper/published.yaml",
        code=sources("draw_figure"),
    output:
        report(
            "results/rebuilt/{recorded}/figures/{figure}.svg",
            caption="../report/figure.rst",
            category="Figures",
            subcategory="{recorded} (recorded)",
            labels={"figure": "{figure}"},
        ),
    log:
        "results/rebuilt/{recorded}/logs/draw_figure/{figure}.log",
