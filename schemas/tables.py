"""Every table of a published version: columns, types, keys and the comments that people read in SQL.

Says what a row is; how rows are made is the stages' business. Columns follow algorithms.md 7.2, names house-style.md.
"""

import pyarrow as pa

from polyhop.schemas.columns import Column, Derived, Table, count, flag, real, text
from polyhop.schemas.record_tables import METADATA_COLUMNS, METADATA_VALUES, RECORDS

DOCUMENTS = Table(
    "documents",
    "Documents: all passages that share one title.",
    ("document_id",),
    (
        text("document_id", "sha256-derived from the normalised title"),
        text("title", "title as first seen (smallest passage id)"),
        text("norm_title", "title, NFC, lower case, whitespace collapsed"),
        text("source", "file the document came from"),
        text("content_hash", "sha256 over the titles and texts of its passages"),
        count("passage_count", "number of passages"),
        text("metadata_json", "the source's metadata of its first record, as JSON"),
    ),
)
PASSAGES = Table(
    "passages",
    "Passages: what is ranked and cited.",
    ("passage_id",),
    (
        text("passage_id", "the record's id; with #n where a long record was split"),
        text("record_id", "id of the record in the source (what gold files name)"),
        text("document_id", "document it belongs to"),
        count("ordinal", "position in its document, from 0"),
        text("title", "title of its document"),
        text("text", "its text"),
        count("start_offset", "first character in the record's text"),
        count("end_offset", "offset after its last character in the record's text"),
        count("token_count", "words in title and text"),
        text("content_hash", "sha256 of title and text"),
    ),
)
LOCATIONS = Table(
    "locations",
    "Where passages of documents (PDF, Word, Markdown…) stand in their files; no rows of records without such parts.",
    ("passage_id",),
    (
        text("passage_id", "the passage; its offsets in the document's text are in passages"),
        count("first_page", "page that it begins on, from 1, as a viewer counts", nullable=True),
        count("last_page", "page that it ends on", nullable=True),
        count("slide", "its slide, from 1", nullable=True),
        text("sheet", "name of its sheet", nullable=True),
        text("chapter", "title of its chapter", nullable=True),
        Column("headings", pa.list_(pa.string()), "the headings that all of it stands below, outermost first"),
        count("first_row", "first row of its sheet or table, from 1", nullable=True),
        count("last_row", "last row of it", nullable=True),
    ),
)
ENTITIES = Table(
    "entities",
    "Entities: resolved names, the nodes of the graph.",
    ("entity_id",),
    (
        text("entity_id", "sha256-derived from the key; of a graph's node from the id it has there"),
        text("key", "folded lower-case words joined by one space; unique: nodes of one name have their id after #"),
        text("name", "most frequent spelling"),
        text("norm_name", "name, NFC, lower case, whitespace collapsed (the exact-match key of spreading activation)"),
        text("type", "PERSON, ORGANIZATION, LOCATION, EVENT, WORK, DATE, NUMBER; a graph's own type", nullable=True),
        real("type_confidence", "share of the mentions that agree on the type, 0 to 1", nullable=True),
        flag("is_named", "a proper name; of a graph every node that is not a literal"),
        flag("is_phrase", "is in some proposition"),
        flag("is_literal", "a literal value of a graph"),
        flag("is_date", "a date or year"),
        text("description", "up to 240 characters of sentences that mention it"),
        text("description_hash", "sha256 of the description"),
        count("df", "passages that mention it"),
        count("mention_count", "mentions in all passages"),
        count("document_count", "documents that mention it"),
    ),
)
MENTIONS = Table(
    "mentions",
    "Which passage mentions which entity, how often and where.",
    ("level", "unit_id", "entity_id", "extractor"),
    (
        text("level", "passage or document"),
        text("unit_id", "passage id or document id"),
        text("entity_id", "entity mentioned"),
        text("extractor", "rules, regex, spacy, model or import"),
        text("surface", "first spelling in this unit"),
        count("tf", "number of mentions, at least 1"),
        flag("is_title", "the entity is a key of the unit's own title"),
        text("spans_json", "[[start, end], …] character offsets into the passage's text"),
    ),
    # Without it `NOT IN (SELECT passage_id FROM mentions)` takes the outer query's column, and finds nothing.
    (
        Derived(
            text("passage_id", "passage that holds the mention: unit_id under the name other tables use"), "unit_id"
        ),
    ),
)
RELATIONS = Table(
    "relations",
    "Labelled directed edges between entities.",
    ("relation_id",),
    (
        text("relation_id", "sha256-derived from source, label and target; a graph's label counts as written"),
        text("source_id", "entity the edge leaves"),
        text("target_id", "entity the edge enters; the source itself only in a graph"),
        text("relation", "label as first seen (smallest passage id); the predicate of a graph"),
        text("norm_relation", "label, NFC, lower case, whitespace collapsed"),
        count("count", "how often it was stated"),
        real("confidence", "0 to 1, where the extractor states one", nullable=True),
        text("extractor", "rules, model, import or graph"),
    ),
)
NODES = Table(
    "nodes",
    "What a knowledge graph says of its nodes; only in versions made from one.",
    ("entity_id",),
    (
        text("entity_id", "entity that the node is"),
        text("node_id", "id that the graph gave it, NULL for a value without one", nullable=True),
        text("types_json", "names of all its types, as JSON"),
        text("datatype", "datatype of a value, NULL if not stated", nullable=True),
        text("language", "language tag of a value, NULL if not stated", nullable=True),
    ),
)
NODE_PASSAGES = Table(
    "node_passages",
    "Texts that were attached to a knowledge graph's nodes (--graph-sources); only in versions made from a graph.",
    ("entity_id", "passage_id"),
    (
        text("entity_id", "entity that the node is"),
        text("passage_id", "passage of a text attached to it"),
        text("metadata_json", "metadata of the row that attached the text, as JSON"),
    ),
)
RELATION_SOURCES = Table(
    "relation_sources",
    "The passages that state a relation; none of a graph's.",
    ("relation_id", "passage_id"),
    (
        text("relation_id", "relation stated"),
        text("passage_id", "passage that states it"),
    ),
)


