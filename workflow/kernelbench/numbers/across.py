"""What needs the numbers of two studies: one of another question beside the machine's own."""

NOTHING = {"sizes": {}, "faster": []}


def beyond(topic: dict, machines: list[dict], topics: list[dict]) -> dict:
    """Return the topic's answers without the ops that its machine's own study, at more sizes, has one for.

    What another of the `topics` measured as well, on the same machine and with the same parameters, and did not find
    faster at a size that makes it free here, is undecided; denied: by label the names of the studies that did not.
    """
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
        denied = {label: by for label in kept["free"] if (by := _denied(topic, label, mode, topics))}
        kept["free"] = [label for label in kept["free"] if label not in denied]
        kept["undecided"] += denied
        found[mode] = {**kept, "few": answer["few"], "at": answer["at"], "denied": denied}
    return found


def _denied(topic: dict, label: str, mode: str, topics: list[dict]) -> list[str]:
    """Return the other studies of the machine that find `mode` faster at none of the sizes that make the op free.

    Or that find it slower somewhere, at a size of both. That of few repeats says nothing by what it does not find. A
    study that was measured here is another machine's.
    """
    op, found = topic["ops"][label], []
    for other in topics:
        beside = other is not topic and all(other[name] == topic[name] for name in ("title", "local"))
        for there in other["ops"].values() if beside and mode in other["answers"] else ():
            if _is_like(topic, op, other, there) and op["parameters"] == there["parameters"]:
                few = other["answers"][mode]["few"]
                pairs = [[of["modes"].get(mode, {}).get(m, NOTHING) for of in (op, there)] for m in topic["metrics"]]
                if any(_denies(own, others, few) for own, others in pairs):
                    found.append(other["label"])
    return found


def _denies(own: dict, others: dict, few: bool) -> bool:
    verdicts = {size: others["sizes"].get(size, {}).get("verdict") for size in own["sizes"]}
    again = {verdicts[size] for size in own["faster"]} - {None}
    return "slower" in verdicts.values() or (bool(again) and "faster" not in again and not few)


def elsewhere(study: dict, machine: dict, mode: str) -> dict:
    """Return by metric where the verdict on `mode` over the baseline is another than in the machine's own study.

    It is of the sizes at which both studies have a verdict on a workload and dtype, with other parameters. Empty where
    the study is of another machine.

    {both, sizes, ahead, faster, slower}. both: how many such sizes there are; sizes: them by label of the study's;
    ahead: at how many of them it is faster in the study, and in the machine's own; faster, slower: by label those of
    them at which it is faster and not slower, and the other way round.
    """
    found = {}
    for label, op, there in _pairs(study, machine) if study["title"] == machine["title"] else ():
        for metric in study["metrics"]:
            here, own = (of["modes"].get(mode, {}).get(metric, {"sizes": {}})["sizes"] for of in (op, there))
            both = [size for size in here if size in own and here[size]["verdict"] and own[size]["verdict"]]
            if both:
                told = found.setdefault(metric, {"both": 0, "sizes": {}, "ahead": [0, 0], "faster": {}, "slower": {}})
                told["both"] += len(both)
                for place, of in enumerate((here, own)):
                    told["ahead"][place] += sum(of[size]["verdict"] == "faster" for size in both)
                told["sizes"][label] = both
                for size in both:
                    pair = here[size]["verdict"], own[size]["verdict"]
                    if pair in (("faster", "slower"), ("slower", "faster")):
                        told[pair[0]].setdefault(label, []).append(size)
    return found


def _pairs(study: dict, machine: dict):
    for label, op in study["ops"].items():
        for there in machine["ops"].values():
            if _is_like(study, op, machine, there) and op["parameters"] != there["parameters"]:
                yield label, op, there


def _is_like(study: dict, op: dict, machine: dict, there: dict) -> bool:
    return _workload(study, op) == _workload(machine, there) and op["dtype"] == there["dtype"]


def _workload(machine: dict, op: dict) -> str:
    return machine["study"]["ops"][op["op"]].get("workload", op["op"])
