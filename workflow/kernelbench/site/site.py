"""The site: all that was recorded, on one HTML page that needs nothing from elsewhere."""

import base64
import io
import json
import zipfile
from pathlib import Path

import vl_convert
from jinja2 import Environment, PackageLoader

from kernelbench import numbers
from kernelbench.analysis import reasons
from kernelbench.analysis.reasons import STATUSES, VERDICTS
from kernelbench.analysis.studies import Studies
from kernelbench.page.page import read_style
from kernelbench.site import cells, charts, claims, trust

# What may matter, by metric. The first five are what a user asks for.
METRICS = {
    "latency": "a call I wait for",
    "throughput": "queued calls",
    "device": "GPU time",
    "first_call": "first call",
    "peak_memory": "memory",
    "kernels": "kernel time",
    "host": "the host's time",
    "event": "CUDA events",
    "graph": "graph replay",
    "do_bench": "do_bench",
}
GAINS = {
    **{metric: f"times as fast as eager{suffix}" for metric, suffix in reasons.METRICS.items()},
    "first_call": "times as fast as eager in its first call",
    "peak_memory": "times less memory than eager",
}
# The files of a study that can be downloaded: its tables, and what they were measured with.
FILES = ("speedups.csv", "summary.csv", "study.yaml", "environment.json")
# The same archive each time: the earliest date that one can hold.
DATE = (1980, 1, 1, 0, 0, 0)


def render(studies: Studies, judged: list[dict], data: dict[str, Path], defects: list[dict], coverage: dict) -> str:
    """Return the HTML of the page.

    judged: the claims with their outcomes; data: by label the directory of each recorded study; defects, coverage: the
    content of defects.json and of coverage.json.
    """
    environment = Environment(
        loader=PackageLoader("kernelbench.site", ""), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"percent": numbers.percent, "number": numbers.number}
    described, found = cells.describe(studies), list(claims.describe(judged, studies))
    modes = list(dict.fromkeys(mode for document in studies.documents for mode in document["study"]["modes"]))
    given = {
        **described,
        "metrics": METRICS,
        "ranked": cells.RANKED,
        "gains": GAINS,
        "verdicts": VERDICTS,
        "statuses": STATUSES,
        "looks": charts.looks(modes),
        "specs": charts.make_specs(),
        "claims": {claim["id"]: {"axis": claim["axis"], "rows": claim.pop("rows")} for claim in found},
    }
    return environment.get_template("site.html").render(
        count=numbers.number(cells.count_speedups(studies)),
        devices=described["devices"],
        versions=sorted({document["environment"]["software"]["torch"] for document in studies.documents}),
        claims=found,
        trust=list(trust.assess(studies, data, defects)),
        controlled=trust.CONTROLLED,
        coverage=coverage,
        archives={label: _pack(directory) for label, directory in data.items()},
        style=read_style() + _read("site.css"),
        script=_read("site.js"),
        # No text of either may end the element that it stands in.
        data=json.dumps(given, ensure_ascii=False, separators=(",", ":")).replace("</", r"<\/"),
        vega=vl_convert.javascript_bundle().replace("</script", r"<\/script"),
    )


def _read(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _pack(directory: Path) -> dict:
    """Return {size, uri} of a study's files as an archive in the page itself."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in FILES:
            entry = zipfile.ZipInfo(f"{directory.name}/{name}", DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, (directory / name).read_bytes())
    content = packed.getvalue()
    uri = f"data:application/zip;base64,{base64.b64encode(content).decode()}"
    return {"size": f"{len(content) / 1024:,.0f} KiB", "uri": uri}
