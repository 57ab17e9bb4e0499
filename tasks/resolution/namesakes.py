"""Assigns passages to the bearers of a shared name, by titles, qualifiers, types and neighbouring names (pure).

A bearer gets its own key, made of the name and what distinguishes it, so that people write it like any name;
passages that nothing decides keep the name's key. The rules and their limits: docs/decisions/0033-namesakes.md.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import log
from typing import NamedTuple

import duckdb
import pyarrow as pa

from polyhop.schemas.graph import Decision
from polyhop.schemas.names import name_tokens, title_forms
from polyhop.schemas.text import without_last_parenthesis
from polyhop.tasks.resolution.candidates import DisjointSets, quoted_name
from polyhop.tasks.resolution.resolve import Resolution
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import quoted

KIND = "identity"
CLEAR = 2.0  # the best bearer's shared rarity is at least so many times the second's; chosen

LEAST = 2
"""Passages that must give a qualifier or a type: single ones are too often lists or wrong cues; with one,
`Atlanta, Georgia` and `Atlanta, USA` of musique100 were two (benchmarks/namesakes.py)."""


ROUNDS = 3  # how often passages are decided by those decided before them; chosen: names two and three passages away


Around = Mapping[str, frozenset[str]]  # passage to the names in it


class Bearer(NamedTuple):
    """One thing that has a name: its key, how it is written, passages that say that they mean it, and how they do."""

    key: str
    name: str
    passages: frozenset[str]
    reason: str


@dataclass(frozen=True, slots=True)
class Senses:
    """Names of another bearer than their key says, (passage id, key, key and name of the bearer), with reasons."""

    rows: list[tuple[str, str, str, str]]
    decisions: list[Decision]

    @property
    def families(self) -> dict[str, frozenset[str]]:
        """Key of a bearer, or of the name, to the names that it shares with other bearers."""
        found: dict[str, set[str]] = defaultdict(set)
        for decision in self.decisions:
            found[decision.key].add(decision.key)
            found[decision.scope].add(decision.key)
        return {key: frozenset(names) for key, names in found.items()}


def titled_bearers(titles: Mapping[str, Collection[str]]) -> dict[str, list[Bearer]]:
    """Names that several titles share once their parentheses, or what follows a comma, are dropped; by key."""
    found: dict[str, dict[str, Bearer]] = defaultdict(dict)
    for title in sorted(titles):
        forms = title_forms(title)
        own, spelling = forms[0] if forms else ("", "")
        bare = forms[: None if title == without_last_parenthesis(title) else 2]  # no piece of what has parentheses
        for key, _ in bare:
            passages = frozenset(titles[title])
            if own in found[key]:
                passages |= found[key][own].passages
            found[key][own] = Bearer(own, spelling, passages, f"the title '{spelling}'")
    return {key: [group[own] for own in sorted(group)] for key, group in found.items() if len(group) > 1}


def qualified_bearers(
    qualifiers: Iterable[tuple[str, str, str, str, str]], containers: Collection[tuple[str, str]]
) -> dict[str, list[Bearer]]:
    """Locations of one name in several larger ones (`Cambridge, Massachusetts`)."""
    groups: dict[str, dict[str, list[tuple[str, str, str]]]] = defaultdict(lambda: defaultdict(list))
    for passage, key, name, qualifier, spelling in sorted(qualifiers):
        groups[key][qualifier].append((passage, name, spelling))
    found = {}
    for key, stated in groups.items():
        by_qualifier = {q: rows for q, rows in stated.items() if len({row[0] for row in rows}) >= LEAST}
        # Qualifiers in groups, those together of which one lies in the other or has all words of the other.
        larger = sorted(by_qualifier)
        sets = DisjointSets(len(larger))
        for (a, first), (b, second) in combinations(enumerate(larger), 2):
            words = set(first.split()), set(second.split())
            is_nested = (first, second) in containers or (second, first) in containers
            if is_nested or words[0] <= words[1] or words[1] <= words[0]:
                sets.union(a, b)
        joined = [[larger[number] for number in group] for group in sets.groups(range(len(larger)))]
        if len(joined) < 2:
            continue
        bearers = []
        for members in joined:
            chosen = max(members, key=lambda qualifier: (len(by_qualifier[qualifier]), qualifier))
            _, name, spelling = by_qualifier[chosen][0]
            passages = frozenset(row[0] for qualifier in members for row in by_qualifier[qualifier])
            written = f"{name} ({spelling})"
            bearers.append(Bearer(" ".join(name_tokens(written)), written, passages, f"followed by '{spelling}'"))
        found[key] = sorted(bearers)
    return found


def typed_bearers(types: Iterable[tuple[str, str, str, str]], *, keeps_name: bool) -> dict[str, list[Bearer]]:
    """Names of several types."""
    groups: dict[str, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for passage, key, name, kind in sorted(types):
        groups[key][kind][passage] = name
    found = {}
    for key, by_type in groups.items():
        kinds = sorted((kind for kind in by_type if len(by_type[kind]) >= LEAST), key=lambda k: (-len(by_type[k]), k))
        if len(kinds) < 2:
            continue
        bearers = []
        for number, kind in enumerate(kinds):
            name = Counter(by_type[kind].values()).most_common(1)[0][0]
            own = keeps_name and not number
            written = name if own else f"{name} ({kind.lower()})"
            own_key = key if own else f"{key} {kind.lower()}"
            bearers.append(Bearer(own_key, written, frozenset(by_type[kind]), f"of type {kind}"))
        found[key] = sorted(bearers)
    return found


def _meant(
    key: str, group: Sequence[Bearer], neighbours: Around, counts: Mapping[str, int], mentioning: Collection[str]
) -> dict[str, Bearer]:
    """The bearer that each passage means: the only one that claims it, else the one whose passages have such names."""
    # Passages that say which bearer they mean, and those that say nothing; what claims two is in neither.
    claims = {passage: [bearer for bearer in group if passage in bearer.passages] for passage in sorted(mentioning)}
    meant = {passage: claimed[0] for passage, claimed in claims.items() if len(claimed) == 1}
    undecided = [passage for passage, claimed in claims.items() if not claimed]
    for _ in range(ROUNDS if neighbours else 0):
        around = []
        for bearer in group:
            own = {passage for passage, one in meant.items() if one.key == bearer.key}
            around.append(_around(bearer._replace(passages=bearer.passages | own), key, neighbours))
        # Undecided passages to the bearer with whose passages they share clearly more.
        nearest = {one: _nearest(group, around, neighbours.get(one, frozenset()), counts) for one in undecided}
        near = {passage: bearer for passage, bearer in nearest.items() if bearer is not None}
        meant, undecided = meant | near, [passage for passage in undecided if passage not in near]
        if not near:
            break
    return meant


def senses_of(
    bearers: Mapping[str, Sequence[Bearer]],
    neighbours: Around,
    counts: Mapping[str, int],
    mentioning: Mapping[str, Collection[str]],
) -> Senses:
    """Assigns passages to bearers; one that several bearers claim, or none clearly, keeps the name's key.

    Cost: O(ROUNDS * names in the passages that mention shared names).
    """
    rows: list[tuple[str, str, str, str]] = []
    decisions = []
    for key in sorted(bearers):
        group = bearers[key]
        meant = _meant(key, group, neighbours, counts, mentioning.get(key, ()))
        given = Counter(bearer.key for bearer in meant.values())
        rows += [(passage, key, one.key, one.name) for passage, one in sorted(meant.items()) if one.key != key]
        said = ", ".join(quoted_name(bearer.key) for bearer in group)
        for bearer in group:
            reason = (
                f"{quoted_name(key)} is the name of {len(group)} entities ({said}): {given[bearer.key]} passages mean "
                f"{quoted_name(bearer.key)}, because of {bearer.reason} or the names around it (resolution.identity)"
            )
            decisions.append(Decision(key, KIND, bearer.key, bearer.key, reason))
    return Senses(rows, decisions)


def disjoint(bearers: Mapping[str, Sequence[Bearer]], neighbours: Around) -> dict[str, list[Bearer]]:
    """Those names of whose bearers no two have a neighbouring name in common that is not everywhere."""
    found = {}
    for key, group in bearers.items():
        around = [_around(bearer, key, neighbours) for bearer in group]
        if not any(a & b for number, a in enumerate(around) for b in around[:number]):
            found[key] = list(group)
    return found


def _around(bearer: Bearer, key: str, neighbours: Around) -> frozenset[str]:
    """Names in the passages that say that they mean a bearer, and those of which its own name is made."""
    found = frozenset(name for passage in bearer.passages for name in neighbours.get(passage, ()))
    rest = " ".join(bearer.key.split()[len(key.split()) :])
    return (found | {rest}) - {key, bearer.key, ""}


def _nearest(
    group: Sequence[Bearer], around: Sequence[frozenset[str]], names: frozenset[str], counts: Mapping[str, int]
) -> Bearer | None:
    """The bearer with whose neighbours a passage shares clearly more, None if there is none."""
    named = [bearer for bearer in group if bearer.key in names]
    if len(named) == 1:
        return named[0]
    total = 1 + max(counts.values(), default=0)
    shared = [sum(log((total + 1) / (counts.get(name, 0) + 1)) for name in sorted(names & own)) for own in around]
    best = max(range(len(group)), key=lambda number: (shared[number], -number))
    second = max(value for number, value in enumerate(shared) if number != best)
    return group[best] if shared[best] > 0 and shared[best] >= CLEAR * second else None


def with_senses(resolution: Resolution, senses: Senses) -> Resolution:
    """The resolution with the decisions about namesakes; a bearer that people merged leads to its entity."""
    separated = [
        replace(decision, canonical=resolution.canonical_of.get(decision.scope, decision.scope))
        for decision in senses.decisions
    ]
    order = sorted([*resolution.decisions, *separated], key=lambda d: (d.key, d.kind, d.scope))
    return replace(resolution, decisions=order)


_IN_A_LIST = re.compile(r",? (and|or)\b|, [^\W\da-z_]|[-/'’]")
"""What follows one of several names in a row, and a name that goes on."""


def tell_apart(connection: duckdb.DuckDBPyConnection, identity: str) -> Senses:
    """Puts the raw rows (`all_mentions` and so on) under the keys of the bearers that they mean.

    Cost: O(mentions) to look through, O(those of shared names) to decide.
    """
    if identity == "name_type":
        rows = connection.execute(statement("namesakes", "types_by_passage")).fetchall()
        bearers = typed_bearers(rows, keeps_name=True)
        senses = senses_of(bearers, {}, {}, _mentioning(_names_around(connection, bearers), bearers))
    else:
        senses = _by_context(connection)
    connection.execute(statement("namesakes", "senses"))
    if not senses.rows:
        return senses
    insert_tuples(connection, "senses", senses.rows)
    connection.execute(statement("namesakes", "bearers_by_passage"))
    for rows_of in ("mentions_of_bearers", "relations_of_bearers", "propositions_of_bearers", "triples_of_bearers"):
        connection.execute(statement("namesakes", rows_of))
        name = rows_of.removesuffix("_of_bearers")
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {quoted(f'all_{name}')} AS FROM {quoted(f'sensed_{name}')}")
    return senses


def insert_tuples(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Adds rows, which have all columns of a table in its order."""
    if rows:
        columns = {str(number): pa.array(column) for number, column in enumerate(zip(*rows, strict=True))}
        connection.from_arrow(pa.table(columns)).insert_into(table)


