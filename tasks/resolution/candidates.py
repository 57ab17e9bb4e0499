"""Candidates for names of one entity, clusters of bounded size, verdicts, and a model's statements on a cluster.

Tokens are those of the folded name, because entities are keyed by it (docs/decisions/0002). A model's groups are
checked before anything is merged; a call that failed merges nothing. Source: algorithms.md 1.4, steps 1 to 3 and 6.
"""

import json
import re
import string
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from heapq import heapify, heappop, heappush
from itertools import chain, pairwise, permutations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from polyhop.schemas.chat import ChatOutcome, ChatRequest, ChatTask, ReplyText, Usage, WholeItems
from polyhop.schemas.graph import distinct
from polyhop.schemas.legal_forms import FORM_NAMES, with_normal_form
from polyhop.schemas.text import fold, norm_ws
from polyhop.warehouse.statements import read_prompt

Pair = tuple[int, int]  # numbers of two names; the tokens of the first are among those of the second

COMPANY_WORDS = FORM_NAMES | {"company"}
"""Words that a company's full name adds, legal forms in normal form."""
FORM_WORDS = COMPANY_WORDS | frozenset(("the", "mr", "mrs", "ms", "dr", "sir", "dame", "jr", "sr"))
"""Words that make a name more formal and nothing else of it, whatever type was guessed without them."""


@dataclass(frozen=True, slots=True)
class Name:
    """A name before resolution: distinct key, most frequent spelling, type if any is known, mentions in all passages.

    Only a model reads `descriptions`. A type that `is_guess` is less than nearly certain: then it separates nothing.
    `form` is the folded name, lower case, whitespace collapsed, its legal form (`S.p.A.`) in normal form. A million of
    them are in memory at once.
    """

    key: str
    name: str
    type: str | None = None
    mention_count: int = 1
    descriptions: tuple[str, ...] = field(default=(), compare=False)
    is_guess: bool = False
    form: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        form = norm_ws(fold(with_normal_form(self.name)))
        object.__setattr__(self, "form", self.key if form == self.key else form)  # one text where they are equal

    @property
    def tokens(self) -> frozenset[str]:
        """Words of the name without punctuation around them, but that of `C++` and `C#`.

        Source: algorithms.md 1.4, step 1.
        """
        return _tokens(self.form)


_LETTER_WITH_SIGNS = r"^[a-z](\+\+|#)$"  # as in NAME_WORD of schemas/names.py


@lru_cache(1 << 16)  # chosen: names that are compared with each other are looked at one after the other
def _tokens(form: str) -> frozenset[str]:
    is_kept = partial(re.match, _LETTER_WITH_SIGNS)
    return frozenset({word if is_kept(word) else word.strip(string.punctuation) for word in form.split()} - {""})


@dataclass(frozen=True, slots=True, eq=False)
class NameWords:
    """Names by number, as columns, and their distinct words in order of name and word.

    Of each name the folded form, the number of its type (-1: none), and whether that is a guess; of each word of a name
    the name's number (`owners`) and the word's (`words`), that is its index in `vocabulary`; `held` is both in one
    number, ascending.
    """

    forms: pa.Array
    types: NDArray[np.int64]
    is_guess: NDArray[np.bool_]
    vocabulary: pa.Array
    owners: NDArray[np.int64]
    words: NDArray[np.int64]
    held: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.types)

    def tokens(self, number: int) -> frozenset[str]:
        """As `Name.tokens`."""
        return _tokens(self.forms[number].as_py())


