"""Names to entities: what is accepted, people's links, every decision with its reason, and what explains two (pure).

Same names in another order give the same result. Automatic merges never cross types that are nearly certain; links may.
Source: algorithms.md 1.4.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.chat import Usage
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.graph import Decision
from polyhop.schemas.names import FUNCTION_WORDS, name_tokens
from polyhop.schemas.records import NamePair
from polyhop.schemas.text import fold, norm_ws
from polyhop.schemas.types import LOCATION, PERSON
from polyhop.tasks.resolution.candidates import (
    COMPANY_WORDS,
    FORM_WORDS,
    Clusters,
    DisjointSets,
    Judge,
    Name,
    NameWords,
    Pair,
    Verdict,
    all_pairs,
    clusters_of,
    quoted_name,
)
from polyhop.warehouse.tables.version_rows import NameRecords

# Source: algorithms.md 1.4, token-free acceptance.

_HARMLESS = "king queen prince princess president saint film novel band album"
HARMLESS_WORDS = FORM_WORDS | frozenset(_HARMLESS.split())
"""Words that a longer form of a name may add without meaning something else."""


def accept(names: Sequence[Name], pairs: Iterable[Pair]) -> Verdict:
    """Decides on candidate pairs (a, b), the words of a among those of b: at most one merge per name.

    That is into the preferred one of its longest acceptable forms.
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
        forms = {b: why for b in sorted(longer[a]) if (why := _reason(names[a], names[b]))}
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
        written = norm_ws(fold(name.name))
        return (-len(name.tokens), -name.mention_count, "," in written, -len(written), written, name.key)

    return min(numbers, key=rank)


def _reason(a: Name, b: Name) -> str:
    """Reason why a may be another form of b; "" if it may not."""
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
        return f"locations are one only with the same words: {quoted_name(names[a].key)} is not {shown}"
    added = [
        f"{quoted_name(names[b].key)} adds {', '.join(sorted(names[b].tokens - names[a].tokens))}" for b in longer[:3]
    ]
    return f"every longer form may be another thing: {'; '.join(added)}"


Edges = Mapping[int, Sequence[tuple[int, str]]]  # number of a name to (other name, reason)


@dataclass(frozen=True, slots=True)
class Links:
    """Links of users: pairs that are one entity, pairs that are not."""

    must: tuple[NamePair, ...] = ()
    cannot: tuple[NamePair, ...] = ()


def link_key(name: str) -> str:
    """The key under which a name of a link file is known."""
    return " ".join(name_tokens(name))


def _keep_apart(cannot_links: dict[int, dict[int, str]], number: int, others: Mapping[int, str]) -> None:
    """Adds numbers to keep apart; of several reasons the smallest location is named, in any order."""
    known = cannot_links.setdefault(number, {})
    for other, location in others.items():
        known[other] = min(location, known.get(other, location))


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
    """Entity of each name, by key; descriptions by a model, and every decision, sorted.

    There is at most one decision per key, kind and scope. A model could not judge `failed_clusters` for now.
    """

    canonical_of: dict[str, str]
    descriptions: dict[str, str]
    decisions: list[Decision]
    cluster_count: int
    failed_clusters: int
    usage: Usage = field(default_factory=Usage)


