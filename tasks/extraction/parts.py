"""The raw tables of a batch as its part files hold them: with normal labels and ids of propositions (pure).

Writes no file.
"""

from collections.abc import Iterable

import pyarrow as pa

from polyhop.schemas.ids import proposition_id
from polyhop.schemas.text import norm_ws
from polyhop.tasks.extraction.rows import Page, bundle_of


def raw_tables(pages: Iterable[Page]) -> dict[str, pa.Table]:
    """Mentions, relations, propositions and triples by name, in the order of their keys."""
    bundle = bundle_of(pages)
    return {
        "mentions": bundle.mentions,
        "relations": _with_norm_relation(bundle.relations),
        "propositions": _with_ids(bundle.propositions),
        "triples": _with_ids(bundle.triples),
    }


def _with_norm_relation(relations: pa.Table) -> pa.Table:
    labels = relations.column("relation").to_pylist()
    norms = {label: norm_ws(label) for label in set(labels)}  # most are "mentions" or "related to"
    return relations.append_column("norm_relation", pa.array([norms[label] for label in labels], pa.string()))


def _with_ids(propositions: pa.Table) -> pa.Table:
    ids = [proposition_id(norm_ws(text)) for text in propositions.column("text").to_pylist()]
    return propositions.append_column("proposition_id", pa.array(ids, pa.string()))