def words_of(forms: pa.Array, types: pa.Array, is_guess: NDArray[np.bool_]) -> NameWords:
    """Names of these forms and types, with the words of those that have a type: `Name.tokens`."""
    type_numbers = np.asarray(types.dictionary_encode().indices.fill_null(-1), dtype=np.int64)
    chosen = np.flatnonzero(type_numbers >= 0)
    written = pc.split_pattern(forms.take(pa.array(chosen)), " ")
    words_as_written = written.flatten().dictionary_encode()
    # The number of each word without its punctuation, -1 for punctuation alone.
    distinct_words = words_as_written.dictionary
    is_kept = pc.match_substring_regex(distinct_words, pattern=_LETTER_WITH_SIGNS)
    bare = pc.if_else(is_kept, distinct_words, pc.utf8_trim(distinct_words, characters=string.punctuation))
    vocabulary = pc.unique(bare.filter(pc.not_equal(bare, ""))).sort()
    found = np.asarray(pc.index_in(bare, vocabulary).fill_null(-1), dtype=np.int64)[words_as_written.indices]
    owners = np.repeat(chosen, written.value_lengths())
    count = max(1, len(vocabulary))
    held = distinct(owners[found >= 0] * count + found[found >= 0])
    return NameWords(forms, type_numbers, is_guess, vocabulary, *np.divmod(held, count), held)


def words_of_names(names: Sequence[Name]) -> NameWords:
    """The words of names."""
    forms, types = pa.array([name.form for name in names], pa.string()), pa.array([n.type for n in names], pa.string())
    return words_of(forms, types, np.array([name.is_guess for name in names], dtype=np.bool_))


@dataclass(frozen=True, slots=True, eq=False)
class CandidatePairs:
    """Pairs (a, b) of names that may be one, in rows, and how many comparisons finding them took."""

    pairs: NDArray[np.int64]
    comparisons: int


_COMPARED_AT_ONCE = 1 << 20  # pairs of names; chosen: some arrays of 8 MB


