"""Hubs and their paths (pure): FindHubRoots, FindPathsInHub, level by level, texts, coverage, and what strategies open.

Source: algorithms.md 4.7; the split of long paths 4.3.
"""

import json
import re
from array import array
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from hashlib import sha256
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.graph import NamedTriple, gathered, new_numbers
from polyhop.schemas.hubs import END_KINDS, HUB, LEAF, LIMIT, REVISIT, HubGraph, HubPaths, HubRows, Numbers
from polyhop.schemas.ports import Artefact, RestrictedIndex, Stored
from polyhop.schemas.propositions import StoredTexts
from polyhop.schemas.query import RankedTriple
from polyhop.schemas.settings import HubMode

TYPES, EDGES, SPLIT = 1, 2, 4  # flags: a node may be a hub by several rules
DEFINITIONS = {TYPES: "types", EDGES: "edges", TYPES | EDGES: "types and edges", SPLIT: "split"}
"""Why a node is a hub, by the rules that it meets."""


def splits(entry: str) -> list[tuple[str, str]]:
    """The (predicate, label) that an entry of hubs.types may mean: both may contain `=` themselves."""
    return [(entry[:at], entry[at + 1 :]) for at, sign in enumerate(entry) if sign == "="]


def neighbours_of(graph: HubGraph, predicate: int, labelled: Sequence[int]) -> NDArray[np.int64]:
    """Nodes with a triple of this predicate to or from one of these nodes, ascending."""
    of_predicate = graph.predicates == predicate
    out = graph.subjects[of_predicate & np.isin(graph.objects, labelled)]
    entered = graph.objects[of_predicate & np.isin(graph.subjects, labelled)]
    return np.union1d(out, entered).astype(np.int64)


def hub_rules(graph: HubGraph, typed: Sequence[int], mode: HubMode, min_edges: int) -> NDArray[np.uint8]:
    """Shape (n,): the rules by which each node is a hub, as a sum of TYPES and EDGES; 0: it is none."""
    edges = np.diff(graph.out_starts) + np.diff(graph.in_starts) >= min_edges
    by_type = np.zeros(graph.node_count, dtype=np.bool_)
    by_type[np.asarray(typed, dtype=np.int64)] = True
    is_hub = {"types": by_type, "edges": edges, "both": by_type & edges, "either": by_type | edges}[mode]
    counted = {"types": TYPES, "edges": EDGES, "both": TYPES | EDGES, "either": TYPES | EDGES}[mode]
    rules = (by_type * np.uint8(TYPES) + edges * np.uint8(EDGES)).astype(np.uint8) & np.uint8(counted)
    rules[~is_hub | graph.is_literal] = 0
    return rules


class Adjacency:
    """Triples by subject; numbers are those of the graph."""

    def __init__(self, graph: HubGraph) -> None:
        self.subjects = view_of(graph.subjects)
        self.objects = view_of(graph.objects)
        self._out_starts = view_of(graph.out_starts)

    def outgoing(self, node: int) -> range:
        """Triples that leave a node, in order of (predicate, object)."""
        return range(self._out_starts[node], self._out_starts[node + 1])


def view_of(numbers: NDArray[Any]) -> "memoryview[int]":
    """Items of a view are Python's own integers, several times faster to get than NumPy's."""
    return memoryview(np.ascontiguousarray(numbers).data)


# FindHubRoots over whole arrays, layer by layer, for index runs and for questions. The published search goes through a
# queue that is first in, first out: of equal nodes of a layer it visits the first, as this one does. Source:
# algorithms.md 4.4.

Indices = NDArray[np.int64]
_START = -1  # no step: numbers of triples begin at 0, candidates are -2 and below


