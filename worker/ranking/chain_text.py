"""Chains and entities as lines of text, for readers and for people.

Chooses nothing (chains.py does). Source: algorithms.md 1.5 step 6.
"""

from collections.abc import Sequence

from polyhop.schemas.graph import Entity
from polyhop.schemas.spreading import Hop


def chain_line(names: Sequence[str], hops: Sequence[Hop]) -> str:
    """`A --[rel]--> B <--[rel2 | rel3]-- C`: arrows point as the relations are stored, the forward one first.

    Args:
        names: Of the chain's entities.
        hops: Between each and the next, one fewer.
    """
    parts = list(names[:1])
    for hop, name in zip(hops, names[1:], strict=True):
        if hop.forward:
            parts.append(f"--[{' | '.join(hop.forward)}]-->")
        if hop.backward:
            parts.append(f"<--[{' | '.join(hop.backward)}]--")
        parts.append(name)
    return " ".join(parts)


def entity_line(entity: Entity) -> str:
    """`name (TYPE): description`, without what is not known."""
    head = f"{entity.name} ({entity.type})" if entity.type else entity.name
    return f"{head}: {' '.join(entity.description.split())}" if entity.description else head


def context_text(chains: Sequence[str], entities: Sequence[str]) -> str:
    """Both lists under their headings; an empty one says so."""
    sections = (("Chains", chains), ("Entities", entities))
    return "\n\n".join(f"{heading}:\n" + "\n".join(lines or ("(none)",)) for heading, lines in sections)
