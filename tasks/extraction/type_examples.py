"""Names that are used like the examples of a user's type, by the token states that types are judged by.

One logistic regression per type: examples against other names of the same passages, because names of other texts would
teach it the register. Source: decisions/0042-joined-names-and-types-by-examples.md.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.extraction_schema import SchemaType
from polyhop.schemas.text import passage_text
from polyhop.warehouse.models.local_encoder import LocalEncoder, Span
from polyhop.warehouse.name_judge import open_heads, type_features
from polyhop.warehouse.tables.version_rows import MentionedPassage

Floats = NDArray[np.float32]

LEAST_EXAMPLES = 10  # measured (decision 0042): fewer say too little of a type
MOST_PASSAGES = 2000  # encoded for one call; chosen: a minute on two cores
LEAST_PROBABILITY = 0.5  # of a suggested name; chosen
_STATE_SCALE = 0.3  # of a span's states beside the hidden units; measured in design/entity-types.md
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
