"""What a version's hub paths are to hub facets, prepared once: documents, signatures, labels and their roles (pure).

A document is a signature with a value's label; paths of the same document differ in their hub or in the id of their
value only. Source: algorithms.md 4B, units.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntFlag

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.hubs import HubGraph, HubPaths
from polyhop.tasks.hubs.paths import humanised, signature_texts
from polyhop.worker.ranking.facets.labels import LabelIndex, Roles, Word, signatures_of, values_of, words_of

Numbers = NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class Rows:
    """Numbers by number, compressed: those of i are values[starts[i]:starts[i + 1]], ascending."""

    starts: NDArray[np.int64]
    values: NDArray[np.int32]

    @classmethod
    def inverted(cls, keys: Numbers, count: int) -> "Rows":
        """Positions by key: shape of `keys` (n,), numbers below `count`."""
        order = np.argsort(keys, kind="stable").astype(np.int32)
        return cls(np.concatenate(([0], np.cumsum(np.bincount(keys, minlength=count)))).astype(np.int64), order)

    def of(self, key: int) -> NDArray[np.int32]:
        """Those of one number."""
        return self.values[self.starts[key] : self.starts[key + 1]]

    def of_all(self, keys: Iterable[int]) -> NDArray[np.int32]:
        """Those of several numbers, one after the other."""
        parts = [self.of(key) for key in keys]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Signature:
    """A way from a hub to a value.

    Attributes:
        predicates: Numbers, from the hub.
        text: The predicates that tell it from others, in words.
        words: Of its text.
    """

    predicates: tuple[int, ...]
    text: str
    words: tuple[Word, ...]

    @property
    def stems(self) -> tuple[str, ...]:
        """Distinct stems of its text without stop words, in order."""
        return tuple(dict.fromkeys(word.stem for word in self.words if not word.is_stop))


@dataclass(frozen=True, slots=True)
class Units:
    """Hub paths as they are ranked.

    Attributes:
        hub_starts: Shape (h + 1,), int64: paths of each hub.
        path_hubs: Shape (p,), int32.
        path_documents: Shape (p,), int32.
        path_parents: Shape (p,), int32: the node that a path's last triple leaves, numbered among such nodes.
        parent_count: Such nodes.
        signatures: All, by number.
        document_signatures: Shape (d,), int32.
        document_labels: Shape (d,), int32: label of each document's value.
        document_values: Shape (d,), int32: number of each document's value among the distinct ones as spelled.
        value_texts: These values, and hubs' labels, as spelled.
        value_words: Their words.
        document_texts: Shape (d,), int32: row of its vector.
        copies: Shape (d,), int64: paths of each document.
        document_paths: Paths of each document.
        labels: All labels.
        roles: What they are labels of.
        label_documents: Documents of a label.
        label_hubs: Hubs of a label.
        label_numbers: Shape (l,): the number that a label is, NaN if it is none.
        label_predicates: Predicates by label.
        hub_values: Shape (h,), int32: label of each hub, numbered as `value_words`.
    """

    hub_starts: NDArray[np.int64]
    path_hubs: NDArray[np.int32]
    path_documents: NDArray[np.int32]
    path_parents: NDArray[np.int32]
    parent_count: int
    signatures: tuple[Signature, ...]
    document_signatures: NDArray[np.int32]
    document_labels: NDArray[np.int32]
    document_values: NDArray[np.int32]
    value_texts: tuple[str, ...]
    value_words: tuple[tuple[Word, ...], ...]
    document_texts: NDArray[np.int32]
    copies: NDArray[np.int64]
    document_paths: Rows
    labels: LabelIndex
    roles: Roles
    label_documents: Rows
    label_hubs: Rows
    label_predicates: dict[int, tuple[int, ...]]
    label_numbers: NDArray[np.float64]
    hub_values: NDArray[np.int32]

    @property
    def hub_count(self) -> int:
        """Hubs, those without paths included."""
        return len(self.hub_starts) - 1

    def documents_of(self, signature: int) -> range:
        """Documents of a signature."""
        start, end = np.searchsorted(self.document_signatures, [signature, signature + 1]).tolist()
        return range(start, end)

    def paths_of_signature(self, signature: int) -> NDArray[np.int32]:
        """Paths of a signature, in order of their documents."""
        documents, starts = self.documents_of(signature), self.document_paths.starts
        return self.document_paths.values[starts[documents.start] : starts[documents.stop]]

    def document_words(self) -> Iterable[tuple[Word, ...]]:
        """Words of each document: signature text and value."""
        for signature, value in zip(self.document_signatures.tolist(), self.document_values.tolist(), strict=True):
            yield self.signatures[signature].words + self.value_words[value]


def units_of(
    graph: HubGraph, paths: HubPaths, texts: Numbers, predicates: Sequence[str], names: Sequence[str]
) -> Units:
    """Hub paths, prepared.

    Args:
        graph: The triples.
        paths: Hubs and their paths.
        texts: Shape (p,): row of the vector of each path's signature text and value.
        predicates: As the graph has them, by number.
        names: Labels of all nodes.

    Cost: O(paths log paths + distinct labels), once per version.
    """
    numbers, signatures = _signatures(graph, paths, predicates)
    ends, hubs = values_of(graph, paths), paths.hubs
    nodes = np.unique(np.concatenate((ends, hubs)))
    spelled = [names[node] for node in nodes.tolist()]
    distinct = sorted(set(spelled))
    words = [tuple(words_of(text)) for text in distinct]
    place = {text: number for number, text in enumerate(distinct)}
    text_of_node = np.fromiter(map(place.__getitem__, spelled), dtype=np.int64, count=len(spelled))
    predicate_words = [tuple(words_of(humanised(predicate))) for predicate in predicates]
    labels = LabelIndex([*words, *predicate_words])
    label_of_text = np.fromiter(map(labels.number_of, words), dtype=np.int32, count=len(words))

    path_texts = text_of_node[np.searchsorted(nodes, ends)]
    keys, firsts, documents, copies = np.unique(
        numbers * np.int64(len(distinct)) + path_texts, return_index=True, return_inverse=True, return_counts=True
    )
    of_signature, of_text = np.divmod(keys, max(1, len(distinct)))
    document_labels = label_of_text[of_text]
    hub_texts = text_of_node[np.searchsorted(nodes, hubs)]
    hub_labels = label_of_text[hub_texts]
    by_label = _predicates_by_label(labels, predicate_words)
    parents, path_parents = np.unique(graph.subjects[paths.last_triples()], return_inverse=True)
    return Units(
        hub_starts=np.asarray(paths.path_starts, dtype=np.int64),
        path_hubs=paths.path_hubs(),
        path_documents=documents.astype(np.int32),
        path_parents=path_parents.astype(np.int32),
        parent_count=len(parents),
        signatures=signatures,
        document_signatures=of_signature.astype(np.int32),
        document_labels=document_labels,
        document_values=of_text.astype(np.int32),
        value_texts=tuple(distinct),
        value_words=tuple(words),
        document_texts=np.asarray(texts, dtype=np.int32)[firsts],
        copies=copies.astype(np.int64),
        document_paths=Rows.inverted(documents, len(keys)),
        labels=labels,
        roles=_roles(labels, document_labels, hub_labels, by_label, predicate_words, copies),
        label_documents=Rows.inverted(document_labels, len(labels.stems)),
        label_hubs=Rows.inverted(hub_labels, len(labels.stems)),
        label_predicates={label: tuple(found) for label, found in by_label.items()},
        label_numbers=np.array([_number(stems) for stems in labels.stems], dtype=np.float64),
        hub_values=hub_texts.astype(np.int32),
    )


def _predicates_by_label(labels: LabelIndex, words: Sequence[tuple[Word, ...]]) -> dict[int, list[int]]:
    """Predicates by the label that their words are."""
    found: dict[int, list[int]] = {}
    for predicate, label in enumerate(map(labels.number_of, words)):
        found.setdefault(label, []).append(predicate)
    return found


def _signatures(
    graph: HubGraph, paths: HubPaths, predicates: Sequence[str]
) -> tuple[NDArray[np.int32], tuple[Signature, ...]]:
    """Signature of each path, and the signatures."""
    numbers, tuples = signatures_of(graph, paths)
    named = [tuple(predicates[predicate] for predicate in signature) for signature in tuples]
    texts = signature_texts(named)
    found = zip(tuples, map(texts.__getitem__, named), strict=True)
    return numbers, tuple(Signature(signature, text, tuple(words_of(text))) for signature, text in found)


def _roles(
    labels: LabelIndex,
    document_labels: Numbers,
    hub_labels: Numbers,
    by_label: dict[int, list[int]],
    predicate_words: Sequence[Sequence[Word]],
    copies: Numbers,
) -> Roles:
    is_named = np.zeros(len(labels.stems), dtype=np.bool_)
    is_named[document_labels] = True
    is_named[hub_labels] = True
    is_predicate = np.zeros(len(labels.stems), dtype=np.bool_)
    is_predicate[list(by_label)] = True
    stems = frozenset(labels.numbers[word.stem] for words in predicate_words for word in words)
    is_shared = np.bincount(document_labels, copies, len(labels.stems)) >= 2
    return Roles(is_named, is_predicate, stems, is_shared)


def _number(stems: Sequence[str]) -> float:
    """The number that a label is, if it is one of ASCII digits only."""
    is_number = len(stems) == 1 and stems[0].isascii() and stems[0].isdigit() and len(stems[0]) <= 300
    return float(stems[0]) if is_number else float("nan")


# Source: algorithms.md 4B, rules 3 and 7.

Meanings = Sequence[Sequence[tuple[int, float]]]
"""By word of the question: stems of labels that it can stand for, with factors."""


class SignatureWords:
    """The words of all signatures, as a matrix of their weights."""

    def __init__(self, signatures: Sequence[Signature], labels: LabelIndex, left_out: Collection[str]) -> None:
        """Of signatures; the stems `left_out` tell nothing: those of hub types."""
        kept = [[stem for stem in signature.stems if stem not in left_out] for signature in signatures]
        self._starts = np.cumsum([0, *map(len, kept)])
        self._stems = np.array([labels.numbers[stem] for stems in kept for stem in stems], dtype=np.int64)
        self._weights = labels.idf[self._stems]
        totals = self._sums(self._weights)
        self._totals = np.where(totals > 0, totals, 1.0)
        self._stem_count = len(labels.idf)
        # Signatures by the number of the predicate that they end in.
        self.by_predicate: dict[int, list[int]] = {}
        for number, signature in enumerate(signatures):
            self.by_predicate.setdefault(signature.predicates[-1], []).append(number)

    def shares(self, meanings: Meanings, places: Iterable[int]) -> NDArray[np.float64]:
        """Share of each signature's words among some words of a question, weighted by idf: shape (s,), 0 to 1."""
        factors = np.zeros(self._stem_count)
        for place in places:
            for stem, factor in meanings[place]:
                factors[stem] = max(factors[stem], factor)
        return np.asarray(self._sums(self._weights * factors[self._stems]) / self._totals)

    def stems_of(self, signature: int) -> frozenset[int]:
        """Stem numbers of a signature's words."""
        return frozenset(self._stems[self._starts[signature] : self._starts[signature + 1]].tolist())

    def _sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        totals = np.concatenate(([0.0], np.cumsum(values)))
        return np.asarray(totals[self._starts[1:]] - totals[self._starts[:-1]])


