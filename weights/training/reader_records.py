"""Questions over invented tables, key-value lines and facts of companies, generated from records.toml.

Tables are rendered as the product renders those of documents (`table_groups`).
"""

import random
import re
import tomllib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from polyhop.warehouse.documents.tables import table_groups
from weights.training.reader_text import Span, TrainingPassage, TrainingQuestion, holds_any

TABLES, COMPANY = "tables", "company"
Draw = Callable[[random.Random], str]
_SHARED_SUBJECTS = ("project", "firm", "person")  # kinds of which a document states several facts


class Column(NamedTuple):
    """A column of invented tables: names of it, its value, and questions for it ({x} = the row)."""

    names: tuple[str, ...]
    value: Draw
    questions: tuple[str, ...]


class TableKind(NamedTuple):
    """A kind of table: names of its first column, its rows, nouns for a row, its other columns and titles."""

    heads: tuple[str, ...]
    item: Draw
    nouns: tuple[str, ...]
    columns: tuple[Column, ...]
    titles: tuple[str, ...]


class CompanyFact(NamedTuple):
    """A fact of a company's documents: statements and questions with {x} the subject and {y} the answer."""

    kind: str  # of its subject
    subject: Draw
    answer: Draw
    statements: tuple[str, ...]
    questions: tuple[str, ...]
    answers: tuple[tuple[int, ...], ...]  # by statement, the questions that it answers


class Records(NamedTuple):
    """The content of records.toml."""

    words: dict[str, list[str]]
    tables: tuple[TableKind, ...]
    facts: tuple[CompanyFact, ...]


@lru_cache(maxsize=1)
def load_records() -> Records:
    """Words and templates of records.toml."""
    content = tomllib.loads(Path(__file__).with_name("records.toml").read_text(encoding="utf-8"))
    words = content["words"]

    def column(about: dict[str, Any]) -> Column:
        return Column(tuple(about["names"]), _value_of(about["value"], words), tuple(about["questions"]))

    tables = tuple(
        TableKind(
            tuple(about["heads"]), _value_of(about["item"], words), tuple(about["nouns"]),
            tuple(map(column, about["columns"])), tuple(about["titles"]),
        )
        for about in content["tables"]
    )  # fmt: skip
    facts = tuple(
        CompanyFact(
            about["subject"], _value_of(about["subject"], words), _value_of(about["answer"], words),
            tuple(about["statements"]), tuple(about["questions"]),
            tuple(map(tuple, about.get("answers", [range(len(about["questions"]))] * len(about["statements"])))),
        )
        for about in content["facts"]
    )  # fmt: skip
    return Records(words, tables, facts)


def _value_of(description: str, words: dict[str, list[str]]) -> Draw:
    """Returns what draws a value.

    Descriptions: `number LOW HIGH`, `unit LOW HIGH DIGITS UNIT`, `code A B`, `one of a | b`, or a name of a value.
    """
    kind, _, rest = description.partition(" ")
    parts = rest.split()
    if kind == "number":
        return lambda rng: f"{rng.randrange(int(parts[0]), int(parts[1])):,}"
    if kind == "unit":
        unit = "".join(f" {part}" for part in parts[3:])
        return lambda rng: f"{rng.uniform(float(parts[0]), float(parts[1])):,.{parts[2]}f}{unit}"
    if kind == "code":
        return lambda rng: f"{rng.choice(parts)}-{rng.randint(10, 990)}"
    if kind == "one":
        choices = rest.removeprefix("of ").split(" | ")
        return lambda rng: rng.choice(choices)
    return _named_values(words)[kind]


def _named_values(words: dict[str, list[str]]) -> dict[str, Draw]:
    def money(rng: random.Random) -> str:
        amount = rng.randrange(200, 900_000, 50)
        return rng.choice((f"€{amount:,}", f"${amount:,}", f"{amount:,} euros", f"EUR {amount:,}", f"£{amount:,}"))

    def date(rng: random.Random) -> str:
        day, month, year = rng.randint(1, 28), rng.randrange(12), rng.randint(1994, 2029)
        name = words["months"][month]
        forms = (f"{day} {name} {year}", f"{name} {day}, {year}", f"{year}-{month + 1:02}-{day:02}", f"{name} {year}")
        return rng.choice(forms)

    def person(rng: random.Random) -> str:
        title = rng.choice(("", "", "", "", "Dr. "))
        return f"{title}{rng.choice(words['given_names'])} {rng.choice(words['family_names'])}"

    return {
        "money": money,
        "date": date,
        "person": person,
        "firm": lambda rng: f"{rng.choice(words['firm_names'])} {rng.choice(words['firm_kinds'])}",
        "project": lambda rng: rng.choice(words["projects"]),
        "product": lambda rng: f"{rng.choice(words['projects'])} {rng.choice(words['products'])}",
        "town": lambda rng: rng.choice(words["towns"]),
        "supply": lambda rng: f"{rng.choice(words['goods'])} for the {rng.choice(words['towns'])} plant",
        "site": lambda rng: f"the {rng.choice(words['towns'])} {rng.choice(words['sites'])}",
        "system": lambda rng: f"the {rng.choice(words['systems'])} system",
        "machine": lambda rng: f"machine {rng.choice('ABCDKM')}{rng.randint(10, 99)}",
        "contract": lambda rng: f"contract {rng.choice(('K', 'C', 'V'))}-{rng.randint(100, 999)}",
    }


