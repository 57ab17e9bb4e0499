"""What `hub-facets` compares a question with: the predicates of a path without the frequent ones, and its value (pure).

Source: algorithms.md 4B, "Units".
"""

from collections import Counter
from collections.abc import Collection, Mapping

from polyhop.tasks.hubs.text import humanised

Signature = tuple[str, ...]
"""Predicates of a path, from the hub on."""

MAX_SHARE = 0.3
"""Of the distinct signatures that may have a predicate; one that more have tells no signature from others."""
MIN_SIGNATURES = 10
"""Distinct signatures from which on frequent predicates are left out."""


def signature_texts(signatures: Collection[Signature]) -> Mapping[Signature, str]:
    """The text of each signature: its humanised predicates but the frequent ones; its last one always stays.

    Args:
        signatures: Distinct ones, none empty.
    """
    uses = Counter(predicate for signature in signatures for predicate in set(signature))
    limit = MAX_SHARE * len(signatures) if len(signatures) >= MIN_SIGNATURES else len(signatures)
    words = {predicate: humanised(predicate) for predicate in uses}
    return {signature: _text(signature, uses, words, limit) for signature in signatures}


def _text(signature: Signature, uses: Mapping[str, int], words: Mapping[str, str], limit: float) -> str:
    kept = [predicate for predicate in signature[:-1] if uses[predicate] <= limit]
    return " ".join(words[predicate] for predicate in (*kept, signature[-1]))
