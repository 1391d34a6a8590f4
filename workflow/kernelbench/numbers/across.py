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
        kinds = ("tested", "free", "undecided", "flagged")
        kept = {kind: [label for label in answer[kind] if label in own] for kind in kinds}
        found[mode] = {**kept, "few": answer["few"], "at": answer["at"]}
    return found


def elsewhere(study: dict, machine: dict, mode: str) -> dict:
    """Return by metric where the verdict on `mode` over the baseline is another than in the machine's own study.

    It is of the sizes at which both studies have a verdict on a workload and dtype, with other parameters. Empty where
    the study is of another machine.

    {both, sizes, faster, slower}. both: how many such sizes there are; sizes: them by label of the study's; faster,
    slower: by label those of them at which it is faster and not slower, and the other way round.
    """
    found = {}
    for label, op, there in _pairs(study, machine) if study["title"] == machine["title"] else ():
        for metric in study["metrics"]:
            here, own = (of["modes"].get(mode, {}).get(metric, {"sizes": {}})["sizes"] for of in (op, there))
            both = [size for size in here if size in own and here[size]["verdict"] and own[size]["verdict"]]
            if both:
                told = found.setdefault(metric, {"both": 0, "sizes": {}, "faster": {}, "slower": {}})
                told["both"] += len(both)
                told["sizes"][label] = both
                for size in both:
                    pair = here[size]["verdict"], own[size]["verdict"]
                    if pair in (("faster", "slower"), ("slower", "faster")):
                        told[pair[0]].setdefault(label, []).append(size)
    return found


def _pairs(study: dict, machine: dict):
    for label, op in study["ops"].items():
        for there in machine["ops"].values():
            same = _workload(study, op) == _workload(machine, there) and op["dtype"] == there["dtype"]
            if same and op["parameters"] != there["parameters"]:
                yield label, op, there


def _workload(machine: dict, op: dict) -> str:
    return machine["study"]["ops"][op["op"]].get("workload", op["op"])