@dataclass(frozen=True, slots=True)
class Layer:
    """Nodes that a search reaches, in that order, shape (n,) each: whether it goes against edges, how it came.

    `parents` are the offsets of the nodes before, -1 for the topic; `steps` the triples that lead there, -2 - c if the
    stored path to candidate c does, -1 for the topic.
    """

    nodes: Indices
    is_left: NDArray[np.bool_]
    parents: Indices
    steps: Indices

    def only(self, kept: NDArray[np.intp] | NDArray[np.bool_]) -> "Layer":
        """Some of them."""
        return Layer(self.nodes[kept], self.is_left[kept], self.parents[kept], self.steps[kept])


def layer_at(nodes: Sequence[int], *, both_ways: bool) -> Layer:
    """First layer of a search: these nodes, along edges, and before that against them if it goes both ways."""
    ways = [True, False] if both_ways else [False]
    starts = np.full(len(nodes) * len(ways), _START, dtype=np.int64)
    repeated = np.repeat(np.asarray(nodes, dtype=np.int64), len(ways))
    return Layer(repeated, np.tile(np.array(ways, dtype=np.bool_), len(nodes)), starts, starts)


class RootWalk:
    """A search over several levels; what was visited or found at an earlier level is not visited or found again."""

    def __init__(self, graph: HubGraph, is_hub: NDArray[np.bool_]) -> None:
        """A search that has not begun; `is_hub` says per node whether it is a hub, and may change between levels."""
        self._graph = graph
        self._is_hub = is_hub
        self._visited = np.zeros(2 * graph.node_count, dtype=np.bool_)
        self._found = np.zeros(graph.node_count, dtype=np.bool_)
        self._first = np.empty(2 * graph.node_count, dtype=np.int64)  # written for some keys before it is read for them
        self._layers: list[Layer] = []
        self._starts: list[int] = []
        self._count = 0

    def level(self, starts: Layer, *, until_hub: bool = True) -> tuple[Indices, Indices, Layer]:
        """One level of the search: nodes of the hubs found, their offsets, and the first layer of the next level.

        That layer is without the hubs' candidates, and nothing if `until_hub`.
        """
        nodes, offsets = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        layer = starts
        while len(layer.nodes):
            # The first of each node and direction that was not visited before; marks them.
            keys = 2 * layer.nodes + layer.is_left
            first = self._first_of(np.where(self._visited[keys], -1, keys))
            self._visited[keys[first]] = True
            layer = layer.only(first)
            # Offsets of a layer are kept for the way back.
            self._layers.append(layer)
            self._starts.append(self._count)
            self._count += len(layer.nodes)
            own = np.arange(self._starts[-1], self._count)
            is_hub = self._is_hub[layer.nodes]
            fresh = self._first_of(np.where(is_hub & ~self._found[layer.nodes], layer.nodes, -1))
            self._found[layer.nodes[fresh]] = True
            nodes.append(layer.nodes[fresh])
            offsets.append(own[fresh])
            goes_on = ~is_hub | layer.is_left
            layer = self._neighbours(layer.only(goes_on), own[goes_on])
            if not until_hub:
                break
        return np.concatenate(nodes), np.concatenate(offsets), layer

    def triples_to(self, offset: int, paths: HubPaths | None = None) -> tuple[int, ...]:
        """Triples from the topic to an offset, in the order walked; of `paths`, if their candidates were starts."""
        steps: list[int] = []
        while offset != _START:
            number = bisect_right(self._starts, offset) - 1
            layer, at = self._layers[number], offset - self._starts[number]
            steps.append(int(layer.steps[at]))
            offset = int(layer.parents[at])
        triples: list[int] = []
        for step in reversed(steps):
            if step >= 0:
                triples.append(step)
            elif step != _START and paths is not None:
                start, end = paths.candidate_triple_starts[-2 - step : -step]
                triples += paths.candidate_triples[start:end].tolist()
        return tuple(triples)

    def _first_of(self, keys: Indices) -> NDArray[np.intp]:
        """Ascending indices of the first of each key; those below 0 are left out. Cost: O(keys)."""
        known = np.flatnonzero(keys >= 0)
        keys = keys[known]
        self._first[keys[::-1]] = known[::-1]  # of equal keys the last assignment holds
        first: NDArray[np.intp] = known[self._first[keys] == known]
        return first

    def _neighbours(self, layer: Layer, offsets: Indices) -> Layer:
        """Nodes that one step reaches, node by node; those of a node by (predicate, neighbour)."""
        graph, left = self._graph, layer.is_left
        starts = np.where(left, graph.in_starts[layer.nodes], graph.out_starts[layer.nodes])
        ends = np.where(left, graph.in_starts[layer.nodes + 1], graph.out_starts[layer.nodes + 1])
        numbers, counts = _runs(starts, ends)
        is_left = np.repeat(left, counts)
        triples = numbers.copy()
        triples[is_left] = graph.in_triples[numbers[is_left]]
        nodes = np.where(is_left, graph.subjects[triples], graph.objects[triples]).astype(np.int64)
        return Layer(nodes, is_left, np.repeat(offsets, counts), triples)


