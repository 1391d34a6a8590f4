"""Rates: work and bytes per time, and the share of the best rate that the machine reached in the same study."""

import numpy as np
import pandas as pd

from kernelbench.analysis.measurements import Measurements


def find_ceilings(data: Measurements) -> dict:
    """Return the machine's best rates as {dtype: {"memory" | "compute": {rate, op, size, mode}}}.

    rate: bytes/µs of eager's copy, FLOP/µs of the fastest matrix product.
    """
    ceilings: dict[str, dict] = {}
    for op, dtype, size, mode in data.arms:
        values = data.values((op, dtype, size, mode), data.device_metric)
        workload = data.study["ops"][op].get("workload", op)
        if values is None or not ((workload == "copy" and mode == "eager") or workload in ("matmul", "scaled_matmul")):
            continue
        bound, amount = ("memory", "work.bytes") if workload == "copy" else ("compute", "work.flops")
        rate = float(np.exp(np.log(data.work.loc[(op, dtype, size), amount]) - values.mean()))
        best = ceilings.setdefault(dtype, {}).get(bound)
        if best is None or rate > best["rate"]:
            ceilings[dtype][bound] = {"rate": rate, "op": op, "size": size, "mode": mode}
    return ceilings


def find_rates(data: Measurements, arm: tuple, values: pd.Series, ceilings: dict) -> dict[str, pd.Series]:
    """Return the log rates by repeat: work or necessary bytes per time, and the share of the machine's ceiling.

    Empty where the work is not known.
    """
    op, dtype, size, _ = arm
    if (op, dtype, size) not in data.work.index:
        return {}
    work = data.work.loc[(op, dtype, size)]
    rates = {"gbps": np.log(work["work.bytes"] / 1e3) - values}
    if work["work.flops"]:
        rates["tflops"] = np.log(work["work.flops"] / 1e6) - values
    ceiling = ceilings.get(dtype, {}).get(work["work.bound"])
    if ceiling:
        top = data.values((ceiling["op"], dtype, ceiling["size"], ceiling["mode"]), data.device_metric)
        amount = "work.bytes" if work["work.bound"] == "memory" else "work.flops"
        full = data.work.loc[(ceiling["op"], dtype, ceiling["size"]), amount]
        rates["roofline"] = (np.log(work[amount] / full) - values + top).dropna()
    return rates
