"""Triples as propositions: the three parts as a text, and the ends as the entities in it (pure).

Judges nothing: whoever states a triple has made sure that it has three parts with names at its ends.
Source: algorithms.md 3.3 (2).
"""

from polyhop.tasks.extraction.rows import Proposition

_ENDS = (".", "!", "?")


def triple_proposition(parts: tuple[str, str, str], source_key: str, target_key: str) -> Proposition:
    """A triple as a proposition.

    Args:
        parts: Subject, label and object as the source writes them, none empty.
        source_key: Key of the subject.
        target_key: Key of the object.

    Source: algorithms.md 3.3 (2).
    """
    text = " ".join(parts)
    return text if text.endswith(_ENDS) else f"{text}.", list(dict.fromkeys((source_key, target_key)))
