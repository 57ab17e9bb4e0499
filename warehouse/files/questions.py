"""Question files, published question sets, gold answers and triples, and files of predictions, as records.

A set is recognised by the fields of an item, never by a file's name. Source: algorithms.md 6.5; NQ and PopQA as
HippoRAG stores them (the fields that its main.py, `get_gold_docs`, reads).
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

from polyhop.schemas.errors import MAX_QUESTION_CHARACTERS, SourceError
from polyhop.schemas.records import BadRecord, GoldenTriple, Prediction, QuestionRecord, SourceRecord
from polyhop.schemas.text import record_id
from polyhop.warehouse.files.formats import ROWS, row_reader
from polyhop.warehouse.files.records import (
    ID_FIELDS,
    MAX_RECORD_BYTES,
    FaultError,
    Row,
    bad_record,
    check_source,
    checked_id,
    checked_name,
    checked_text,
    distinct_records,
    encoding_fault,
    guarded,
    kind_of,
    metadata_of,
    open_bytes,
    read_lines,
    size_words,
    storable,
    suffix_of,
    to_record,
)

# Source: the fields that HippoRAG's experiments read (main.py, `get_gold_answers`); algorithms.md 6.5.

REFERENCE = "reference"
POSSIBLE_ANSWERS = "possible_answers"
_OBJECT_FIELDS = ("obj", "o_wiki_title", POSSIBLE_ANSWERS, "o_aliases")
"""PopQA: the object of the triple that a question was made of, and all its names."""
_ALIASES = "answer_aliases"
_IN_REFERENCES = ("answers", "answer", "aliases", _ALIASES)
_USED = frozenset({REFERENCE, *_OBJECT_FIELDS, _ALIASES})


def has_references(item: Mapping[str, object]) -> bool:
    """Returns whether an item lists its gold answers as `reference`; a string of that name may be anything."""
    return isinstance(item.get(REFERENCE), (list, tuple))


def with_gold_answers(item: Mapping[str, object]) -> Mapping[str, object]:
    """The item with `answers` instead of the fields of NQ and PopQA; unchanged if it has answers, or none of these."""
    if item.get("answers") or item.get("answer") or not (has_references(item) or item.get(POSSIBLE_ANSWERS)):
        return item
    # All spellings, in the order of the fields: `reference` or PopQA's names of the object, then the aliases.
    found = _references(item[REFERENCE]) if has_references(item) else []
    for name in () if has_references(item) else _OBJECT_FIELDS:
        value = item.get(name)
        if isinstance(value, str) and value.lstrip().startswith("["):  # a list as JSON, as in PopQA's published file
            try:
                value = json.loads(value)
            except (ValueError, RecursionError) as error:
                reason = f"the answers in {name} begin like a JSON list but are not valid JSON: {error}"
                raise FaultError(reason) from error
        found += _strings(f"answers in {name}", value)
    found += _strings(f"answers in {_ALIASES}", item.get(_ALIASES))
    return {**{name: value for name, value in item.items() if name not in _USED}, "answers": found}


def _references(value: object) -> list[str]:
    """Spellings, or objects that hold them."""
    found: list[str] = []
    for each in value if isinstance(value, (list, tuple)) else ():
        if not isinstance(each, Mapping):
            found += _strings(f"answers in {REFERENCE}", [each])
            continue
        names = [name for name in _IN_REFERENCES if each.get(name) is not None]
        if not names:
            raise FaultError("an object in reference has no field named answers or answer")
        found += [text for name in names for text in _strings(f"answers in {REFERENCE}", each[name])]
    return found


def _strings(what: str, value: object) -> list[str]:
    values = value if isinstance(value, (list, tuple)) else () if value is None else (value,)
    for each in values:
        if isinstance(each, bool) or not isinstance(each, (str, int, float)):
            raise FaultError(f"the {what} are not strings but hold {kind_of(each)}")
    return [str(each) for each in values]


FIELD = "golden_triples"
_PARTS = ("subject", "predicate", "object")


def golden_triples(fields: Mapping[str, object]) -> tuple[GoldenTriple, ...]:
    """The golden triples of a question, each once, without empty texts.

    The field holds one or a list of: texts, lists [subject id, predicate, object id], or objects {subject, predicate,
    object} whose ends are ids, values or {id}.
    """
    value = fields.get(FIELD)
    values = () if value is None else value if isinstance(value, (list, tuple)) else (value,)
    found: dict[GoldenTriple, None] = {}
    for item in values:
        if isinstance(item, str):
            found[storable(item).strip()] = None
            continue
        parts = [item.get(part) for part in _PARTS] if isinstance(item, Mapping) else item
        if not isinstance(parts, (list, tuple)) or len(parts) != len(_PARTS):
            message = f"a golden triple is neither a text nor subject, predicate and object, but holds {kind_of(item)}"
            raise FaultError(message)
        subject, predicate, end = (_end(name, part) for name, part in zip(_PARTS, parts, strict=True))
        found[subject, predicate, end] = None
    return tuple(triple for triple in found if triple)


def _end(name: str, value: object) -> str:
    """An id, a value, or the id (else the name) of a node."""
    found = value.get("id") or value.get("name") if isinstance(value, Mapping) else value
    if isinstance(found, bool) or not isinstance(found, (str, int, float)) or not str(found).strip():
        raise FaultError(f"the {name} of a golden triple holds no id but {kind_of(found)}")
    return storable(str(found))


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
    """Format of a question set's items: `paragraphs` raises FaultError if an item has another format."""

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