def candidate_layer(paths: HubPaths, hubs: Numbers, offsets: Indices) -> Layer:
    """First layer of the next level: candidates stored with hubs found at these offsets, in their order."""
    numbers, counts = _runs(paths.candidate_starts[hubs], paths.candidate_starts[hubs + 1])
    nodes = paths.candidates[numbers].astype(np.int64)
    return Layer(nodes, np.zeros(len(nodes), dtype=np.bool_), np.repeat(offsets, counts), -2 - numbers)


def joined(first: Layer, second: Layer) -> Layer:
    """One after the other."""
    return Layer(*(np.concatenate([getattr(one, part.name) for one in (first, second)]) for part in fields(Layer)))


def _runs(starts: Numbers, ends: Numbers) -> tuple[Indices, Indices]:
    """The numbers of several runs one after the other, and how many each has."""
    counts = (ends - starts).astype(np.int64)
    before = np.cumsum(counts) - counts
    return np.arange(counts.sum()) + np.repeat(starts - before, counts), counts


# Source: algorithms.md 4.5, with its corrections.

Path = tuple[int, ...]  # triple numbers, from the hub on


@dataclass(slots=True)
class PathsOfHub:
    """Paths of a hub, all different, in emission order, and how each ends, a number in END_KINDS.

    `candidates` has by node HUB or LIMIT and the path that reached it first; `left_out` counts paths beyond
    `max_paths`.
    """

    paths: list[Path] = field(default_factory=list)
    end_kinds: list[int] = field(default_factory=list)
    candidates: dict[int, tuple[int, Path]] = field(default_factory=dict)
    left_out: int = 0

    def add(self, graph: Adjacency, path: Path, kind: int, max_paths: int) -> None:
        """Takes a path that is not among them; beyond `max_paths` (0: no limit) it is counted, its candidate kept."""
        if max_paths and len(self.paths) >= max_paths:
            self.left_out += 1
        else:
            self.paths.append(path)
            self.end_kinds.append(kind)
        if kind in (HUB, LIMIT):
            self.candidates.setdefault(graph.objects[path[-1]], (kind, path))


def find_paths_in_hub(
    graph: Adjacency, is_hub: Sequence[int], hub: int, max_length: int, max_paths: int = 0
) -> PathsOfHub:
    """The paths of one hub, and where search goes on from them."""
    found = PathsOfHub()
    seen: set[Path] = set()
    expanded: set[int] = set()
    waiting: deque[tuple[int, Path]] = deque([(hub, ())])
    while waiting:
        node, path = waiting.popleft()
        edges = [triple for triple in graph.outgoing(node) if graph.objects[triple] != hub]
        if node in expanded:
            ended = [(path, REVISIT)]
        elif 0 < max_length <= len(path):
            ended = [(path, LIMIT if edges else LEAF)]
        else:
            expanded.add(node)
            ended, further = _expanded(graph, is_hub, path, edges)
            waiting.extend(further)
            ended += [(path, LEAF)] if path and not edges else []
        for ending, kind in ended:
            if ending not in seen:
                seen.add(ending)
                found.add(graph, ending, kind, max_paths)
    return found


