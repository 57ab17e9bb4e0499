"""The published question sets that carry their corpus inside: HotpotQA, 2WikiMultiHopQA, MuSiQue, NQ and PopQA items.

Opens nothing. A set is recognised by the fields of an item, never by a file's name.
Source: algorithms.md 6.5; NQ and PopQA as HippoRAG stores them (the fields that its main.py, `get_gold_docs`, reads).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from polyhop.schemas.corpus import BadRecord, SourceRecord
from polyhop.schemas.ids import record_id
from polyhop.warehouse.files.gold_answers import POSSIBLE_ANSWERS, has_references
from polyhop.warehouse.files.records import FaultError, Row, kind_of, to_record

Item = Mapping[str, object]
_MUSIQUE_ID = re.compile(r"((\d)hop\d*)__")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of an item, as the item gives it."""

    title: object
    text: object
    is_gold: bool


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """How one set writes its items: `paragraphs` raises FaultError if an item is not written so."""

    name: str
    paragraphs: Callable[[Item], list[Paragraph]]
    question: Callable[[Item], dict[str, object]]


def question_set_of(item: Item) -> QuestionSet | None:
    """The set that an item belongs to, or None if it is not an item of a question set."""
    if not isinstance(item.get("question"), str):
        return None
    if _passages_of(item) is not None and item.get(POSSIBLE_ANSWERS) is not None:
        return POPQA
    if _passages_of(item) is not None and (has_references(item) or "paragraphs" not in item):
        return NQ
    if isinstance(item.get("paragraphs"), list):
        return MUSIQUE
    if isinstance(item.get("context"), (list, Mapping)):
        return WIKI2 if "evidences" in item else HOTPOTQA
    return None


def paragraph_record(paragraph: Paragraph, line: int, source: str) -> SourceRecord | BadRecord:
    """A paragraph as a record of the corpus; its id is made of title and text, so that equal ones are one record."""
    record = to_record(Row(line, {"title": paragraph.title, "text": paragraph.text}), source)
    if isinstance(record, SourceRecord):
        return replace(record, id=record_id(record.title, record.text))
    return record


def supporting_ids(paragraphs: Iterable[Paragraph]) -> list[str]:
    """Record ids of the gold paragraphs that can be used, in the item's order, each once."""
    records = (paragraph_record(paragraph, 0, "") for paragraph in paragraphs if paragraph.is_gold)
    return list(dict.fromkeys(record.id for record in records if isinstance(record, SourceRecord)))


def _list_of(item: Item, name: str) -> list[object]:
    value = item.get(name)
    if not isinstance(value, (list, tuple)):
        raise FaultError(f"the {name} is not a list but {kind_of(value)}")
    return list(value)


def _context_paragraphs(item: Item, joiner: str) -> list[Paragraph]:
    """Paragraphs of `context`: [title, sentences] pairs, or the two columns that parquet files have."""
    gold = _gold_titles(item)
    context = item.get("context")
    if isinstance(context, Mapping):
        sentences = "content" if "content" in context else "sentences"
        pairs: list[object] = list(zip(_list_of(context, "title"), _list_of(context, sentences), strict=False))
    else:
        pairs = _list_of(item, "context")
    return [_context_paragraph(pair, joiner, gold) for pair in pairs]


def _context_paragraph(pair: object, joiner: str, gold: set[str]) -> Paragraph:
    if not _is_pair(pair):
        raise FaultError("the context is not a list of [title, sentences]")
    title, sentences = pair
    if isinstance(sentences, (list, tuple)) and all(isinstance(sentence, str) for sentence in sentences):
        return Paragraph(title, joiner.join(sentences), isinstance(title, str) and title in gold)
    raise FaultError("the sentences of a context are not a list of strings")


def _gold_titles(item: Item) -> set[str]:
    facts = item.get("supporting_facts") or []
    if isinstance(facts, Mapping):
        titles = _list_of(facts, "title")
    else:
        titles = [fact[0] for fact in _list_of({"supporting facts": facts}, "supporting facts") if _is_pair(fact)]
    return {title for title in titles if isinstance(title, str)}


def _is_pair(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, (list, tuple)) and len(value) == 2


def _context_question(item: Item) -> dict[str, object]:
    return {name: value for name, value in item.items() if name not in {"context", "supporting_facts"}}


def _musique_paragraphs(item: Item) -> list[Paragraph]:
    paragraphs = []
    for entry in _list_of(item, "paragraphs"):
        if not isinstance(entry, Mapping):
            raise FaultError(f"a paragraph is not an object but {kind_of(entry)}")
        is_gold = entry.get("is_supporting") is True
        paragraphs.append(Paragraph(entry.get("title"), entry.get("paragraph_text"), is_gold))
    return paragraphs


def _musique_question(item: Item) -> dict[str, object]:
    """The fields of a plain question: all spellings of the answer; hops and type from the id (`3hop1__…`).

    Raises:
        FaultError: If the item says that its paragraphs do not hold the answer.
    """
    if item.get("answerable") is False:
        raise FaultError("marked as not answerable, so it is left out")
    used = {"paragraphs", "answer_aliases", "answerable"}
    question = {name: value for name, value in item.items() if name not in used}
    aliases = item.get("answer_aliases") or []
    if item.get("answer") is not None and isinstance(aliases, (list, tuple)):
        question["answer"] = [item["answer"], *aliases]
    match = _MUSIQUE_ID.match(str(item.get("id", "")))
    if match:
        question.setdefault("hops", int(match[2]))
        question.setdefault("type", match[1])
    return question


def _passages_of(item: Item) -> list[object] | None:
    """The passages of an NQ or a PopQA item: a list `contexts` of objects, or a list `paragraphs`; None without one."""
    contexts = item.get("contexts")
    if isinstance(contexts, list) and contexts and isinstance(contexts[0], Mapping):
        return contexts
    paragraphs = item.get("paragraphs")
    return paragraphs if isinstance(paragraphs, list) else None


def _supporting_paragraphs(item: Item) -> list[Paragraph]:
    """Passages that say whether they support the answer; one that does not say so does."""
    paragraphs = []
    for entry in _passages_of(item) or []:
        if not isinstance(entry, Mapping):
            raise FaultError(f"a paragraph is not an object but {kind_of(entry)}")
        stated = entry.get("is_supporting")
        if stated is not None and not isinstance(stated, bool):
            raise FaultError(f"the is_supporting of a paragraph is neither true nor false but {kind_of(stated)}")
        text = entry.get("paragraph_text") if entry.get("text") is None else entry["text"]
        paragraphs.append(Paragraph(entry.get("title"), text, stated is not False))
    return paragraphs


def _question_without_passages(item: Item) -> dict[str, object]:
    return {name: value for name, value in item.items() if name not in {"contexts", "paragraphs"}}


HOTPOTQA = QuestionSet("HotpotQA", lambda item: _context_paragraphs(item, ""), _context_question)
WIKI2 = QuestionSet("2WikiMultiHopQA", lambda item: _context_paragraphs(item, " "), _context_question)
MUSIQUE = QuestionSet("MuSiQue", _musique_paragraphs, _musique_question)
NQ = QuestionSet("NQ", _supporting_paragraphs, _question_without_passages)
POPQA = QuestionSet("PopQA", _supporting_paragraphs, _question_without_passages)