MAX_CLUSTER = 40  # Names in one candidate cluster; larger ones are split. Source: algorithms.md 1.4.


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Names to compare, by number: candidate pairs in rows, and clusters of at most `max_cluster` names."""

    pairs: NDArray[np.int64]
    clusters: Clusters
    max_cluster: int = MAX_CLUSTER

    def within(self, is_chosen: NDArray[np.bool_]) -> "Groups":
        """Those of some names, of whole clusters, by their numbers among these."""
        number = np.cumsum(is_chosen) - 1
        clusters = [number[cluster].tolist() for cluster in self.clusters.clusters if is_chosen[cluster[0]]]
        left_out = [int(number[member]) for member in self.clusters.left_out if is_chosen[member]]
        pairs = number[self.pairs[is_chosen[self.pairs].all(axis=1)]]
        return Groups(pairs, Clusters(clusters, left_out), self.max_cluster)


def groups_of(words: NameWords, pairs: NDArray[np.int64] | None = None, max_cluster: int = MAX_CLUSTER) -> Groups:
    """The groups of names by their words, of all their candidate pairs unless these are known."""
    found = all_pairs(words) if pairs is None else pairs
    return Groups(found, clusters_of(len(words), found, max_cluster), max_cluster)


def in_order(names: Iterable[Name], links: Links) -> list[Name]:
    """Names in the order that decisions are made in, also those that only link files know: questions may use them."""
    by_key = {name.key: name for name in names}
    for pair in (*links.must, *links.cannot):
        for written in (pair.a, pair.b):
            key = link_key(written)
            known = by_key.get(key)
            if known is None or (not known.mention_count and written < known.name):
                by_key[key] = Name(key, written, None, 0)
    return sorted(by_key.values(), key=lambda name: (name.form, name.key))


def resolve(names: Sequence[Name], links: Links, groups: Groups | None, judge: Judge | None) -> Resolution:
    """Decides which names, with distinct keys and in order, are one entity; without a judge only people's links do.

    Source: algorithms.md 1.4.
    Cost: near linear in names, see candidates.py.
    """
    merging = _Merging(names, links)
    cluster_count = failed = 0
    usage = Usage()
    if groups is not None and judge is not None:
        merging.leave_out(groups.clusters.left_out, groups.max_cluster)
        is_left_out = np.zeros(len(names), dtype=np.bool_)
        is_left_out[groups.clusters.left_out] = True
        inside = groups.pairs[~is_left_out[groups.pairs].any(axis=1)]
        verdict = judge(names, list(zip(*inside.T.tolist(), strict=True)), groups.clusters.clusters)
        merging.follow(verdict)
        cluster_count, failed, usage = len(groups.clusters.clusters), verdict.failed_clusters, verdict.usage
    return Resolution(*merging.result(), cluster_count, failed, usage)


class _Merging:
    """Sets of names that grow by links first, then by verdicts."""

    def __init__(self, names: Sequence[Name], links: Links) -> None:
        self.names = names
        self._links = links
        self._sets = DisjointSets(len(names))
        self._edges: dict[int, list[tuple[int, str]]] = defaultdict(list)
        self._judged: set[int] = set()
        self._refusals: dict[int, str] = {}
        self._ambiguous: set[int] = set()
        self._descriptions: dict[int, str] = {}
        self._foes: dict[int, dict[int, str]] = {}
        own_types = {name.type: frozenset({name.type}) for name in names}  # one set for all names of a type
        self._types = {n: own_types[name.type] for n, name in enumerate(names) if name.type and not name.is_guess}
        # Number to the numbers that must stay apart from it, with the location of the link.
        cannot_links: dict[int, dict[int, str]] = {}
        for pair in links.cannot:
            if self._unused(pair):
                continue
            a, b = self._numbers(pair)
            if a == b:
                raise ConfigurationError(
                    f"{pair.location}: '{pair.a}' and '{pair.b}' are the same name ('{link_key(pair.a)}') once case, "
                    "accents and punctuation are dropped; they cannot be kept apart. Remove the pair."
                )
            _keep_apart(cannot_links, a, {b: pair.location})
            _keep_apart(cannot_links, b, {a: pair.location})
        for pair in links.must:
            if not self._unused(pair):
                a, b = self._numbers(pair)
                self._join(a, b, _reason_of(pair, "must-link", "="))
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
            # Location of a link that forbids one set of both, "" if there is none.
            root = self._sets.find(b)
            cannot_links = self._foes.get(self._sets.find(a), {})
            location = next(
                (location for foe, location in sorted(cannot_links.items()) if self._sets.find(foe) == root), ""
            )
            if location:
                self._refusals[a] = f"{location} keeps it apart, although {reason}"
                self._descriptions.pop(b, None)
                continue
            certain = [self._types.get(self._sets.find(number), frozenset()) for number in (a, b)]
            if all(certain) and certain[0].isdisjoint(certain[1]):
                self._refusals[a] = (
                    f"other forms of {quoted_name(self.names[b].key)} are of another type, although {reason}"
                )
                self._descriptions.pop(b, None)
                continue
            self._join(a, b, reason)
            self._judged |= {a, b}

    def result(self) -> tuple[dict[str, str], dict[str, str], list[Decision]]:
        """Canonical names, descriptions and decisions, as a `Resolution` has them."""
        # Canonical name of every member of a set with at least two names, one of them mentioned.
        canonical = {}
        for members in self._sets.groups(self._edges):
            known = [number for number in members if self.names[number].mention_count]
            chosen = [number for number in known if number in self._descriptions] or known
            if chosen:
                canonical.update(dict.fromkeys(members, preferred(self.names, chosen)))
        names = self.names
        changed = ((names[number], names[target]) for number, target in canonical.items() if target != number)
        moved = {name.key: target.key for name, target in changed if name.mention_count}
        described: dict[str, list[str]] = defaultdict(list)
        for number, description in sorted(self._descriptions.items()):
            described[names[canonical.get(number, number)].key].append(description)
        judged = []
        for number in sorted({*self._refusals, *self._judged}):
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
        return moved, descriptions, sorted(decisions, key=lambda d: (d.key, d.kind, d.scope))

    def _manual_decisions(self, canonical: Mapping[int, int]) -> list[Decision]:
        """One row per name and type of link files, whatever became of it."""
        reasons: dict[tuple[int, str], set[str]] = defaultdict(set)
        links = self._links
        for pairs, *words in ((links.must, "must-link", "="), (links.cannot, "cannot-link", "is not")):
            for pair in pairs:
                text = ", ".join(filter(None, (_reason_of(pair, *words), self._unused(pair))))
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
        if gone in self._types:
            self._types[kept] = self._types.get(kept, frozenset()) | self._types.pop(gone)
        if gone in self._foes:
            _keep_apart(self._foes, kept, self._foes.pop(gone))

    def _unused(self, pair: NamePair) -> str:
        """Reason why a pair has no effect; "" if it has one."""
        for name in (self.names[number] for number in self._numbers(pair)):
            if pair.type and name.mention_count and name.type != pair.type:
                return f"not used, because {quoted_name(name.key)} is of type {name.type or 'unknown'}"
        return ""

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {name.key: number for number, name in enumerate(self.names)}

    def _numbers(self, pair: NamePair) -> tuple[int, int]:
        return self._number_of[link_key(pair.a)], self._number_of[link_key(pair.b)]


def _reason_of(pair: NamePair, kind: str, verb: str) -> str:
    return f"{kind} {quoted_name(link_key(pair.a))} {verb} {quoted_name(link_key(pair.b))} ({pair.location})"


# Why two names are one entity, or are not, from what a published version knows. Source: algorithms.md 1.4.

_NO_NODE = "the graph that this index was made from has no node, or several, of the name"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explanation of whether two names are one entity: reason, decisions about either, names near to unknown ones."""

    same: bool
    reason: str
    decisions: list[Decision]
    nearest: dict[str, list[str]]


