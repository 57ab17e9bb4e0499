"""Short answers from facets: the values of one field, or the names or the number, of the hubs that meet all conditions.

Plain questions only; wherever something is in doubt there is no answer. Source: algorithms.md 4B, answers.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyhop.worker.ranking.facets.conditions import BEST_SHARE, HUB, ReadQuestion, asked_extreme
from polyhop.worker.ranking.facets.labels import Word, words_of
from polyhop.worker.ranking.facets.ranking import PathScores
from polyhop.worker.ranking.facets.units import AUXILIARIES, Kind, Units

NUMBER, NAMES, VALUES, MOST_FREQUENT, YES_NO = "number", "names", "values", "most frequent", "yes or no"

_OPENERS = frozenset(("which", "what", "name", "list", "show", "find", "give"))
_COMPARING_TEXT = """
compare compared comparing comparison than versus vs differ differs different difference differences same alike similar
distribution distributed distribute per each both first last or respectively percentage share average mean total sum
besides except other others rank ranked sort sorted order ordered why
"""
_COMPARING = frozenset(_COMPARING_TEXT.split())
"""The answer is a comparison, a table, an order or a calculation: no short one."""

MOST_ANSWERS = 10
"""Longer lists are no short answers."""

_COUNTING = frozenset(("many", "number", "title", "titles", "name", "names"))
_COUNTED = (["how", "many"], ["number", "of"])

LEAST_MET = 0.7
"""How well a hub must meet each condition: parts of values and negation in other words are too little."""

LEAST_ASKED = 0.65
"""How much a field must be asked for: similarity alone, at most .5, is too little."""

PRECISION = 0.9
"""Share of answers that are right on the questions that rules were tuned on (benchmarks/hub_answers.py)."""

MOST_UNUSED = 1
"""Words (apply, led) that no condition uses, where no hub is named: more may be conditions that were not understood.

