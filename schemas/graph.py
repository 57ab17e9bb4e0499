"""Statements of a graph, what extraction yields, and the arrays that rankings run on.

Arrays are plain numpy so that they can be memory-mapped and shared; no ranking formula lives here.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

# Source: RDF 1.1 Concepts (2014), sections 3.2 and 3.3.

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
XSD = "http://www.w3.org/2001/XMLSchema#"

_IRI = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://|urn:)\S+")
_SEPARATORS = "/#:"


def name_without_label(own_id: str) -> str:
    """The name of a node that no statement names: of an IRI its last part in words, else the id itself.

    `http://dbpedia.org/resource/Ada_Lovelace` is called `Ada Lovelace`.
    """
    if not _IRI.fullmatch(own_id):
        return own_id
    last = re.split(f"[{_SEPARATORS}]", own_id.rstrip(_SEPARATORS))[-1]
    name = unquote(last).replace("_", " ").strip()
    is_printable = not any(unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in name)
    return name if name and is_printable else own_id


def label_preference(language: str, languages: Sequence[str]) -> str:
    """The rank of a label among those of one thing, as text: smaller is preferred.

    First the wanted languages in their order (`en` also means `en-GB`), then labels without a language, then the other
    languages alphabetically.
    """
    tag = language.lower()
    for rank, wanted in enumerate(languages):
        if tag == wanted or tag.startswith(f"{wanted}-"):
            return f"{rank:03d} {tag}"
    return f"{len(languages) + 1:03d} {tag}" if tag else f"{len(languages):03d}"


# Source: algorithms.md 4.2.


@dataclass(frozen=True, slots=True)
class StatementNode:
    """A node as one statement describes it."""

    id: str  # The graph's own, without control characters; empty only for a literal.
    name: str  # Its label, or the value of a literal; empty if the statement has none.
    types: tuple[str, ...] = ()  # Names of its types, in the statement's order.
    is_literal: bool | None = None  # Whether it is a value; None if the statement does not say so.
    datatype: str = ""  # Of a literal, empty if not stated.
    language: str = ""  # Tag of a literal's language (`en`), empty if not stated.


@dataclass(frozen=True, slots=True)
class Statement:
    """One triple of a graph; `predicate` is not empty, and without control characters."""

    subject: StatementNode
    predicate: str
    object: StatementNode


@dataclass(frozen=True, slots=True)
class Description:
    """Label and types that a graph states of a node."""

    node: StatementNode  # The node with its label, if that is what is said, and its types.
    # Of several labels of a node the one with the smallest counts; empty where all count the same.
    preference: str = ""


GraphLine = Statement | Description  # One usable line of a graph.


@dataclass(frozen=True, slots=True)
class Neo4jMapping:
    """Properties of a Neo4j graph by role; the first name that a node or relationship has counts."""

    # Properties that hold a node's own id; without one it has the database's, which a dump does not keep.
    ids: tuple[str, ...]
    names: tuple[str, ...]  # Properties that hold a node's label.
    # Properties that hold the names of a node's types; empty: its labels in Neo4j are its types.
    types: tuple[str, ...]
    # Properties of relationships that hold the predicate; without one it is the relationship's type.
    predicates: tuple[str, ...]


class NamedTriple(NamedTuple):
    """A triple of an index with the graph's own ids, and names; of a value without an id, its entity id."""

    subject_id: str
    subject: str
    predicate: str
    object_id: str
    object: str

    @property
    def ids(self) -> tuple[str, str, str]:
        """Identity of the statement: the subject's id, the predicate, the object's id."""
        return self.subject_id, self.predicate, self.object_id

    @property
    def subject_words(self) -> str:
        """The subject's name, its id without one."""
        return self.subject or self.subject_id

    @property
    def object_words(self) -> str:
        """The object's name, its id without one."""
        return self.object or self.object_id


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a text: `start` and `end` are character offsets into that text."""

    key: str
    surface: str
    start: int
    end: int


# What a filter leaves of arrays. Source: decisions/0027-filters-of-questions.md. Cost: one pass over each array.

Numbers = NDArray[np.int64]
Number = TypeVar("Number", bound=np.integer)
Integers = NDArray[np.integer[Any]]


def new_numbers(kept: Integers, count: int) -> Numbers:
    """Shape (count,): the new number of each old one, -1 of those that are not in `kept` (ascending)."""
    moved = np.full(count, -1, dtype=np.int64)
    moved[kept] = np.arange(len(kept))
    return moved


def distinct(numbers: NDArray[Number]) -> NDArray[Number]:
    """The distinct ones, ascending: as np.unique, which hashes since NumPy 2.3, in 10 to 25 times the time."""
    ordered = np.sort(numbers)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))]


def gathered(indptr: Integers, rows: Integers) -> tuple[Numbers, Numbers]:
    """Row starts of the selected rows only (shape (rows + 1,)), and the offsets of their entries."""
    starts, lengths = indptr[rows], indptr[np.add(rows, 1)] - indptr[rows]
    new = row_starts(lengths)
    return new, np.arange(new[-1], dtype=np.int64) + np.repeat(starts - new[:-1], lengths)


class Positions(Mapping[str, int]):
    """The position of each of some ascending, distinct texts, found by halving: no dictionary of a million of them.

    Cost: O(log n) comparisons of texts, some 2 microseconds of a million.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def __getitem__(self, text: str) -> int:
        number = bisect_left(self._texts, text)
        if number == len(self._texts) or self._texts[number] != text:
            raise KeyError(text)
        return number

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def row_starts(lengths: Integers) -> Numbers:
    """Shape (rows + 1,): where rows of these lengths begin."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


class EdgesByEntity(NamedTuple):
    """The edges of a `BipartiteGraph`, compressed by entity."""

    indptr: NDArray[np.int64]  # Shape (n_entities + 1,), int64.
    passages: NDArray[np.int32]  # Shape (nnz,), int32: passage numbers, ascending inside an entity.
    tf: NDArray[Any]  # Shape (nnz,), any numbers.
    is_title: NDArray[np.bool_]  # Shape (nnz,), bool.


@dataclass(frozen=True)
class BipartiteGraph:
    """Passages and the entities they mention, compressed by passage.

    Entities are numbered by ascending key, passages by ascending id.
    """

    indptr: NDArray[np.int64]  # Shape (n_passages + 1,), int64.
    indices: NDArray[np.int32]  # Shape (nnz,), int32: entity numbers, ascending inside a passage.
    tf: NDArray[np.float64]  # Shape (nnz,), float64: mentions, at least 1.
    is_title: NDArray[np.bool_]  # Shape (nnz,), bool: the entity is a key of the passage's own title.
    keys: tuple[str, ...]  # Entity keys, in number order.
    stored_by_entity: EdgesByEntity | None = None  # What `by_entity` is, where an index has it.

    @property
    def passage_count(self) -> int:
        """Number of passages."""
        return len(self.indptr) - 1

    @property
    def entity_count(self) -> int:
        """Number of entities."""
        return len(self.keys)

    @cached_property
    def number_of(self) -> Positions:
        """Entity number by key."""
        return Positions(self.keys)

    @cached_property
    def df(self) -> NDArray[np.int64]:
        """Shape (n_entities,): passages that mention each entity."""
        if self.stored_by_entity is not None:
            return np.diff(self.stored_by_entity.indptr)
        counts = np.zeros(self.entity_count, dtype=np.int64)
        np.add.at(counts, self.indices, 1)  # without a copy of all indices as int64, which bincount makes
        return counts

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """Shape (nnz,): passage number of each edge."""
        return np.repeat(np.arange(self.passage_count, dtype=np.int32), np.diff(self.indptr))

    @cached_property
    def by_entity(self) -> EdgesByEntity:
        """The edges by entity. Cost: O(edges log edges) where no index has them."""
        if self.stored_by_entity is not None:
            return self.stored_by_entity
        order = np.argsort(self.indices * np.int64(self.passage_count) + self.rows)
        return EdgesByEntity(row_starts(self.df), self.rows[order], self.tf[order], self.is_title[order])

    def with_only(self, kept: NDArray[np.bool_]) -> "BipartiteGraph":
        """The graph with these of its edges alone, shape (nnz,)."""
        starts = row_starts(np.bincount(self.rows[kept], minlength=self.passage_count))
        return BipartiteGraph(starts, self.indices[kept], self.tf[kept], self.is_title[kept], self.keys)

    def with_edges(self, indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> "BipartiteGraph":
        """The graph with further edges: one mention each, not title edges.

        Args:
            indptr: Shape (n_passages + 1,): where the further edges of each passage begin.
            indices: Shape (m,): their entity numbers, ascending inside a passage, none of an edge that the graph has.

        Cost: O(edges).
        """
        rows = np.repeat(np.arange(self.passage_count, dtype=np.int64), np.diff(indptr))
        present = self.rows.astype(np.int64) * self.entity_count + self.indices
        offsets = np.searchsorted(present, rows * self.entity_count + indices)
        return BipartiteGraph(
            indptr=self.indptr + indptr,
            indices=np.insert(self.indices, offsets, indices),
            tf=np.insert(self.tf, offsets, 1.0),
            is_title=np.insert(self.is_title, offsets, np.False_),
            keys=self.keys,
        )

    def entities_of(self, allowed: Numbers) -> Numbers:
        """Numbers of the entities that an allowed passage mentions, and of those that no passage does; ascending."""
        is_kept = self.df == 0
        is_kept[self.indices[gathered(self.indptr, allowed)[1]]] = True
        return np.flatnonzero(is_kept).astype(np.int64)

    def restricted(self, allowed: Numbers, kept: Numbers | None = None) -> "BipartiteGraph":
        """Allowed passages and the entities that are left: `kept` (ascending), or else those of `entities_of`."""
        kept = self.entities_of(allowed) if kept is None else kept
        indptr, offsets = gathered(self.indptr, allowed)
        numbers = new_numbers(kept, self.entity_count)[self.indices[offsets]]
        is_left = numbers >= 0
        offsets = offsets[is_left]
        return BipartiteGraph(
            indptr=indptr - np.concatenate(([0], np.cumsum(~is_left)))[indptr],
            indices=numbers[is_left].astype(np.int32),
            tf=np.asarray(self.tf[offsets]),
            is_title=np.asarray(self.is_title[offsets]),
            keys=tuple(self.keys[number] for number in kept.tolist()),
        )


@dataclass(frozen=True)
class RelationGraph:
    """Entities and their labelled relations, compressed by entity, each pair of neighbours in both rows.

    Entities are numbered as in `BipartiteGraph`; there are no self loops.
    """

    indptr: NDArray[np.int64]  # Shape (n_entities + 1,), int64.
    # Shape (nnz,), int32: neighbours whichever way the relation points, distinct and ascending in a row.
    indices: NDArray[np.int32]
    label_indptr: NDArray[np.int64]  # Shape (nnz + 1,), int64: where the labels of each entry of `indices` begin.
    # Shape (n_relations,), int32: labels of the relations that leave the row's entity for that neighbour.
    labels: NDArray[np.int32]
    names: tuple[str, ...]  # The labels, ascending.

    @property
    def entity_count(self) -> int:
        """Number of entities."""
        return len(self.indptr) - 1

    @cached_property
    def single(self) -> NDArray[np.int32]:
        """Shape (nnz,): 1 everywhere, every pair of neighbours once."""
        return np.ones(len(self.indices), dtype=np.int32)

    @cached_property
    def multiplicity(self) -> NDArray[np.int32]:
        """Shape (nnz,): relations between the two neighbours, both ways together."""
        rows = np.repeat(np.arange(self.entity_count), np.diff(self.indptr))
        leaving = np.diff(self.label_indptr)
        return (leaving + leaving[np.lexsort((rows, self.indices))]).astype(np.int32)

    def labels_from(self, source: int, target: int) -> tuple[str, ...]:
        """Labels of the relations from one entity to another, ascending; none if they are not neighbours."""
        start, end = self.indptr[source], self.indptr[source + 1]
        entry = start + int(np.searchsorted(self.indices[start:end], target))
        if entry == end or self.indices[entry] != target:
            return ()
        return tuple(
            self.names[label] for label in self.labels[self.label_indptr[entry] : self.label_indptr[entry + 1]]
        )

    def restricted(
        self, statements: tuple[Numbers, Numbers], is_allowed: NDArray[np.bool_], kept: Numbers
    ) -> "RelationGraph":
        """Relations, between entities left, that an allowed passage states or (of a graph) none does at all."""
        relations, passages = statements
        is_stated = np.zeros(len(self.labels), dtype=np.bool_)
        is_stated[relations[(passages < 0) | is_allowed[passages]]] = True
        moved = new_numbers(kept, self.entity_count)
        rows = np.repeat(np.arange(self.entity_count, dtype=np.int64), np.diff(self.indptr))
        is_between = (moved[rows] >= 0) & (moved[self.indices] >= 0)
        neighbours = np.repeat(np.arange(len(self.indices)), np.diff(self.label_indptr))
        is_stated &= is_between[neighbours]
        leaving = np.bincount(neighbours[is_stated], minlength=len(self.indices))
        # each pair is in the rows of both: sorted by (neighbour, row), the offsets are those of the pairs turned round
        turned = np.lexsort((rows, self.indices))
        is_kept = (leaving > 0) | (leaving[turned] > 0)
        return RelationGraph(
            indptr=row_starts(np.bincount(moved[rows[is_kept]], minlength=len(kept))),
            indices=moved[self.indices[is_kept]].astype(np.int32),
            label_indptr=row_starts(leaving[is_kept]),
            labels=np.asarray(self.labels[is_stated]),
            names=self.names,
        )


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity as people see it; `type` is "" if it has none."""

    key: str
    name: str
    type: str
    description: str


