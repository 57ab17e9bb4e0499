"""Every table of a published version: columns, types, keys and the comments that people read in SQL.

Says what a row is; how rows are made is the stages' business. Columns follow algorithms.md 7.2, names house-style.md.
"""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Column:
    """A column: name, Arrow type, and what it holds."""

    name: str
    type: pa.DataType
    comment: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its rows are unique by `key` and stored in the order of `key`."""

    name: str
    comment: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema."""
        return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in self.columns])

    @property
    def column_names(self) -> list[str]:
        """Names in order."""
        return [column.name for column in self.columns]


def _text(name: str, comment: str, *, nullable: bool = False) -> Column:
    return Column(name, pa.string(), comment, nullable)


def _count(name: str, comment: str, *, nullable: bool = False) -> Column:
    return Column(name, pa.int64(), comment, nullable)


def _flag(name: str, comment: str) -> Column:
    return Column(name, pa.bool_(), comment)


def _real(name: str, comment: str, *, nullable: bool = False) -> Column:
    return Column(name, pa.float64(), comment, nullable)


DOCUMENTS = Table(
    "documents",
    "Documents: all passages that share one title.",
    ("document_id",),
    (
        _text("document_id", "sha256-derived from the normalised title"),
        _text("title", "title as first seen (smallest passage id)"),
        _text("norm_title", "title, NFC, lower case, blanks collapsed"),
        _text("source", "file the document came from"),
        _text("content_hash", "sha256 over the titles and texts of its passages"),
        _count("passage_count", "number of passages"),
        _text("metadata_json", "the source's metadata of its first record, as JSON"),
    ),
)
PASSAGES = Table(
    "passages",
    "Passages: what is ranked and cited.",
    ("passage_id",),
    (
        _text("passage_id", "the record's id; with #n where a long record was split"),
        _text("record_id", "id of the record in the source (what gold files name)"),
        _text("document_id", "document it belongs to"),
        _count("ordinal", "place inside its document, from 0"),
        _text("title", "title of its document"),
        _text("text", "its text"),
        _count("start_offset", "first character in the record's text"),
        _count("end_offset", "character behind its last one in the record's text"),
        _count("token_count", "words in title and text"),
        _text("content_hash", "sha256 of title and text"),
    ),
)
ENTITIES = Table(
    "entities",
    "Entities: resolved names, the nodes of the graph.",
    ("entity_id",),
    (
        _text("entity_id", "sha256-derived from the key"),
        _text("key", "folded lower-case words joined by one blank; unique"),
        _text("name", "most frequent spelling"),
        _text("norm_name", "name, NFC, lower case, blanks collapsed (the exact-match key of spreading activation)"),
        _text("type", "PERSON, ORGANIZATION, LOCATION, EVENT, WORK, DATE, NUMBER", nullable=True),
        _real("type_confidence", "share of the mentions that agree on the type, 0 to 1", nullable=True),
        _flag("is_named", "a proper name"),
        _flag("is_phrase", "stands in some proposition"),
        _flag("is_literal", "a literal value of an imported graph"),
        _flag("is_date", "a date or year"),
        _text("description", "up to 240 characters of sentences that mention it"),
        _text("description_hash", "sha256 of the description"),
        _count("df", "passages that mention it"),
        _count("mention_count", "mentions in all passages"),
        _count("document_count", "documents that mention it"),
    ),
)
MENTIONS = Table(
    "mentions",
    "Which passage mentions which entity, how often and where.",
    ("level", "unit_id", "entity_id", "extractor"),
    (
        _text("level", "passage or document"),
        _text("unit_id", "passage id or document id"),
        _text("entity_id", "entity mentioned"),
        _text("extractor", "rules, regex, spacy, model or import"),
        _text("surface", "first spelling in this unit"),
        _count("tf", "number of mentions, at least 1"),
        _flag("is_title", "the entity is a key of the unit's own title"),
        _text("spans_json", "[[start, end], …] character offsets into the passage's text"),
    ),
)
RELATIONS = Table(
    "relations",
    "Labelled directed edges between entities.",
    ("relation_id",),
    (
        _text("relation_id", "sha256-derived from source, label and target"),
        _text("source_id", "entity the edge leaves"),
        _text("target_id", "entity the edge enters; never the source"),
        _text("relation", "label as first seen (smallest passage id)"),
        _text("norm_relation", "label, NFC, lower case, blanks collapsed"),
        _count("count", "how often it was stated"),
        _real("confidence", "0 to 1, where the extractor states one", nullable=True),
        _text("extractor", "rules, model or import"),
    ),
)
RELATION_SOURCES = Table(
    "relation_sources",
    "The passages that state a relation.",
    ("relation_id", "passage_id"),
    (
        _text("relation_id", "relation stated"),
        _text("passage_id", "passage that states it"),
    ),
)
PROPOSITIONS = Table(
    "propositions",
    "Propositions: sentences that stand alone and claim one thing.",
    ("proposition_id",),
    (
        _text("proposition_id", "sha256-derived from the normalised text"),
        _text("text", "the proposition"),
        _text("content_hash", "sha256 of the text"),
        _text("extractor", "rules, model or import"),
    ),
)
PROPOSITION_PASSAGES = Table(
    "proposition_passages",
    "The passages that a proposition comes from.",
    ("proposition_id", "passage_id"),
    (
        _text("proposition_id", "proposition"),
        _text("passage_id", "passage"),
        _count("ordinal", "place inside the passage, from 0"),
    ),
)
PROPOSITION_ENTITIES = Table(
    "proposition_entities",
    "The entities that a proposition names, in order.",
    ("proposition_id", "entity_id"),
    (
        _text("proposition_id", "proposition"),
        _text("entity_id", "entity"),
        _count("ordinal", "place inside the proposition, from 0"),
    ),
)
ALIASES = Table(
    "aliases",
    "Other names of entities, and every decision to merge names or not.",
    ("alias_key", "kind", "scope"),
    (
        _text("alias_key", "normalised name"),
        _text("kind", "er (resolution), title or manual"),
        _text("scope", "entity type the alias is valid in, or empty"),
        _text("entity_id", "entity meant, if it is exactly one", nullable=True),
        _flag("ambiguous", "several entities have this name; it leads nowhere"),
        _text("reason", "why the names are one, or are not"),
    ),
)
SYNONYM_EDGES = Table(
    "synonym_edges",
    "Pairs of entities whose names mean nearly the same to the encoder.",
    ("entity_a", "entity_b", "model"),
    (
        _text("entity_a", "smaller entity id"),
        _text("entity_b", "larger entity id"),
        _text("model", "encoder"),
        _real("similarity", "cosine, -1 to 1"),
    ),
)
HUBS = Table(
    "hubs",
    "Entities of special interest whose surroundings are indexed as hub paths.",
    ("hub_id",),
    (
        _text("hub_id", "entity id"),
        _text("definition", "type, edge_count, hybrid_and, hybrid_or or path_length_split"),
        _count("index_level", "level of indexing at which it was found"),
        _count("path_count", "number of hub paths"),
        _text("graph_hash", "sha256 over its paths"),
        _text("built_at_run", "run that built it"),
    ),
)
HUB_CANDIDATES = Table(
    "hub_candidates",
    "Where the paths of a hub lead on to.",
    ("hub_id", "next_entity_id"),
    (
        _text("hub_id", "hub"),
        _text("next_entity_id", "entity at which a path ended"),
        _text("kind", "hub or limit"),
        _text("path_json", "triples of the path to it, as JSON"),
    ),
)
HUB_PATHS = Table(
    "hub_paths",
    "Paths that leave a hub, with their text.",
    ("hub_id", "path_hash"),
    (
        _text("hub_id", "hub"),
        _text("path_hash", "sha256 over ids, labels and predicates"),
        _count("length", "triples in it"),
        _text("triples_json", "the triples, as JSON"),
        _text("text", "the path in words"),
        _text("textualiser", "rules, or model and prompt"),
        _text("end_kind", "leaf, hub, limit or revisit"),
        _text("end_entity_id", "entity at its end"),
    ),
)
EMBEDDINGS = Table(
    "embeddings",
    "Which texts have a vector; the vectors themselves are in LanceDB.",
    ("owner_kind", "owner_id", "model"),
    (
        _text("owner_kind", "passage, entity, proposition or hub_path"),
        _text("owner_id", "its id"),
        _text("model", "encoder and weights"),
        _count("dimension", "length of the vector"),
        _text("content_hash", "sha256 of model, kind and text: the key in the cache of vectors"),
    ),
)
QUARANTINE = Table(
    "quarantine",
    "Records that could not be used, and why.",
    ("source", "line", "reason"),
    (
        _text("source", "file"),
        _count("line", "line or record number from 1, 0 for a whole file"),
        _text("reason", "what is wrong"),
        _text("excerpt", "its first 200 characters"),
    ),
)
EXTRACTION_LEDGER = Table(
    "extraction_ledger",
    "Units that a model was asked about, and rows of imported extractions that were not as they should be.",
    ("step", "unit_id"),
    (
        _text("step", "kg.extract, prop.entities, prop.propositions, import or import.row"),
        _text("unit_id", "document (with #n for parts of a long one), passage, record, or line of an imported file"),
        _text("state", "done or failed; what failed is tried again by the next run"),
        _text("stand_in", "extractor that did a failed unit's work, or empty"),
        _text("model", "model asked, or empty"),
        _count("attempts", "calls made for it in all runs"),
        _text("rung", "help the reply needed: as_is, unwrapped, repaired, reasked; empty without a reply"),
        _text("error_class", "what ended it, or what was malformed; empty if nothing"),
        _text("error", "one sentence, or empty"),
        _count("prompt_tokens", "tokens sent for it"),
        _count("completion_tokens", "tokens received for it"),
        _real("cost_usd", "price of its calls in United States dollars, 0 where unknown"),
    ),
)
RUNS = Table(
    "index_runs",
    "The runs that led to this version, stage by stage.",
    ("run_id", "stage"),
    (
        _text("run_id", "sha256-derived from inputs and settings: the same work has the same id"),
        _text("stage", "stage"),
        _text("fingerprint", "sha256 of everything that determined the stage's result"),
        _text("counts_json", "what the stage counted, as JSON"),
    ),
)

TABLES: tuple[Table, ...] = (
    DOCUMENTS,
    PASSAGES,
    ENTITIES,
    MENTIONS,
    RELATIONS,
    RELATION_SOURCES,
    PROPOSITIONS,
    PROPOSITION_PASSAGES,
    PROPOSITION_ENTITIES,
    ALIASES,
    SYNONYM_EDGES,
    HUBS,
    HUB_CANDIDATES,
    HUB_PATHS,
    EMBEDDINGS,
    QUARANTINE,
    EXTRACTION_LEDGER,
    RUNS,
)
TABLE_OF: dict[str, Table] = {table.name: table for table in TABLES}