One more where a field is asked for, which is often evaluated or applied."""

LEAST_LEAD = 1.25
"""How many times as much as any other field."""


@dataclass(frozen=True, slots=True)
class FacetAnswer:
    """A short answer.

    Attributes:
        texts: Labels, most frequent first; a number or `yes`, `no` alone.
        kind: What they are: NUMBER, NAMES, VALUES, MOST_FREQUENT or YES_NO.
        paths: Shape (n,): hub paths that it rests on, of the first hubs only where hubs are named or counted.
        hubs: Shape (k,): hubs that it rests on.
        confidence: How often such an answer is right.
    """

    texts: tuple[str, ...]
    kind: str
    paths: NDArray[np.int32]
    hubs: NDArray[np.int32]
    confidence: float


def answer_of(units: Units, question: ReadQuestion, scores: PathScores, kinds: NDArray[np.int64]) -> FacetAnswer | None:
    """The short answer to a question, None in doubt.

    Args:
        units: The paths.
        question: As it was read.
        scores: Of the question.
        kinds: Shape (s,): of each signature's values.

    Cost: O(hubs + paths of the hubs that meet the conditions).
    """
    texts = [word.text.lower() for word in question.words]
    hubs = _meeting(question, scores)
    if hubs is None or _COMPARING.intersection(texts) or _is_vague_extreme(question, scores, kinds):
        return None
    strength = min(float(met[hubs].min()) for met in scores.met)
    # The word after `which`, `how many` and the like; None if there is none, or several.
    counted = [place + 2 for place in range(len(texts)) if texts[place : place + 2] in _COUNTED]
    places = counted or [place + 1 for place, text in enumerate(texts) if text in _OPENERS]
    starts = places[0] if len(places) == 1 else None
    counts = starts is not None and texts[starts - 2 : starts] in (["how", "many"], ["number", "of"])
    if starts is not None and _asks_for_hubs(units, question, scores, starts):
        # The names of the hubs, or their number; None if names are too many or conditions may not be understood.
        if (not counts and len(hubs) > MOST_ANSWERS) or _unused_count(question, ()) > MOST_UNUSED:
            return None
        first = hubs[:MOST_ANSWERS].tolist()
        paths = np.concatenate([_paths_of_facets(units, question, hub) for hub in first])
        confidence = _confidence(strength, 1.0)
        if counts:
            return FacetAnswer((str(len(hubs)),), NUMBER, paths, hubs, confidence)
        names = dict.fromkeys(units.value_texts[int(units.hub_values[hub])] for hub in first)
        return FacetAnswer(tuple(names), NAMES, paths, hubs, confidence)
    field = _asked_field(question, scores)
    has_named = any(facet.hubs for facet in question.conditions.facets)
    if field is None or (not has_named and _unused_count(question, units.signatures[field].words) > MOST_UNUSED + 1):
        return None
    return _of_field(units, question, (field, float(scores.asked[field])), hubs, (kinds[field], counts, strength))


def _meeting(question: ReadQuestion, scores: PathScores) -> NDArray[np.int32] | None:
    """Hubs that meet every condition, ascending; None without conditions or hubs, or if several are named."""
    if not scores.met or not len(scores.hubs):
        return None
    is_met = scores.hubs >= BEST_SHARE * scores.hubs.max()
    for met in scores.met:
        is_met &= met >= LEAST_MET
    hubs = np.flatnonzero(is_met).astype(np.int32)
    has_named = any(facet.hubs for facet in question.conditions.facets)
    return None if len(hubs) == 0 or (has_named and len(hubs) > 1) else hubs


def _is_vague_extreme(question: ReadQuestion, scores: PathScores, kinds: NDArray[np.int64]) -> bool:
    """Whether the question asks for one end of a field and does not name the field."""
    extreme = asked_extreme(question.words)
    return extreme is not None and not (scores.asked[kinds == int(extreme[0])] >= LEAST_ASKED).any()


def _asks_for_hubs(units: Units, question: ReadQuestion, scores: PathScores, place: int) -> bool:
    """Whether a word of the hubs' type follows, with nothing but stop words and conditions between.

    It must not be a word of a field that is asked for (paper class).
    """
    fields = np.flatnonzero(scores.asked >= LEAST_ASKED).tolist()
    in_fields = {stem for field in fields for stem in (word.stem for word in units.signatures[field].words)}
    taken = {word for facet in question.conditions.facets for span in facet.mentions for word in range(*span)}
    for number in range(place, len(question.words)):
        word = question.words[number]
        if word.stem in question.types and number not in taken:
            following = question.words[number + 1].stem if number + 1 < len(question.words) else ""
            return word.stem not in in_fields or following not in in_fields
        if not word.is_stop and number not in taken:
            return False
    return False


def _unused_count(question: ReadQuestion, field: Sequence[Word]) -> int:
    """Words that may be conditions which were not understood; verbs of plain questions are among them."""
    known = question.types | {word.stem for word in field}
    words = [question.words[place] for place in question.conditions.unused]
    return sum(not word.is_stop and word.stem not in known and word.text.lower() not in _COUNTING for word in words)


def _asked_field(question: ReadQuestion, scores: PathScores) -> int | None:
    """The signature that the question asks for, if it is clearly one and no condition is on it."""
    asked = scores.asked.copy()
    asked[[signature for facet in question.conditions.facets for signature in facet.signatures if signature != HUB]] = 0
    if not len(asked):
        return None
    field = int(asked.argmax())
    top = float(asked[field])
    asked[field] = 0
    lead = top / max(float(asked.max()), 1e-9)
    return field if top >= LEAST_ASKED and lead >= LEAST_LEAD else None


def _of_field(
    units: Units,
    question: ReadQuestion,
    field: tuple[int, float],
    hubs: NDArray[np.int32],
    how: tuple[int, bool, float],
) -> FacetAnswer | None:
    """The values of a field, or what they say."""
    (signature, asked), (kind, counts, strength) = field, how
    paths = np.sort(units.paths_of_signature(signature))
    is_met = np.zeros(units.hub_count, dtype=np.bool_)
    is_met[hubs] = True
    paths = paths[is_met[units.path_hubs[paths]]]
    paths = _beside_conditions(units, question, paths)
    if not len(paths):
        return None
    confidence = _confidence(strength, asked)
    values = Counter(units.value_texts[int(units.document_values[d])] for d in units.path_documents[paths].tolist())
    texts = [word.text.lower() for word in question.words]
    if texts[0] in AUXILIARIES:
        said = {_yes_or_no(value) for value in values}
        if kind != int(Kind.YES_NO) or len(hubs) != 1 or len(said) != 1:
            return None
        return FacetAnswer((said.pop(),), YES_NO, paths, hubs, confidence)
    if kind == int(Kind.YES_NO):
        return None
    if counts and kind != int(Kind.NUMBER):
        return FacetAnswer((str(len(values)),), NUMBER, paths, hubs, confidence)
    if {"most", "mostly"}.intersection(texts) and kind == int(Kind.OTHER):
        # The most frequent of some values; None if two are equally frequent.
        (text, count), *others = values.most_common(2)
        most = None if others and others[0][1] == count else text
        return None if most is None else FacetAnswer((most,), MOST_FREQUENT, paths, hubs, confidence)
    if len(values) > MOST_ANSWERS:
        return None
    return FacetAnswer(tuple(text for text, _ in values.most_common()), VALUES, paths, hubs, confidence)


def _beside_conditions(units: Units, question: ReadQuestion, paths: NDArray[np.int32]) -> NDArray[np.int32]:
    """Of paths those whose last triple leaves a node where a condition is met, for each condition that has some."""
    for facet in question.conditions.facets:
        meeting = [document for document, strength in facet.documents.items() if strength >= LEAST_MET]
        parents = units.path_parents[units.document_paths.of_all(meeting)]
        is_beside = np.isin(units.path_parents[paths], parents)
        paths = paths[is_beside] if is_beside.any() else paths
    return paths


def _yes_or_no(value: str) -> str:
    """What a value of a field of yes and no says."""
    words = words_of(value)
    is_no = any(word.is_negation for word in words) or value.strip().lower() in ("false", "no")
    return "no" if is_no else "yes"


def _paths_of_facets(units: Units, question: ReadQuestion, hub: int) -> NDArray[np.int32]:
    """The paths of a hub that meet conditions."""
    paths = np.arange(units.hub_starts[hub], units.hub_starts[hub + 1], dtype=np.int32)
    documents = sorted({document for facet in question.conditions.facets for document in facet.documents})
    return paths[np.isin(units.path_documents[paths], documents)]


def _confidence(strength: float, asked: float) -> float:
    """How often such answers are right: less where conditions are met in part, or the field is asked for in part."""
    return PRECISION * strength * asked
