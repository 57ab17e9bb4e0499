"""Names to entities: what is accepted, people's links, every decision with its reason (pure).

Same names in another order give the same result. Automatic merges never cross types that are nearly certain; links may.
Source: algorithms.md 1.4.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.graph import Decision
from polyhop.schemas.names import name_tokens
from polyhop.schemas.records import NamePair
from polyhop.schemas.types import LOCATION, PERSON
from polyhop.tasks.resolution.candidates import (
    COMPANY_WORDS,
    FORM_WORDS,
    DisjointSets,
    Judge,
    Name,
    Pair,
    Verdict,
    candidate_pairs,
    clusters_of,
    pairs_across_types,
    quoted_name,
)

# Source: algorithms.md 1.4, token-free acceptance.

MIN_SIMILARITY = 0.80  # algorithms.md 1.4, token-free acceptance (iii).
_HARMLESS = "king queen prince princess president saint film novel band album"
HARMLESS_WORDS = FORM_WORDS | frozenset(_HARMLESS.split())
"""Words that a longer form of a name may add without meaning something else."""

Similarity = Callable[[Name, Name], float | None]
"""Cosine of two names' descriptions, None if one of them is not embedded."""


def accept(names: Sequence[Name], pairs: Iterable[Pair], similarity: Similarity | None = None) -> Verdict:
    """Decides on candidate pairs (a, b), the words of a among those of b: at most one merge per name.

    That is into the preferred one of its longest acceptable forms. Without `similarity` descriptions do not count.
    Source: algorithms.md 1.4, token-free acceptance.
    Cost: O(sum over names of the squared number of its acceptable forms).
    """
    longer: dict[int, list[int]] = defaultdict(list)
    for a, b in pairs:
        longer[a].append(b)
    merges = []
    refusals = {}
    ambiguous = set()
    for a in sorted(longer):
        forms = {b: why for b in sorted(longer[a]) if (why := _reason(names[a], names[b], similarity))}
        largest = [b for b in forms if not any(names[b].tokens < names[c].tokens for c in forms)]
        if not forms:
            refusals[a] = _refusal(names, a, longer[a])
        elif len({names[b].tokens for b in largest}) > 1:
            shown = ", ".join(quoted_name(names[b].key) for b in largest[:5])
            refusals[a] = f"several longer forms fit {quoted_name(names[a].key)}: {shown}"
            ambiguous.add(a)
        else:
            b = preferred(names, largest)
            merges.append((a, b, forms[b]))
    return Verdict(merges, refusals, frozenset(ambiguous))


def preferred(names: Sequence[Name], numbers: Iterable[int]) -> int:
    """The best name of an entity: most words, most mentions, no comma, longest, smallest. Source: algorithms.md 1.4."""

    def rank(number: int) -> tuple[int, int, bool, int, str, str]:
        name = names[number]
        return (-len(name.tokens), -name.mention_count, "," in name.form, -len(name.form), name.form, name.key)

    return min(numbers, key=rank)


def _reason(a: Name, b: Name, similarity: Similarity | None) -> str:
    """Why a may be another form of b, "" if it may not."""
    why = _reason_of_words(a, b)
    if not why or similarity is None:
        return why
    cosine = similarity(a, b)
    return why if cosine is None or cosine >= MIN_SIMILARITY else ""


def _reason_of_words(a: Name, b: Name) -> str:
    extras = b.tokens - a.tokens
    if not extras:
        return f"{quoted_name(a.key)} has the same words as {quoted_name(b.key)}"
    if a.type == LOCATION and not (a.is_guess and extras <= COMPANY_WORDS):
        return ""
    if extras <= HARMLESS_WORDS:
        return f"{quoted_name(b.key)} only adds {', '.join(sorted(extras))} to {quoted_name(a.key)}"
    if a.type == PERSON and len(a.tokens) >= 2 and b.form.startswith(f"{a.form} of "):
        return f"{quoted_name(b.key)} says of what {quoted_name(a.key)} is"
    return ""


