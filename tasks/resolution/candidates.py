"""Which names may be one entity: candidates, clusters of a bearable size, verdicts, and what a model says of a cluster.

Tokens are those of the folded name, because entities are keyed by it (docs/decisions/0002). A model's groups are
checked before anything is merged; a call that failed merges nothing. Source: algorithms.md 1.4, steps 1 to 3 and 6.
"""

import json
import string
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from heapq import heapify, heappop, heappush
from itertools import pairwise, permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import BaseModel
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from polyhop.schemas.chat import ChatOutcome, ChatRequest, ChatTask, Usage
from polyhop.schemas.text import fold, norm_ws
from polyhop.warehouse.statements import read_prompt

Pair = tuple[int, int]  # numbers of two names; the tokens of the first are among those of the second

COMPANY_WORDS = frozenset(("inc", "ltd", "llc", "corp", "co", "company", "plc", "gmbh"))
"""Words that a company's full name adds."""
FORM_WORDS = COMPANY_WORDS | frozenset(("the", "mr", "mrs", "ms", "dr", "sir", "dame", "jr", "sr"))
"""Words that make a name more formal and nothing else of it, whatever type was guessed without them."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name before resolution: distinct key, most frequent spelling, type if any is known, mentions in all passages.

    Only a model reads `descriptions`. A type that `is_guess` is less than nearly certain: then it separates nothing.
    `form` is the folded name, lower case, whitespace collapsed. A million of them are in memory at once.
    """

    key: str
    name: str
    type: str | None = None
    mention_count: int = 1
    descriptions: tuple[str, ...] = field(default=(), compare=False)
    is_guess: bool = False
    form: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        form = norm_ws(fold(self.name))
        object.__setattr__(self, "form", self.key if form == self.key else form)  # one text where they are equal

    @property
    def tokens(self) -> frozenset[str]:
        """Words of the name without punctuation around them. Source: algorithms.md 1.4, step 1."""
        return _tokens(self.form)


@lru_cache(1 << 16)  # chosen: names that are compared with each other are looked at one after the other
def _tokens(form: str) -> frozenset[str]:
    return frozenset({word.strip(string.punctuation) for word in form.split()} - {""})


@dataclass(frozen=True, slots=True)
class Candidates:
    """Pairs of names that may be one, and how many comparisons finding them took."""

    pairs: list[Pair]
    comparisons: int


_COMPARED_AT_ONCE = 1 << 20  # pairs of names; chosen: some arrays of 8 MB


