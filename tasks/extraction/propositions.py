"""Propositions: one per sentence, with a pronoun's referent supplied from the title (F-PROP, pure).

Splits no sentence and resolves no other pronoun. Source: algorithms.md 0.8 (F-PROP), 3.3 (dates are keys too).
Decided here: a sentence whose only keys are dates counts as one without an entity.
"""

import re
from collections.abc import Sequence

from polyhop.schemas.corpus import Passage
from polyhop.schemas.graph import Mention
from polyhop.tasks.extraction.rows import Proposition

_FIRST_WORD = re.compile(r"\W*(\w+)")
_PRONOUNS = frozenset(("he", "she", "it", "they", "this", "these", "his", "her", "its", "their"))


def sentence_propositions(
    passage: Passage,
    title_keys: Sequence[str],
    sentences: Sequence[tuple[int, int]],
    names: Sequence[Mention],
    dates: Sequence[Mention],
) -> list[Proposition]:
    """Each sentence of a passage as a proposition.

    Args:
        passage: The passage.
        title_keys: Keys of its title, possibly none.
        sentences: (start, end) of its sentences.
        names: Names of its text, in order of place.
        dates: Dates of its text, in order of place.

    Source: algorithms.md 0.8 (F-PROP). Cost: O(characters).
    """
    found = []
    places = sorted([*names, *dates], key=lambda mention: mention.start)
    own = set(title_keys)
    place = 0
    limits = [*(begin for begin, _ in sentences[1:]), len(passage.text)]
    for (start, end), limit in zip(sentences, limits, strict=False):  # a text without sentences has one limit
        keys: dict[str, None] = {}
        while place < len(places) and places[place].start < limit:
            keys[places[place].key] = None
            place += 1
        sentence = " ".join(passage.text[start:end].split())
        refers = own.isdisjoint(keys) and _starts_with_pronoun(sentence)
        if refers:
            sentence = f"{passage.title}: {sentence}"
        is_about_title = refers or all(key.startswith("date:") for key in keys)
        found.append((sentence, list(dict.fromkeys([*title_keys[:1], *keys]) if is_about_title else keys)))
    return found


def _starts_with_pronoun(sentence: str) -> bool:
    match = _FIRST_WORD.match(sentence)
    return match is not None and match[1].lower() in _PRONOUNS