def _refusal(names: Sequence[Name], a: int, longer: Sequence[int]) -> str:
    if names[a].type == LOCATION:
        shown = ", ".join(quoted_name(names[b].key) for b in sorted(longer)[:3])
        return f"places are one only with the same words: {quoted_name(names[a].key)} is not {shown}"
    added = [
        f"{quoted_name(names[b].key)} adds {', '.join(sorted(names[b].tokens - names[a].tokens))}" for b in longer[:3]
    ]
    return f"every longer form may be another thing: {'; '.join(added)}"


Edges = Mapping[int, Sequence[tuple[int, str]]]  # number of a name to (other name, reason)


@dataclass(frozen=True, slots=True)
class Links:
    """What people said: pairs that are one entity, pairs that are not."""

    must: tuple[NamePair, ...] = ()
    cannot: tuple[NamePair, ...] = ()

    @property
    def pairs(self) -> tuple[NamePair, ...]:
        """All of them."""
        return (*self.must, *self.cannot)


def link_key(name: str) -> str:
    """The key under which a name of a link file is known."""
    return " ".join(name_tokens(name))


def unused_reason(pair: NamePair, name_of: Callable[[str], Name | None]) -> str:
    """Why a pair has no effect, "" if it has one."""
    for written in (pair.a, pair.b):
        name = name_of(link_key(written))
        if pair.type and name is not None and name.mention_count and name.type != pair.type:
            return f"not used, because {quoted_name(name.key)} is of type {name.type or 'unknown'}"
    return ""


def cannot_links_of(cannot: Iterable[NamePair], number_of: Mapping[str, int]) -> dict[int, dict[int, str]]:
    """Number to the numbers that must stay apart from it, with the place that says so."""
    cannot_links: dict[int, dict[int, str]] = {}
    for pair in cannot:
        a, b = number_of[link_key(pair.a)], number_of[link_key(pair.b)]
        if a == b:
            raise ConfigurationError(
                f"{pair.place}: '{pair.a}' and '{pair.b}' are the same name ('{link_key(pair.a)}') once case, accents "
                "and punctuation are dropped; they cannot be kept apart. Remove the pair."
            )
        _keep_apart(cannot_links, a, {b: pair.place})
        _keep_apart(cannot_links, b, {a: pair.place})
    return cannot_links


def _keep_apart(cannot_links: dict[int, dict[int, str]], number: int, others: Mapping[int, str]) -> None:
    """Adds numbers to keep apart; of several places that say so the least is named, in whatever order they come."""
    known = cannot_links.setdefault(number, {})
    for other, place in others.items():
        known[other] = min(place, known.get(other, place))


def path(edges: Edges, start: int, goal: int) -> list[str]:
    """Reasons along a shortest way from one name to another, [] if there is none."""
    came_from: dict[int, tuple[int, str]] = {start: (start, "")}
    waiting = deque([start])
    while waiting and goal not in came_from:
        here = waiting.popleft()
        for there, reason in sorted(edges.get(here, ())):
            if there not in came_from:
                came_from[there] = (here, reason)
                waiting.append(there)
    reasons = []
    while goal != start and goal in came_from:
        goal, reason = came_from[goal]
        reasons.append(reason)
    return reasons[::-1]


@dataclass(frozen=True, slots=True)
class Resolution:
    """Which names are which entity, by key; what a model wrote of entities, and every decision, sorted.

    There is at most one decision per key, kind and scope. A model could not judge `failed_clusters` for now.
    """

    canonical_of: dict[str, str]
    descriptions: dict[str, str]
    decisions: list[Decision]
    cluster_count: int
    failed_clusters: int
    usage: Usage = field(default_factory=Usage)


MAX_CLUSTER = 40
"""Names in one candidate cluster; larger ones are split. Source: algorithms.md 1.4."""


