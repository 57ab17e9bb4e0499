"""Every table of a published version, its runs and results: columns, types, keys and the comments people read in SQL.

Says what a row is; how rows are made is the stages' business. Columns follow algorithms.md 7.2, names house- style.md.
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
class Derived:
    """A column that is not stored: `expression` gives its value from the stored ones when it is read."""

    column: Column
    expression: str


@dataclass(frozen=True, slots=True)
class View:
    """A view, for people: what it shows, and what its columns hold, in order. Its SQL is in sql/views.sql."""

    name: str
    comment: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its rows are unique by `key`; `columns` are the stored ones.

    Rows are written in the order of `key`; in an update, some that came later may stand at the end (decision 0024).
    """

    name: str
    comment: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    derived: tuple[Derived, ...] = ()

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the stored columns."""
        return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in self.columns])

    @property
    def column_names(self) -> list[str]:
        """Names of the stored columns, in order."""
        return [column.name for column in self.columns]


def text_column(name: str, comment: str, *, nullable: bool = False) -> Column:
    """Text."""
    return Column(name, pa.string(), comment, nullable)


def count(name: str, comment: str, *, nullable: bool = False) -> Column:
    """A whole number."""
    return Column(name, pa.int64(), comment, nullable)


def flag(name: str, comment: str) -> Column:
    """True or false."""
    return Column(name, pa.bool_(), comment)


def real(name: str, comment: str, *, nullable: bool = False) -> Column:
    """A real number."""
    return Column(name, pa.float64(), comment, nullable)


# Source: decisions/0027-filters-of-questions.md.

RECORDS = Table(
    "records",
    "Records: the units of the source, each with the metadata that it came with; long ones are several passages.",
    ("record_id",),
    (
        text_column("record_id", "id of the record in the source; id in filters"),
        text_column("document_id", "document that its passages belong to; document in filters"),
        text_column("title", "title of the record; title in filters"),
        text_column("source", "file that it came from; source in filters"),
        text_column("metadata_json", "its metadata, as JSON with sorted keys"),
    ),
)
METADATA_VALUES = Table(
    "metadata_values",
    "Metadata of records, one value a row: WHERE name = 'year' AND number >= 2020.",
    ("record_id", "name", "ordinal"),
    (
        text_column("record_id", "record that it belongs to"),
        text_column("name", "field; those inside an object follow its name after a dot (author.name)"),
        count("ordinal", "position among the values of the field, from 0: lists have several"),
        text_column("kind", "number, flag or text, as the source has it"),
        text_column("value", "as text; true or false for a flag"),
        real("number", "as a number, also of a text that is one (no leading zeros), else NULL", nullable=True),
        Column("moment", pa.timestamp("us"), "as a date and time in UTC, of a text that is an ISO date", nullable=True),
    ),
)
METADATA_COLUMNS = Table(
    "metadata_columns",
    "Fields of metadata: their types, and what values they have. Filters name them metadata.NAME.",
    ("name",),
    (
        text_column("name", "field"),
        text_column("type", "number, flag, date or text, if all values are; else mixed"),
        count("record_count", "records that have it"),
        count("value_count", "different values"),
        text_column("smallest", "smallest value, by its type"),
        text_column("largest", "largest value, by its type"),
        flag("is_list", "some record has several values"),
    ),
)
RECORD_TABLES = (RECORDS, METADATA_VALUES, METADATA_COLUMNS)


_JOB = count("job_id", "job")
_ID = text_column("id", "the asker's own id of the question, unique within the job")
RESULTS = Table(
    "results",
    "Questions of this index's jobs with their answers, also open and dead ones: WHERE job_id = 1.",
    ("job_id", "id"),
    (
        _JOB,
        _ID,
        text_column("question", "the question"),
        text_column("answer", "short answer, empty if none is certain enough, NULL while there is none", nullable=True),
        text_column("guess", "best short answer, certain enough or not; `confidence` is of it", nullable=True),
        text_column("state", "queued, leased, done, dead or cancelled"),
        count("version", "version that answered", nullable=True),
        text_column("strategy", "strategy that found the passages, or is to find them"),
        text_column("index", "the index"),
        real("seconds", "seconds that the answer took", nullable=True),
        Column("finished_at", pa.timestamp("ms", tz="UTC"), "when it was answered, or given up (UTC)", nullable=True),
        text_column("error", "why it is dead, or was tried again", nullable=True),
        text_column("error_class", "kind of that error", nullable=True),
        count("attempts", "how often a worker has tried"),
        text_column("topic", "entity that the question is about, as asked", nullable=True),
        Column("gold_answers", pa.list_(pa.string()), "answers of the question file, to compare with"),
        Column("gold_passages", pa.list_(pa.string()), "ids of the supporting passages of the question file"),
        real("confidence", "how sure the reader is of the answer, 0 to 1, where it says so", nullable=True),
        text_column("read_by", "who read the answer: rules, model or none", nullable=True),
        text_column("model", "model that read, NULL without one", nullable=True),
        count("prompt_tokens", "tokens sent to models for it", nullable=True),
        count("completion_tokens", "tokens received for it", nullable=True),
        real("cost_usd", "price of its calls in United States dollars, NULL where unknown", nullable=True),
        Column("passage_ids", pa.list_(pa.string()), "the passages found, by rank; result_passages has them as rows"),
        text_column("worker", "worker that has or had it", nullable=True),
    ),
)
RESULT_PASSAGES = Table(
    "result_passages",
    "The passages found for each answered question of this index's jobs: JOIN passages USING (passage_id).",
    ("job_id", "id", "rank"),
    (
        _JOB,
        _ID,
        count("rank", "rank, from 1"),
        text_column("passage_id", "passage, in the version that answered"),
        text_column("title", "title of its document", nullable=True),
        real("score", "score that the strategy gave it", nullable=True),
    ),
)
FROM_EVIDENCE = (
    "guess", "confidence", "read_by", "model", "prompt_tokens", "completion_tokens", "cost_usd", "passage_ids",
)  # fmt: skip
"""Columns of `results` that are stored with the evidence, which takes long to read: of an answer, some kilobytes."""


_RUN = count("run", "number of the run, from 1 within the index")
_UNITS = (
    count("computed", "units (passages or documents, as the stage counts them) that were computed"),
    count("reused", "units that came from caches or from the version before"),
)
_MODELS = (
    count("calls", "calls of language models"),
    count("prompt_tokens", "tokens sent to them"),
    count("completion_tokens", "tokens received from them"),
    real("cost_usd", "price of the calls in United States dollars, NULL where unknown", nullable=True),
)
INDEX_RUNS = Table(
    "index_runs",
    "Every run of this index, also those that found nothing, failed or were stopped; the newest 10,000.",
    ("run",),
    (
        _RUN,
        Column("started", pa.timestamp("s", tz="UTC"), "when it began (UTC)"),
        real("seconds", "how long it took; 0 while it runs, or if it was killed"),
        text_column(
            "outcome",
            "published, unchanged, failed, stopped (by a person, Prefect, its budget), waiting (for batches of a "
            "provider), killed or running",
        ),
        text_column(
            "sentence",
            "why it failed, was stopped or waits, or what it found; empty while it runs, or if it was killed",
        ),
        count("version", "version that was current when it ended, 0 if there was none"),
        text_column("seconds_json", "seconds by stage, as JSON; the table index_stages has them as rows"),
        text_column("counts_json", "what the version holds, as JSON"),
        *_UNITS,
        *_MODELS,
        count("cached", "replies of models that came from the cache"),
        real("peak_memory_mb", "the most memory that its process ever held, in MB (10**6 bytes)"),
        text_column("started_by", "user@host"),
        count("process", "process id"),
        text_column("flow_run_id", "id of the Prefect flow run, empty without one"),
        text_column("flow_run_url", "page of the flow run on the dashboard, empty without one"),
        text_column("source", "corpus or graph that it read, empty if it took over the version's"),
        text_column("polyhop", "version of Polyhop"),
    ),
)
INDEX_STAGES = Table(
    "index_stages",
    "What each stage took in each run of this index: the runs of index_runs.",
    ("run", "stage"),
    (
        _RUN,
        text_column("stage", "stage, in the order in which they ran"),
        real("seconds", "seconds of this run, reading and writing included"),
        *_UNITS,
        flag("is_taken_over", "the whole result is that of the version before"),
        *_MODELS,
    ),
)


DOCUMENTS = Table(
    "documents",
    "Documents: all passages of one file, or of records that share one title.",
    ("document_id",),
    (
        text_column("document_id", "sha256-derived from the normalised title, or from the path of a file"),
        text_column("title", "title as first seen (smallest passage id)"),
        text_column("norm_title", "title, NFC, lower case, whitespace collapsed"),
        text_column("source", "file the document came from"),
        text_column("content_hash", "sha256 over the titles and texts of its passages"),
        count("passage_count", "number of passages"),
        text_column("metadata_json", "the source's metadata of its first record, as JSON"),
    ),
)
PASSAGES = Table(
    "passages",
    "Passages: what is ranked and cited.",
    ("passage_id",),
    (
        text_column("passage_id", "the record's id; with #n where a long record was split"),
        text_column("record_id", "id of the record in the source (what gold files name)"),
        text_column("document_id", "document it belongs to"),
        count("ordinal", "position in its document, from 0"),
        text_column("title", "title of its document"),
        text_column("text", "its text"),
        count("start_offset", "first character in the record's text"),
        count("end_offset", "offset after its last character in the record's text"),
        count("token_count", "words in title and text"),
        text_column("content_hash", "sha256 of title and text"),
    ),
)
LOCATIONS = Table(
    "locations",
    "Locations of passages in documents (PDF, Word, Markdown…); no rows for records without such parts.",
    ("passage_id",),
    (
        text_column("passage_id", "the passage; its offsets in the document's text are in passages"),
        count("first_page", "page that it begins on, from 1, as a viewer counts", nullable=True),
        count("last_page", "page that it ends on", nullable=True),
        count("slide", "its slide, from 1", nullable=True),
        text_column("sheet", "name of its sheet", nullable=True),
        text_column("chapter", "title of its chapter", nullable=True),
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
        text_column("entity_id", "sha256-derived from the key; of a graph's node from the id it has there"),
        text_column(
            "key", "folded lower-case words joined by one space; unique: nodes of one name have their id after #"
        ),
        text_column("name", "most frequent spelling"),
        text_column(
            "norm_name", "name, NFC, lower case, whitespace collapsed (the exact-match key of spreading activation)"
        ),
        text_column(
            "type", "PERSON, ORGANIZATION, LOCATION, EVENT, WORK, DATE, NUMBER; a graph's own type", nullable=True
        ),
        real("type_confidence", "share of the mentions that agree on the type, 0 to 1", nullable=True),
        flag("is_named", "a proper name; of a graph every node that is not a literal"),
        flag("is_phrase", "is in some proposition"),
        flag("is_literal", "a literal value of a graph"),
        flag("is_date", "a date or year"),
        text_column("description", "up to 240 characters of sentences that mention it"),
        text_column("description_hash", "sha256 of the description"),
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
        text_column("level", "passage or document"),
        text_column("unit_id", "passage id or document id"),
        text_column("entity_id", "entity mentioned"),
        text_column("extractor", "rules, regex, spacy, model or import"),
        text_column("surface", "first spelling in this unit"),
        count("tf", "number of mentions, at least 1"),
        flag("is_title", "the entity is a key of the unit's own title"),
        text_column("spans_json", "[[start, end], …] character offsets into the passage's text"),
    ),
    # Without it `NOT IN (SELECT passage_id FROM mentions)` takes the outer query's column, and finds nothing.
    (
        Derived(
            text_column("passage_id", "passage that holds the mention: unit_id under the name other tables use"),
            "unit_id",
        ),
    ),
)
RELATIONS = Table(
    "relations",
    "Labelled directed edges between entities.",
    ("relation_id",),
    (
        text_column("relation_id", "sha256-derived from source, label and target; a graph's label counts as written"),
        text_column("source_id", "entity the edge leaves"),
        text_column("target_id", "entity the edge enters; the source itself only in a graph"),
        text_column("relation", "label as first seen (smallest passage id); the predicate of a graph"),
        text_column("norm_relation", "label, NFC, lower case, whitespace collapsed"),
        count("count", "how often it was stated"),
        real("confidence", "0 to 1, where the extractor states one", nullable=True),
        text_column("extractor", "rules, model, import or graph"),
    ),
)
NODES = Table(
    "nodes",
    "What a knowledge graph says of its nodes; only in versions made from one.",
    ("entity_id",),
    (
        text_column("entity_id", "entity that the node is"),
        text_column("node_id", "id that the graph gave it, NULL for a value without one", nullable=True),
        text_column("types_json", "names of all its types, as JSON"),
        text_column("datatype", "datatype of a value, NULL if not stated", nullable=True),
        text_column("language", "language tag of a value, NULL if not stated", nullable=True),
    ),
)
NODE_PASSAGES = Table(
    "node_passages",
    "Texts that were attached to a knowledge graph's nodes (--graph-sources); only in versions made from a graph.",
    ("entity_id", "passage_id"),
    (
        text_column("entity_id", "entity that the node is"),
        text_column("passage_id", "passage of a text attached to it"),
        text_column("metadata_json", "metadata of the row that attached the text, as JSON"),
    ),
)
RELATION_SOURCES = Table(
    "relation_sources",
    "The passages that state a relation; none of a graph's.",
    ("relation_id", "passage_id"),
    (text_column("relation_id", "relation stated"), text_column("passage_id", "passage that states it")),
)


def _proposition_tables(noun: str, comment: str) -> tuple[Table, Table, Table]:
    """Propositions of one origin, the passages that they come from, and the entities that they name."""
    return (
        Table(
            f"{noun}s",
            comment,
            ("proposition_id",),
            (
                text_column("proposition_id", "sha256-derived from the normalised text"),
                text_column("text", f"the {noun}"),
                text_column("content_hash", "sha256 of the text"),
                text_column("extractor", "rules, model or import"),
            ),
        ),
        Table(
            f"{noun}_passages",
            f"The passages that a {noun} comes from.",
            ("proposition_id", "passage_id"),
            (
                text_column("proposition_id", noun),
                text_column("passage_id", "passage"),
                count("ordinal", "position in the passage, from 0"),
            ),
        ),
        Table(
            f"{noun}_entities",
            f"The entities that a {noun} names, in order.",
            ("proposition_id", "entity_id"),
            (
                text_column("proposition_id", noun),
                text_column("entity_id", "entity"),
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
        text_column("alias_key", "normalised name"),
        text_column("kind", "er (resolution), title, manual or identity (one of several entities with this name)"),
        text_column("scope", "entity type the alias is valid in, key of the bearer for identity, or empty"),
        text_column("entity_id", "entity meant, if it is exactly one", nullable=True),
        flag("ambiguous", "several entities have this name; it leads nowhere"),
        text_column("reason", "why the names are one, or are not"),
    ),
)
EMBEDDINGS = Table(
    "embeddings",
    "Which texts have a vector; the vectors themselves are in LanceDB.",
    ("owner_kind", "owner_id", "model"),
    (
        text_column("owner_kind", "passage, entity, proposition or hub_path"),
        text_column("owner_id", "its id"),
        text_column("model", "encoder and weights"),
        count("dimension", "length of the vector"),
        text_column("content_hash", "sha256 of model, kind and text: the key in the cache of vectors"),
    ),
)
QUARANTINE = Table(
    "quarantine",
    "Records that could not be used, and why.",
    ("source", "line", "reason"),
    (
        text_column("source", "file"),
        count("line", "line or record number from 1, 0 for a whole file, NULL where it is not known", nullable=True),
        text_column("reason", "what is wrong"),
        text_column("excerpt", "its first 200 characters"),
    ),
)
EXTRACTION_LEDGER = Table(
    "extraction_ledger",
    "Units that a model was asked about, and rows of imported extractions that were not as they should be.",
    ("step", "unit_id"),
    (
        text_column("step", "kg.extract, prop.entities, prop.propositions, import or import.row"),
        text_column(
            "unit_id", "document (with #n for parts of a long one), passage, record, or line of an imported file"
        ),
        text_column("state", "done or failed; what failed is tried again by the next run"),
        text_column("stand_in", "extractor that did a failed unit's work, or empty"),
        text_column("model", "model asked, or empty"),
        count("attempts", "calls made for it in all runs"),
        text_column(
            "rung",
            "repair that the reply needed: as_is, unwrapped, repaired, reasked, cut; empty without a reply",
        ),
        text_column("error_class", "what ended it, or what was malformed; empty if nothing"),
        text_column("error", "one sentence, or empty"),
        count("prompt_tokens", "tokens sent for it"),
        count("completion_tokens", "tokens received for it"),
        real("cost_usd", "price of its calls in United States dollars, NULL where unknown", nullable=True),
        count("kept", "entities, relations, phrases or propositions of its reply that are used"),
        count("dropped", "those of its reply that are not: without a name or text, or of no listed entity"),
        text_column("items", "kept 7 of 8 entities, 5 of 5 relations; empty without a reply"),
    ),
)
VERSION_STAGES = Table(
    "version_stages",
    "The stages whose results are in this version; the runs themselves are in index_runs.",
    ("run_id", "stage"),
    (
        text_column("run_id", "sha256-derived from inputs and settings: the same work has the same id"),
        text_column("stage", "stage"),
        text_column("fingerprint", "sha256 of everything that determined the stage's result"),
        text_column("counts_json", "what the stage counted, as JSON"),
    ),
)

CHANGE_KINDS = ("added", "changed", "deleted", "renamed")
CHANGES = Table(
    "changes",
    "Records that are not as in the version before; the one table that depends on what was published earlier.",
    ("record_id",),
    (
        text_column("record_id", "id of the record in the source; of a deleted one the id that it had"),
        text_column("document_id", "document that it belongs, or belonged, to"),
        text_column(
            "kind", "added, changed (title, text, metadata, or how it is cut), deleted or renamed (same content)"
        ),
        text_column("from_id", "id that a renamed record had before, NULL for the others", nullable=True),
        text_column("source", "name of the source that brought it; empty for texts of a graph's nodes"),
        count("version", "version that brought the change"),
    ),
)
"""In every version, but not among the tables that a full build must repeat: those are in `TABLES`."""

TABLES: tuple[Table, ...] = (
    DOCUMENTS, RECORDS, METADATA_VALUES, METADATA_COLUMNS, PASSAGES, ENTITIES, MENTIONS, RELATIONS, RELATION_SOURCES,
    PROPOSITIONS, PROPOSITION_PASSAGES, PROPOSITION_ENTITIES, TRIPLES, TRIPLE_PASSAGES, TRIPLE_ENTITIES, ALIASES,
    EMBEDDINGS, QUARANTINE, EXTRACTION_LEDGER, VERSION_STAGES,
)  # fmt: skip
TABLE_OF: dict[str, Table] = {table.name: table for table in TABLES}


_PASSAGE_ID = text_column("passage_id", "passage")
_TITLE = text_column("title", "title of the passage's document")
_TEXT = text_column("text", "text of the passage")
_TF = count("tf", "how often the passage mentions the entity")
_IS_TITLE = flag("is_title", "the entity is a key of the passage's title")


def _named(what: str, *, key: bool = False) -> Column:
    return text_column(f"{what}_key" if key else what, f"{'key' if key else 'name'} of the {what}")


VIEWS: tuple[View, ...] = (
    View(
        "passages_of_entity",
        "Passages that mention an entity: WHERE entity = 'Marie Curie'.",
        (_named("entity"), _named("entity", key=True), _PASSAGE_ID, _TITLE, _TF, _IS_TITLE, _TEXT),
    ),
    View(
        "entities_of_passage",
        "Entities that a passage mentions: WHERE passage_id = 'p1'.",
        (
            _PASSAGE_ID,
            _named("entity"),
            text_column("type", "type of the entity, if it has one", nullable=True),
            _TF,
            _IS_TITLE,
            count("df", "passages that mention the entity"),
        ),
    ),
    View(
        "document_mentions",
        "Which document mentions which entity, in all its passages together.",
        (
            text_column("document_id", "document"),
            text_column("entity_id", "entity mentioned"),
            count("tf", "how often the document mentions it"),
            count("passage_count", "passages of the document that mention it"),
        ),
    ),
    View(
        "neighbours",
        "Relations of an entity in both directions: WHERE entity = 'Marie Curie'.",
        (
            _named("entity"),
            text_column("direction", "out if the entity is the relation's source, in if it is its target"),
            text_column("relation", "label of the relation"),
            text_column("neighbour", "name of the entity at the other end"),
            count("count", "how often the relation was stated"),
            text_column("relation_id", "relation"),
        ),
    ),
    View(
        "relation_provenance",
        "The passages that state a relation: WHERE source = 'Marie Curie'.",
        (
            text_column("source", "name of the entity that the relation leaves"),
            text_column("relation", "label of the relation"),
            text_column("target", "name of the entity that it enters"),
            _PASSAGE_ID,
            _TITLE,
            _TEXT,
            text_column("extractor", "rules, model or import"),
        ),
    ),
    View(
        "dates",
        "Dates that passages state, and what they say happened then: WHERE role = 'birth' AND year < 1900.",
        (
            _PASSAGE_ID,
            _TITLE,
            text_column("value", "the date as YYYY, YYYY-MM or YYYY-MM-DD, so that text order is order in time"),
            count("year", "its year"),
            text_column("precision", "year, month or day"),
            text_column(
                "role",
                "birth, death, founding, opening, building, release or launch: the last event named before the date in "
                "its sentence, of whatever the sentence is about; NULL if none is",
                nullable=True,
            ),
            text_column("stated", "the sentence around the date, up to 120 characters before and 60 after it"),
            count("start_offset", "first character of the date in the passage's text"),
            count("end_offset", "offset after its last character in the passage's text"),
        ),
    ),
    View(
        "stages",
        "What each stage of this version counted.",
        (text_column("stage", "stage"), text_column("what", "what was counted"), count("count", "how many")),
    ),
)