def table_questions(count: int, seed: int) -> list[TrainingQuestion]:
    """Questions over invented tables and key-value lines; negatives are other rows, tables and lists."""
    rng = random.Random(seed)
    kinds = load_records().tables
    questions: list[TrainingQuestion] = []
    seen: set[str] = set()
    while len(questions) < count:
        kind = rng.choice(kinds)
        columns = rng.sample(kind.columns, rng.randint(2, min(5, len(kind.columns))))
        items = list(dict.fromkeys(kind.item(rng) for _ in range(rng.randint(4, 14))))
        names = [rng.choice(kind.heads), *(rng.choice(column.names) for column in columns)]
        rows = [[item, *(column.value(rng) for column in columns)] for item in items]
        title = rng.choice(kind.titles)
        passages = _rendered(names, rows, title, rng)
        foreign = _foreign_table(rng.choice(kinds), rng)
        for row in rng.sample(range(len(rows)), min(3, len(rows))):
            number = rng.randrange(len(columns))
            item, answer = rows[row][0], rows[row][number + 1]
            noun = rng.choice(kind.nouns).format(x=item)
            text = rng.choice(columns[number].questions).format(x=noun)
            marked = [_marked(passage, item, names[0], names[number + 1], answer) for passage in passages]
            gold = [passage for passage in marked if passage.spans]
            rest = [passage for passage in marked if not passage.spans and not holds_any(passage.text, (answer,))]
            rest += [passage for passage in foreign if not holds_any(passage.text, (answer, item))]
            if not gold or text in seen or sum(other[number + 1] == answer for other in rows) > 1:
                continue
            seen.add(text)
            questions.append(TrainingQuestion(_capital(text), (answer,), TABLES, tuple(gold), tuple(rest)))
    return questions[:count]


def _foreign_table(kind: TableKind, rng: random.Random) -> list[TrainingPassage]:
    """Another table of four rows with all columns of its kind."""
    rows = [[kind.item(rng), *(column.value(rng) for column in kind.columns)] for _ in range(4)]
    names = [rng.choice(kind.heads), *(column.names[0] for column in kind.columns)]
    return _rendered(names, rows, rng.choice(kind.titles), rng)


def _rendered(
    names: Sequence[str], rows: Sequence[Sequence[str]], title: str, rng: random.Random
) -> list[TrainingPassage]:
    """A table in passages of a few rows, or its rows as key-value lines, cards or sentences."""
    style = rng.random()
    if style < 0.5:
        texts = [text for text, _ in table_groups([names, *rows], rng.choice((250, 400, 600)))]
    elif style < 0.75:  # `Pump P-102: weight 1,840 kg, head 40 m.`
        colon = rng.choice((" ", ": "))
        texts = []
        for row in rows:
            values = (f"{name.lower()}{colon}{cell}" for name, cell in zip(names[1:], row[1:], strict=True))
            texts.append(f"{names[0]} {row[0]}: {', '.join(values)}.")
        size = rng.randint(1, 4)
        texts = [rng.choice((" ", "\n")).join(texts[at : at + size]) for at in range(0, len(texts), size)]
    else:  # one card for each row, in lines or in one sentence
        pairs = [[f"{name}: {cell}" for name, cell in zip(names, row, strict=True)] for row in rows]
        texts = ["\n".join(pair) if style < 0.9 else "; ".join(pair) + "." for pair in pairs]
    return [TrainingPassage(title, text) for text in texts]


