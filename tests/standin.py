"""A stand-in for workflow/scripts/measure.py: writes a whole record at once, so that a run is the workflow.

tests/scale.py puts it in the script's place in a copy of the checkout, with a record.template beside it to fill in.
It imports next to nothing: a job must cost little more than the start of a Python.
"""

import sys


def write(template: str, settings: str, code: str, output: str, place: int) -> None:
    """Write the record of the job that the path `output` names, with values of its own."""
    machine, _, op, dtype, size, mode, repeat = output.removesuffix(".json").split("/")[-7:]
    own = (
        f'"machine": "{machine}", "op": "{op}", "dtype": "{dtype}", "size": "{size}", "mode": "{mode}", '
        f'"repeat": {repeat}, "settings": {settings}, "place": {place}, '
        f'"code": {{"scheme": 3, "protocol": 1, "files": {code}}}, '
        f'"started": "2026-01-01T00:00:00.{place:06d}+00:00"'
    )
    # In the template, @ stands for the digits before the point, and "own": 0 for what is the job's own.
    text = template.replace("@", str(10 + place % 90)).replace('"own": 0', own)
    with open(output, "w", encoding="utf-8") as stream:
        stream.write(text)


if __name__ == "__main__":
    names = ("--settings", "--code", "--output", "--place")
    settings, code, output, place = (sys.argv[sys.argv.index(name) + 1] for name in names)
    with open("record.template", encoding="utf-8") as stream:
        write(stream.read(), settings, code, output, int(place))