def all_pairs(
    names: NameWords, changed: NDArray[np.bool_] | None = None, known: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Candidates among names, in order: for each name those of the same type first.

    With `changed` the pairs of all other names are `known`.
    """
    parts = [candidate_pairs(names, changed).pairs, pairs_across_types(names, changed)]
    pairs = np.concatenate(parts if known is None else [known, *parts])
    a, b = pairs.T
    return pairs[np.lexsort((b, names.types[a] != names.types[b], a))]


def candidate_pairs(names: NameWords, changed: NDArray[np.bool_] | None = None) -> CandidatePairs:
    """All pairs (a, b) of names of one type where b has every word of a, one at least; in order.

    Names with equal words give both (a, b) and (b, a). With `changed`, a flag per name: pairs of which one name is.
    Source: algorithms.md 1.4, steps 2 and 3.
    Cost: O(sum over names of the names that share their rarest word), without a loop over names.
    """
    if not len(names.words):
        return CandidatePairs(np.empty((0, 2), dtype=np.int64), 0)
    typed = names.types[names.owners] * len(names.vocabulary) + names.words
    _, word, uses = np.unique(typed, return_inverse=True, return_counts=True)
    starts = np.flatnonzero(np.diff(names.owners, prepend=-1))
    by_rarity = np.lexsort((uses[word], names.owners))
    rarest = word[by_rarity[starts]]
    numbers, sizes = names.owners[starts], np.diff(starts, append=len(names.owners))
    bits = np.bitwise_or.reduceat(np.uint64(1) << (names.words % 64).astype(np.uint64), starts)
    rank = np.zeros(len(names), dtype=np.int64)
    rank[numbers] = np.arange(len(numbers))
    by_word = np.argsort(word, kind="stable")
    is_changed = np.ones(len(names), dtype=np.bool_) if changed is None else changed
    parts, comparisons = [], -int(is_changed[numbers].sum())
    # Of every changed name all names that have its rarest word, itself among them; of every other one the changed ones.
    for is_a, is_b in ((is_changed, np.ones_like(is_changed)), (~is_changed, is_changed)):
        listed = by_word[is_b[names.owners[by_word]]]
        posted, lengths = names.owners[listed], np.bincount(word[listed], minlength=len(uses))
        firsts, counts = (np.cumsum(lengths) - lengths)[rarest], lengths[rarest]
        chosen = np.flatnonzero(is_a[numbers])
        comparisons += int(counts[chosen].sum())
        for some in np.array_split(chosen, 1 + counts[chosen].sum() // _COMPARED_AT_ONCE):
            a = np.repeat(some, counts[some])
            within = np.arange(len(a)) - np.repeat(np.cumsum(counts[some]) - counts[some], counts[some])
            b = rank[posted[firsts[a] + within]]
            # most that have not all words go here
            is_left = (a != b) & (sizes[a] <= sizes[b]) & ((bits[a] & ~bits[b]) == 0)
            a, b = a[is_left], b[is_left]
            is_pair = _have_all(names, starts, sizes, a, b)
            parts.append(np.column_stack((numbers[a[is_pair]], numbers[b[is_pair]])))
    pairs = np.concatenate(parts)
    return CandidatePairs(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))], comparisons)


def pairs_across_types(names: NameWords, changed: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
    """Pairs of names of two types, one of them a guess, that differ in `FORM_WORDS` at most; `changed` as above.

    Other names of two types stay apart: `Emma` may be the heroine, and `Emma film` her film. A single word has too many
    bearers to be more than a company's short name (`Acme`, `Acme Ltd`; not `Jones`, `Mr Jones`).
    """
    # Hashes of the words without `FORM_WORDS`, 0 for none: a set for every name takes half a gigabyte of a million.
    mixed = np.random.default_rng(0).integers(1, 1 << 62, len(names.vocabulary))
    mixed[pc.is_in(names.vocabulary, pa.array(sorted(FORM_WORDS)))] = 0
    hashes = np.zeros(len(names), dtype=np.int64)
    starts = np.flatnonzero(np.diff(names.owners, prepend=-1))
    if len(starts):
        hashes[names.owners[starts]] = np.bitwise_xor.reduceat(mixed[names.words], starts)
    some = np.flatnonzero(hashes)
    some = some[np.argsort(hashes[some], kind="stable")]
    is_first = np.diff(hashes[some], prepend=0) != 0
    group = np.cumsum(is_first) - 1
    is_mixed, is_wanted = (np.zeros(is_first.sum(), dtype=np.bool_) for _ in range(2))
    is_mixed[group[names.types[some] != names.types[some[is_first]][group]]] = True
    is_wanted[group if changed is None else group[changed[some]]] = True
    same: dict[frozenset[str], list[int]] = defaultdict(list)
    for number in np.sort(some[(is_mixed & is_wanted)[group]]).tolist():
        same[names.tokens(number) - FORM_WORDS].append(number)
    pairs = [
        (a, b)
        for members in same.values()
        for a, b in permutations(members, 2)
        if names.types[a] != names.types[b]
        and (names.is_guess[a] or names.is_guess[b])
        and (changed is None or changed[a] or changed[b])
        and names.tokens(a) <= names.tokens(b)
        and (len(names.tokens(a)) > 1 or names.tokens(b) - names.tokens(a) <= COMPANY_WORDS)
    ]
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)


def _have_all(
    names: NameWords, starts: NDArray[np.int64], sizes: NDArray[np.int64], a: NDArray[np.int64], b: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """For names by rank: whether b has every word of a; both have one, so that a name of one word is done."""
    is_found: NDArray[np.bool_] = sizes[a] == 1
    left = np.flatnonzero(~is_found)
    lengths = sizes[a[left]]
    pair = np.repeat(np.arange(len(left)), lengths)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    wanted = names.owners[starts[b[left]]][pair] * len(names.vocabulary) + names.words[starts[a[left]][pair] + within]
    found = np.minimum(np.searchsorted(names.held, wanted), len(names.held) - 1)
    missing = np.bincount(pair[names.held[found] != wanted], minlength=len(left))
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

    def union(self, a: int, b: int) -> int:
        """Joins two sets; the smallest member of both."""
        first, second = self.find(a), self.find(b)
        if first > second:
            first, second = second, first
        self._parent[second] = first
        return first

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


def clusters_of(count: int, pairs: ArrayLike, max_size: int) -> Clusters:
    """Connected components of 0..count-1 with 2 to `max_size` members, in order of their first member.

    From a larger one the member with most candidates is left out, ties by number (smaller numbers are smaller names),
    until every piece is small enough.
    Source: algorithms.md 1.4, steps 4 and 5.
    Cost: O(edges log items).
    """
    edges = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    large = [component for component in _components(count, edges) if len(component) > max_size]
    members = np.array(sorted(chain.from_iterable(large)), dtype=np.int64)
    is_member, is_left_out = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    is_member[members] = True
    # Neighbours of the members of these, both numbered among the members, ascending.
    inside = (np.cumsum(is_member) - 1)[edges[is_member[edges[:, 0]]]]
    both = np.concatenate((inside, inside[:, ::-1])) @ np.array((len(members), 1))
    ends, others = np.divmod(distinct(both), max(1, len(members)))
    listed, bounds = others.tolist(), np.searchsorted(ends, np.arange(len(members) + 1)).tolist()
    left_out = members[sorted(_dropped([listed[start:end] for start, end in pairwise(bounds)], max_size))]
    is_left_out[left_out] = True
    return Clusters(_components(count, edges[~is_left_out[edges].any(axis=1)]), left_out.tolist())


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


def _dropped(near: Sequence[Sequence[int]], max_size: int) -> list[int]:
    """Members to leave out of components that are too large, each given with its neighbours.

    Every piece is peeled by the same rule, and pieces do not touch: so the order in which the whole would be peeled
    holds inside every piece, and a member is left out if its piece is still too large at its turn. Going through that
    order backwards, pieces only grow.
    """
    order = _peeled(near)
    sets, sizes, is_present = DisjointSets(len(near)), [1] * len(near), [False] * len(near)
    dropped = []
    for number in chain(set(range(len(near))).difference(order), reversed(order)):
        is_present[number], root = True, number
        for other in near[number]:
            if is_present[other] and (another := sets.find(other)) != root:
                size = sizes[root] + sizes[another]
                root = sets.union(root, another)
                sizes[root] = size
        if sizes[root] > max_size:
            dropped.append(number)
    return dropped


def _peeled(near: Sequence[Sequence[int]]) -> list[int]:
    """Members in the order in which they go, until nothing is left but pairs, which are never too large.

    Each time that is the one with most neighbours that are still there, ties by number.
    """
    count, degree, gone = len(near), [len(others) for others in near], -1
    heap = [(count - most) * count + number for number, most in enumerate(degree) if most > 1]  # one key holds both
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
                if degree[other] > 1:
                    heappush(heap, (count - degree[other]) * count + other)
    return order


MAX_DESCRIPTIONS = 5  # algorithms.md 1.4, step 6.
DESCRIPTION_CHARACTERS = 120  # algorithms.md 1.4, step 6.


class NameGroup(BaseModel):
    """Names that the model takes for one thing."""

    canonical_name: str
    members: WholeItems[str]
    description: ReplyText = ""


class NameGroups(BaseModel):
    """The form of a reply to kg.resolve."""

    groups: WholeItems[NameGroup]


@cache
def resolve_task() -> ChatTask[NameGroups]:
    """The task kg.resolve with its prompt."""
    prompt = read_prompt(Path(__file__).parent / "prompts" / "kg.resolve.md")
    return ChatTask("kg.resolve", prompt, NameGroups)


def cluster_request(names: Sequence[Name], cluster: Sequence[int]) -> ChatRequest[NameGroups]:
    """The question about one cluster. Source: algorithms.md 1.4, step 6 (input lines)."""

    def short(name: Name) -> list[str]:
        different = dict.fromkeys(text[:DESCRIPTION_CHARACTERS] for text in name.descriptions if text)
        return list(different)[:MAX_DESCRIPTIONS]

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
    """Derives merges from the model's replies after validation. Source: algorithms.md 1.4, step 6 (validation)."""
    merges: list[tuple[int, int, str]] = []
    refusals: dict[int, str] = {}
    descriptions: dict[int, str] = {}
    for cluster, outcome in zip(clusters, outcomes, strict=True):
        if outcome.reply is None:
            why = f"the model gave no usable reply ({outcome.error_class or 'unknown reason'}); the next run retries"
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
