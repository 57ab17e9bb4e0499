"""Records to passages: a text that is too long is cut where a reader would pause.

Pure; compares no records. Offsets are exact: `record.text[p.start:p.end] == p.text` for every passage `p`.
"""

import re
from collections.abc import Iterator

from polyhop.schemas.corpus import Passage, SourceRecord
from polyhop.schemas.ids import document_id, record_id
from polyhop.schemas.sentences import split_sentences
from polyhop.schemas.text import norm_ws

_NOT_BLANK = re.compile(r"\S")
_EMPTY_LINE = re.compile(r"\n[^\S\n]*\n")
_UP_TO_BLANK = re.compile(r".*(?=\s)", re.DOTALL)
_LOOK_AHEAD = 200


def split_record(record: SourceRecord, *, max_characters: int) -> list[Passage]:
    """The passages of a record: itself, or pieces without overlap that together hold all its words.

    A cut is made at the last empty line, else the last end of a sentence, in the second half of what still fits; else
    at the last of either at all, else at the last whitespace, else after `max_characters`. Pieces are trimmed.

    Args:
        record: Its id may be empty; then it is made of title and text.
        max_characters: Longest passage, at least 1.

    Returns:
        Passages in order with ids `<record id>#0`, `#1`…; one with the record's own id if nothing was cut; none for a
        whitespace only.
    Cost: O(characters), with whitespace or without.
    """
    text = record.text
    spans = [(0, len(text))] if len(text) <= max_characters else list(_pieces(text, max_characters))
    if not text.strip():
        return []
    own_id = record.id or record_id(record.title, text)
    document = document_id(norm_ws(record.title) or norm_ws(own_id))
    return [
        Passage(
            passage_id=own_id if len(spans) == 1 else f"{own_id}#{number}",
            record_id=own_id,
            document_id=document,
            ordinal=number,
            title=record.title,
            text=text[start:end],
            start=start,
            end=end,
        )
        for number, (start, end) in enumerate(spans)
    ]


def _pieces(text: str, max_characters: int) -> Iterator[tuple[int, int]]:
    begin = _NOT_BLANK.search(text)
    while begin is not None:
        start = begin.start()
        rest_fits = len(text) - start <= max_characters
        end = len(text) if rest_fits else start + _cut(text, start, max_characters)
        yield start, start + len(text[start:end].rstrip())
        begin = _NOT_BLANK.search(text, end)


def _cut(text: str, start: int, max_characters: int) -> int:
    """Length of the piece that begins at `start`, which is not whitespace: from 1 to `max_characters`."""
    window = text[start : start + max_characters + 1]
    paragraph = max((match.start() for match in _EMPTY_LINE.finditer(window)), default=0)
    if paragraph * 2 >= max_characters:
        return paragraph
    # the last span may continue after the window, so it does not end there
    spans = split_sentences(text[start : start + max_characters + _LOOK_AHEAD])[:-1]
    sentence = max((end for _, end in spans if end <= max_characters), default=0)
    if sentence * 2 >= max_characters:
        return sentence
    word = _UP_TO_BLANK.match(window)
    return max(paragraph, sentence) or (word.end() if word else max_characters)