@dataclass(frozen=True)
class LexicalIndex:
    """Postings of one analyser, compressed by term; terms ascending, passages ascending inside a term."""

    terms: Mapping[str, int]  # Term number by term.
    indptr: NDArray[np.int64]  # Shape (n_terms + 1,), int64.
    passages: NDArray[np.int32]  # Shape (nnz,), int32: passage numbers.
    tf: NDArray[np.int32]  # Shape (nnz,), int32: occurrences.
    lengths: NDArray[np.int32]  # Shape (n_passages,), int32: tokens per passage.
    language: str = "en"  # `corpus.language` of the texts, in which questions are taken apart too.

    def restricted(self, allowed: Numbers) -> "LexicalIndex":
        """Postings of the allowed passages; terms that only other passages have are dropped."""
        passages = new_numbers(allowed, len(self.lengths))[self.passages]
        is_kept = passages >= 0
        owners = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))[is_kept]
        per_term = np.bincount(owners, minlength=len(self.indptr) - 1)
        return LexicalIndex(
            terms=Positions([term for term, count in zip(self.terms, per_term.tolist(), strict=True) if count]),
            indptr=row_starts(per_term[per_term > 0]),
            passages=passages[is_kept].astype(np.int32),
            tf=np.asarray(self.tf[is_kept]),
            lengths=np.asarray(self.lengths[allowed]),
            language=self.language,
        )