def _marked(passage: TrainingPassage, item: str, head: str, column: str, answer: str) -> TrainingPassage:
    """The passage with the answer marked in the lines and sentences of one row."""
    text, spans = passage.text, list[Span]()
    is_card = _is_card(text, item)
    starts = [0, *(match.end() for match in re.finditer(rf"\n|\. (?={re.escape(head)} )", text))]
    value = re.compile(rf"(?<![\w,.-]){re.escape(answer)}(?!\w|[,.-]\w)")
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        line = text[start:end]
        named = re.search(rf"(?<!\w){re.escape(item)}(?!\w)", line)
        if named is None and not (is_card and line.startswith(f"{column}: ")):
            continue
        found = value.search(line, named.end() if named else 0)
        if found:
            spans.append((start + found.start(), start + found.end()))
    return TrainingPassage(passage.title, text, tuple(spans))


def _is_card(text: str, item: str) -> bool:
    """Returns whether a text is the card of one item: `Name: value` on each line, the item on the first."""
    lines = text.split("\n")
    return lines[0].endswith(f": {item}") and all(": " in line for line in lines)


def company_questions(count: int, seed: int) -> list[TrainingQuestion]:
    """Questions over one-sentence facts of invented companies, with rivals of the same kind around the answer."""
    rng = random.Random(seed)
    facts = load_records().facts
    questions: list[TrainingQuestion] = []
    seen: set[str] = set()
    while len(questions) < count:
        fact = rng.choice(facts)
        subjects = list(dict.fromkeys(fact.subject(rng) for _ in range(8)))
        pairs = [(subject, fact.answer(rng)) for subject in subjects]
        if len({answer for _, answer in pairs}) < 3 or len(pairs) < 4:
            continue
        subject, answer = pairs[0]
        number = rng.randrange(len(fact.statements))
        text = _capital(fact.questions[rng.choice(fact.answers[number])].format(x=subject))
        sentence = _sentence(fact.statements[number], subject, answer)
        if text in seen or sentence.count(answer) != 1 or holds_any(text, (answer,)):
            continue
        seen.add(text)
        rivals = [
            _sentence(fact.statements[number] if rng.random() < 0.6 else rng.choice(fact.statements), *pair)
            for pair in pairs[1:]
            if pair[1] != answer
        ]
        gold, negatives = _documents_of(fact, subject, sentence, rivals, rng)
        at = gold.text.find(sentence) + sentence.find(answer)
        gold = TrainingPassage(gold.title, gold.text, ((at, at + len(answer)),))
        clean = tuple(one for one in negatives if one.text and not holds_any(f"{one.title} {one.text}", (answer,)))
        if len(clean) >= 2 and gold.text.count(answer) == 1:
            questions.append(TrainingQuestion(text, (answer,), COMPANY, (gold,), clean))
    return questions


def _documents_of(
    fact: CompanyFact, subject: str, sentence: str, rivals: Sequence[str], rng: random.Random
) -> tuple[TrainingPassage, list[TrainingPassage]]:
    """The document with a sentence, and others with rivals and other facts of the subject."""
    about = [_other_fact(fact, subject, rng) for _ in range(3)]
    gold = _document([sentence, *rivals[: rng.choice((0, 1, 1, 2))], *about[:1]], rng)
    return gold, [
        _document([*rivals[2:4], *about[1:2]], rng),
        _document(rivals[4:6], rng),
        _document([*about[2:], _other_fact(fact, "", rng)], rng),
        _document(rivals[-1:], rng),
    ]


def _sentence(statement: str, subject: str, answer: str) -> str:
    return _capital(statement.format(x=subject, y=answer))


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _other_fact(fact: CompanyFact, subject: str, rng: random.Random) -> str:
    """A statement of another relation: of the same subject, if there is one of its kind, else of anything."""

    def has_subject(other: CompanyFact) -> bool:
        return other.kind == fact.kind and fact.kind in _SHARED_SUBJECTS

    further = [other for other in load_records().facts if other is not fact]
    others = [other for other in further if not subject or has_subject(other)]
    other = rng.choice(others or further)
    own = subject if subject and has_subject(other) else other.subject(rng)
    return _sentence(rng.choice(other.statements), own, other.answer(rng))


def _document(sentences: Sequence[str], rng: random.Random) -> TrainingPassage:
    """A passage of the sentences in random order, among some that say nothing."""
    words = load_records().words
    mixed = [*sentences, *rng.sample(words["fillers"], rng.randint(0, 2))] if sentences else []
    rng.shuffle(mixed)
    return TrainingPassage(rng.choice(words["documents"]), rng.choice((" ", " ", "\n")).join(mixed))