def _by_context(connection: duckdb.DuckDBPyConnection) -> Senses:
    titles = dict(connection.execute(statement("namesakes", "titles_of_passages")).fetchall())
    titled = titled_bearers(titles)
    types = connection.execute(statement("namesakes", "types_by_passage")).fetchall()
    located = {row[1] for row in types if row[3] == "LOCATION"}
    # Location names that texts qualify by another location, without lists of locations.
    rows = connection.execute(statement("namesakes", "qualified_locations")).fetchall()
    qualified = [row[:5] for row in rows if not _IN_A_LIST.match(row[5])]
    pairs = {(row[1], row[3]) for row in qualified}
    of_locations = qualified_bearers([row for row in qualified if row[1] in located], pairs)
    found = {**typed_bearers(types, keeps_name=False), **of_locations}
    neighbours = _names_around(connection, {**found, **titled})
    (passages,) = connection.execute("SELECT count(*) FROM passages").fetchone() or (0,)
    counts: Mapping[str, int] = dict(connection.execute(statement("namesakes", "passages_of_names")).fetchall())
    common = {key for key, count in counts.items() if count > max(5, passages // 100)}
    rare = {passage: names - common for passage, names in neighbours.items()}
    bearers = {**disjoint(found, rare), **titled}
    return senses_of(bearers, neighbours, counts, _mentioning(neighbours, bearers))


def _names_around(connection: duckdb.DuckDBPyConnection, keys: Collection[str]) -> dict[str, frozenset[str]]:
    """Names in the passages that mention one of these."""
    rows = connection.execute(statement("namesakes", "names_around"), {"keys": sorted(keys)}).fetchall()
    return {passage: frozenset(names) for passage, names in rows}


def _mentioning(neighbours: Around, bearers: Mapping[str, list[Bearer]]) -> dict[str, list[str]]:
    """Passages that mention each of these names."""
    found: dict[str, list[str]] = {key: [] for key in bearers}
    for passage, names in neighbours.items():
        for key in names & bearers.keys():
            found[key].append(passage)
    return found
