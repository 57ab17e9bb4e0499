"""A user's schema: types of names by pattern and relations by their canonical label on a page, and names like examples.

Names that are used like the examples of a type are found by the token states that types are judged by. One logistic
regression per type: examples against other names of the same passages, because names of other texts would teach it the
register. Source: decisions/0042-joined-names-and-types-by-examples.md.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.extraction_schema import ExtractionSchema, SchemaType
from polyhop.schemas.text import passage_text
from polyhop.tasks.extraction.relations import MENTIONS, RELATED
from polyhop.tasks.extraction.rows import ExtractedPassage, Relation, merged, triple_proposition
from polyhop.tasks.extraction.rules import sure_types
from polyhop.warehouse.models.local_encoder import LocalEncoder, Span
from polyhop.warehouse.name_judge import open_heads, type_features
from polyhop.warehouse.tables.version_rows import MentionedPassage

Floats = NDArray[np.float32]

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


# Names like the examples of a type.

LEAST_EXAMPLES = 10  # measured (decision 0042): fewer say too little of a type
MOST_PASSAGES = 2000  # encoded for one call; chosen: a minute on two cores
LEAST_PROBABILITY = 0.5  # of a suggested name; chosen
_STATE_SCALE = 0.3  # of a span's states relative to the hidden units; measured in design/entity-types.md
_WEIGHT_OF_OTHERS = 1500.0  # all other names together, however many there are; measured there with 1,500
_WEIGHT_OF_EXAMPLES = 0.3 * _WEIGHT_OF_OTHERS  # all examples together; measured there
_FOLDS = 5  # parts of the other names, each judged by a regression over the rest; chosen
_PENALTY = 10.0  # of squared weights, 1 / C; measured there


def examples_of(kind: SchemaType) -> tuple[str, ...]:
    """The patterns of a type that are names: those without `*`."""
    return tuple(pattern for pattern in kind.patterns if "*" not in pattern)


def name_vectors(passages: Sequence[MentionedPassage]) -> dict[str, Floats]:
    """Mean over the mentions of each name, by key; names beyond the encoder's limit have none. Cost: encodes each."""
    heads = open_heads()
    rows: dict[str, list[Floats]] = defaultdict(list)
    texts = [passage_text(passage.title, passage.text) for passage in passages]
    for encoded in LocalEncoder().encode_states(texts):
        text, passage = texts[encoded.number], passages[encoded.number]
        shift = len(text) - len(passage.text)
        spans = [(key, _moved(span, shift)) for key, found in passage.spans.items() for span in json.loads(found)]
        ranges = encoded.tokens.ranges([span for _, span in spans])
        inside = np.flatnonzero(ranges[:, 1] > ranges[:, 0]).tolist()
        if inside:
            features = type_features(text, encoded.tokens, [spans[i][1] for i in inside], ranges[inside])
            states = _STATE_SCALE * encoded.tokens.means(ranges[inside])
            for number, row in zip(inside, np.concatenate((heads.hidden(features), states), axis=1), strict=True):
                rows[spans[number][0]].append(row)
    return {key: np.mean(found, axis=0) for key, found in sorted(rows.items())}


def _moved(span: Sequence[int], shift: int) -> Span:
    return span[0] + shift, span[1] + shift


def names_like(examples: Sequence[str], vectors: Mapping[str, Floats]) -> dict[str, float]:
    """Other names that the regression gives `LEAST_PROBABILITY`, by key, most probable first.

    A name is judged by a regression that it was left out of, since each of them counts as no example.
    """
    keys = list(vectors)
    rows = np.array([vectors[key] for key in keys], np.float64)
    rows = (rows - rows.mean(axis=0)) / (rows.std(axis=0) + 1e-3)
    are_examples = np.isin(keys, examples)
    others = np.flatnonzero(~are_examples)
    if not are_examples.any() or len(others) < _FOLDS:
        return {}
    similar: dict[str, float] = {}
    for fold in range(_FOLDS):
        left_out = others[fold::_FOLDS]
        learned = np.ones(len(keys), np.bool_)
        learned[left_out] = False
        slopes, bias = _regression(rows[learned], are_examples[learned])
        probabilities = _logistic(rows[left_out] @ slopes + bias).tolist()
        pairs = zip(left_out.tolist(), probabilities, strict=True)
        similar |= {keys[number]: round(value, 6) for number, value in pairs if value >= LEAST_PROBABILITY}
    return dict(sorted(similar.items(), key=lambda item: (-item[1], item[0])))


def _regression(
    rows: NDArray[np.float64], are_examples: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Slopes and bias of a logistic regression with squared weights as penalty."""
    from scipy.optimize import minimize

    count = int(are_examples.sum())
    weights = np.where(are_examples, _WEIGHT_OF_EXAMPLES / count, _WEIGHT_OF_OTHERS / (len(rows) - count))

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        slopes, bias = parameters[:-1], parameters[-1]
        scores = rows @ slopes + bias
        errors = weights * (_logistic(scores) - are_examples)
        value = float(weights @ (np.logaddexp(0, scores) - are_examples * scores) + _PENALTY / 2 * slopes @ slopes)
        return value, np.append(rows.T @ errors + _PENALTY * slopes, errors.sum())

    found = minimize(loss, np.zeros(rows.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return found[:-1], found[-1]


def _logistic(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.5 * (1 + np.tanh(scores / 2))
