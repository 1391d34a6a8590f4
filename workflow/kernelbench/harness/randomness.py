"""The random number generators that a process shares: seeding them all, and telling whether something was drawn."""

import random


def seed_all(seed: int) -> None:
    """Seed all generators that a model may draw from without saying so."""
    import numpy
    import torch

    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def read_states() -> list:
    """Return the states of these generators: equal lists mean that nothing was drawn in between."""
    import numpy
    import torch

    _, keys, place, *rest = numpy.random.get_state()
    states = [random.getstate(), keys.tobytes(), place, *rest, torch.get_rng_state().numpy().tobytes()]
    if torch.cuda.is_initialized():
        states.append(torch.cuda.get_rng_state().numpy().tobytes())
    return states
