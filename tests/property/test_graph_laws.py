"""Laws of graphs: formats give the same tables, paths of hubs cover their region, resolution keeps its order."""

import json
import random
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.schemas.graph import RDF_TYPE, RDFS_LABEL
from polyhop.schemas.hub_paths import Adjacency, PathsOfHub, find_paths_in_hub
from polyhop.schemas.hubs import HUB, LEAF, LIMIT, REVISIT, HubGraph
from polyhop.schemas.records import NamePair
from polyhop.schemas.settings import Settings
from polyhop.tasks.graph_source.stage import INGEST_GRAPH
from polyhop.tasks.publish.publish import check_invariants
from polyhop.tasks.resolution.candidates import Judge, Name, words_of_names
from polyhop.tasks.resolution.kept import KeptNames, changed_names, name_table
from polyhop.tasks.resolution.resolve import Links, Resolution, accept, groups_of, in_order, resolve
from polyhop.tasks.stage import tables_of
from polyhop.warehouse.build import Build, start_build

NODES = tuple(f"http://x/node/N_{n}" for n in range(5))
PREDICATES = ("http://x/p/worksWith", "http://x/p/born%20in", "http://y/p#worksWith")
CLASSES = ("http://x/c/Person", "http://x/c/Town")
WORDS = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=8).filter(str.strip)
VALUES = st.tuples(
    st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=8),  # type: ignore[arg-type]
    st.sampled_from([("", ""), ("http://x/type", ""), ("", "en"), ("", "fr-be")]),
)
TRIPLES = st.lists(
    st.tuples(st.sampled_from(NODES), st.sampled_from(PREDICATES), st.sampled_from(NODES) | VALUES),
    min_size=1,
    max_size=12,
    unique=True,
)
LABELS = st.dictionaries(st.sampled_from((*NODES, *PREDICATES, *CLASSES)), WORDS)
TYPES = st.dictionaries(st.sampled_from(NODES), st.sets(st.sampled_from(CLASSES)))
Value = tuple[str, tuple[str, str]]


def quoted(text: str) -> str:
    is_odd = [c in '"\\' or ord(c) < 32 or ord(c) in range(127, 160) for c in text]
    signs = (f"\\U{ord(c):08X}" if odd else c for c, odd in zip(text, is_odd, strict=True))
    return f'"{"".join(signs)}"'


def term(value: str | Value) -> str:
    if isinstance(value, str):
        return f"<{value}>"
    text, (datatype, language) = value
    return quoted(text) + (f"^^<{datatype}>" if datatype else "") + (f"@{language}" if language else "")


def tables(folder: Path, name: str, lines: list[str]) -> dict[str, list[tuple[object, ...]]]:
    source = folder / name
    source.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="")
    build = Build(Settings(root=folder / "root"), "g", source, (), "graph")
    start_build(build, tables_of([INGEST_GRAPH]))
    INGEST_GRAPH.run(build, 0)
    INGEST_GRAPH.finish(build)
    with build.tables() as connection:
        check_invariants(connection, [INGEST_GRAPH], tables_of([INGEST_GRAPH]))
        return {
            name: connection.execute(f"FROM {name} ORDER BY ALL").fetchall()
            for name in ("entities", "relations", "nodes", "quarantine")
        }


