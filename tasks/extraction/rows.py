"""Results of extraction on a page, the ledger of requests, and the raw tables made of both (pure).

A page has one row per key. Raw rows are keyed by names; ids, totals and resolution come later. They
are written as parquet parts, so that every extractor and every process that runs one meets the others only here.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, field
from typing import Literal, TypeVar

import pyarrow as pa

from polyhop.schemas.chat import ChatOutcome, ReplyT
from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.graph import Mention
from polyhop.schemas.records import Passage
from polyhop.schemas.tables import EXTRACTION_LEDGER, Column, Table
from polyhop.schemas.text import norm_ws, proposition_id
from polyhop.tasks.stage import fault_reason

T = TypeVar("T")

RAW_MENTIONS = Table(
    "raw_mentions",
    "One row per passage and name.",
    ("passage_id", "key", "extractor"),
    (
        Column("passage_id", pa.string(), "passage"),
        Column("key", pa.string(), "name key; dates are date:…, numbers number:…"),
        Column("extractor", pa.string(), "rules, regex, spacy, model or import"),
        Column("surface", pa.string(), "first spelling in the passage"),
        Column("tf", pa.int64(), "mentions in the passage, at least 1"),
        Column("is_title", pa.bool_(), "a key of the passage's own title"),
        Column(
            "spans_json", pa.string(), "[[start, end], …] in the passage's text (mentions in the title are not listed)"
        ),
        Column("type", pa.string(), "type of the name here", nullable=True),
        Column("type_confidence", pa.float64(), "0 to 1; 0: nothing states it, NULL: nothing is known", nullable=True),
        Column(
            "votes",
            pa.list_(pa.int64()),
            "thousandths for PERSON, ORGANIZATION, LOCATION, WORK, EVENT, other name, no name, over its mentions here",
            nullable=True,
        ),
        Column(
            "description",
            pa.string(),
            "the model's, else the passage's first sentence that mentions it; at most 240 characters",
        ),
    ),
)
RAW_RELATIONS = Table(
    "raw_relations",
    "One row per stated relation.",
    ("passage_id", "ordinal"),
    (
        Column("passage_id", pa.string(), "passage that states it"),
        Column("ordinal", pa.int64(), "rank within the passage"),
        Column("source_key", pa.string(), "name key"),
        Column("relation", pa.string(), "label"),
        Column("target_key", pa.string(), "name key, other than source_key"),
        Column("extractor", pa.string(), "rules, model or import"),
    ),
)


def _raw_propositions(name: str, comment: str) -> Table:
    return Table(
        name,
        comment,
        ("passage_id", "ordinal"),
        (
            Column("passage_id", pa.string(), "passage it comes from"),
            Column("ordinal", pa.int64(), "rank within the passage"),
            Column("text", pa.string(), "the proposition"),
            Column("keys", pa.list_(pa.string()), "name keys in it, in order, each once"),
            Column("extractor", pa.string(), "rules, model or import"),
        ),
    )


RAW_PROPOSITIONS = _raw_propositions("raw_propositions", "One row per proposition of a passage.")
RAW_TRIPLES = _raw_propositions("raw_triples", "One row per triple of a passage, as a proposition.")


@dataclass(frozen=True, slots=True)
class Bundle:
    """Arrow tables with the four raw schemas, rows in the order of their keys."""

    mentions: pa.Table
    relations: pa.Table
    propositions: pa.Table
    triples: pa.Table


DESCRIPTION_CHARACTERS = 240  # algorithms.md 0.8 (F-DESC).
Relation = tuple[str, str, str]  # source key, label, target key
Proposition = tuple[str, list[str]]  # text, and the keys in it in order, each once


UNTYPED = 0.0  # Confidence of a name of which nothing states a type.


@dataclass(slots=True)
class ExtractedEntity:
    """Statement of a passage about one key; `sentence` is the number of the first that mentions it, -1 without.

    `votes` are the sums over its mentions, empty without any.
    """

    surface: str
    type: str | None
    confidence: float | None
    extractor: str
    tf: int = 0
    is_title: bool = False
    sentence: int = -1
    spans: list[tuple[int, int]] = field(default_factory=list)
    description: str = ""
    votes: list[int] = field(default_factory=list)

    def add_votes(self, votes: Sequence[int] | None) -> None:
        """Adds the votes of one mention, if it has any."""
        if votes is not None:
            self.votes = [sum(pair) for pair in zip(self.votes, votes, strict=True)] if self.votes else [*votes]

    def add_span(self, start: int, end: int, sentence: int) -> None:
        """Counts one mention in the text."""
        if self.sentence < 0:
            self.sentence = sentence
        self.tf += 1
        self.spans.append((start, end))


@dataclass(slots=True)
class ExtractedPassage:
    """All that was found on one passage; what it states comes with the label of who stated it.

    Triples are relations as propositions, with the words of their statement.
    """

    passage: Passage
    sentences: list[tuple[int, int]]
    rows: dict[str, ExtractedEntity] = field(default_factory=dict)
    relations: list[tuple[Relation, str]] = field(default_factory=list)
    propositions: list[tuple[Proposition, str]] = field(default_factory=list)
    triples: list[tuple[Proposition, str]] = field(default_factory=list)


def bundle_of(pages: Iterable[ExtractedPassage]) -> Bundle:
    """The raw tables of pages with distinct passages, in the order of their keys. Cost: O(rows)."""
    mentions: list[tuple[object, ...]] = []
    relations: list[tuple[object, ...]] = []
    propositions: list[tuple[object, ...]] = []
    triples: list[tuple[object, ...]] = []
    for page in sorted(pages, key=lambda page: page.passage.passage_id):
        passage_id = page.passage.passage_id
        # One row per key; who is not in the text is described by its first sentence.
        descriptions: dict[int, str] = {}
        for key in sorted(page.rows):
            row = page.rows[key]
            home = max(row.sentence, 0)
            if home not in descriptions:
                piece = slice(*page.sentences[home]) if page.sentences else slice(0)
                descriptions[home] = cut(page.passage.text[piece] or page.passage.title)
            spans = f"[{','.join(f'[{start},{end}]' for start, end in row.spans)}]"
            said = row.description or descriptions[home]
            counted = max(row.tf, 1), row.is_title, spans
            typed = row.type, row.confidence, row.votes or None
            mentions.append((passage_id, key, row.extractor, row.surface, *counted, *typed, said))
        for ordinal, ((source, label, target), extractor) in enumerate(page.relations):
            relations.append((passage_id, ordinal, source, label, target, extractor))
        for columns, stated in ((propositions, page.propositions), (triples, page.triples)):
            for ordinal, ((text, keys), extractor) in enumerate(stated):
                columns.append((passage_id, ordinal, text, keys, extractor))
    tables = (RAW_MENTIONS, RAW_RELATIONS, RAW_PROPOSITIONS, RAW_TRIPLES)
    return Bundle(*map(arrow_table, tables, (mentions, relations, propositions, triples)))


def merged(propositions: Iterable[Proposition]) -> list[Proposition]:
    """Each text once, with the keys of all its occurrences in order."""
    found: dict[str, dict[str, None]] = {}
    for text, keys in propositions:
        found.setdefault(text, {}).update(dict.fromkeys(keys))
    return [(text, list(keys)) for text, keys in found.items()]


def arrow_table(table: Table, rows: Sequence[tuple[object, ...]]) -> pa.Table:
    """Rows, each with a value per column, as an Arrow table."""
    schema = table.arrow
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def sentences_of(mentions: Sequence[Mention], sentences: Sequence[tuple[int, int]]) -> list[int]:
    """Number of the sentence in which each mention begins; both are in order."""
    homes = []
    home = 0
    last = len(sentences) - 1
    for mention in mentions:
        while home < last and sentences[home + 1][0] <= mention.start:
            home += 1
        homes.append(home)
    return homes


def cut(text: str, most: int = DESCRIPTION_CHARACTERS) -> str:
    """`text` on one line, cut after its last whole word within `most` characters. Source: algorithms.md 0.8."""
    line = " ".join(text[: 4 * most].split())
    if len(line) <= most:
        return line
    head, blank, _ = line[: most + 1].rpartition(" ")
    return head if blank else line[:most]


COUNTS = Table(
    "counts",
    "What a batch counted.",
    ("name",),
    (Column("name", pa.string(), "what"), Column("number", pa.int64(), "how many")),
)


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A row of the table extraction_ledger, whose comments say what its fields mean."""

    step: str
    unit_id: str
    state: Literal["done", "failed"]
    stand_in: str = ""
    model: str = ""
    attempts: int = 0
    repair: str = ""
    error_class: str = ""
    error: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0