# Source: algorithms.md 1.1, 1.5.

SeedScore = Literal["question", "entity", "neo4j"]
Multiplicity = Literal["set", "per_edge"]
Gate = Literal["cosine", "none"]
Dedupe = Literal["after_limit", "before_limit"]
Match = Literal["exact", "alias", "vector"]


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """Parameters of spreading activation; the defaults are the paper's. Source: algorithms.md 1.5."""

    steps: int = 3  # T, at least 0.
    decay: float = 0.7  # alpha, above 0, at most 1.
    threshold: float = 0.01  # tau, at least 0: sources and increments must be above it.
    gate: Gate = "cosine"  # Whether an increment is scaled by the similarity of entity and question.
    edge_multiplicity: Multiplicity = "set"  # Whether a neighbour counts once, or once per relation.
    uniform_requires_embedding: bool = True  # Whether, without a gate, entities without a vector still receive nothing.


@dataclass(frozen=True, slots=True)
class ChainRule:
    """Parameters of chain selection; the defaults are the paper's. Source: algorithms.md 1.5 step 5."""

    limit: int = 30  # K_c, at least 1.
    max_length: int = 4  # L_max, relations in a chain, at least 1.
    dedupe: Dedupe = "after_limit"  # Whether duplicates go after the cut at `limit` or before it.
    max_paths: int = 200_000  # Chains looked at, at most.