def _expanded(
    graph: Adjacency, is_hub: Sequence[int], path: Path, edges: Sequence[int]
) -> tuple[list[tuple[Path, int]], list[tuple[int, Path]]]:
    """Paths that one step over these edges ends, with its kind, and paths that go on."""
    ended: list[tuple[Path, int]] = []
    further: list[tuple[int, Path]] = []
    passed = {graph.subjects[triple] for triple in path}
    for triple in edges:
        target, longer = graph.objects[triple], (*path, triple)
        if is_hub[target]:
            ended.append((longer, HUB))
        elif target in passed or target == graph.subjects[triple]:
            ended.append((longer, REVISIT))
        else:
            further.append((target, longer))
    return ended, further


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """Limits of the search for hubs and paths; the fields are settings of the section `hubs`, 0 is no limit."""

    split: bool = False
    max_path_length: int = 10
    max_paths_per_hub: int = 1000


@dataclass(frozen=True, slots=True)
class FoundHub:
    """A hub and its paths as in PathsOfHub, but flat: triples one after the other, and how many each path has."""

    level: int
    lengths: "array[int]"
    triples: "array[int]"
    end_kinds: bytes
    candidates: "array[int]"
    candidate_kinds: bytes
    candidate_lengths: "array[int]"
    candidate_triples: "array[int]"
    left_out: int

    @classmethod
    def of(cls, level: int, found: PathsOfHub) -> "FoundHub":
        """From the paths of a hub."""
        ways = [path for _, path in found.candidates.values()]
        return cls(
            level,
            array("i", map(len, found.paths)),
            array("i", (triple for path in found.paths for triple in path)),
            bytes(found.end_kinds),
            array("i", found.candidates),
            bytes(kind for kind, _ in found.candidates.values()),
            array("i", map(len, ways)),
            array("i", (triple for path in ways for triple in path)),
            found.left_out,
        )


@dataclass(slots=True)
class HubSearch:
    """Rule by which each node is a hub, shape (n,), splits included; and the hubs by node, in order of discovery."""

    rules: NDArray[np.uint8]
    hubs: dict[int, FoundHub] = field(default_factory=dict)

    @property
    def left_out(self) -> int:
        """Paths beyond the limit, of all hubs."""
        return sum(hub.left_out for hub in self.hubs.values())

    @property
    def unreached(self) -> Numbers:
        """Nodes that are hubs and that the search did not find, ascending."""
        return np.setdiff1d(np.flatnonzero(self.rules), list(self.hubs)).astype(np.int32)


def search_hubs(
    graph: HubGraph, rules: NDArray[np.uint8], starts: Sequence[int] | None, limits: SearchLimits
) -> HubSearch:
    """Finds hubs and their paths.

    `rules`, shape (n,), say why each node is a hub, 0 if it is none. From `starts` hubs are searched in both
    directions; None: all hubs, in order.
    Cost: O(edges) for hubs, and for each of them O(edges of its region * path length).
    """
    found, adjacent = HubSearch(rules.copy()), Adjacency(graph)
    is_hub = rules > 0
    search, level, is_hub_view = RootWalk(graph, is_hub), 0, view_of(is_hub)
    # If all hubs are starts, none is left to be found against the direction of edges.
    roots = layer_at(np.flatnonzero(rules).tolist() if starts is None else starts, both_ways=starts is not None)
    while len(roots.nodes):  # until nothing new is found, and each level up to the next hub, as in the published runs
        nodes, _, _ = search.level(roots)
        candidates: dict[int, int] = {}
        for hub in nodes.tolist():
            paths = find_paths_in_hub(adjacent, is_hub_view, hub, limits.max_path_length, limits.max_paths_per_hub)
            found.hubs[hub] = FoundHub.of(level, paths)
            candidates |= {node: kind for node, (kind, _) in paths.candidates.items()}
        if limits.split:
            split = [node for node, kind in candidates.items() if kind == LIMIT and not graph.is_literal[node]]
            is_hub[split], found.rules[split] = True, SPLIT
        roots = layer_at(list(candidates), both_ways=False)
        level += 1
    return found