def resolve(names: Iterable[Name], links: Links, judge: Judge | None, max_cluster: int = MAX_CLUSTER) -> Resolution:
    """Decides which names, with distinct keys, are one entity; without a judge only people's links do.

    Source: algorithms.md 1.4.
    Cost: near linear in names, see candidates.py.
    """
    # Also names that only link files know: questions may use them.
    by_key = {name.key: name for name in names}
    for pair in links.pairs:
        for written in (pair.a, pair.b):
            key = link_key(written)
            known = by_key.get(key)
            if known is None or (not known.mention_count and written < known.name):
                by_key[key] = Name(key, written, None, 0)
    merging = _Merging(sorted(by_key.values(), key=lambda name: (name.form, name.key)), links)
    cluster_count = failed = 0
    usage = Usage()
    if judge is not None:
        found = candidate_pairs(merging.names).pairs + pairs_across_types(merging.names)
        grouped = clusters_of(len(merging.names), found, max_cluster)
        merging.leave_out(grouped.left_out, max_cluster)
        left_out = set(grouped.left_out)
        inside = [(a, b) for a, b in found if a not in left_out and b not in left_out]
        verdict = judge(merging.names, inside, grouped.clusters)
        merging.follow(verdict)
        cluster_count, failed, usage = len(grouped.clusters), verdict.failed_clusters, verdict.usage
    return replace(merging.result(cluster_count, failed), usage=usage)