@dataclass(frozen=True, slots=True)
class SeedRule:
    """Parameters for turning names into seeds; the defaults are the paper's. Source: algorithms.md 1.5 step 2."""

    vector_budget: int = 5
    score: SeedScore = "question"


@dataclass(frozen=True, slots=True)
class SeedName:
    """A name of a question, looked up."""

    name: str  # As in the question, normalised.
    match: Match  # How `entities` were found; "vector" if there are none, so that `vector` is searched by.
    entities: tuple[int, ...] = ()  # Entities of that name, ascending.
    vector: NDArray[np.float32] | None = None  # Shape (d,): of its search hint; needed for "vector" only.


@dataclass(frozen=True, slots=True)
class SpreadQuestion:
    """A question as an engine gets it: its vector (shape (d,)) and its distinct names."""

    vector: NDArray[np.float32]
    names: tuple[SeedName, ...]
    passage_vector: NDArray[np.float32] | None = None  # Its vector among passages, if another encoder has it.


@dataclass(frozen=True, slots=True)
class ActivationSeed:
    """Start of activation: `score` of the match, `activation` its share of the largest score."""

    entity: int
    score: float
    activation: float
    match: Match


@dataclass(frozen=True, slots=True)
class Hop:
    """Labels of the relations between two neighbours of a chain, in its direction and against it, ascending."""

    forward: tuple[str, ...]
    backward: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """A simple path of activated entities that starts at a seed; its score is their mean activation."""

    entities: tuple[int, ...]
    score: float
    hops: tuple[Hop, ...] = ()