def row_of_outcome(step: str, unit_id: str, outcome: ChatOutcome[ReplyT], stand_in: str) -> LedgerRow:
    """The row of a request; `stand_in` counts only if it failed."""
    failed, usage = outcome.reply is None, outcome.usage
    repair = outcome.repair.value if outcome.repair else ""
    rest = outcome.error_class, outcome.error, usage.prompt_tokens, usage.completion_tokens, usage.cost_usd
    state: Literal["done", "failed"] = "failed" if failed else "done"
    fallback = stand_in if failed else ""
    return LedgerRow(step, unit_id, state, fallback, outcome.model, outcome.attempts, repair, *rest)


def ledger_table(rows: Iterable[LedgerRow]) -> pa.Table:
    """The rows as a part of the table, in the order of its key."""
    return arrow_table(EXTRACTION_LEDGER, sorted(map(astuple, rows)))


def counts_table(counts: Counter[str]) -> pa.Table:
    """Counts above 0 as a part."""
    return arrow_table(COUNTS, sorted((name, number) for name, number in counts.items() if number))


def count_units(rows: Sequence[LedgerRow]) -> Counter[str]:
    """Counts the units that a model extracted and the failed ones."""
    return Counter(sorted("failed_units" if row.state == "failed" else "extracted_units" for row in rows))


