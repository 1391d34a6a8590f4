# Figures: from a study's summary.json to vector graphics.
#
# needs  summary.json of this machine or of a recorded study
# makes  <figure>.svg below results/<machine>/figures and, for a recorded study, results/rebuilt/<study>/figures


# Seconds each: on a cluster the login node runs them, and none waits for an allocation.
localrules:
    draw_figures,
    draw_figures_recorded,


# Draw the figures that a study has data for.
rule draw_figures:
    input:
        document="results/{machine}/summary.json",
        code=sources("draw_figures"),
    output:
        report(
            directory("results/{machine}/figures"),
            patterns=["{figure}.svg"],
            caption="../report/figure.rst",
            category="Figures",
            subcategory="{machine}",
            labels={"figure": "{figure}"},
        ),
    log:
        "results/{machine}/logs/draw_figures.log",
    conda:
        "../../envs/environment.yaml"
    resources:
        **lanes.beside(),
    shell:
        "python workflow/scripts/draw_figures.py --document {input.document:q} --output {output:q} > {log:q} 2>&1"


# The same for a recorded study.
use rule draw_figures as draw_figures_recorded with:
    input:
        document="results/rebuilt/{recorded}/summary.json",
        code=sources("draw_figures"),
    output:
        report(
            directory("results/rebuilt/{recorded}/figures"),
            patterns=["{figure}.svg"],
            caption="../report/figure.rst",
            category="Figures",
            subcategory="{recorded} (recorded)",
            labels={"figure": "{figure}"},
        ),
    log:
        "results/rebuilt/{recorded}/logs/draw_figures.log",
