"""Short answers from facets: the values of one field, or the names or the number, of the hubs that meet all conditions.

Plain questions only; wherever something is in doubt there is no answer. Source: algorithms.md 4B, answers.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyhop.worker.ranking.facets.conditions import AUXILIARIES, BEST_SHARE, HUB, ReadQuestion, asked_extreme
from polyhop.worker.ranking.facets.labels import Word, words_of
from polyhop.worker.ranking.facets.ranking import FacetScores
from polyhop.worker.ranking.facets.units import Kind, Units

NUMBER, NAMES, VALUES, MOST_FREQUENT, YES_NO = "number", "names", "values", "most frequent", "yes or no"

_OPENERS = frozenset(("which", "what", "name", "list", "show", "find", "give"))
_COMPARING_TEXT = """
compare compared comparing comparison than versus vs differ differs different difference differences same alike similar
distribution distributed distribute per each both first last or respectively percentage share average mean total sum
besides except other others rank ranked sort sorted order ordered why
"""
_COMPARING = frozenset(_COMPARING_TEXT.split())
"""The answer is a comparison, a table, an order or a calculation: no short one."""

MOST_ANSWERS = 10  # Longer lists are no short answers.

_COUNTING = frozenset(("many", "number", "title", "titles", "name", "names"))
_COUNTED = (["how", "many"], ["number", "of"])

LEAST_MET = 0.7  # How well a hub must meet each condition: parts of values and negation in other words are too little.

LEAST_ASKED = 0.65  # How much a field must be asked for: similarity alone, at most .5, is too little.

PRECISION = 0.9
"""Share of answers that are right on the questions that rules were tuned on (decision 0009)."""

MOST_UNUSED = 1
"""Words (apply, led) that no condition uses, where no hub is named: more may be conditions that were not understood.

