"""Laws of entity resolution on arbitrary names."""

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.records import NamePair
from polyhop.tasks.resolution.candidates import Name, candidate_pairs, clusters_of
from polyhop.tasks.resolution.resolve import Links, Resolution, accept, resolve

WORDS = st.sampled_from(["ada", "king", "louis", "xiii", "of", "france", "the", "acme", "corp", "film", "x", "y"])
TYPES = st.sampled_from(["PERSON", "ORGANIZATION", "LOCATION", None])
NAMES = st.lists(
    st.tuples(st.lists(WORDS, min_size=1, max_size=4).map(" ".join), TYPES, st.integers(1, 3)),
    unique_by=lambda row: row[0],
    max_size=25,
).map(lambda rows: [Name(*row[:1], row[0], row[1], row[2]) for row in rows])


NO_LINKS = Links()


def decide(names: list[Name], links: Links = NO_LINKS, max_cluster: int = 40) -> Resolution:
    return resolve(names, links, lambda every, pairs, _: accept(every, pairs), max_cluster)


@given(names=NAMES, random=st.randoms(use_true_random=False), limit=st.integers(2, 6))
def test_the_order_of_names_does_not_matter(names: list[Name], random: Random, limit: int) -> None:
    shuffled = list(names)
    random.shuffle(shuffled)
    assert decide(names, max_cluster=limit) == decide(shuffled, max_cluster=limit)


@given(names=NAMES)
def test_names_of_different_types_are_never_merged(names: list[Name]) -> None:
    type_of = {name.key: name.type for name in names}
    for old, canonical in decide(names).canonical_of.items():
        assert type_of[old] == type_of[canonical] is not None


@given(names=NAMES, limit=st.integers(2, 6))
def test_clusters_are_never_larger_than_allowed(names: list[Name], limit: int) -> None:
    grouped = clusters_of(len(names), candidate_pairs(names).pairs, limit)
    assert all(2 <= len(cluster) <= limit for cluster in grouped.clusters)
    members = [number for cluster in grouped.clusters for number in cluster]
    assert len(members) == len(set(members))
    assert not set(members) & set(grouped.left_out)


@given(names=NAMES)
def test_a_canonical_name_is_final_and_every_merge_has_its_decision(names: list[Name]) -> None:
    found = decide(names)
    assert not set(found.canonical_of) & set(found.canonical_of.values())
    decided = {decision.key: decision for decision in found.decisions}
    for old, canonical in found.canonical_of.items():
        assert decided[old].canonical == canonical
        assert decided[old].reason
    rows = [(decision.key, decision.kind, decision.scope) for decision in found.decisions]
    assert len(rows) == len(set(rows))


@given(names=NAMES, limit=st.integers(2, 6))
def test_deciding_again_on_the_same_names_decides_the_same(names: list[Name], limit: int) -> None:
    copies = [replace(name) for name in names]
    assert decide(names, max_cluster=limit) == decide(copies, max_cluster=limit)


@given(names=NAMES, data=st.data())
def test_a_cannot_link_always_holds_and_links_may_come_in_any_order(names: list[Name], data: st.DataObject) -> None:
    pairs = (
        [
            NamePair(a.name, b.name, "", f"line {n}")
            for n, (a, b) in enumerate(
                data.draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=4))
            )
            if a != b
        ]
        if names
        else []
    )
    found = decide(names, Links((), tuple(pairs)))
    for pair in pairs:
        a, b = (found.canonical_of.get(key, key) for key in (pair.a, pair.b))
        assert a != b
    assert found == decide(names, Links((), tuple(reversed(pairs))))
