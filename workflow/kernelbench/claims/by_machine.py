"""The outcomes of claims on the studies of each machine alone."""

from kernelbench.analysis.studies import Studies
from kernelbench.claims import rules
from kernelbench.claims.rules import OPEN

NOT_MEASURED = "not measured"


def machine_of(study: dict) -> str:
    """Return the label of the machine that a study was measured on: h200 of h200-kernels."""
    return study["machine"].removesuffix(f"-{study.get('study')}")


def judge_by_machine(claims: list[dict], studies: Studies) -> dict[str, list[str]]:
    """Return by machine the outcome of each claim on its studies, NOT_MEASURED where they have nothing of it."""
    machines = dict.fromkeys(machine_of(document["study"]) for document in studies.documents)
    return {machine: [_shorten(claim) for claim in _judge_on(machine, claims, studies)] for machine in machines}


def _judge_on(machine: str, claims: list[dict], studies: Studies) -> list[dict]:
    own = [document for document in studies.documents if machine_of(document["study"]) == machine]
    return rules.judge(claims, Studies(own))


def _shorten(claim: dict) -> str:
    return NOT_MEASURED if claim["outcome"] == OPEN and not claim["rows"] else claim["outcome"]
