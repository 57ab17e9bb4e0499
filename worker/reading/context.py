"""What a reader gets to see: the first passages of a ranking, cut to a budget of words or of a model's tokens.

Reads no store (the caller brings the texts) and finds no answers. A cut text is a prefix of the stored one, so that
character offsets found by a reader hold in the stored passage too.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from polyhop.schemas.errors import UnknownIdError
from polyhop.schemas.query import ContextPassage, RankedPassage
from polyhop.schemas.sentences import split_sentences

_WORD = re.compile(r"\S+")
BYTES_PER_TOKEN = 3  # at least, in all tokenizers that we know
_HEADING_TOKENS = 8  # chosen: a passage's number and the line breaks around it take fewer


def pack_context(
    ranked: Sequence[RankedPassage],
    stored: Iterable[tuple[str, str, str]],
    *,
    limit: int,
    budget_words: int | None = None,
) -> list[ContextPassage]:
    """The first passages with their texts, in ranked order, within a budget.

    Args:
        ranked: Passages, in descending order of score.
        stored: (passage id, title, text) of at least the first `limit` of them, in any order.
        limit: Largest number of passages.
        budget_words: Largest number of words, titles included; None: no bound.

    Returns:
        Passages until the budget is used up; the last one is cut after a whole sentence, or left out if not even
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
    return _prefix(text, ends[budget_words - 1], within_sentence=within_sentence)


def _prefix(text: str, reach: int, *, within_sentence: bool) -> str:
    """The whole sentences that end within so many characters; without one, all of these characters or none."""
    sentence_ends = [end for _, end in split_sentences(text) if end <= reach]
    if sentence_ends:
        return text[: sentence_ends[-1]]
    return text[:reach] if within_sentence else ""


def estimate_tokens(text: str) -> int:
    """Tokens of a text in any script, on the safe side: three bytes of UTF-8 each (English has four and more)."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def within_tokens(context: Sequence[ContextPassage], budget_tokens: int) -> list[ContextPassage]:
    """The first passages within a budget of tokens, headings included; the last one is cut as by `pack_context`."""
    packed: list[ContextPassage] = []
    left = budget_tokens
    for passage in context:
        left -= estimate_tokens(passage.title) + _HEADING_TOKENS
        text = _cut_to_tokens(passage.text, left, within_sentence=not packed)
        if left < 0 or (passage.text and not text):
            break
        packed.append(replace(passage, text=text))
        if len(text) < len(passage.text):
            break
        left -= estimate_tokens(text)
    return packed


def lines_within_tokens(text: str, budget_tokens: int) -> str:
    """The first whole lines of a text within a budget of tokens."""
    kept: list[str] = []
    left = budget_tokens
    for line in text.splitlines():
        left -= estimate_tokens(line + "\n")
        if left < 0:
            break
        kept.append(line)
    return "\n".join(kept)


def _cut_to_tokens(text: str, budget_tokens: int, *, within_sentence: bool) -> str:
    if estimate_tokens(text) <= budget_tokens:
        return text
    room = max(0, budget_tokens) * BYTES_PER_TOKEN
    reach = len(text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore"))
    return _prefix(text, reach, within_sentence=within_sentence)


def _word_count(text: str) -> int:
    return sum(1 for _ in _WORD.finditer(text))