def _list_of(item: Item, name: str) -> list[object]:
    value = item.get(name)
    if not isinstance(value, (list, tuple)):
        raise FaultError(f"the {name} is not a list but {kind_of(value)}")
    return list(value)


def _context_paragraphs(item: Item, joiner: str) -> list[Paragraph]:
    """Paragraphs of `context`: [title, sentences] pairs, or the two columns that parquet files have."""
    facts = item.get("supporting_facts") or []
    if isinstance(facts, Mapping):
        titles = _list_of(facts, "title")
    else:
        titles = [fact[0] for fact in _list_of({"supporting facts": facts}, "supporting facts") if _is_pair(fact)]
    gold = {title for title in titles if isinstance(title, str)}
    context = item.get("context")
    if isinstance(context, Mapping):
        sentences = "content" if "content" in context else "sentences"
        pairs: list[object] = list(zip(_list_of(context, "title"), _list_of(context, sentences), strict=False))
    else:
        pairs = _list_of(item, "context")
    paragraphs = []
    for pair in pairs:
        if not _is_pair(pair):
            raise FaultError("the context is not a list of [title, sentences]")
        title, said = pair
        if not isinstance(said, (list, tuple)) or not all(isinstance(sentence, str) for sentence in said):
            raise FaultError("the sentences of a context are not a list of strings")
        paragraphs.append(Paragraph(title, joiner.join(said), isinstance(title, str) and title in gold))
    return paragraphs


def _is_pair(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, (list, tuple)) and len(value) == 2


def _musique_paragraphs(item: Item) -> list[Paragraph]:
    paragraphs = []
    for entry in _list_of(item, "paragraphs"):
        if not isinstance(entry, Mapping):
            raise FaultError(f"a paragraph is not an object but {kind_of(entry)}")
        is_gold = entry.get("is_supporting") is True
        paragraphs.append(Paragraph(entry.get("title"), entry.get("paragraph_text"), is_gold))
    return paragraphs


def _musique_question(item: Item) -> dict[str, object]:
    """The fields of a plain question: all spellings of the answer; hops and type from the id (`3hop1__…`)."""
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


def _without(*fields: str) -> Callable[[Item], dict[str, object]]:
    return lambda item: {name: value for name, value in item.items() if name not in fields}


HOTPOTQA = QuestionSet("HotpotQA", lambda item: _context_paragraphs(item, ""), _without("context", "supporting_facts"))
WIKI2 = QuestionSet("2WikiMultiHopQA", lambda item: _context_paragraphs(item, " "), HOTPOTQA.question)
MUSIQUE = QuestionSet("MuSiQue", _musique_paragraphs, _musique_question)
NQ = QuestionSet("NQ", _supporting_paragraphs, _without("contexts", "paragraphs"))
POPQA = QuestionSet("PopQA", _supporting_paragraphs, NQ.question)

_Reader = Callable[[Path], Iterator[Row | BadRecord]]
_LISTS = {"answers", "answer", "supporting", "golden_triples"}  # fields whose cells in a CSV file hold several values
_USED_FIELDS = {*ID_FIELDS, "question", "answers", "answer", "supporting", "hops", "type", "topic", "topic_entity"}


def read_questions(path: Path) -> tuple[list[QuestionRecord], list[BadRecord]]:
    """The questions of a file in its order, and the records that hold no usable question.

    Fields: id or _id (default q000001… by line), question, answers or answer (a string or a list; in CSV separated by
    `|`), supporting (record ids, likewise), golden_triples (texts, lists of three ids, or {subject, predicate, object};
    they stay in the metadata, too), hops, type, topic or topic_entity; the rest is metadata. Without answers, a list
    `reference` (NQ), or `possible_answers` and the object's other names (PopQA), are the answers. In items of HotpotQA,
    2WikiMultiHopQA, MuSiQue, NQ and PopQA `supporting` are the ids that `read_corpus` gives the gold paragraphs.
    """
    check_source(path, QUESTION_FORMATS, accepts_folder=False)
    rows = guarded(path, QUESTION_FORMATS[suffix_of(path)](path), "question")
    return distinct_records(path.name, rows, _question, lambda question: question.question)


def usable_questions(path: Path) -> tuple[list[QuestionRecord], list[BadRecord]]:
    """As `read_questions`, with at least one question."""
    records, bad = read_questions(path)
    if not records:
        raise SourceError(f"There is no usable question in {path}: line {bad[0].line}: {bad[0].reason}.")
    return records, bad


