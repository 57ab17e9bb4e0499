"""The extraction bundle: what any extractor (rules, model, import) yields for a batch of passages.

Raw rows keyed by names; ids, totals and resolution come later. Written as parquet parts, so every extractor and
every process that runs one meets the others only here.
"""

from dataclasses import dataclass

import pyarrow as pa

from polyhop.schemas.tables import Column, Table

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
        Column("type_confidence", pa.float64(), "0 to 1", nullable=True),
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
        Column("ordinal", pa.int64(), "place inside the passage"),
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
            Column("ordinal", pa.int64(), "place inside the passage"),
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