# Source: algorithms.md 4B, kinds of values.


class Kind(IntFlag):
    """What the values of a field are; a question can ask for several kinds."""

    OTHER = 0
    TIME = 1
    NUMBER = 2
    YES_NO = 4


LEAST_KIND_SHARE = 0.9
"""Of a field's distinct values that are of a kind; chosen: a few values of another form are common in real data."""

FIRST_YEAR, LAST_YEAR = 1000, 2100  # algorithms.md 4B, kinds of values.
_MONTHS_TEXT = """
january february march april may june july august september october november december jan feb mar apr jun jul aug sep
sept oct nov dec
"""
_MONTHS = frozenset(_MONTHS_TEXT.split())
_YES_NO = frozenset(["true", "false", "yes", "no"])

_TIME_TEXT = """
year years date dates newest oldest latest earliest recent recently newer older earlier later chronological
chronologically decade century
"""
_TIME = frozenset(_TIME_TEXT.split())
_MEASURED_TEXT = "much tall old long large big high wide heavy deep far fast"
_MEASURED = frozenset(_MEASURED_TEXT.split())
"""After `how`."""

_SIZES_TEXT = """
least fewer fewest larger largest smaller smallest bigger biggest higher highest lower lowest taller tallest longer
longest shorter shortest wider widest heavier heaviest
"""
_SIZES = frozenset(_SIZES_TEXT.split())
_AMOUNTS = frozenset(("most", "more"))
_FREQUENCIES_TEXT = "common commonly frequent frequently often popular widely used usual usually of likely"
FREQUENCIES = frozenset(_FREQUENCIES_TEXT.split())
"""After `most` and `more`: they count hubs, and compare no number that a hub has."""

