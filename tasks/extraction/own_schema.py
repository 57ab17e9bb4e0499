"""A user's schema applied to a page: types of names by pattern, relations by their canonical label (pure)."""

from collections.abc import Mapping

from polyhop.schemas.extraction_schema import ExtractionSchema
from polyhop.tasks.extraction.relations import MENTIONS, RELATED
from polyhop.tasks.extraction.rows import ExtractedPassage, Relation, merged, triple_proposition
from polyhop.tasks.extraction.rules import sure_types

PATTERN = 0.95  # confidence of a type by pattern; chosen: as sure as a page's own definition (schemas/types.py)


def with_schema(page: ExtractedPassage, schema: ExtractionSchema) -> ExtractedPassage:
    """Types the names that fit a pattern, and gives relations the schema's labels; changes the page.

    A relation whose ends have types that the schema does not allow becomes `related to`. Labels that the schema does
    not name stay. Triples of rules follow the relations.
    """
    if not schema.types and not schema.relations:
        return page
    for row in page.rows.values():
        if kind := schema.type_of(row.surface):
            row.type, row.confidence = kind, max(PATTERN, row.confidence or 0)
    kinds = sure_types(page.rows)
    changed = {relation: _with_label(relation, kinds, schema) for relation, _ in page.relations}
    relations: dict[Relation, str] = {}
    for relation, extractor in page.relations:
        relations.setdefault(changed[relation], extractor)
    page.relations = list(relations.items())
    texts = {_triple(page, relation)[0]: _triple(page, new) for relation, new in changed.items()}
    triples = [(texts.get(triple[0], triple), extractor) for triple, extractor in page.triples]
    extractors = {triple[0]: extractor for triple, extractor in triples}
    page.triples = [(triple, extractors[triple[0]]) for triple in merged(triple for triple, _ in triples)]
    return page


def _with_label(relation: Relation, kinds: Mapping[str, str | None], schema: ExtractionSchema) -> Relation:
    source, label, target = relation
    found = None if label in (MENTIONS, RELATED) else schema.relation_of(label)
    if found is None:
        return relation
    known, is_inverse = found
    if is_inverse:
        source, target = target, source
    is_allowed = schema.allows(known, kinds.get(source), kinds.get(target))
    return (source, known.label if is_allowed else RELATED, target)


def _triple(page: ExtractedPassage, relation: Relation) -> tuple[str, list[str]]:
    source, label, target = relation
    names = [page.rows[key].surface if key in page.rows else key for key in (source, target)]
    return triple_proposition((names[0], label, names[1]), source, target)