class _Merging:
    """Sets of names that grow by links first, then by verdicts."""

    def __init__(self, names: Sequence[Name], links: Links) -> None:
        self.names = names
        self._links = links
        self._number_of = {name.key: number for number, name in enumerate(names)}
        self._sets = DisjointSets(len(names))
        self._edges: dict[int, list[tuple[int, str]]] = defaultdict(list)
        self._judged: set[frozenset[int]] = set()
        self._refusals: dict[int, str] = {}
        self._ambiguous: set[int] = set()
        self._descriptions: dict[int, str] = {}
        self._foes: dict[int, dict[int, str]] = {}
        self._types = {n: {name.type} for n, name in enumerate(names) if name.type is not None and not name.is_guess}
        cannot_links = cannot_links_of([pair for pair in links.cannot if not self._unused(pair)], self._number_of)
        for pair in links.must:
            if not self._unused(pair):
                a, b = self._numbers(pair)
                self._join(a, b, _must_reason(pair))
        # Refuses pairs that are both linked and kept apart.
        for a in sorted(cannot_links):
            for b in sorted(cannot_links[a]):
                if a < b and self._sets.find(a) == self._sets.find(b):
                    chain = "; ".join(path(self._edges, a, b))
                    raise ConfigurationError(
                        f"Links contradict each other: {cannot_links[a][b]} keeps {quoted_name(names[a].key)} and "
                        f"{quoted_name(names[b].key)} apart, but they are joined ({chain}). Remove one of these pairs."
                    )
        for number, others in cannot_links.items():
            _keep_apart(self._foes, self._sets.find(number), others)

    def leave_out(self, numbers: Iterable[int], max_cluster: int) -> None:
        """Notes names that were left out of too large a cluster."""
        for number in numbers:
            self._refusals[number] = (
                f"more than {max_cluster} names are linked through the words of {quoted_name(self.names[number].key)}; "
                "it was left out of their cluster"
            )

    def follow(self, verdict: Verdict) -> None:
        """Merges in order, except what a cannot-link forbids."""
        self._refusals.update(verdict.refusals)
        self._ambiguous.update(verdict.ambiguous)
        self._descriptions.update(verdict.descriptions)
        for a, b, reason in sorted(verdict.merges):
            # Place of a link that forbids one set of both, "" if there is none.
            root = self._sets.find(b)
            cannot_links = self._foes.get(self._sets.find(a), {})
            place = next((place for foe, place in sorted(cannot_links.items()) if self._sets.find(foe) == root), "")
            if place:
                self._refusals[a] = f"{place} keeps it apart, although {reason}"
                self._descriptions.pop(b, None)
                continue
            certain = [self._types.get(self._sets.find(number), set()) for number in (a, b)]
            if all(certain) and certain[0].isdisjoint(certain[1]):
                self._refusals[a] = (
                    f"other forms of {quoted_name(self.names[b].key)} are of another type, although {reason}"
                )
                self._descriptions.pop(b, None)
                continue
            self._join(a, b, reason)
            self._judged.add(frozenset((a, b)))

    def result(self, cluster_count: int, failed_clusters: int) -> Resolution:
        """Canonical names and decisions."""
        # Canonical name of every member of a set with at least two names, one of them mentioned.
        canonical = {}
        for members in self._sets.groups(self._edges):
            known = [number for number in members if self.names[number].mention_count]
            chosen = [number for number in known if number in self._descriptions] or known
            if chosen:
                canonical.update(dict.fromkeys(members, preferred(self.names, chosen)))
        names = self.names
        moved = {
            names[number].key: names[target].key
            for number, target in canonical.items()
            if target != number and names[number].mention_count
        }
        described: dict[str, list[str]] = defaultdict(list)
        for number, description in sorted(self._descriptions.items()):
            described[names[canonical.get(number, number)].key].append(description)
        judged = []
        for number in sorted({*self._refusals, *(n for pair in self._judged for n in pair)}):
            name, target = self.names[number], canonical.get(number, number)
            scope = name.type or ""
            if target != number:
                reasons = "; ".join(path(self._edges, number, target))
                judged.append(Decision(name.key, "er", scope, self.names[target].key, reasons))
            elif number in self._refusals:
                is_ambiguous = number in self._ambiguous
                own = None if is_ambiguous else name.key
                judged.append(Decision(name.key, "er", scope, own, self._refusals[number], is_ambiguous=is_ambiguous))
        decisions = [*judged, *self._manual_decisions(canonical)]
        descriptions = {key: " | ".join(texts) for key, texts in described.items()}
        return Resolution(moved, descriptions, sorted(decisions, key=_order), cluster_count, failed_clusters)

    def _manual_decisions(self, canonical: Mapping[int, int]) -> list[Decision]:
        """One row per name and type of link files, whatever became of it."""
        reasons: dict[tuple[int, str], set[str]] = defaultdict(set)
        for pairs, reason_of in ((self._links.must, _must_reason), (self._links.cannot, _cannot_reason)):
            for pair in pairs:
                unused = self._unused(pair)
                text = f"{reason_of(pair)}, {unused}" if unused else reason_of(pair)
                for number in self._numbers(pair):
                    reasons[number, pair.type].add(text)
        decisions = []
        for (number, scope), texts in sorted(reasons.items()):
            target = self.names[canonical.get(number, number)]
            own = target.key if target.mention_count else None
            decisions.append(Decision(self.names[number].key, "manual", scope, own, "; ".join(sorted(texts))))
        return decisions

    def _join(self, a: int, b: int, reason: str) -> None:
        roots = self._sets.find(a), self._sets.find(b)
        self._edges[a].append((b, reason))
        self._edges[b].append((a, reason))
        if roots[0] == roots[1]:
            return
        self._sets.union(a, b)
        kept, gone = min(roots), max(roots)
        self._types.setdefault(kept, set()).update(self._types.pop(gone, set()))
        if gone in self._foes:
            _keep_apart(self._foes, kept, self._foes.pop(gone))

    def _unused(self, pair: NamePair) -> str:
        return unused_reason(pair, lambda key: self.names[self._number_of[key]])

    def _numbers(self, pair: NamePair) -> tuple[int, int]:
        return self._number_of[link_key(pair.a)], self._number_of[link_key(pair.b)]


def _must_reason(pair: NamePair) -> str:
    return f"must-link {quoted_name(link_key(pair.a))} = {quoted_name(link_key(pair.b))} ({pair.place})"


def _cannot_reason(pair: NamePair) -> str:
    return f"cannot-link {quoted_name(link_key(pair.a))} is not {quoted_name(link_key(pair.b))} ({pair.place})"


def _order(decision: Decision) -> tuple[str, str, str]:
    return decision.key, decision.kind, decision.scope