@pytest.mark.rare
@settings(max_examples=10)
@given(TRIPLES, LABELS, TYPES, st.randoms(use_true_random=False))
def test_n_triples_turtle_and_json_lines_give_the_same_tables(
    triples: list[tuple[str, str, str | Value]],
    labels: dict[str, str],
    types: dict[str, set[str]],
    order: random.Random,
) -> None:
    rdf = [f"<{s}> <{p}> {term(o)} ." for s, p, o in triples]
    rdf += [f"<{own}> <{RDFS_LABEL}> {quoted(label)} ." for own, label in labels.items()]
    rdf += [f"<{own}> <{RDF_TYPE}> <{kind}> ." for own, kinds in types.items() for kind in kinds]
    order.shuffle(rdf)
    # what the readers make of an IRI without a label, written out
    plain = {PREDICATES[0]: "worksWith", PREDICATES[1]: "born in", PREDICATES[2]: "worksWith"}
    plain |= {CLASSES[0]: "Person", CLASSES[1]: "Town"}

    def called(own_id: str) -> str:
        return " ".join(labels[own_id].split()) if own_id in labels else plain[own_id]

    def node(own_id: str) -> dict[str, object]:
        kinds = sorted({called(kind) for kind in types.get(own_id, ())})
        return {"id": own_id, "name": labels.get(own_id, ""), "types": kinds, "literal": False}

    def value(found: str | Value) -> dict[str, object]:
        if isinstance(found, str):
            return node(found)
        text, (datatype, language) = found
        return {"value": text, "literal": True, "datatype": datatype or None, "language": language or None}

    stated = [json.dumps({"subject": node(s), "predicate": called(p), "object": value(o)}) for s, p, o in triples]
    with TemporaryDirectory() as folder:
        n_triples = tables(Path(folder), "g.nt", rdf)
        assert n_triples["quarantine"] == []
        assert tables(Path(folder), "g.ttl", rdf) == n_triples
        assert tables(Path(folder), "g.jsonl", stated) == n_triples


Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Case:
    """A graph, its hubs and a limit; the hub whose paths are searched is node 0."""

    triples: list[Triple]
    hubs: frozenset[int]
    max_length: int
    nodes: int

    def paths(self, max_paths: int = 0) -> PathsOfHub:
        columns = np.array(self.triples, dtype=np.int64).reshape(-1, 3).T
        graph = HubGraph.from_triples(*columns, np.zeros(self.nodes, dtype=bool))  # type: ignore[call-arg]
        is_hub = bytearray(node in self.hubs for node in range(self.nodes))
        return find_paths_in_hub(Adjacency(graph), is_hub, 0, self.max_length, max_paths)

    def leaving(self, node: int) -> list[int]:
        """Triples that leave a node and do not enter the hub."""
        return [number for number, (s, _, o) in enumerate(self.triples) if s == node and o != 0]

    def distances(self) -> dict[int, int]:
        """Steps from the hub to every node that is reached without passing another hub, or coming back."""
        found, edge = {0: 0}, [0]
        while edge:
            edge = [self.triples[t][2] for node in edge for t in self.leaving(node)]
            edge = list(dict.fromkeys(node for node in edge if node not in found and node not in self.hubs))
            found |= dict.fromkeys(edge, max(found.values()) + 1)
        return found

    def is_within(self, steps: int) -> bool:
        return self.max_length <= 0 or steps < self.max_length

    def region(self) -> set[int]:
        """Triples whose subject is near enough."""
        return {t for node, steps in self.distances().items() if self.is_within(steps) for t in self.leaving(node)}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    nodes = draw(st.integers(1, 8))
    node = st.integers(0, nodes - 1)
    triples = draw(st.sets(st.tuples(node, st.integers(0, 2), node), max_size=24))
    hubs = draw(st.sets(node, max_size=3)) | {0}
    return Case(sorted(triples), frozenset(hubs), draw(st.integers(-1, 4)), nodes)


@given(cases())
def test_paths_cover_the_region_and_nothing_else_and_each_ends_in_a_triple_of_its_own(case: Case) -> None:
    found = case.paths()
    assert {triple for path in found.paths for triple in path} == case.region()
    assert len({path[-1] for path in found.paths}) == len(found.paths)
    assert all(path for path in found.paths)
    for path in found.paths:
        ends = [0, *(case.triples[triple][2] for triple in path)]
        assert [case.triples[triple][0] for triple in path] == ends[:-1]
        assert not case.hubs & set(ends[1:-1])


@given(cases())
def test_paths_end_for_the_reason_that_is_given_level_by_level(case: Case) -> None:
    """A step that meets a hub or its own path ends there; all others end when their turn comes."""
    found, steps, turns = case.paths(), case.distances(), list[int]()
    for path, kind in zip(found.paths, found.end_kinds, strict=True):
        end, passed = case.triples[path[-1]][2], {case.triples[triple][0] for triple in path}
        turns.append(len(path) - (kind == HUB or end in passed))
        expected = (
            HUB
            if end in case.hubs
            else REVISIT
            if end in passed or (steps[end] < len(path) and case.is_within(steps[end]))
            else kind
        )
        assert kind == expected
        if kind == LEAF:
            assert not case.leaving(end)
        if kind == LIMIT:
            assert len(path) == case.max_length
            assert case.leaving(end)
    assert turns == sorted(turns)


@given(cases())
def test_candidates_are_the_hubs_that_the_region_enters_and_the_nodes_at_the_limit(case: Case) -> None:
    found, steps = case.paths(), case.distances()
    hubs = {case.triples[t][2] for t in case.region()} & case.hubs
    limits = {node for node, count in steps.items() if count == case.max_length > 0 and case.leaving(node)}
    assert {node: kind for node, (kind, _) in found.candidates.items()} == {
        **dict.fromkeys(hubs, HUB),
        **dict.fromkeys(limits, LIMIT),
    }
    for node, (kind, path) in found.candidates.items():
        entered = [steps[case.triples[t][0]] for t in case.region() if case.triples[t][2] == node]
        assert case.triples[path[-1]][2] == node
        assert len(path) == (min(entered) + 1 if kind == HUB else case.max_length)