def keys_of(a: str, b: str) -> tuple[str, ...]:
    """Keys under which a version may know two names: as written, and without function words in front."""
    return tuple(dict.fromkeys(key for name in (a, b) for key in _spellings(name)))


def _spellings(name: str) -> tuple[str, str]:
    """The key of a name as written, and of what the name finder makes of it (`the River Thames`: river thames)."""
    words = link_key(name).split()
    if not words:
        raise ConfigurationError(f"'{name}' is not a name; give two names with letters or digits.")
    first = next((n for n, word in enumerate(words) if word not in FUNCTION_WORDS), 0)
    return " ".join(words), " ".join(words[first:])


def known_key(name: str, records: NameRecords) -> str:
    """The first of a name's keys that the version knows (`the beatles` may be a title), else that of the whole."""
    known = records.entities.keys() | {decision.key for decision in records.decisions}
    return next((key for key in _spellings(name) if key in known), link_key(name))


def entity_of(name: str, records: NameRecords) -> str | None:
    """Key of the one entity that a name as written means, None if no passage mentions it or it means several."""
    return _entity(known_key(name, records), records)


def explain(a: str, b: str, records: NameRecords) -> Explanation:
    """Explains whether two names, as users write them, are one entity, by the records of the version."""
    keys = known_key(a, records), known_key(b, records)
    entities = [_entity(key, records) for key in keys]
    unseen = {name: records.nearest.get(key, []) for name, key, e in zip((a, b), keys, entities, strict=True) if not e}
    if unseen:
        # That nothing mentions some names, and what was decided; the decision alone if it is about identity.
        reason = _reasons(records.decisions)
        if all(decision.kind != "identity" for decision in records.decisions):
            missing = "no passage of this index mentions" if records.is_resolved else _NO_NODE
            said = f"{missing} {' and '.join(quoted_name(name) for name in unseen)}"
            reason = f"{said}; {reason}" if reason else said
        return Explanation(False, reason, records.decisions, unseen)  # noqa: FBT003
    same = entities[0] == entities[1]
    if keys[0] == keys[1]:
        key = keys[0]
        dropped = "case, accents and punctuation" if link_key(a) == link_key(b) else "function words in front"
        reason = f"both are {quoted_name(key)} once {dropped} are dropped"
    elif same:
        reason = _reasons(d for d in records.decisions if d.canonical == entities[0] and d.key != entities[0])
    else:
        reason = _difference(a, b, records)
    return Explanation(same, reason, records.decisions, {})


