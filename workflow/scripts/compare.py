"""Compare a recorded study with what of it was measured again, for the paper: again.json."""

import argparse
import json
from pathlib import Path

from kernelbench.analysis.measurements import Measurements
from kernelbench.claims import rules
from kernelbench.claims.comparison import findings
from kernelbench.errors import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, nargs=2, required=True, help="what was recorded, and what again")
    parser.add_argument("--documents", type=Path, nargs=2, required=True, help="summary.json of both")
    parser.add_argument("--claims", type=Path, required=True, help="claims.yaml")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in arguments.documents]
    result = findings(*map(Measurements, arguments.data), documents, rules.load(arguments.claims))
    arguments.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main)
