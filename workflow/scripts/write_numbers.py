"""Write what the paper's text says about one machine to numbers.json."""

import argparse
import json
from pathlib import Path

from kernelbench import prior
from kernelbench.claims import evaluated, load
from kernelbench.errors import run
from kernelbench.numbers import numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--document", type=Path, required=True, help="summary.json")
    parser.add_argument("--published", type=Path, required=True, help="published.yaml")
    parser.add_argument("--claims", type=Path, required=True, help="claims.yaml")
    parser.add_argument("--local", action="store_true", help="measured here, not a recorded study")
    parser.add_argument("--again", type=Path, help="again.json, where a part of the study was measured again")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    document = json.loads(arguments.document.read_text(encoding="utf-8"))
    published = prior.load(arguments.published, document["study"])
    result = numbers(document, published, arguments.local)
    result["again"] = json.loads(arguments.again.read_text(encoding="utf-8")) if arguments.again else None
    result["own_claims"] = evaluated(load(arguments.claims, document["study"]), document)
    arguments.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main)