@dataclass(frozen=True, slots=True)
class Activation:
    """Result of spreading activation."""

    seeds: tuple[ActivationSeed, ...]  # By descending activation, then number; empty without a match.
    entities: NDArray[np.intp]  # Shape (m,): all entities with activation above 0, ascending.
    values: NDArray[np.float64]  # Shape (m,), float64: their activation, not bounded by 1.
    chains: Sequence[Chain] = ()  # In descending order of score, without duplicates.
    is_cut: bool = False  # Whether the search for chains stopped at its limit, so that better ones may exist.
    seconds: Mapping[str, float] = field(default_factory=dict)  # By part: "seed", "traversal".
    # Passage numbers with activation above 0, ascending, and their activation; None where passages are no nodes.
    passages: tuple[NDArray[np.intp], NDArray[np.float64]] | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision that a name is another entity's, with its reason: one row of the table `aliases`."""

    key: str  # Key of the name decided on.
    kind: str  # "er", "manual" for link pairs, or "identity" for one of several bearers of a name.
    scope: str  # Type within which it holds, key of the bearer of a shared name, or "".
    canonical: str | None  # Key of the entity meant; None if it leads nowhere.
    reason: str  # One sentence or several, joined by semicolons.
    is_ambiguous: bool = False  # Several entities could be meant.