# Source: algorithms.md 4.3, coverage report.

ALL = "(all)"
Row = tuple[str, str, int, int, float | None]
"""What, part, covered, uncovered, share: a row of the table `hub_coverage`."""


@dataclass(frozen=True, slots=True)
class Covered:
    """Masks of nodes and triples in any path: shapes (n,) and (t,), bool."""

    nodes: NDArray[np.bool_]
    triples: NDArray[np.bool_]

    @classmethod
    def by(cls, path_triples: NDArray[np.generic], graph: HubGraph) -> "Covered":
        """Nodes and triples that these triples cover, of any paths."""
        triples = np.zeros(len(graph.subjects), dtype=np.bool_)
        triples[path_triples] = True
        nodes = np.zeros(graph.node_count, dtype=np.bool_)
        nodes[graph.subjects[triples]] = True
        nodes[graph.objects[triples]] = True
        return cls(nodes, triples)

    def rows(self) -> Iterator[Row]:
        """All nodes, all triples."""
        for what, mask in (("nodes", self.nodes), ("triples", self.triples)):
            covered = int(mask.sum())
            yield row(what, ALL, covered, len(mask) - covered)


def path_rows(arrays: Mapping[str, NDArray[np.generic]], left_out: int, unreached: int) -> Iterator[Row]:
    """Hubs and paths in numbers."""
    per_hub, lengths = np.diff(arrays["path-starts"]), np.diff(arrays["triple-starts"])
    with_paths = int((per_hub > 0).sum())
    yield row("hubs", ALL, with_paths, len(per_hub) - with_paths + unreached)
    yield row("paths", ALL, len(lengths), left_out)
    yield from _histogram("hubs with paths", per_hub)
    yield from _histogram("paths of length", lengths)
    ends = np.bincount(arrays["end-kinds"].astype(np.int64), minlength=len(END_KINDS))
    yield from (row("paths that end in", kind, int(ends[number]), 0) for number, kind in enumerate(END_KINDS))


def row(what: str, part: str, covered: int, uncovered: int) -> Row:
    """A row with its share."""
    total = covered + uncovered
    return what, part, covered, uncovered, covered / total if total else None


def _histogram(what: str, values: NDArray[np.generic]) -> Iterator[Row]:
    found, counts = np.unique(values, return_counts=True)
    return (row(what, str(value), count, 0) for value, count in zip(found.tolist(), counts.tolist(), strict=True))


# Source: algorithms.md 0.8 F-PATH, 4.2; G-HUB-5.

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATORS = re.compile(r"[_\-\s]+")


@cache
def humanised(predicate: str) -> str:
    """A predicate in words: `http://x.org/hasVenue` is `has venue`."""
    local = re.split(r"[#/]", predicate.rstrip("#/"))[-1] if "://" in predicate else predicate
    return _SEPARATORS.sub(" ", _CAMEL.sub(" ", local)).strip().lower()


def path_text(triples: Iterable[NamedTriple]) -> str:
    """The path as one sentence, its triples joined by `; `: `Paper One author Jane Doe; Jane Doe affiliation …`."""
    texts = []
    for triple in triples:
        value = "" if triple.object_words.startswith(("http://", "https://")) else triple.object_words
        texts.append(" ".join(filter(None, (triple.subject_words, humanised(triple.predicate), value))))
    return "; ".join(texts) + "."