One more where a field is asked for, which is often evaluated or applied."""

LEAST_LEAD = 1.25  # How many times as much as any other field the one is asked for that answers.


@dataclass(frozen=True, slots=True)
class FacetAnswer:
    """A short answer."""

    texts: tuple[str, ...]  # Labels, most frequent first; a number or `yes`, `no` alone.
    kind: str  # What they are: NUMBER, NAMES, VALUES, MOST_FREQUENT or YES_NO.
    # Shape (n,): hub paths that it rests on, of the first hubs only where hubs are named or counted.
    paths: NDArray[np.int32]
    hubs: NDArray[np.int32]  # Shape (k,): hubs that it rests on.
    confidence: float  # How often such an answer is right.


def answer_of(
    units: Units, question: ReadQuestion, scores: FacetScores, kinds: NDArray[np.int64]
) -> FacetAnswer | None:
    """The short answer to a question, None in doubt.

    Cost: O(hubs + paths of the hubs that meet the conditions).
    """
    texts = [word.text.lower() for word in question.words]
    hubs = _meeting(question, scores)
    extreme = asked_extreme(question.words)
    is_vague = extreme is not None and not (scores.asked[kinds == int(extreme[0])] >= LEAST_ASKED).any()
    if hubs is None or _COMPARING.intersection(texts) or is_vague:
        return None
    confidence = PRECISION * min(float(met[hubs].min()) for met in scores.met)  # less where they are met in part
    # The word after `which`, `how many` and the like; None if there is none, or several.
    counted = [position + 2 for position in range(len(texts)) if texts[position : position + 2] in _COUNTED]
    positions = counted or [position + 1 for position, text in enumerate(texts) if text in _OPENERS]
    starts = positions[0] if len(positions) == 1 else None
    counts = starts is not None and bool(counted)
    if starts is not None and _asks_for_hubs(units, question, scores, starts):
        # The names of the hubs, or their number; None if names are too many or conditions may not be understood.
        if (not counts and len(hubs) > MOST_ANSWERS) or _unused_count(question, ()) > MOST_UNUSED:
            return None
        first = hubs[:MOST_ANSWERS].tolist()
        documents = sorted({document for facet in question.facets for document in facet.documents})
        own = [np.arange(units.hub_starts[hub], units.hub_starts[hub + 1], dtype=np.int32) for hub in first]
        paths = np.concatenate([some[np.isin(units.path_documents[some], documents)] for some in own])
        names = tuple(dict.fromkeys(units.value_texts[int(units.hub_values[hub])] for hub in first))
        said, kind = ((str(len(hubs)),), NUMBER) if counts else (names, NAMES)
        return FacetAnswer(said, kind, paths, hubs, confidence)

    # The values of the field that is asked for most, if no condition is on it.
    given = {signature for facet in question.facets for signature in facet.signatures} - {HUB}
    asked = scores.asked.copy()
    asked[sorted(given)] = 0
    top, second = np.sort(np.append(asked, (0.0, 0.0)))[-1:-3:-1].tolist()
    if top < max(LEAST_ASKED, LEAST_LEAD * second):
        return None
    field = int(asked.argmax())
    if not question.names_hub and _unused_count(question, units.signature_words[field]) > MOST_UNUSED + 1:
        return None
    paths = _paths_of_field(units, question, field, hubs)
    values = Counter(units.value_texts[int(units.document_values[d])] for d in units.path_documents[paths].tolist())
    found = _said(texts, values, Kind(int(kinds[field])), counts=counts, is_one_hub=len(hubs) == 1)
    return found and FacetAnswer(*found, paths, hubs, confidence * top)


def _meeting(question: ReadQuestion, scores: FacetScores) -> NDArray[np.int32] | None:
    """Hubs that meet every condition, ascending; None without conditions or hubs, or if several are named."""
    if not scores.met or not len(scores.hubs):
        return None
    is_met = scores.hubs >= BEST_SHARE * scores.hubs.max()
    for met in scores.met:
        is_met &= met >= LEAST_MET
    hubs = np.flatnonzero(is_met).astype(np.int32)
    return None if len(hubs) == 0 or (question.names_hub and len(hubs) > 1) else hubs


def _asks_for_hubs(units: Units, question: ReadQuestion, scores: FacetScores, position: int) -> bool:
    """Returns whether a word of the hubs' type follows, with nothing but stop words and conditions between.

    It must not be a word of a field that is asked for (paper class).
    """
    fields = np.flatnonzero(scores.asked >= LEAST_ASKED).tolist()
    in_fields = {word.stem for field in fields for word in units.signature_words[field]}
    taken = {word for facet in question.facets for span in facet.mentions for word in range(*span)}
    for number in range(position, len(question.words)):
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
    words = [question.words[position] for position in question.unused]
    return sum(not word.is_stop and word.stem not in known and word.text.lower() not in _COUNTING for word in words)


def _paths_of_field(units: Units, question: ReadQuestion, field: int, hubs: NDArray[np.int32]) -> NDArray[np.int32]:
    """Paths of a field from some hubs; for each condition those next to a value that meets it, if there are some."""
    paths = np.sort(units.paths_of_signature(field))
    paths = paths[np.isin(units.path_hubs[paths], hubs)]
    for facet in question.facets:
        meeting = [document for document, strength in facet.documents.items() if strength >= LEAST_MET]
        parents = units.path_parents[units.document_paths.of_all(meeting)]
        is_sibling = np.isin(units.path_parents[paths], parents)
        paths = paths[is_sibling] if is_sibling.any() else paths
    return paths


def _said(
    texts: Sequence[str], values: Counter[str], kind: Kind, *, counts: bool, is_one_hub: bool
) -> tuple[tuple[str, ...], str] | None:
    """Answer values of a field for a question's words, and their kind; None in doubt."""
    if not values:
        return None
    if texts[0] in AUXILIARIES:
        negations = ("false", "no")
        is_no = {any(w.is_negation for w in words_of(value)) or value.strip().lower() in negations for value in values}
        said = {"no" if one else "yes" for one in is_no}
        return ((said.pop(),), YES_NO) if kind == Kind.YES_NO and is_one_hub and len(said) == 1 else None
    if kind == Kind.YES_NO:
        return None
    if counts and kind != Kind.NUMBER:
        return (str(len(values)),), NUMBER
    if {"most", "mostly"}.intersection(texts) and kind == Kind.OTHER:
        (text, count), *others = values.most_common(2)
        return None if others and others[0][1] == count else ((text,), MOST_FREQUENT)
    return (tuple(text for text, _ in values.most_common()), VALUES) if len(values) <= MOST_ANSWERS else None
