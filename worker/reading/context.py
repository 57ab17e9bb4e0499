"""What a reader gets to see: the first passages of a ranking, cut to a budget of words.

Reads no store (the caller brings the texts) and finds no answers. A cut text is a prefix of the stored one, so that
character offsets found by a reader hold in the stored passage too.
"""

import re
from collections.abc import Iterable, Sequence

from schemas.errors import UnknownIdError
from schemas.query import ContextPassage, RankedPassage
from schemas.sentences import split_sentences

_WORD = re.compile(r"\S+")


def pack_context(
    ranked: Sequence[RankedPassage],
    stored: Iterable[tuple[str, str, str]],
    *,
    limit: int,
    budget_words: int | None = None,
) -> list[ContextPassage]:
    """The first passages with their texts, in ranked order, within a budget.

    Args:
        ranked: Passages, best first.
        stored: (passage id, title, text) of at least the first `limit` of them, in any order.
        limit: Largest number of passages.
        budget_words: Largest number of words, titles included; None: no bound.

    Returns:
        Passages until the budget is used up; the last one is cut behind a whole sentence, or left out if not even
        its first sentence fits. Only the very first passage is cut within a sentence rather than left out.

    Raises:
        UnknownIdError: If a passage's text is not in `stored`.
    Cost: O(characters).
    """
    texts = {passage_id: (title, text) for passage_id, title, text in stored}
    packed: list[ContextPassage] = []
    left = budget_words
    for passage in ranked[: max(0, limit)]:
        if passage.passage_id not in texts:
            raise UnknownIdError(f"No text was given for passage '{passage.passage_id}' (rank {passage.rank}).")
        title, whole = texts[passage.passage_id]
        text = whole if left is None else _cut(whole, left - _word_count(title), within_sentence=not packed)
        if whole and not text:
            break
        packed.append(ContextPassage(passage.passage_id, title, text, passage.rank, passage.score))
        if len(text) < len(whole):
            break
        if left is not None:
            left -= _word_count(title) + _word_count(text)
    return packed


def _cut(text: str, budget_words: int, *, within_sentence: bool) -> str:
    """The longest prefix of whole sentences within the budget; "" if there is none."""
    ends = [word.end() for word in _WORD.finditer(text)]
    if len(ends) <= budget_words:
        return text
    if budget_words <= 0:
        return ""
    reach = ends[budget_words - 1]
    sentence_ends = [end for _, end in split_sentences(text) if end <= reach]
    if sentence_ends:
        return text[: sentence_ends[-1]]
    return text[:reach] if within_sentence else ""


def _word_count(text: str) -> int:
    return sum(1 for _ in _WORD.finditer(text))