def candidate_pairs(names: Sequence[Name]) -> Candidates:
    """All pairs (a, b) of positions of names of one type where b has every word of a, one at least; in order.

    Names with equal words give both (a, b) and (b, a).
    Source: algorithms.md 1.4, steps 2 and 3.
    Cost: O(sum over names of the names that share their rarest word), without a loop over names.
    """
    # Words of the names that have a type: those of `Name.tokens`.
    chosen = [number for number, name in enumerate(names) if name.type is not None]
    written = pc.split_pattern(pa.array([names[number].form for number in chosen], pa.string()), " ")
    words_as_written = written.flatten().dictionary_encode()
    # The number of each word without its punctuation, -1 for punctuation alone; and the words' count, at least 1.
    bare = [word.strip(string.punctuation) for word in words_as_written.dictionary.to_pylist()]
    number_of = {word: number for number, word in enumerate(sorted({*bare} - {""}))}
    numbers_as_written = np.array([number_of.get(word, -1) for word in bare], dtype=np.int64)
    found = numbers_as_written[words_as_written.indices]
    count = max(1, len(number_of))
    owner = np.repeat(np.array(chosen, dtype=np.int64), written.value_lengths())
    held = _distinct(owner[found >= 0] * count + found[found >= 0])
    owner, found = np.divmod(held, count)
    number_of = {kind: number for number, kind in enumerate(sorted({name.type or "" for name in names}))}
    types = np.array([number_of[name.type or ""] for name in names], dtype=np.int64)
    words = _Words(held, owner, found, types[owner] * count + found, count)
    if not len(words.names):
        return Candidates([], 0)
    _, place, uses = np.unique(words.typed, return_inverse=True, return_counts=True)
    starts = np.flatnonzero(np.diff(words.names, prepend=-1))
    by_rarity = np.lexsort((uses[place], words.names))
    rarest = place[by_rarity[starts]]
    numbers, sizes = words.names[starts], np.diff(starts, append=len(words.names))
    # of every name all names that have its rarest word, itself among them
    posted = words.names[np.argsort(place, kind="stable")]
    firsts, counts = (np.cumsum(uses) - uses)[rarest], uses[rarest]
    rank = np.zeros(len(names), dtype=np.int64)
    rank[numbers] = np.arange(len(numbers))
    bits = np.bitwise_or.reduceat(np.uint64(1) << (words.words % 64).astype(np.uint64), starts)
    parts = []
    for some in np.array_split(np.arange(len(numbers)), 1 + counts.sum() // _COMPARED_AT_ONCE):
        a = np.repeat(some, counts[some])
        within = np.arange(len(a)) - np.repeat(np.cumsum(counts[some]) - counts[some], counts[some])
        b = rank[posted[firsts[a] + within]]
        # most that have not all words go here
        is_left = (a != b) & (sizes[a] <= sizes[b]) & ((bits[a] & ~bits[b]) == 0)
        a, b = a[is_left], b[is_left]
        is_pair = _have_all(words, starts, sizes, a, b)
        parts.append(np.column_stack((numbers[a[is_pair]], numbers[b[is_pair]])))
    pairs = np.concatenate(parts)
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return Candidates(list(zip(*pairs.T.tolist(), strict=True)), int(counts.sum()) - len(numbers))


def pairs_across_types(names: Sequence[Name]) -> list[Pair]:
    """Pairs of names of two types, one of them a guess, that differ in `FORM_WORDS` at most.

    Other names of two types stay apart: `Emma` may be the heroine, and `Emma film` her film. A single word has too many
    bearers to be more than a company's short name (`Acme`, `Acme Ltd`; not `Jones`, `Mr Jones`).
    """
    typed = [number for number, name in enumerate(names) if name.type is not None]
    hashes = np.fromiter((hash(names[number].tokens - FORM_WORDS) for number in typed), np.int64, len(typed))
    _, places, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    same: dict[frozenset[str], list[int]] = defaultdict(list)  # of few: a set for every name takes half a gigabyte
    for place in np.flatnonzero(counts[places] > 1).tolist():
        if core := names[typed[place]].tokens - FORM_WORDS:
            same[core].append(typed[place])
    return sorted(
        (a, b)
        for group in same.values()
        for a, b in permutations(group, 2)
        if names[a].type != names[b].type
        and (names[a].is_guess or names[b].is_guess)
        and names[a].tokens <= names[b].tokens
        and (len(names[a].tokens) > 1 or names[b].tokens - names[a].tokens <= COMPANY_WORDS)
    )


class _Words(NamedTuple):
    """Distinct words of names, in order of name and word: index of the name, number of the word, of type and word.

    `held` is of the name and the word, ascending.
    """

    held: NDArray[np.int64]
    names: NDArray[np.int64]
    words: NDArray[np.int64]
    typed: NDArray[np.int64]
    width: int


def _have_all(
    words: _Words, starts: NDArray[np.int64], sizes: NDArray[np.int64], a: NDArray[np.int64], b: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """For names by rank: whether b has every word of a; both have one, so that a name of one word is done."""
    is_found: NDArray[np.bool_] = sizes[a] == 1
    left = np.flatnonzero(~is_found)
    lengths = sizes[a[left]]
    pair = np.repeat(np.arange(len(left)), lengths)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    wanted = words.names[starts[b[left]]][pair] * words.width + words.words[starts[a[left]][pair] + within]
    place = np.minimum(np.searchsorted(words.held, wanted), len(words.held) - 1)
    missing = np.bincount(pair[words.held[place] != wanted], minlength=len(left))
    is_found[left] = missing == 0
    return is_found


@dataclass(frozen=True, slots=True)
class Verdict:
    """Merges (a, b, reason: a is another form of b) and refusals among candidates, by number of the name.

    Of the refused, several other names would fit the `ambiguous` ones. `descriptions` are those of canonical names that
    the judge chose itself; nothing is merged in clusters that failed for now; `usage` is that of the replies when they
    were made.
    """

    merges: list[tuple[int, int, str]]
    refusals: dict[int, str] = field(default_factory=dict)
    ambiguous: frozenset[int] = frozenset()
    descriptions: Mapping[int, str] = field(default_factory=dict)
    failed_clusters: int = 0
    usage: Usage = field(default_factory=Usage)


Judge = Callable[[Sequence[Name], Sequence[Pair], Sequence[list[int]]], Verdict]
"""Names, candidate pairs inside clusters, and the clusters, to a verdict."""


def quoted_name(key: str) -> str:
    """A name inside a reason; `explain` finds it there again."""
    return f"'{key}'"


# Source: algorithms.md 1.4, steps 4 and 5.


class DisjointSets:
    """Union-find over 0..n-1; the smaller root wins, so that the order of unions does not matter.

    Cost: O(log n) amortised per operation (path halving).
    """

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def find(self, item: int) -> int:
        """Smallest member of the set that holds `item`."""
        parent = self._parent
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    def union(self, a: int, b: int) -> None:
        """Joins two sets."""
        first, second = self.find(a), self.find(b)
        self._parent[max(first, second)] = min(first, second)

    def groups(self, items: Iterable[int]) -> list[list[int]]:
        """The sets that hold `items`, of these only: members ascending, sets by their first member."""
        members: dict[int, list[int]] = defaultdict(list)
        for item in sorted(set(items)):
            members[self.find(item)].append(item)
        return sorted(members.values())


@dataclass(frozen=True, slots=True)
class Clusters:
    """Candidate clusters, and the items that were left out to keep them small, ascending."""

    clusters: list[list[int]]
    left_out: list[int]


def clusters_of(count: int, pairs: Iterable[tuple[int, int]], max_size: int) -> Clusters:
    """Connected components of 0..count-1 with 2 to `max_size` members, in order of their first member.

    From a larger one the member with most candidates is left out, ties by number (smaller numbers are smaller names),
    until every piece is small enough.
    Source: algorithms.md 1.4, steps 4 and 5.
    Cost: O(edges log items).
    """
    edges = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
    too_large = [component for component in _components(count, edges) if len(component) > max_size]
    # Neighbours of the members of these, ascending.
    members = [member for component in too_large for member in component]
    is_member, is_left_out = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    is_member[members] = True
    inside = edges[is_member[edges[:, 0]]]
    ends, others = np.divmod(_distinct(np.concatenate((inside, inside[:, ::-1])) @ (count, 1)), max(1, count))
    listed, bounds = others.tolist(), np.searchsorted(ends, np.arange(count + 1)).tolist()
    neighbours = {member: listed[bounds[member] : bounds[member + 1]] for member in members}
    left_out = sorted(member for component in too_large for member in _dropped(component, neighbours, max_size))
    is_left_out[left_out] = True
    return Clusters(_components(count, edges[~is_left_out[edges].any(axis=1)]), left_out)


def _components(count: int, edges: NDArray[np.int64]) -> list[list[int]]:
    """Connected components of at least two items, members ascending, in order of their first member."""
    ones = np.ones(len(edges), np.int8)
    graph = coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(count, count))
    labels = connected_components(graph, directed=False)[1]
    members = np.flatnonzero(np.bincount(edges.ravel(), minlength=count))
    members = members[np.argsort(labels[members], kind="stable")]
    starts = np.flatnonzero(np.diff(labels[members])) + 1
    found, bounds = members.tolist(), [0, *starts.tolist(), len(members)]
    return sorted(found[start:end] for start, end in pairwise(bounds) if end - start > 1)


def _distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The distinct numbers, ascending: np.unique makes a table of hashes first, and takes several times as long."""
    ordered = np.sort(numbers)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]


def _dropped(component: list[int], neighbours: Mapping[int, list[int]], max_size: int) -> set[int]:
    """Members to leave out of a component that is too large.

    Every piece is peeled by the same rule, and pieces do not touch: so the order in which the whole would be peeled to
    nothing holds inside every piece, and a member is left out if its piece is still too large at its turn. Going
    through that order backwards, pieces only grow.
    """
    number_of = {member: number for number, member in enumerate(component)}
    near, count = [[number_of[other] for other in neighbours[member]] for member in component], len(component)
    # All members, each time the one with most neighbours that are still there, ties by number: one key holds both.
    degree, gone = [len(others) for others in near], -1
    heap = [(count - most) * count + number for number, most in enumerate(degree)]
    heapify(heap)
    order = []
    while heap:
        fewer, number = divmod(heappop(heap), count)
        if degree[number] != count - fewer:
            continue
        order.append(number)
        degree[number] = gone
        for other in near[number]:
            if degree[other] != gone:
                degree[other] -= 1
                heappush(heap, (count - degree[other]) * count + other)
    sets, sizes = DisjointSets(count), [1] * count
    is_present = [False] * count
    dropped = set()
    for number in reversed(order):
        is_present[number], root = True, number
        for other in near[number]:
            if is_present[other] and (another := sets.find(other)) != root:
                size = sizes[root] + sizes[another]
                sets.union(root, another)
                root = min(root, another)
                sizes[root] = size
        if sizes[root] > max_size:
            dropped.add(component[number])
    return dropped


MAX_DESCRIPTIONS = 5  # algorithms.md 1.4, step 6.
DESCRIPTION_CHARACTERS = 120  # algorithms.md 1.4, step 6.


class NameGroup(BaseModel):
    """Names that the model takes for one thing."""

    canonical_name: str
    members: list[str]
    description: str


class NameGroups(BaseModel):
    """The form of a reply to kg.resolve."""

    groups: list[NameGroup]


@cache
def resolve_task() -> ChatTask[NameGroups]:
    """The task kg.resolve with its prompt."""
    prompt = read_prompt(Path(__file__).parent / "prompts" / "kg.resolve.md")
    return ChatTask("kg.resolve", prompt, NameGroups)


def cluster_request(names: Sequence[Name], cluster: Sequence[int]) -> ChatRequest[NameGroups]:
    """The question about one cluster. Source: algorithms.md 1.4, step 6 (input lines)."""

    def short(name: Name) -> list[str]:
        distinct = dict.fromkeys(text[:DESCRIPTION_CHARACTERS] for text in name.descriptions if text)
        return list(distinct)[:MAX_DESCRIPTIONS]

    members = [names[number] for number in cluster]
    lines = [
        json.dumps({"name": member.name, "type": member.type, "descriptions": short(member)}, ensure_ascii=False)
        for member in members
    ]
    unit = f"{members[0].type}:{members[0].key}"
    return ChatRequest(resolve_task(), unit, (("names", "\n".join(lines)),))


def verdict_of(
    names: Sequence[Name], clusters: Sequence[Sequence[int]], outcomes: Sequence[ChatOutcome[NameGroups]]
) -> Verdict:
    """What the model's replies mean, as far as they may be believed. Source: algorithms.md 1.4, step 6 (validation)."""
    merges: list[tuple[int, int, str]] = []
    refusals: dict[int, str] = {}
    descriptions: dict[int, str] = {}
    for cluster, outcome in zip(clusters, outcomes, strict=True):
        if outcome.reply is None:
            why = f"the model gave no usable reply ({outcome.error_class or 'unknown reason'}); the next run asks again"
            refusals.update(dict.fromkeys(cluster, why))
            continue
        grouped = set()
        for canonical, members, description in valid_groups(names, cluster, outcome.reply.groups):
            descriptions[canonical] = description
            grouped.update(members)
            why = f"{outcome.model} takes {{}} and {quoted_name(names[canonical].key)} for one"
            merges += [(m, canonical, why.format(quoted_name(names[m].key))) for m in members if m != canonical]
        # Why the ungrouped names of a cluster stay alone.
        reasons = {}
        for number in cluster:
            if number not in grouped:
                others = ", ".join(quoted_name(names[other].key) for other in cluster if other != number)
                reasons[number] = f"{outcome.model} keeps {quoted_name(names[number].key)} apart from {others}"
        refusals.update(reasons)
    failed = sum(outcome.reply is None for outcome in outcomes)
    usage = sum((outcome.usage for outcome in outcomes if outcome.reply is not None), Usage())
    return Verdict(sorted(merges), refusals, frozenset(), descriptions, failed, usage)


def valid_groups(
    names: Sequence[Name], cluster: Sequence[int], groups: Iterable[NameGroup]
) -> list[tuple[int, list[int], str]]:
    """(canonical, members ascending, description) of the groups that hold after checking.

    Names from outside the cluster and names of an earlier group are dropped; a group falls if fewer than two are left
    or its canonical name is not among them.

    Source: algorithms.md 1.4, step 6 (validation).
    """
    number_of = {norm_ws(names[number].name): number for number in reversed(cluster)}
    used: set[int] = set()
    valid = []
    for group in groups:
        found = {number for member in group.members if (number := number_of.get(norm_ws(member))) is not None}
        members = sorted(found - used)
        canonical = number_of.get(norm_ws(group.canonical_name))
        if canonical is None or canonical not in members or len(members) < 2:
            continue
        used.update(members)
        texts = dict.fromkeys(text for number in members for text in names[number].descriptions if text)
        valid.append((canonical, members, " ".join(group.description.split()) or " | ".join(texts)))
    return valid
