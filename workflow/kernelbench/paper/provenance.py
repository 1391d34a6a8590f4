"""Where a study's numbers come from, as tables: the machine, the software, what was asked for, and each repeat."""

import re
from collections.abc import Iterator
from itertools import takewhile

from kernelbench import code_digest, numbers
from kernelbench.analysis.boots import describe
from kernelbench.numbers import BLANK
from kernelbench.paper.markdown import ROOM, escape, sheet, table
from kernelbench.paths import ROOT


def what_ran(document: dict) -> Iterator[str]:
    """Yield what a study asks, what it ran on, its operations and modes, and its repeats."""
    study = document["study"]
    rows = [[name, escape(value)] for name, value in machine(document) if value]
    yield table(["", ""], rows, "ll", "Question, machine and software", ROOM)
    rows = [{"op": f"`{op}`", **entry, "parameters": _parameters(entry)} for op, entry in study["ops"].items()]
    yield sheet(rows, "lll", "Operations", {key: key for key in ("op", "sizes", "parameters")})
    rows = [{"mode": f"`{mode}`", "passes": _parameters(entry)} for mode, entry in study["modes"].items()]
    yield sheet(rows, "ll", "Modes")
    yield _repeats(document)


def machine(document: dict) -> list[tuple[str, str]]:
    """Return what a study asks and what it ran on, as (name, value)."""
    environment = document["environment"]
    gpu, study = environment["gpu"], document["study"]
    device = f"{len(environment['gpu_uuids'])} × {gpu['name']}, driver {gpu['driver']}" if gpu else "none"
    margins = (f"{name} {numbers.percent(value)}" for name, value in study["equivalence"].items())
    return [
        ("question", question(study)),
        ("dtypes", numbers.text(study["dtypes"])),
        ("GPUs", device),
        ("CPU", f"{environment['host']['cpu']}, {numbers.text(environment['host']['cores'])} cores"),
        ("software", ", ".join(f"{name} {version}" for name, version in list_versions(document).items())),
        ("repeats, jobs", f"{study['repeats']}, {numbers.number(environment['jobs'])}"),
        ("intervals over", describe(study["repeats"], document["boots"])),
        ("time of all jobs", f"{environment['job_seconds'] / 60:,.0f} minutes"),
        ("measured", f"{_minute(environment['first_started'])} to {_minute(environment['last_started'])} UTC"),
        ("equivalent within", ", ".join(margins)),
        ("sources", f"commit {environment.get('commit', BLANK)[:12]}, {_describe_code(environment)}"),
    ]


def _describe_code(environment: dict) -> str:
    """Return what tells the code that measured a study from other code."""
    if "code" not in environment:
        return f"digest {environment['software']['sources']}"
    code = environment["code"]
    protocols, schemes = (numbers.text(code[name]) for name in ("protocol", "scheme"))
    files = {file: " ".join(digests) for file, digests in code["files"].items()}
    return f"protocol {protocols}, digest {code_digest.combine(files)} by scheme {schemes}"


def list_versions(document: dict) -> dict[str, str]:
    """Return the versions of PyTorch, of what it runs on, and of the packages that modes and models brought along."""
    software = document["environment"]["software"]
    named = {"PyTorch": "torch", "Triton": "triton", "CUDA": "cuda", "cuDNN": "cudnn", "Python": "python"}
    return {**{name: software[key] for name, key in named.items()}, **document["packages"]}


def find_differences(document: dict, recorded: dict) -> list[dict[str, str]]:
    """Return the parts of hardware and software in which a study differs from a recorded one.

    Each is {differs, here, recorded}. A result that is not the recorded one may be due to any of them.
    """
    here, there = map(_list_parts, (document, recorded))
    differs = [name for name, value in here.items() if there.get(name) != value]
    parts = [{"differs": name, "here": here[name], "recorded": there.get(name) or BLANK} for name in differs]
    return parts + _compare_code(document["environment"], recorded["environment"])


def _compare_code(here: dict, recorded: dict) -> list[dict[str, str]]:
    """Return the code as one part that differs, or nothing if the files that measured both studies do the same.

    Code of an older scheme is known as a whole only.
    """
    own, theirs = (environment.get("code", {"files": {}})["files"] for environment in (here, recorded))
    descriptions = {"here": _describe_code(here), "recorded": _describe_code(recorded)}
    if not own or not theirs:
        return [{"differs": "code", **descriptions}] if len({*descriptions.values()}) > 1 else []
    changed = [code_digest.shorten(file) for file in sorted(own.keys() & theirs.keys()) if own[file] != theirs[file]]
    return [{"differs": f"code ({numbers.name_some(changed)})", **descriptions}] if changed else []


def _list_parts(document: dict) -> dict[str, str]:
    gpu, host = document["environment"]["gpu"], document["environment"]["host"]
    parts = {"GPU": gpu and gpu["name"], "driver": gpu and gpu["driver"], "CPU": host["cpu"], **list_versions(document)}
    return {name: value for name, value in parts.items() if value}


def question(study: dict) -> str:
    """Return what the file of a study says that it is about, nothing of one that the repository does not have."""
    name = study.get("study")
    path = ROOT / (f"workflow/studies/{name}.yaml" if name else "config.yaml")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    # The command that runs it, which follows, is indented.
    return " ".join(line[2:] for line in takewhile(lambda line: line[:2] == "# " and line[2] != " ", lines))


def _repeats(document: dict) -> str:
    """Return when and where each repeat ran, and how many of its jobs were tried again or are in doubt."""
    columns = {
        "repeat": "repeat", "started": lambda row: _minute(row["started"]), "ended": lambda row: _minute(row["ended"]),
        "minutes of jobs": lambda row: f"{row['minutes']:.1f}",
        "GPU": lambda row: [uuid[4:12] for uuid in row["gpus"]] or None,
        "jobs": "jobs", "tried again": "again", "in doubt": "suspect",
    }  # fmt: skip
    # A note is Markdown, and may refer to a section of the article.
    note = re.sub(r" \(\[@[\w-]+\]\)", "", document["study"].get("note", "").strip())
    return sheet(document["jobs"]["repeats"], "rllrlrrr", f"Repeats. {note}" if note else "Repeats", columns)


def _minute(moment: str) -> str:
    return moment[:16].replace("T", " ")


def _parameters(entry: dict) -> str:
    shown = {key: value for key, value in entry.items() if key not in ("sizes", "only", "timeout", "devices")}
    return escape(", ".join(f"{key} {_short(value)}" for key, value in shown.items())) or BLANK


def _short(value) -> str:
    """Return a value of a study's mapping in a few words."""
    if isinstance(value, dict):
        inner = ", ".join(f"{key} {_short(own)}" for key, own in value.items())
        return f"({inner})" if value else "as published"
    return numbers.text(value) if isinstance(value, list) else str(value)
