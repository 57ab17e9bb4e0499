"""Records to passages: a text with headings is cut at them, and one that is too long where a reader would pause.

Pure; compares no records. Offsets are exact: `record.text[p.start:p.end] == p.text` for every passage `p`.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from polyhop.schemas.names import split_sentences
from polyhop.schemas.records import Passage, SourceRecord, is_heading_only
from polyhop.schemas.text import document_id, norm_ws, record_id

MIN_SECTION_CHARACTERS = 200
"""Chosen: two sentences; a shorter passage seldom says what it is about. Setting `corpus.min_section_characters`."""

_NOT_BLANK = re.compile(r"\S")
_EMPTY_LINE = re.compile(r"\n[^\S\n]*\n")
_UP_TO_BLANK = re.compile(r".*(?=\s)", re.DOTALL)
# characters after the longest piece, in which the next sentence begins or does not: that decides where the last one
# ends. Chosen.
_LOOK_AHEAD = 200
Span = tuple[int, int]


def split_record(
    record: SourceRecord,
    *,
    max_characters: int,
    overlap_sentences: int = 0,
    min_section_characters: int = MIN_SECTION_CHARACTERS,
) -> list[Passage]:
    """The passages of a record: itself, or pieces that together hold all its words.

    A record with sections is first cut where one begins: always where a slide, sheet or chapter does, and where a
    heading does, unless what stands before it is a heading alone or too short for a passage. What is still too long
    is cut at the last empty line, else the last end of a sentence, in the second half of what still fits; else at the
    last of either at all, else at the last whitespace, else after `max_characters`. Pieces are trimmed.

    Args:
        record: Its id may be empty; then it is made of title and text.
        max_characters: Longest passage, at least 1.
        overlap_sentences: How many sentences a piece repeats of the one before, at most half a passage and never
            across a heading; 0: pieces do not overlap.
        min_section_characters: Shorter sections are joined with the next one.

    Returns:
        Passages in order with ids `<record id>#0`, `#1`…; one with the record's own id if nothing was cut; none for a
        whitespace only.
    Cost: O(characters + sections), with whitespace or without.
    """
    text = record.text
    if not text.strip():
        return []
    blocks = _blocks(record, max_characters, min_section_characters) if record.sections else [(0, len(text))]
    spans: list[Span] = []
    for start, end in blocks:
        if len(blocks) == 1 and end - start <= max_characters:
            spans.append((start, end))
        else:
            spans.extend(_pieces(text, (start, end), max_characters, overlap_sentences))
    return _passages(record, spans)


def _passages(record: SourceRecord, spans: Sequence[Span]) -> list[Passage]:
    text = record.text
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


def _blocks(record: SourceRecord, max_characters: int, min_characters: int) -> list[Span]:
    """Spans that no passage crosses; together they are the whole text."""
    sections, text = record.sections, record.text
    starts = [0]
    has_body = False  # whether more than headings stands between the last start and the section before this one
    for number, (before, section) in enumerate(pairwise(sections)):
        has_body = has_body or not is_heading_only(sections, text, number)
        length = section.start - starts[-1]
        end = sections[number + 2].start if number + 2 < len(sections) else len(text)
        if (before.container != section.container or before.headings != section.headings) and (
            before.container != section.container
            or (has_body and (length >= min_characters or end - starts[-1] > max_characters))
        ):
            starts.append(section.start)
            has_body = False
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


def _pieces(text: str, block: Span, max_characters: int, overlap_sentences: int) -> Iterator[Span]:
    """Spans of at most `max_characters` that hold all words of a block."""
    begin = _NOT_BLANK.search(text, *block)
    if begin is None:
        return
    start = done = begin.start()
    while True:
        end = _end(text, start, block[1], max_characters)
        if end <= done:  # only what is repeated would fit: repeat nothing
            start = done
            end = _end(text, start, block[1], max_characters)
        yield start, start + len(text[start:end].rstrip())
        begin = _NOT_BLANK.search(text, end, block[1])
        if begin is None:
            return
        done = begin.start()
        start = done - _repeated(text, start, done, max_characters, overlap_sentences)


def _end(text: str, start: int, block_end: int, max_characters: int) -> int:
    if block_end - start <= max_characters:
        return block_end
    return start + _cut(text[start : min(block_end, start + max_characters + _LOOK_AHEAD)], max_characters)


def _repeated(text: str, start: int, end: int, max_characters: int, sentences: int) -> int:
    """How many characters before `end` the next piece repeats: whole sentences of the piece from `start`."""
    if not sentences:
        return 0
    spans = split_sentences(text[start:end])[1:]  # all of them would be the same piece again
    lengths = [end - start - first for first, _ in spans[-sentences:]]
    return max((length for length in lengths if length * 2 <= max_characters), default=0)


def _cut(text: str, max_characters: int) -> int:
    """Length of the piece that a text begins with, from 1 to `max_characters`; it may be cut after that and 200 more.

    The text is longer than `max_characters`, and its first character is not whitespace.
    """
    window = text[: max_characters + 1]
    paragraph = max((match.start() for match in _EMPTY_LINE.finditer(window)), default=0)
    if paragraph * 2 >= max_characters:
        return paragraph
    # the last span may continue after the window, so it does not end there
    spans = split_sentences(text)[:-1]
    sentence = max((end for _, end in spans if end <= max_characters), default=0)
    if sentence * 2 >= max_characters:
        return sentence
    word = _UP_TO_BLANK.match(window)
    return max(paragraph, sentence) or (word.end() if word else max_characters)