def _proposition_tables(noun: str, comment: str) -> tuple[Table, Table, Table]:
    """Propositions of one origin, the passages that they come from, and the entities that they name."""
    return (
        Table(
            f"{noun}s",
            comment,
            ("proposition_id",),
            (
                text("proposition_id", "sha256-derived from the normalised text"),
                text("text", f"the {noun}"),
                text("content_hash", "sha256 of the text"),
                text("extractor", "rules, model or import"),
            ),
        ),
        Table(
            f"{noun}_passages",
            f"The passages that a {noun} comes from.",
            ("proposition_id", "passage_id"),
            (
                text("proposition_id", noun),
                text("passage_id", "passage"),
                count("ordinal", "position in the passage, from 0"),
            ),
        ),
        Table(
            f"{noun}_entities",
            f"The entities that a {noun} names, in order.",
            ("proposition_id", "entity_id"),
            (
                text("proposition_id", noun),
                text("entity_id", "entity"),
                count("ordinal", f"position in the {noun}, from 0"),
            ),
        ),
    )


PROPOSITIONS, PROPOSITION_PASSAGES, PROPOSITION_ENTITIES = _proposition_tables(
    "proposition", "Propositions: sentences that stand alone and claim one thing."
)
TRIPLES, TRIPLE_PASSAGES, TRIPLE_ENTITIES = _proposition_tables(
    "triple", "Triples as propositions: subject, label and object as one text; it may be a proposition, too."
)
ALIASES = Table(
    "aliases",
    "Other names of entities, and every decision to merge names or not.",
    ("alias_key", "kind", "scope"),
    (
        text("alias_key", "normalised name"),
        text("kind", "er (resolution), title, manual or identity (one of several entities with this name)"),
        text("scope", "entity type the alias is valid in, key of the bearer for identity, or empty"),
        text("entity_id", "entity meant, if it is exactly one", nullable=True),
        flag("ambiguous", "several entities have this name; it leads nowhere"),
        text("reason", "why the names are one, or are not"),
    ),
)
EMBEDDINGS = Table(
    "embeddings",
    "Which texts have a vector; the vectors themselves are in LanceDB.",
    ("owner_kind", "owner_id", "model"),
    (
        text("owner_kind", "passage, entity, proposition or hub_path"),
        text("owner_id", "its id"),
        text("model", "encoder and weights"),
        count("dimension", "length of the vector"),
        text("content_hash", "sha256 of model, kind and text: the key in the cache of vectors"),
    ),
)
QUARANTINE = Table(
    "quarantine",
    "Records that could not be used, and why.",
    ("source", "line", "reason"),
    (
        text("source", "file"),
        count("line", "line or record number from 1, 0 for a whole file, NULL where it is not known", nullable=True),
        text("reason", "what is wrong"),
        text("excerpt", "its first 200 characters"),
    ),
)
EXTRACTION_LEDGER = Table(
    "extraction_ledger",
    "Units that a model was asked about, and rows of imported extractions that were not as they should be.",
    ("step", "unit_id"),
    (
        text("step", "kg.extract, prop.entities, prop.propositions, import or import.row"),
        text("unit_id", "document (with #n for parts of a long one), passage, record, or line of an imported file"),
        text("state", "done or failed; what failed is tried again by the next run"),
        text("stand_in", "extractor that did a failed unit's work, or empty"),
        text("model", "model asked, or empty"),
        count("attempts", "calls made for it in all runs"),
        text("rung", "help the reply needed: as_is, unwrapped, repaired, reasked; empty without a reply"),
        text("error_class", "what ended it, or what was malformed; empty if nothing"),
        text("error", "one sentence, or empty"),
        count("prompt_tokens", "tokens sent for it"),
        count("completion_tokens", "tokens received for it"),
        real("cost_usd", "price of its calls in United States dollars, NULL where unknown", nullable=True),
    ),
)
VERSION_STAGES = Table(
    "version_stages",
    "The stages whose results are in this version; the runs themselves are in index_runs.",
    ("run_id", "stage"),
    (
        text("run_id", "sha256-derived from inputs and settings: the same work has the same id"),
        text("stage", "stage"),
        text("fingerprint", "sha256 of everything that determined the stage's result"),
        text("counts_json", "what the stage counted, as JSON"),
    ),
)