def path_json(triples: Sequence[NamedTriple]) -> str:
    """The path as compact JSON: a list for each triple."""
    return json.dumps(list(map(list, triples)), ensure_ascii=False, separators=(",", ":"))


def path_hash(triples: Sequence[NamedTriple]) -> bytes:
    """sha256 over all ids, labels and predicates: a path with another of them is another path."""
    return sha256(path_json(triples).encode("utf-8", "surrogatepass")).digest()


# Source: algorithms.md 4B, "Units".

Signature = tuple[str, ...]  # predicates of a path, from the hub on

MAX_SHARE = 0.3
"""Of the distinct signatures that may have a predicate; a more common one distinguishes no signature."""
MIN_SIGNATURES = 10  # distinct signatures from which on frequent predicates are left out


def signature_texts(signatures: Collection[Signature]) -> Mapping[Signature, str]:
    """The text of each distinct signature: its humanised predicates but the frequent ones, and its last one."""
    uses = Counter(predicate for signature in signatures for predicate in set(signature))
    limit = MAX_SHARE * len(signatures) if len(signatures) >= MIN_SIGNATURES else len(signatures)
    texts = {}
    for signature in signatures:
        kept = [predicate for predicate in signature[:-1] if uses[predicate] <= limit]
        texts[signature] = " ".join(map(humanised, (*kept, signature[-1])))
    return texts


def path_arrays(search: HubSearch) -> dict[str, NDArray[np.generic]]:
    """The arrays of `HubPaths` under their names, but for hashes and texts; hubs ascending."""
    hubs = sorted(search.hubs)
    found = [search.hubs[hub] for hub in hubs]

    def numbers(part: Callable[[FoundHub], Sequence[int]]) -> NDArray[np.int32]:
        return np.fromiter(chain.from_iterable(map(part, found)), dtype=np.int32)

    def kinds(part: Callable[[FoundHub], bytes]) -> NDArray[np.uint8]:
        return np.frombuffer(b"".join(map(part, found)), dtype=np.uint8)

    return {
        "hubs": np.array(hubs, dtype=np.int32),
        "path-starts": _starts(len(hub.end_kinds) for hub in found),
        "triple-starts": _starts(numbers(lambda hub: hub.lengths)),
        "path-triples": numbers(lambda hub: hub.triples),
        "end-kinds": kinds(lambda hub: hub.end_kinds),
        "candidate-starts": _starts(len(hub.candidates) for hub in found),
        "candidates": numbers(lambda hub: hub.candidates),
        "candidate-kinds": kinds(lambda hub: hub.candidate_kinds),
        "candidate-triple-starts": _starts(numbers(lambda hub: hub.candidate_lengths)),
        "candidate-triples": numbers(lambda hub: hub.candidate_triples),
    }


def _starts(lengths: Iterable[int]) -> NDArray[np.int64]:
    """Offsets of runs of these lengths, and the end of the last one."""
    return np.concatenate(([0], np.cumsum(np.fromiter(lengths, dtype=np.int64)))).astype(np.int64)


class NamedGraph:
    """A graph with the own ids and labels of its nodes and the text of its predicates."""

    def __init__(
        self, graph: HubGraph, own_ids: Sequence[str], labels: Sequence[str], predicates: Sequence[str]
    ) -> None:
        self.graph = graph
        self.own_ids = own_ids
        self.labels = labels
        self.predicates = predicates
        self._columns = [view_of(each) for each in (graph.subjects, graph.predicates, graph.objects)]

    def path(self, triples: Iterable[int]) -> list[NamedTriple]:
        """Triples by number, in words."""
        ids, labels, predicates = self.own_ids, self.labels, self.predicates
        subjects, relations, objects = self._columns
        ends = ((subjects[triple], predicates[relations[triple]], objects[triple]) for triple in triples)
        return [NamedTriple(ids[a], labels[a], predicate, ids[b], labels[b]) for a, predicate, b in ends]

    def paths(self, starts: Numbers, triples: Numbers) -> Iterator[list[NamedTriple]]:
        """Each of several paths: where each begins, shape (p + 1,), and the triple numbers of all."""
        numbers = view_of(triples)
        for first, end in pairwise(starts.tolist()):
            yield self.path(numbers[first:end])


