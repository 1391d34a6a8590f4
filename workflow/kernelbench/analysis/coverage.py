"""Coverage: how often the 95 % interval of a speedup holds the true one, by simulation.

Each draw makes the samples of a baseline and a mode in n repeats of a known speedup, and takes the values of the
repeats and the interval as the tables do. What differs from draw to draw is normal on logarithms; on top comes what the
design is meant to withstand: blocks, drift, and repeats that fall into two peaks.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernelbench.analysis import intervals
from kernelbench.study.cells import modes_of
from kernelbench.study.study import Study

DRAWS = 10_000
REPEATS = (3, 6, 10)
SAMPLES = 11
# Standard deviations on logs: of a sample within its repeat, of a repeat around its arm, of a block that both arms of a
# repeat share. The drift is over the whole study; the second peak is this much slower.
WITHIN, BETWEEN, BLOCK, DRIFT, PEAK = 0.01, 0.003, 0.05, 0.04, 0.05
SPEEDUP = 1.1
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)

# (draws, repeats, samples) of the logs of a baseline's and of a mode's samples, to the bounds of each draw.
Estimator = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def estimate_paired(baseline: np.ndarray, mode: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (low, high) of the speedup of each draw, as the project estimates it."""
    values = [intervals.repeat_value(np.exp(arm)) for arm in (baseline, mode)]
    _, low, high = intervals.bounds(values[0] - values[1])
    return np.exp(low), np.exp(high)


@dataclass(frozen=True)
class Effects:
    """What acts on the repeats beside their own noise.

    block: standard deviation of what both arms of a repeat share; places: (repeats, 2) where the arms stand in the
    order of the study, 0 its start and 1 its end, for a drift along it; share: of the mode's repeats in a second peak.
    """

    block: float = 0
    places: np.ndarray | None = None
    share: float = 0


def simulate(
    repeats: int, effects: Effects, draws: int = DRAWS, estimate: Estimator = estimate_paired, seed: int = 0
) -> float:
    """Return the share of `draws` whose interval holds the true speedup."""
    rng = np.random.default_rng([seed, repeats])
    values = rng.normal(0, BETWEEN, (2, draws, repeats)) + rng.normal(0, effects.block, (draws, repeats))
    if effects.places is not None:
        values += DRIFT * effects.places.T[:, None, :]
    truth = np.log(SPEEDUP) - PEAK * effects.share
    values[1] += PEAK * (rng.random((draws, repeats)) < effects.share) - np.log(SPEEDUP)
    samples = values[..., None] + rng.normal(0, WITHIN, (*values.shape, SAMPLES))
    low, high = estimate(*samples)
    return float(np.mean((np.log(low) <= truth) & (truth <= np.log(high))))


def find_places(study: Study) -> np.ndarray | None:
    """Return (repeats, 2): where the baseline and another mode of a cell stand in the order, from 0 to 1.

    Of the first cell that has both, None without any.
    """
    baseline = study.config["baselines"][0]
    ran = {cell: modes_of(study.config, cell) for cell in study.cells()}
    cell = next((cell for cell, modes in ran.items() if baseline in modes and len(modes) > 1), None)
    if cell is None:
        return None
    mode = next(mode for mode in reversed(ran[cell]) if mode != baseline)
    order = {(job.mode, job.repeat): place for place, job in enumerate(study.jobs) if job.cell == cell}
    found = [[order[arm, repeat] for arm in (baseline, mode)] for repeat in range(study.repeats)]
    return np.array(found) / len(study.jobs)


def place_one_after_the_other(repeats: int) -> np.ndarray:
    """Return the places of a study that measures all of the baseline and then all of the mode, to compare with."""
    return np.arange(2 * repeats).reshape(2, repeats).T / (2 * repeats)


def list_scenarios(config: dict) -> dict[str, Callable[[int], Effects]]:
    """Return what is simulated, by name: the effects on n repeats; config: the study (study.yaml) with the order.

    Without a drift in the study's order where it has no cell with the baseline and another mode.
    """

    def fixed(effects: Effects) -> Callable[[int], Effects]:
        return lambda n: effects

    drifts = {
        "drift": lambda n: Effects(places=find_places(Study({**config, "repeats": n}))),
        "drift in order of modes": lambda n: Effects(places=place_one_after_the_other(n)),
    }
    return {
        "normal": fixed(Effects()),
        "blocks": fixed(Effects(block=BLOCK)),
        **(drifts if find_places(Study({**config, "repeats": 1})) is not None else {}),
        **{f"peaks {share:.1f}": fixed(Effects(share=share)) for share in SHARES},
    }


def tabulate(config: dict, draws: int = DRAWS) -> dict:
    """Return {draws, spreads (what was simulated, on logs), coverage: {scenario: {peak, held}}}.

    peak: which share of the repeats is in a second one; held: by the number of repeats, the share of the draws whose
    interval holds the true speedup.
    """
    names = ("within", "between", "block", "drift", "peak")
    return {
        "draws": draws,
        "spreads": dict(zip(names, (WITHIN, BETWEEN, BLOCK, DRIFT, PEAK), strict=True)),
        "coverage": {
            what: {
                "peak": effects(REPEATS[0]).share,
                "held": {str(n): simulate(n, effects(n), draws) for n in REPEATS},
            }
            for what, effects in list_scenarios(config).items()
        },
    }
