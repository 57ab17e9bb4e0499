"""Whether two engines of spreading activation found the same; used by tests and benchmarks.

Order of chains counts, their scores only as far as they decide it.
"""

import numpy as np

from polyhop.schemas.graph import Activation

TOLERANCE = 1e-4


def disagreement(one: Activation, other: Activation) -> str:
    """What two engines do not agree on, in words; "" if nothing.

    Seeds, active entities, chains with the labels of their hops are compared exactly, activations within 1e-4.
    """
    found = [[(seed.entity, seed.match) for seed in activation.seeds] for activation in (one, other)]
    if found[0] != found[1]:
        return f"seeds {found[0]} and {found[1]}"
    starts = [np.array([seed.activation for seed in activation.seeds]) for activation in (one, other)]
    if not np.allclose(*starts, rtol=0, atol=TOLERANCE):  # type: ignore[arg-type, misc]
        return f"activations of seeds {starts[0]} and {starts[1]}"
    if one.entities.tolist() != other.entities.tolist():
        return f"{len(one.entities)} entities and {len(other.entities)}"
    if not np.allclose(one.values, other.values, rtol=0, atol=TOLERANCE):
        return f"activations, by {np.abs(one.values - other.values).max()}"
    chains = [[(chain.entities, chain.hops) for chain in activation.chains] for activation in (one, other)]
    if chains[0] == chains[1]:
        return ""
    pairs = zip(one.chains, other.chains, strict=False)
    place = next((n for n, (left, right) in enumerate(pairs) if left.entities != right.entities), -1)
    return f"{len(chains[0])} and {len(chains[1])} chains, first at place {place}: {[c[place:][:1] for c in chains]}"