_AUXILIARIES_TEXT = "is are was were do does did has have had can could will would should may might must"
AUXILIARIES = frozenset(_AUXILIARIES_TEXT.split())
_CHOICES_TEXT = "or same alike similar different differ more less"
_CHOICES = frozenset(_CHOICES_TEXT.split())
"""A question with one of them that begins like one for yes or no asks for what is compared."""


def asked_kinds(words: Sequence[Word]) -> Kind:
    """The kinds of values that a question asks for in plain words."""
    texts = [word.text.lower() for word in words]
    kinds = Kind.OTHER
    for word, text, following in zip(words, texts, [*texts[1:], ""], strict=False):
        if text in _TIME or (text == "when" and word.begins_clause):
            kinds |= Kind.TIME
        elif _asks_for_number(text, following):
            kinds |= Kind.NUMBER
        elif text in AUXILIARIES and word.begins_clause and not _CHOICES.intersection(texts):
            kinds |= Kind.YES_NO
    return kinds


def _asks_for_number(text: str, following: str) -> bool:
    """Whether a word asks for a number: a size, `how many`, `how large`, or an amount that is no frequency."""
    if text in _SIZES:
        return True
    if text == "how":
        return following in _MEASURED or following == "many"
    return text in _AMOUNTS and following not in FREQUENCIES


