"""Boots: which repeats of a study ran on the same boot of the same host, and what is one value of it.

Repeats on one boot share its host and its GPUs, and with them whatever these do to all times. They say less about other
hosts than as many repeats on hosts of their own. So where a study has enough boots, its intervals are over boots.
"""

import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

# With fewer boots, Student's t is so wide that intervals are over repeats; tables say of how many boots.
ENOUGH = 5
BOOT, UUID = "environment.host.boot", "environment.gpu.uuid"


def find_boots(jobs: pd.DataFrame, by: tuple[str, ...] = (BOOT, UUID)) -> pd.Series | None:
    """Return by repeat the number of its boot, from 0; None where records do not name their boots.

    Two boots that used the same GPU count as one: they are likely to be the same host. jobs: a study's; by: the columns
    whose values tell boots apart, the first of which all jobs that ran must have.
    """
    ran = jobs[jobs.status != "unsupported"].reindex(columns=["repeat", *by])
    if ran.empty or ran[by[0]].isna().any():
        return None
    named = [ran[["repeat", column]].dropna().drop_duplicates() for column in by]
    edges = pd.concat([pairs.set_axis(["repeat", "name"], axis=1).assign(of=of) for of, pairs in enumerate(named)])
    repeats, order = pd.factorize(edges.repeat, sort=True)
    names, _ = pd.factorize(pd.MultiIndex.from_frame(edges[["of", "name"]]))
    nodes = len(order) + names.max() + 1
    links = coo_array((edges.index >= 0, (repeats, len(order) + names)), shape=(nodes, nodes))
    return pd.Series(connected_components(links, directed=False)[1][: len(order)], index=order)


def average(values: pd.Series | pd.DataFrame, boots: pd.Series | None) -> pd.Series | pd.DataFrame:
    """Return the values over which an interval is taken: by boot the mean of its repeats, or those by repeat."""
    if boots is None or boots.nunique() < ENOUGH:
        return values
    return values.groupby(boots.reindex(values.index)).mean()


def count(values: pd.Series, boots: pd.Series | None) -> int | None:
    """Return on how many boots the repeats of `values` ran, None where records do not say."""
    return None if boots is None else int(boots.reindex(values.index).nunique())


def describe(repeats: int, number: int | None) -> str:
    """Return in words what intervals are over: "6 repeats", "6 repeats on one boot", "10 boots"; number: of boots."""
    if number is None:
        return f"{repeats} repeats"
    if number >= ENOUGH:
        return f"{number} boots"
    return f"{repeats} repeats on {'one boot' if number == 1 else f'{number} boots'}"