def _question(row: Row, _source: str) -> QuestionRecord:
    fields, question_set = row.fields, question_set_of(row.fields)
    if question_set is not None:
        gold = (paragraph_record(one, 0, "") for one in question_set.paragraphs(fields) if one.is_gold)
        supporting = dict.fromkeys(record.id for record in gold if isinstance(record, SourceRecord))
        fields = {**question_set.question(fields), "supporting": list(supporting)}
    fields = with_gold_answers(fields)
    question = checked_text(fields, ("question",))
    if len(question) > MAX_QUESTION_CHARACTERS:
        raise FaultError(f"the question is {len(question):,} characters long; the limit is {MAX_QUESTION_CHARACTERS:,}")
    hops = fields.get("hops")
    if isinstance(hops, str) and hops.strip().isdecimal():
        hops = int(hops)
    if hops is not None and (not isinstance(hops, int) or isinstance(hops, bool)):
        raise FaultError(f"the hops are not a whole number but {kind_of(hops)}")
    return QuestionRecord(
        id=checked_id(fields, ID_FIELDS) or f"q{row.line:06d}",
        question=question,
        answers=_string_list(fields, "answers") or _string_list(fields, "answer"),
        supporting=_string_list(fields, "supporting"),
        hops=hops,
        type=_word(fields, "type"),
        topic=_word(fields, "topic") or _word(fields, "topic_entity"),
        metadata=metadata_of(fields, _USED_FIELDS),
        golden_triples=golden_triples(fields),
    )


def _string_list(fields: Mapping[str, object], name: str) -> tuple[str, ...]:
    """A string, a number or a list of them as strings, each once, without empty ones."""
    found = _strings(name, fields.get(name))
    return tuple(dict.fromkeys(storable(text).strip() for text in found if text.strip()))


def _word(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    return None if value is None else checked_name(name, value)


def _lines_of_text(path: Path) -> Iterator[Row | BadRecord]:
    """The lines of a text file, each a question; empty ones are skipped."""
    with open_bytes(path) as stream:
        for line in read_lines(stream):
            try:
                text = line.data.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                yield bad_record(path.name, line.number, f"the line is {encoding_fault(error)}")
                continue
            if line.is_too_long:
                yield bad_record(
                    path.name, line.number, f"the line is longer than {size_words(MAX_RECORD_BYTES)}", text
                )
            elif text:
                yield Row(line.number, {"question": text}, text)


def _rows(suffix: str, needed: str, lists: Collection[str], defaults: Mapping[str, object]) -> _Reader:
    """The reader of a format of rows; empty cells of tables have defaults, those of lists in CSV several values."""

    def read(path: Path) -> Iterator[Row | BadRecord]:
        for row in row_reader(suffix)(path, (needed,)):
            if isinstance(row, BadRecord) or "json" in suffix:
                yield row
                continue
            fields = {**defaults, **row.fields}
            if "csv" in suffix:
                fields |= {name: str(fields[name]).split("|") for name in lists if name in fields}
            yield Row(row.line, fields, row.raw)

    return read


QUESTION_FORMATS: dict[str, _Reader] = {
    **{suffix: _rows(suffix, "question", _LISTS, {}) for suffix in ROWS},
    ".txt": _lines_of_text,
}
"""The registry of question formats: suffix to reader of rows."""


def read_predictions(path: Path) -> tuple[list[Prediction], list[BadRecord]]:
    """The predictions of a file in its order, and the records that hold no usable one.

    Fields: id or _id (default q000001… by line); prediction (null, or an empty cell: nothing was answered); answers or
    answer, a string or a list (in CSV separated by `|`). Other fields are skipped.
    """
    check_source(path, PREDICTION_FORMATS, accepts_folder=False)
    rows = guarded(path, PREDICTION_FORMATS[suffix_of(path)](path), "prediction")
    return distinct_records(path.name, rows, _prediction, lambda prediction: prediction.prediction)


def _prediction(row: Row, _source: str) -> Prediction:
    if "prediction" not in row.fields:
        raise FaultError("missing prediction: expected a field named prediction")
    name = next((name for name in ("answers", "answer") if row.fields.get(name) is not None), None)
    if name is None:
        raise FaultError("missing gold answers: expected a field named answers or answer")
    stated = row.fields[name]
    answers = stated if isinstance(stated, (list, tuple)) else (stated,)
    return Prediction(
        id=checked_id(row.fields, ID_FIELDS) or f"q{row.line:06d}",
        prediction=_text("prediction", row.fields["prediction"]),
        # each once; an empty one is an answer as well (algorithms.md, G-EVAL)
        answers=tuple(dict.fromkeys(_text(name, answer) for answer in answers)),
    )


def _text(name: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise FaultError(f"the {name} is neither a string nor a number but {kind_of(value)}")
    return storable(str(value))


PREDICTION_FORMATS: Mapping[str, _Reader] = {
    suffix: _rows(suffix, "prediction", ("answers", "answer"), {"prediction": ""}) for suffix in ROWS
}
"""The registry of formats of predictions: suffix to reader of rows."""