@given(cases(), st.integers(1, 5))
def test_a_limit_keeps_the_first_paths_and_all_candidates(case: Case, max_paths: int) -> None:
    whole, limited = case.paths(), case.paths(max_paths)
    assert limited.paths == whole.paths[:max_paths]
    assert limited.left_out == len(whole.paths) - len(limited.paths)
    assert limited.candidates == whole.candidates


WORDS_OF_NAMES = ["ada", "king", "louis", "xiii", "of", "france", "the", "acme", "corp", "film", "x", "y"]
NAME_WORDS = st.sampled_from(WORDS_OF_NAMES)
NAME_TYPES = st.sampled_from(["PERSON", "ORGANIZATION", "LOCATION", None])
NAMES = st.lists(
    st.tuples(st.lists(NAME_WORDS, min_size=1, max_size=4).map(" ".join), NAME_TYPES, st.integers(1, 3)),
    unique_by=lambda row: row[0],
    max_size=25,
).map(lambda rows: [Name(*row[:1], row[0], row[1], row[2]) for row in rows])


NO_LINKS = Links()
key_of = attrgetter("key")
RULES: Judge = lambda names, pairs, _: accept(names, pairs)  # noqa: E731


def decide(names: list[Name], links: Links = NO_LINKS, max_cluster: int = 40) -> Resolution:
    names = in_order(names, links)
    return resolve(names, links, groups_of(words_of_names(names), max_cluster=max_cluster), RULES)


def kept_names(names: list[Name], limit: int) -> KeptNames:
    return KeptNames.of(name_table(names), groups_of(words_of_names(names), max_cluster=limit))


@pytest.mark.parametrize("seed", range(300, 400))
def test_after_a_change_few_names_are_decided_about_again_and_all_is_as_afresh(seed: int) -> None:
    chance = Random(seed)
    limit, words = chance.choice((2, 2, 3, 4)), chance.choice((WORDS_OF_NAMES, WORDS_OF_NAMES[:4]))
    forms = {
        " ".join(chance.choices(words, k=chance.choice((1, 2, 2, 3, 3, 4)))) for _ in range(chance.randrange(5, 30))
    }
    kinds = ("PERSON", "PERSON", "PERSON", "ORGANIZATION")
    every = [Name(f, f, chance.choice(kinds), is_guess=chance.random() < 0.3) for f in sorted(forms)]
    were, named = [name for name in every if chance.random() < 0.9], dict[str, Name | None]()
    for name in every:
        if name not in were or chance.random() < 0.1:
            named[name.key] = chance.choice((None, replace(name, type="LOCATION"))) if name in were else name
    are = in_order([*(n for n in were if n.key not in named), *(n for n in named.values() if n)], NO_LINKS)
    before, now = (kept_names(in_order(names, NO_LINKS), limit) for names in (were, are))
    changed = changed_names(before, named, limit)
    old, new = decide(were, max_cluster=limit), decide(are, max_cluster=limit)
    if changed is None:
        assert (old, before.names) == (new, now.names)
        return
    again, keys = resolve(changed.names, NO_LINKS, changed.groups, RULES), set(changed.keys)
    assert {k: v for k, v in old.canonical_of.items() if k not in keys} | again.canonical_of == new.canonical_of
    assert sorted([*(d for d in old.decisions if d.key not in keys), *again.decisions], key=key_of) == new.decisions
    assert changed.cluster_count == new.cluster_count
    assert changed.kept.names.equals(now.names)
    assert np.array_equal(changed.kept.pairs, now.pairs)
    assert np.array_equal(changed.kept.clusters, now.clusters)


@given(names=NAMES)
def test_a_canonical_name_is_final_and_of_one_type_and_every_merge_has_its_decision(names: list[Name]) -> None:
    found = decide(names)
    type_of = {name.key: name.type for name in names}
    assert not set(found.canonical_of) & set(found.canonical_of.values())
    decided = {decision.key: decision for decision in found.decisions}
    for old, canonical in found.canonical_of.items():
        assert type_of[old] == type_of[canonical] is not None
        assert decided[old].canonical == canonical
        assert decided[old].reason
    rows = [(decision.key, decision.kind, decision.scope) for decision in found.decisions]
    assert len(rows) == len(set(rows))


@given(names=NAMES, data=st.data())
def test_a_cannot_link_always_holds_and_links_may_come_in_any_order(names: list[Name], data: st.DataObject) -> None:
    of_two = st.tuples(*[st.sampled_from(names)] * 2)
    drawn = data.draw(st.lists(of_two, max_size=4)) if names else []
    pairs = [NamePair(a.name, b.name, "", f"line {n}") for n, (a, b) in enumerate(drawn) if a != b]
    found = decide(names, Links((), tuple(pairs)))
    for pair in pairs:
        a, b = (found.canonical_of.get(key, key) for key in (pair.a, pair.b))
        assert a != b
    assert found == decide(names, Links((), tuple(reversed(pairs))))
