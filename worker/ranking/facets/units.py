"""What a version's hub paths are to hub facets, prepared once: documents, signatures, labels and their roles (pure).

A document is a signature with a value's label; paths of the same document differ in their hub or in the id of their
value only. Scores nothing. Source: algorithms.md 4B, units.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.hubs import HubGraph, HubPaths
from polyhop.tasks.hubs.facets import signature_texts
from polyhop.tasks.hubs.text import humanised
from polyhop.worker.ranking.facets.labels import LabelIndex
from polyhop.worker.ranking.facets.mentions import Roles
from polyhop.worker.ranking.facets.signatures import signatures_of, values_of
from polyhop.worker.ranking.facets.words import Word, words_of

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
