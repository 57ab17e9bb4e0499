"""Question files as records, whatever their format.

Answers nothing. Gold paragraphs of question sets become record ids as the corpus reader makes them of the same file.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from polyhop.schemas.corpus import BadRecord
from polyhop.schemas.errors import SourceError
from polyhop.schemas.questions import MAX_QUESTION_CHARACTERS, QuestionRecord
from polyhop.warehouse.files.formats import ROWS, row_reader
from polyhop.warehouse.files.gold_answers import with_gold_answers
from polyhop.warehouse.files.golden_triples import golden_triples
from polyhop.warehouse.files.lines import MAX_RECORD_BYTES, encoding_fault, open_bytes, read_lines, size_words
from polyhop.warehouse.files.question_sets import question_set_of, supporting_ids
from polyhop.warehouse.files.records import (
    ID_FIELDS,
    FaultError,
    Row,
    bad_record,
    checked_id,
    checked_name,
    checked_text,
    distinct_records,
    kind_of,
    metadata_of,
    storable,
)
from polyhop.warehouse.files.sources import check_source, guarded, suffix_of

_Reader = Callable[[Path], Iterator[Row | BadRecord]]
_LISTS = {"answers", "answer", "supporting", "golden_triples"}
"""Fields whose cells in a CSV file hold several values."""
_USED = {*ID_FIELDS, "question", "answers", "answer", "supporting", "hops", "type", "topic", "topic_entity"}


def read_questions(path: Path) -> tuple[list[QuestionRecord], list[BadRecord]]:
    """The questions of a file in its order, and the records that hold no usable question.

    Fields: id or _id (default q000001… by line), question, answers or answer (a string or a list; in CSV separated by
    `|`), supporting (record ids, likewise), golden_triples (texts, lists of three ids, or {subject, predicate, object};
    they stay in the metadata, too), hops, type, topic or topic_entity; the rest is metadata. Without answers, a list
    `reference` (NQ), or `possible_answers` and the object's other names (PopQA), are the answers. In items of HotpotQA,
    2WikiMultiHopQA, MuSiQue, NQ and PopQA `supporting` are the ids that `read_corpus` gives the gold paragraphs.

    Args:
        path: A file of a known format; a .txt file has one question a line.

    Raises:
        SourceError: If it cannot be read to its end or holds no record at all.
    """
    check_source(path, QUESTION_FORMATS, accepts_folder=False)
    rows = guarded(path, QUESTION_FORMATS[suffix_of(path)](path), "question")
    return distinct_records(path.name, rows, _question, lambda question: question.question)


def usable_questions(path: Path) -> tuple[list[QuestionRecord], list[BadRecord]]:
    """As `read_questions`, with at least one question.

    Raises:
        SourceError: If no record holds a usable question; it names the first and its fault.
    """
    records, bad = read_questions(path)
    if not records:
        raise SourceError(f"There is no usable question in {path}: line {bad[0].line}: {bad[0].reason}.")
    return records, bad


def _question(row: Row, _source: str) -> QuestionRecord:
    fields = _plain_fields(row.fields)
    return QuestionRecord(
        id=checked_id(fields, ID_FIELDS) or f"q{row.line:06d}",
        question=_checked_question(fields),
        answers=_strings(fields, "answers") or _strings(fields, "answer"),
        supporting=_strings(fields, "supporting"),
        hops=_hops(fields.get("hops")),
        type=_word(fields, "type"),
        topic=_word(fields, "topic") or _word(fields, "topic_entity"),
        metadata=metadata_of(fields, _USED),
        golden_triples=golden_triples(fields),
    )


def _checked_question(fields: Mapping[str, object]) -> str:
    question = checked_text(fields, ("question",))
    if len(question) > MAX_QUESTION_CHARACTERS:
        raise FaultError(f"the question is {len(question):,} characters long; the limit is {MAX_QUESTION_CHARACTERS:,}")
    return question


def _plain_fields(fields: Mapping[str, object]) -> Mapping[str, object]:
    """The fields of a plain question, also for an item of a question set."""
    question_set = question_set_of(fields)
    if question_set is None:
        return with_gold_answers(fields)
    supporting = supporting_ids(question_set.paragraphs(fields))
    return with_gold_answers({**question_set.question(fields), "supporting": supporting})


def _strings(fields: Mapping[str, object], name: str) -> tuple[str, ...]:
    """A string, a number or a list of them as strings, each once, without empty ones."""
    value = fields.get(name)
    values = value if isinstance(value, (list, tuple)) else () if value is None else (value,)
    for item in values:
        if isinstance(item, bool) or not isinstance(item, (str, int, float)):
            raise FaultError(f"the {name} are not strings but hold {kind_of(item)}")
    return tuple(dict.fromkeys(storable(str(item)).strip() for item in values if str(item).strip()))


def _word(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    return None if value is None else checked_name(name, value)


def _hops(value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    raise FaultError(f"the hops are not a whole number but {kind_of(value)}")


def _split_cells(rows: Iterator[Row | BadRecord]) -> Iterator[Row | BadRecord]:
    """Rows of a CSV file with their lists taken apart."""
    for row in rows:
        if isinstance(row, BadRecord):
            yield row
        else:
            lists = {n: str(cell).split("|") for n, cell in row.fields.items() if n in _LISTS}
            yield Row(row.line, {**row.fields, **lists}, row.raw)


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


def _rows(ending: str) -> _Reader:
    return lambda path: row_reader(ending)(path, ("question",))


def _csv(ending: str) -> _Reader:
    return lambda path: _split_cells(row_reader(ending)(path, ("question",)))


QUESTION_FORMATS: dict[str, _Reader] = {
    **{suffix: (_csv if "csv" in suffix else _rows)(suffix) for suffix in ROWS},
    ".txt": _lines_of_text,
}
"""The registry of question formats: suffix to reader of rows."""