def _entity(key: str, records: NameRecords) -> str | None:
    """Key of the one entity that a name means, None if there is none."""
    if key in records.entities:
        return key
    meant = {d.canonical for d in records.decisions if d.key == key and d.canonical and not d.is_ambiguous}
    return meant.pop() if len(meant) == 1 else None


def _difference(a: str, b: str, records: NameRecords) -> str:
    """Reason why two known names are two entities; links of users come first."""
    if not records.is_resolved:
        return "they are two nodes of the graph that this index was made from, and nodes are never merged"
    keys = known_key(a, records), known_key(b, records)
    meant = [_entity(key, records) or key for key in keys]
    # What was decided about two names; of that, what people said, if they said anything.
    others = {keys[0]: (keys[1], meant[1]), keys[1]: (keys[0], meant[0])}
    about = [d for d in records.decisions if any(quoted_name(o) in d.reason for o in others.get(d.key, ()))]
    manual = _reasons(d for d in about if d.kind == "manual") or _reasons(about)
    if manual:
        return manual
    types = [records.entities[key][1] for key in meant]
    if types[0] != types[1]:
        kinds = " and ".join(
            f"{quoted_name(k)} is {t or 'of no known type'}" for k, t in sorted(zip(meant, types, strict=True))
        )
        return f"names are one only within one type, or where a guess adds a form of address or of company: {kinds}"
    words = Name(a, a).tokens, Name(b, b).tokens
    if not (words[0] <= words[1] or words[1] <= words[0]):
        return "they are not candidates: neither name has all words of the other"
    shorter = keys[0] if len(words[0]) <= len(words[1]) else keys[1]
    # Why two candidates of one type are not one: what was decided of the shorter name, else that nothing was.
    decided = _reasons(d for d in records.decisions if d.key == shorter)
    if records.method == "off":
        return decided or "resolution was off (resolution.method): only link files make names one"
    unknown = "both are of no known type; " if types[0] is None else ""
    return decided or f"{unknown}nothing says that they are one"


def _reasons(decisions: Iterable[Decision]) -> str:
    return "; ".join(dict.fromkeys(decision.reason for decision in decisions))