# How hubs are opened for strategies, and what is left of them where only some passages count. A hub's id, like that of
# every node here, is the one that the graph gave it. Source: decisions/0027-filters-of-questions.md.


def triples_left(stated: NDArray[np.int64], count: int, is_allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Numbers of the triples that an allowed passage states, and of those that no passage does; ascending.

    `stated` has shape (e, 2): pairs of a triple and a passage.
    """
    is_left = np.ones(count, dtype=np.bool_)
    is_left[stated[:, 0]] = False
    is_left[stated[is_allowed[stated[:, 1]], 0]] = True
    return np.flatnonzero(is_left).astype(np.int64)


def passages_left(
    pairs: NDArray[np.int64], things: NDArray[np.int64], passages: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Shape (e, 2): the pairs of a thing and a passage by their new numbers, without pairs with a removed one."""
    moved = np.stack((things[pairs[:, 0]], passages[pairs[:, 1]]), axis=1)
    return moved[(moved >= 0).all(axis=1)]


def paths_left(paths: HubPaths, triples: NDArray[np.int64]) -> tuple[HubPaths, NDArray[np.int64]]:
    """The paths and candidates whose triples are all left (new number -1: gone), and the old numbers of these paths."""
    kept, starts, steps = _whole(paths.triple_starts, triples[paths.path_triples])
    on, on_starts, on_steps = _whole(paths.candidate_triple_starts, triples[paths.candidate_triples])
    left = replace(
        paths,
        path_starts=np.searchsorted(kept, paths.path_starts),
        triple_starts=starts,
        path_triples=steps,
        end_kinds=paths.end_kinds[kept],
        hashes=paths.hashes[kept],
        path_texts=paths.path_texts[kept],
        candidate_starts=np.searchsorted(on, paths.candidate_starts),
        candidates=paths.candidates[on],
        candidate_kinds=paths.candidate_kinds[on],
        candidate_triple_starts=on_starts,
        candidate_triples=on_steps,
    )
    return left, kept


def _whole(starts: Numbers, moved: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], Numbers]:
    """Rows without removed entries: their numbers, new starts, and entries."""
    gone = np.concatenate(([0], np.cumsum(moved < 0)))
    kept = np.flatnonzero(gone[starts[1:]] == gone[starts[:-1]]).astype(np.int64)
    new, offsets = gathered(np.asarray(starts, dtype=np.int64), kept)
    return kept, new, moved[offsets].astype(np.int32)


def rows_left(rows: HubRows, paths: NDArray[np.int64], triples: NDArray[np.int64]) -> HubRows:
    """The rows of paths that are left, by new numbers (-1: gone); all triples of these are left, too."""
    moved = paths[rows.row_paths]
    kept = np.flatnonzero(moved >= 0)
    stated = np.asarray(rows.row_triples)[kept]
    return HubRows(
        row_paths=moved[kept].astype(np.int32),
        row_texts=rows.row_texts[kept],
        row_levels=rows.row_levels[kept],
        row_triples=np.where(stated < 0, -1, triples[np.maximum(stated, 0)] if len(triples) else -1).astype(np.int32),
    )