CHANGE_KINDS = ("added", "changed", "deleted", "renamed")
CHANGES = Table(
    "changes",
    "Records that are not as in the version before; the one table that depends on what was published earlier.",
    ("record_id",),
    (
        text("record_id", "id of the record in the source; of a deleted one the id that it had"),
        text("document_id", "document that it belongs, or belonged, to"),
        text("kind", "added, changed (title, text, metadata, or how it is cut), deleted or renamed (same content)"),
        text("from_id", "id that a renamed record had before, NULL for the others", nullable=True),
        text("source", "name of the source that brought it; empty for texts of a graph's nodes"),
        count("version", "version that brought the change"),
    ),
)
"""In every version, but not among the tables that a full build must repeat: those are in `TABLES`."""

TABLES: tuple[Table, ...] = (
    DOCUMENTS,
    RECORDS,
    METADATA_VALUES,
    METADATA_COLUMNS,
    PASSAGES,
    ENTITIES,
    MENTIONS,
    RELATIONS,
    RELATION_SOURCES,
    PROPOSITIONS,
    PROPOSITION_PASSAGES,
    PROPOSITION_ENTITIES,
    TRIPLES,
    TRIPLE_PASSAGES,
    TRIPLE_ENTITIES,
    ALIASES,
    EMBEDDINGS,
    QUARANTINE,
    EXTRACTION_LEDGER,
    VERSION_STAGES,
)
TABLE_OF: dict[str, Table] = {table.name: table for table in TABLES}