def kinds_of(units: Units, is_polar: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The kind of each signature's values, shape (s,).

    Args:
        units: The paths.
        is_polar: Shape (s,): signatures whose values say yes or no in words.

    Cost: O(distinct values + documents).
    """
    of_value = np.array([_kind(words) for words in units.value_words], dtype=np.int64)
    of_document = of_value[units.document_values]
    signatures, count = units.document_signatures, len(units.signatures)
    totals = np.bincount(signatures, minlength=count)
    kinds = np.where(is_polar, int(Kind.YES_NO), 0)
    for kind, are in ((Kind.TIME, Kind.TIME), (Kind.NUMBER, Kind.NUMBER | Kind.TIME), (Kind.YES_NO, Kind.YES_NO)):
        found = np.bincount(signatures[of_document & int(are) > 0], minlength=count)  # 1600 may be a length, too
        kinds[(found >= LEAST_KIND_SHARE * totals) & (kinds == 0)] = int(kind)
    return kinds


def _kind(words: Sequence[Word]) -> Kind:
    """The kind of one value."""
    texts = [word.text.lower() for word in words]
    if not texts:
        return Kind.OTHER
    if len(texts) == 1 and texts[0] in _YES_NO:
        return Kind.YES_NO
    is_number = [text.isascii() and text.isdigit() for text in texts]
    if _is_date(texts, is_number):
        return Kind.TIME
    return Kind.NUMBER if is_number[0] and len(texts) <= 3 else Kind.OTHER


def _is_date(texts: Sequence[str], is_number: Sequence[bool]) -> bool:
    """Whether words have a year among them and nothing but numbers and months besides."""
    has_year = any(
        one and len(text) == 4 and FIRST_YEAR <= int(text) <= LAST_YEAR
        for one, text in zip(is_number, texts, strict=True)
    )
    return has_year and all(one or text in _MONTHS for one, text in zip(is_number, texts, strict=True))


# Source: algorithms.md 4B, rule 4.

MOST_VALUES = 5  # algorithms.md 4B, rule 4.
LEAST_SHARE, LARGEST_SHARE = 0.02, 0.98  # algorithms.md 4B, rule 4.
REACH = 4
"""Words before a mention in which a negation is looked for."""

_DENIED_TEXT = """
private secret confidential hidden withheld unavailable missing absent undisclosed unpublished unknown
"""
_DENIED = frozenset(_DENIED_TEXT.split())
"""After a mention: what is so is not there for others."""
_REFLEXIVES_TEXT = """
themselves itself himself herself oneself ourselves yourself
"""
_REFLEXIVES = frozenset(_REFLEXIVES_TEXT.split())
"""After `to`: kept to oneself."""

WRONG = 0.1  # algorithms.md 4B, rule 4.
OTHER_WORDS = 0.6  # algorithms.md 4B, rule 4.


class Polarity:
    """What of a version's values is negated.

    Attributes:
        is_polar: Shape (s,): signatures with a polarity.
        is_negated: Shape (d,): documents of such signatures whose value is negated.
    """

    def __init__(self, units: Units) -> None:
        """Of prepared paths. Cost: O(documents)."""
        count = len(units.signatures)
        signatures = units.document_signatures
        negated_labels = np.array([any(word.is_negation for word in words) for words in units.value_words], dtype=bool)
        negated = negated_labels[units.document_values] if len(signatures) else np.empty(0, dtype=bool)
        pairs = np.unique(np.stack((signatures, units.document_labels)), axis=1)
        values = np.bincount(pairs[0], minlength=count)
        paths = np.bincount(signatures, units.copies, count)
        shares = np.bincount(signatures, units.copies * negated, count) / np.maximum(paths, 1)
        self.is_polar = (values <= MOST_VALUES) & (shares >= LEAST_SHARE) & (shares <= LARGEST_SHARE)
        self.is_negated = negated & self.is_polar[signatures]


def is_negated(words: Sequence[Word], start: int, end: int, taken: NDArray[np.int64]) -> bool:
    """Whether a span is negated: by a word inside it, or by one near it, with no other mention between.

    Up to 4 words before it a negation counts, up to 4 after it a word like `private`, and `to themselves`.

    Args:
        words: The question's.
        start: First word of the span.
        end: After its last word.
        taken: Shape (n,): number of the mention of a value or a hub that has each word, -1 without.
    """
    if any(word.is_negation for word in words[start:end]):
        return True
    for place in range(start - 1, max(-1, start - 1 - REACH), -1):
        if taken[place] >= 0:
            break
        if words[place].is_negation:
            return True
    for place in range(end, min(len(words), end + REACH)):
        if taken[place] >= 0:
            return False
        text = words[place].text.lower()
        if text in _DENIED or (text in _REFLEXIVES and words[place - 1].text.lower() == "to"):
            return True
    return False
