"""What needs the numbers of two studies: one of another question beside the machine's own."""


def beyond(topic: dict, machines: list[dict]) -> dict:
    """Return the topic's answers without the ops that its machine's own study, at more sizes, has one for."""
    own = set(topic["ops"])
    for machine in machines:
        there = {(op["op"], op["dtype"]) for op in machine["ops"].values()}
        again = {label for label, op in topic["ops"].items() if (op["op"], op["dtype"]) in there}
        if machine["title"] == topic["title"]:
            own -= again
    found = {}
    for mode, answer in topic["answers"].items():
        kept = {kind: [label for label in answer[kind] if label in own] for kind in ("tested", "free", "undecided")}
        found[mode] = {**kept, "few": answer["few"], "at": answer["at"]}
    return found


def elsewhere(study: dict, machine: dict, mode: str) -> dict:
    """Return by metric how `mode` compares with the baseline on a workload that the machine's own study has as well.

    Empty where the study is of another machine.

    {means, both, turned}. means: [{label, other, here, there}] for each op of the study with the workload and dtype of
    an op `other` of the machine's, and with other parameters: the rows of the means over the sizes, which may be other
    sizes, too. both: how many sizes such ops have in common; turned: by label those of them which are slower there and
    faster here, or the other way round.
    """
    found = {}
    for label, op, other, there in _pairs(study, machine) if study["title"] == machine["title"] else ():
        for metric in study["metrics"]:
            rows = [of["modes"].get(mode, {}).get(metric, {"all": None}) for of in (op, there)]
            if all(row["all"] and row["all"]["speedup"] is not None for row in rows):
                own = found.setdefault(metric, {"means": [], "both": 0, "turned": {}})
                means = {"here": rows[0]["all"], "there": rows[1]["all"]}
                own["means"].append({"label": label, "other": other, **means})
                both = [size for size in rows[0]["sizes"] if size in rows[1]["sizes"]]
                verdicts = {size: {row["sizes"][size]["verdict"] for row in rows} for size in both}
                own["both"] += len(both)
                if turned := [size for size in both if verdicts[size] == {"faster", "slower"}]:
                    own["turned"][label] = turned
    return found


def _pairs(study: dict, machine: dict):
    for label, op in study["ops"].items():
        for other, there in machine["ops"].items():
            same = _workload(study, op) == _workload(machine, there) and op["dtype"] == there["dtype"]
            if same and op["parameters"] != there["parameters"]:
                yield label, op, other, there


def _workload(machine: dict, op: dict) -> str:
    return machine["study"]["ops"][op["op"]].get("workload", op["op"])
