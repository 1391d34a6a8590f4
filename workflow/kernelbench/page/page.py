"""The page: a recommendation as one HTML file that needs nothing from elsewhere."""

from pathlib import Path

import vl_convert
from jinja2 import Environment, PackageLoader

from kernelbench.analysis.boots import describe
from kernelbench.analysis.reasons import VERDICTS, headline
from kernelbench.numbers import calls, percent, signed
from kernelbench.page import charts, texts
from kernelbench.page.charts import COLOUR_OF_PART, COLOUR_OF_VERDICT, PARTS

# The columns of the table that hold quantities, by header.
QUANTITIES = {
    "latency": "latency",
    "back to back": "throughput",
    "GPU time": "device",
    "kernels": "kernels",
    "first call": "first_call",
    "memory": "peak_memory",
}


def render(recommendation: dict) -> str:
    """Return the HTML of a recommendation, with the JavaScript that draws its charts."""
    environment = Environment(
        loader=PackageLoader("kernelbench.page", ""), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"measured": texts.measured, "percent": percent, "code": texts.code, "remark": texts.remark}
    environment.filters |= {"warn": texts.warn_uncompared}
    modes = [mode for case in recommendation["cases"] for mode in case["modes"]]
    return environment.get_template("page.html").render(
        recommendation,
        figures=_list_figures(recommendation),
        units=describe(recommendation["repeats"], recommendation["boots"]),
        columns={head: name for head, name in QUANTITIES.items() if any(mode[name] for mode in modes)},
        headline=lambda case: headline(case, recommendation),
        signed=signed,
        calls=calls,
        verdicts=VERDICTS,
        colours=COLOUR_OF_VERDICT,
        style=read_style(),
        # No text of it may end the element that it stands in.
        vega=vl_convert.javascript_bundle().replace("</script", r"<\/script"),
    )


def read_style() -> str:
    """Return the style sheet that all pages share."""
    return (Path(__file__).parent / "page.css").read_text(encoding="utf-8")


def _list_figures(recommendation: dict) -> list[dict]:
    """Return of each figure {id, title, legend ({label: colour}), specs (a chart for each case)}."""
    modes = [mode for case in recommendation["cases"] for mode in case["modes"] if mode["latency"]]
    drawn = {part for mode in modes for part in charts.split_call(mode)}
    parts = {PARTS[part]: colour for part, colour in COLOUR_OF_PART.items() if part in drawn}
    title = "Where a call’s time goes" if "kernels" in drawn else "How long a call takes"
    verdicts = {"faster": "faster", "slower": "slower", "as fast, or undecided": "inconclusive"}
    return [
        {
            "id": "speedups",
            "title": f"How much faster than {recommendation['baseline']}",
            "legend": {label: COLOUR_OF_VERDICT[verdict] for label, verdict in verdicts.items()},
            "specs": charts.draw_speedups(recommendation),
        },
        {
            "id": "times",
            "title": title,
            "legend": parts,
            "specs": charts.draw_times(recommendation),
        },
    ]