@dataclass(frozen=True, slots=True)
class StoredHubs:
    """The graph, its hubs and their paths, and all names; numbers as in polyhop.schemas.hubs."""

    graph: HubGraph
    paths: HubPaths
    rows: HubRows  # What `hublink` compares with a question.
    path_texts: StoredTexts
    # Shape (p,), int32: number of each path's text for `hub-facets` (signature and value; algorithms.md 4B) among the
    # distinct ones, which is the row of their vectors.
    values: Numbers
    own_ids: StoredTexts
    labels: StoredTexts
    predicates: tuple[str, ...]
    relation_ids: StoredTexts  # Of the triples: rows of the table `relations`.
    # Names of the types that hubs were chosen by, or that they have: their words tell no hub from others.
    hub_types: tuple[str, ...]
    # Shape (e, 2), int64: pairs of a triple and the number of a passage that states it.
    triple_passages: NDArray[np.int64]
    # Shape (e, 2), int64: pairs of a hub number and the number of a passage that is about the hub or mentions it, or
    # was attached to it.
    hub_passages: NDArray[np.int64]
    # Nodes that are hubs by the settings but were not found from `hubs.start`, ascending: they have no paths here.
    unreached: Numbers = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    def ranked_triple(self, triple: int, rank: int, score: float) -> RankedTriple:
        """A triple as results show it."""
        graph = self.graph
        ends = [int(graph.subjects[triple]), int(graph.objects[triple])]
        (subject_id, object_id), (subject, value) = self.own_ids.of(ends), self.labels.of(ends)
        predicate = self.predicates[int(graph.predicates[triple])]
        (relation_id,) = self.relation_ids.of([triple])
        return RankedTriple(relation_id, subject_id, subject, predicate, object_id, value, rank, score)


def _open(stored: Stored) -> StoredHubs:
    def texts(name: str) -> StoredTexts:
        return StoredTexts(stored.array("hub-paths", f"{name}-starts"), stored.array("hub-paths", f"{name}-texts"))

    def all_texts(name: str) -> tuple[str, ...]:
        found = texts(name)
        return tuple(found.of(range(len(found.starts) - 1)))

    def path_array(name: str) -> NDArray[Any]:  # which texts paths have was found by another stage than the rest
        return stored.array("hubs" if name == "path-texts" else "hub-paths", name)

    return StoredHubs(
        HubGraph.of(partial(stored.array, "hub-paths")),
        HubPaths.of(path_array),
        HubRows.of(partial(stored.array, "hubs")),
        StoredTexts(stored.array("hubs", "text-starts"), stored.array("hubs", "texts")),
        stored.array("hubs", "values"),
        own_ids=texts("own-ids"),
        labels=texts("labels"),
        relation_ids=texts("relation-ids"),
        predicates=all_texts("predicates"),
        hub_types=all_texts("hub-types"),
        triple_passages=stored.array("hub-paths", "triple-passages"),
        hub_passages=stored.array("hub-paths", "hub-passages"),
        unreached=stored.array("hub-paths", "unreached"),
    )


def _left(stored: StoredHubs, index: RestrictedIndex) -> StoredHubs:
    """Triples that allowed passages state, or none does; paths of such triples; hubs and nodes keep their numbers."""
    graph = stored.graph
    kept = triples_left(stored.triple_passages, len(graph.subjects), index.is_allowed)
    moved = new_numbers(kept, len(graph.subjects))
    passages = new_numbers(index.allowed, len(index.is_allowed))
    paths, kept_paths = paths_left(stored.paths, moved)
    return replace(
        stored,
        graph=HubGraph.from_triples(
            graph.subjects[kept], graph.predicates[kept], graph.objects[kept], np.asarray(graph.is_literal)
        ),
        paths=paths,
        rows=rows_left(stored.rows, new_numbers(kept_paths, stored.paths.path_count), moved),
        values=stored.values[kept_paths],
        relation_ids=stored.relation_ids.restricted(kept),
        triple_passages=passages_left(stored.triple_passages, moved, passages),
        hub_passages=passages_left(stored.hub_passages, np.arange(len(stored.paths.hubs)), passages),
    )


STORED_HUBS = Artefact("hubs", _open, strategy="hub-facets", restrict=_left)
"""The hubs of a version: graph, paths, and the texts that questions are compared with."""