@dataclass(slots=True)
class BatchPages:
    """Pages, ledger rows and counts of a batch; units that no cache could answer; passages that a rule failed on."""

    pages: list[ExtractedPassage] = field(default_factory=list)
    ledger: list[LedgerRow] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    computed: int = 0
    faults: list[tuple[str, str]] = field(default_factory=list)

    def add_page(self, passage: Passage, extract: Callable[[Passage], ExtractedPassage]) -> ExtractedPassage | None:
        """Adds what is found on a passage; if a rule fails on its text, its fault, and returns None."""
        page = self.attempt(passage, extract)
        if page is not None:
            self.pages.append(page)
        return page

    def attempt(self, passage: Passage, step: Callable[[Passage], T]) -> T | None:
        """Runs a step of extraction on a passage; if it fails, adds the fault and returns None."""
        try:
            return step(passage)
        except (PolyhopError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, one odd text must not end the run
            self.faults.append((passage.passage_id, fault_reason(error)))
            return None

    @property
    def has_failed(self) -> bool:
        """Returns whether the next run retries any unit."""
        return self.counts["failed_units"] > 0


def raw_tables(pages: Iterable[ExtractedPassage]) -> dict[str, pa.Table]:
    """Mentions, relations, propositions and triples by name, in the order of their keys."""
    bundle = bundle_of(pages)
    labels = bundle.relations.column("relation").to_pylist()
    norms = {label: norm_ws(label) for label in set(labels)}  # most are "mentions" or "related to"
    tables = {
        "mentions": bundle.mentions,
        "relations": bundle.relations.append_column("norm_relation", pa.array(map(norms.get, labels), pa.string())),
    }
    for name, rows in (("propositions", bundle.propositions), ("triples", bundle.triples)):
        ids = [proposition_id(norm_ws(text)) for text in rows.column("text").to_pylist()]
        tables[name] = rows.append_column("proposition_id", pa.array(ids, pa.string()))
    return tables


def triple_proposition(parts: tuple[str, str, str], source_key: str, target_key: str) -> Proposition:
    """A triple as a proposition. Source: algorithms.md 3.3 (2)."""
    text = " ".join(parts)
    return text if text.endswith((".", "!", "?")) else f"{text}.", list(dict.fromkeys((source_key, target_key)))
