"""Topics, scores of paths, the choice of hubs and the walk by levels: the goldens of hub search."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_index import hubs_of, written
from numpy.typing import NDArray

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.hub_paths import StoredHubs
from polyhop.schemas.hubs import LEVELS, HubPaths, HubRows
from polyhop.schemas.text import entity_id, node_id
from polyhop.worker.ranking.hubs import (
    ChoiceRule,
    HubChoice,
    Level,
    PathSearch,
    ScoredHub,
    Topics,
    TopicWalk,
    UsedPath,
    diversified,
    linked,
    linked_passages,
    rank_passages,
    rank_triples,
    weighted_score,
)

LABELS = {"R1": "Software  Design", "R2": "software design", "R3": "Biology", "H": "Paper One", "x": "Value"}
STORED, _ = hubs_of(written("R1 has H; R2 has H; R2 near R1; R2 near R3; H is x"), {"H"}, LABELS)
OWN = STORED.own_ids.of(range(STORED.graph.node_count))
VECTORS = np.array([[1, 0, 0], [0, 1, 0]], dtype=np.float32)


def topics(ids: tuple[str, str] = (node_id("R3"), node_id("R1"))) -> Topics:
    entities = ("biology", "software design #R1"), ids
    return Topics(STORED, {"life science": "biology", "swd": "R1", "lost": "nowhere"}, entities, VECTORS)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("R2", ("R2", "id", [])),
        ("  SOFTWARE design ", ("R2", "exact", ["R1"])),
        ("Life  Science", ("R3", "alias", [])),
        ("SWD", ("R1", "alias", [])),
        ("lost", None),
        ("chemistry", None),
    ],
)
def test_ids_come_before_labels_and_labels_before_other_forms(name: str, expected: object) -> None:
    found = topics().by_name(name)
    assert (found and (OWN[found.node], found.match, [OWN[node] for node in found.others])) == expected


def test_the_most_similar_label_is_taken_from_a_cosine_of_six_tenths_on() -> None:
    """An entity of a text is the node with its key."""
    near = np.array([0.2, 0.6, np.sqrt(1 - 0.04 - 0.36)], dtype=np.float32)
    found = topics().by_vector(near)
    assert found is not None
    assert (OWN[found.node], found.match, [OWN[node] for node in found.others]) == ("R2", "vector", ["R1"])
    assert found.similarity == pytest.approx(0.6)
    assert topics().by_vector(np.array([0.5, 0.59, 0.63], dtype=np.float32)) is None
    of_text = Topics(STORED, {}, (("R3", "gone"), (entity_id("R3"), entity_id("gone"))), VECTORS)
    entity = of_text.by_vector(VECTORS[0])
    assert entity is not None
    assert OWN[entity.node] == "R3"
    assert of_text.by_vector(VECTORS[1]) is None
    assert Topics(STORED, {}, ((), ()), np.empty((0, 3), dtype=np.float32)).by_vector(VECTORS[0]) is None


def test_surer_matches_come_first_then_the_order_of_the_question() -> None:
    vectors = {"life": VECTORS[0], "Biology": VECTORS[1]}
    found = topics().find(["life", "SWD", "unknown", "Paper One", "Biology"], vectors)
    matches = "Paper One exact, Biology exact, SWD alias, life vector"
    assert ", ".join(f"{name} {topic.match}" for name, topic in found.items()) == matches


THREE, _ = hubs_of(written("H1 a x; H1 b y; H2 c z"), {"H1", "H2"})
PATH, TRIPLE, ENTITY = (LEVELS.index(name) for name in ("path", "triple", "entity"))


def unit(*degrees: float) -> NDArray[np.float32]:
    """Vectors at these angles."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def rows(*given: tuple[int, int, int, int]) -> HubRows:
    """Path, text, level and triple of each row."""
    columns = np.array(given).reshape(-1, 4).T
    return HubRows(columns[0], columns[1], columns[2].astype(np.uint8), columns[3])


BEST_ROWS = ((0, 0, PATH, -1), (0, 1, TRIPLE, 0), (1, 2, PATH, -1), (2, 3, PATH, -1), (1, 0, ENTITY, -1))


@pytest.mark.parametrize("given_rows", [BEST_ROWS, BEST_ROWS[::-1]], ids=["ascending", "descending"])
def test_a_path_scores_by_its_best_row_in_any_order_and_the_best_query_vector(given_rows: Any) -> None:
    search = PathSearch(THREE.paths, rows(*given_rows), unit(60, 30, 90, 180))
    scores = search.scores(unit(0))
    assert scores.paths == pytest.approx([np.cos(np.radians(30)), 0.5, 0.0], abs=1e-6)
    both = search.scores(unit(0, 180))
    assert both.paths == pytest.approx([np.cos(np.radians(30)), 0.5, 1.0], abs=1e-6)
    assert both.paths.max() <= 1.0
    assert [search.best_row_triple(scores, path) for path in range(3)] == [0, -1, -1]
    assert search.has_triple_rows


def test_paths_below_the_least_score_without_rows_or_without_a_vector_are_not_seen() -> None:
    vectors = unit(60, 30)
    vectors[1] = 0
    search = PathSearch(THREE.paths, rows((0, 0, PATH, -1), (2, 1, PATH, -1)), vectors)
    assert search.scores(unit(0)).paths.tolist() == pytest.approx([0.5, -np.inf, -np.inf])
    assert search.scores(unit(0), 0.6).paths.tolist() == [-np.inf] * 3
    assert search.best_row_triple(search.scores(unit(0)), 1) == -1
    nothing = PathSearch(THREE.paths, rows(), np.empty((0, 2), dtype=np.float32))
    assert nothing.scores(unit(0)).paths.tolist() == [-np.inf] * 3
    with pytest.raises(AlgorithmError, match="encode questions with the model that built the index"):
        search.scores(np.ones((1, 3), dtype=np.float32))


STORE = {"H1": {"h1p1": 0.82, "h1p2": 0.80, "h1p3": 0.79, "h1p4": 0.10}, "H2": {"h2p1": 0.70, "h2p2": 0.30}}
STORE |= {"H3": {"h3p1": 0.75, "h3p2": 0.20, "h3p3": 0.15}}


def paths_of(counts: Sequence[int]) -> HubPaths:
    """Hubs with so many paths of one triple each."""
    triples = [(f"H{hub:02}", "p", f"{n:02}") for hub, count in enumerate(counts) for n in range(count)]
    return hubs_of(triples, {f"H{hub:02}" for hub in range(len(counts))})[0].paths


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        # The four best paths are of H1 and H3; H3 gets its second path afterwards. H2 is not chosen.
        (ChoiceRule(2, 2, 0.0), {"H1": (["h1p1", "h1p2"], 0.81), "H3": (["h3p1", "h3p2"], 0.475)}),
        (
            ChoiceRule(3, 2, 5.0),
            {"H1": (["h1p1", "h1p2"], 0.8105), "H3": (["h3p1", "h3p2"], 0.716952), "H2": (["h2p1", "h2p2"], 0.652319)},
        ),
    ],
)
def test_hubs_are_chosen_in_rounds_and_ranked(rule: ChoiceRule, expected: dict[str, tuple[list[str], float]]) -> None:
    own, names = list(STORE), [name for paths in STORE.values() for name in paths]
    scores = np.array([score for paths in STORE.values() for score in paths.values()])
    found = HubChoice(paths_of([*map(len, STORE.values())])).by_candidates(scores, rule)
    shown = [(own[one.hub], ([names[path] for path in one.paths], round(one.score, 6))) for one in found]
    assert shown == [*expected.items()]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.9, 0.1], (0.5, 0.885611, 0.899403)),
        ([0.5, 0.5, 0.5], (0.5, 0.5, 0.5)),
        ([0.6, 0.55, 0.2], (0.45, 0.551375, 0.574287)),
        ([], (0.0, 0.0, 0.0)),
    ],
)
def test_the_weighted_mean(scores: list[float], expected: tuple[float, ...]) -> None:
    assert tuple(round(weighted_score(scores, weight), 6) for weight in (0, 5, 9)) == expected


def test_repeated_subjects_come_later() -> None:
    """(A,x,b) .80, (A,y,c) .78, (A,z,d) .77, a text .76, (B,x,c) .74, with a penalty of .05."""
    scores, subjects = [0.80, 0.78, 0.77, 0.76, 0.74], [0, 0, 0, -1, 1]
    assert diversified(scores, subjects, 0.05) == [0, 3, 4, 1, 2]
    assert diversified(scores, subjects, 0.0) == [0, 1, 2, 3, 4]
    assert diversified(scores, [-1] * 5, 0.05) == [0, 1, 2, 3, 4]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.data(), st.integers(1, 4), st.integers(1, 3))
def test_the_loop_is_that_of_the_specification(counts: list[int], data: st.DataObject, gamma: int, alpha: int) -> None:
    """Against the rule written out over all paths, for scores with many ties; paths at minus infinity are not seen."""
    steps = st.sampled_from([-np.inf, 0.0, 0.25, 0.5, 0.75])
    scores = np.array(data.draw(st.lists(steps, min_size=sum(counts), max_size=sum(counts))), dtype=np.float64)
    paths, rule = paths_of(counts), ChoiceRule(gamma, alpha, 5.0)
    choice, every = HubChoice(paths), np.arange(len(counts))
    chosen_hubs = plainly_chosen(paths, scores, rule)
    chosen, of_all = choice.by_candidates(scores, rule), choice.best_of(scores, every, rule)
    assert [(hub.hub, hub.paths) for hub in chosen] == plainly_ranked(paths, scores, rule, chosen_hubs)
    expected = plainly_ranked(paths, scores, rule, every.tolist())[: rule.hubs]
    assert [(hub.hub, hub.paths) for hub in of_all] == expected


def in_order(paths: HubPaths, scores: NDArray[np.float64], numbers: Sequence[int]) -> list[int]:
    seen = [number for number in numbers if scores[number] > -np.inf]
    return sorted(seen, key=lambda number: (-scores[number], paths.hashes[number].tobytes()))


def plainly_ranked(
    paths: HubPaths, scores: NDArray[np.float64], rule: ChoiceRule, among: Collection[int]
) -> list[tuple[int, tuple[int, ...]]]:
    """Hubs with their paths, in order."""
    owner, rows = paths.path_hubs().tolist(), []
    for hub in among:
        kept = in_order(paths, scores, [n for n in range(len(scores)) if owner[n] == hub])[: rule.paths]
        rows.append((not kept, -round(weighted_score(scores[kept], rule.weight), 12), hub, tuple(kept)))
    return [row[2:] for row in sorted(rows)]


def plainly_chosen(paths: HubPaths, scores: NDArray[np.float64], rule: ChoiceRule) -> set[int]:
    owner, chosen_hubs = paths.path_hubs().tolist(), list[int]()
    while len(chosen_hubs) < rule.hubs:
        free = [number for number in range(len(scores)) if owner[number] not in chosen_hubs]
        first = in_order(paths, scores, free)[: (rule.hubs - len(chosen_hubs)) * rule.paths]
        if not first:
            break
        for number in first:
            if owner[number] not in chosen_hubs and len(chosen_hubs) < rule.hubs:
                chosen_hubs.append(owner[number])
    return set(chosen_hubs)


GOLDEN = written(
    "H1 title t1; H1 author A1; H1 venue V1; H1 cites H2; H1 same-as H1; A1 affiliation U1; A1 wrote H2; U1 place C1; "
    "U1 employs A1; V1 place C1; C1 part-of K1; H2 title t2; H2 author A2; H2 cites H1; A2 affiliation U1; "
    "R contains H1; R contains H2; F parent-of R"
)


def node(stored: StoredHubs, own_id: str) -> int:
    return stored.own_ids.of(range(stored.graph.node_count)).index(own_id)


def walk(
    stored: StoredHubs, topic: str, scores: Mapping[str, float], *, hubs: int = 5, most: int = 5, eta: bool = True
) -> list[Level]:
    """Levels from a topic; a hub's paths score as said, .5 otherwise."""
    own = stored.own_ids.of(stored.paths.hubs.tolist())
    values = np.array([scores.get(own[hub], 0.5) for hub in stored.paths.path_hubs()])
    rule = ChoiceRule(hubs, 10, 5.0)
    walked = TopicWalk(stored.graph, stored.paths, stored.unreached)
    return list(walked.levels(node(stored, topic), values, rule, most_levels=most, until_hub=eta))


def shown(stored: StoredHubs, levels: list[Level]) -> list[tuple[int, list[tuple[str, str]]]]:
    """Of each level its number, and its hubs with the triples that lead to them."""
    own = stored.own_ids.of(range(stored.graph.node_count))

    def triple(number: int) -> str:
        graph = stored.graph
        s, p, o = (int(part[number]) for part in (graph.subjects, graph.predicates, graph.objects))
        return f"{own[s]} {stored.predicates[p]} {own[o]}"

    def hubs(level: Level) -> list[tuple[str, str]]:
        ways = zip(level.hubs, level.paths_to_topic, strict=True)
        return [(own[int(stored.paths.hubs[hub.hub])], ", ".join(map(triple, walked))) for hub, walked in ways]

    return [(level.number, hubs(level)) for level in levels]


OVER_A2 = "A2 affiliation U1, H2 author A2"


@pytest.mark.parametrize(
    ("topic", "eta", "expected"),
    [
        ("R", True, [(1, [("H1", "R contains H1"), ("H2", "R contains H2")])]),
        ("R", False, [(2, [("H1", "R contains H1"), ("H2", "R contains H2")])]),
        ("F", True, [(1, [("H1", "F parent-of R, R contains H1"), ("H2", "F parent-of R, R contains H2")])]),
        ("H2", True, [(1, [("H1", "H1 cites H2"), ("H2", "")])]),
        ("C1", False, [(3, [("H1", "V1 place C1, H1 venue V1")]), (4, [("H2", f"U1 place C1, {OVER_A2}")])]),
    ],
)
def test_hubs_are_found_by_level_with_the_way_to_them(topic: str, eta: bool, expected: object) -> None:
    """G-HUB-2."""
    stored, _ = hubs_of(GOLDEN, {"H1", "H2"})
    assert shown(stored, walk(stored, topic, {}, eta=eta)) == expected


def test_hubs_that_are_left_out_of_a_level_lead_on_to_the_next() -> None:
    stored, _ = hubs_of(written("T has H1; T has H2; H2 cites H3; H1 name a; H2 name b; H3 name c"), {"H1", "H2", "H3"})
    levels = walk(stored, "T", {"H1": 0.9, "H2": 0.1}, hubs=1)
    assert shown(stored, levels) == [(1, [("H1", "T has H1")]), (2, [("H3", "T has H2, H2 cites H3")])]
    assert [level.found for level in levels] == [2, 1]
    stored, _ = hubs_of(written("T has A; T has B; B name b"), {"A", "B"})  # a hub without paths stands behind
    assert shown(stored, walk(stored, "T", {"B": 0.0})) == [(1, [("B", "T has B"), ("A", "T has A")])]


def test_a_level_without_hubs_counts_and_the_search_goes_on() -> None:
    """With a limit of one triple, A is where the paths of H1 go on; the hub after it is of level 2."""
    stored, _ = hubs_of(written("T has H1; H1 by A; A knows B; B wrote H2; H2 name b"), {"H1", "H2"}, max_length=1)
    assert [(level, hubs[0][0]) for level, hubs in shown(stored, walk(stored, "T", {}))] == [(1, "H1"), (2, "H2")]
    assert [level.number for level in walk(stored, "T", {}, eta=False)] == [2, 5]


def test_hubs_without_an_index_are_named_and_not_passed() -> None:
    triples = written("T has H1; T has H2; H2 cites H3; H1 name a; H3 name c")
    stored, _ = hubs_of(triples, {"H1", "H2", "H3"}, not_indexed={"H2"})
    (level,) = walk(stored, "T", {})
    own = stored.own_ids.of(list(level.not_indexed))
    assert (own, level.found, len(level.hubs)) == (["H2"], 2, 1)


def test_triples_stand_by_score_then_hub_then_hash_and_inner_triples_follow() -> None:
    stored, _ = hubs_of(written("H1 by A; A at U; U in V; H1 name n; H2 name m"), {"H1", "H2"})
    paths, own = stored.paths, stored.own_ids.of(range(stored.graph.node_count))
    values = [own[number] for number in stored.graph.objects.tolist()]
    number = {" ".join(values[n] for n in paths.triples_of(path)): path for path in range(paths.path_count)}
    used = [UsedPath(number["A U V"], 0.8, 1), UsedPath(number["m"], 0.8, 0), UsedPath(number["n"], 0.9, 1)]

    def objects(levels: list[list[UsedPath]]) -> list[tuple[str, float]]:
        return [(values[triple], score) for triple, score in rank_triples(levels, paths)]

    assert objects([used]) == [("n", 0.9), ("m", 0.8), ("V", 0.8), ("A", 0.8), ("U", 0.8)]
    assert objects([used[:2], used]) == [("m", 0.8), ("V", 0.8), ("A", 0.8), ("U", 0.8), ("n", 0.9)]


def test_passages_take_the_best_of_path_and_hub_level_by_level_and_linked_ones_are_the_nearest() -> None:
    triples = written("H1 by A; H1 name n; H2 name m")
    stated = [(triples[0], 3), (triples[1], 1), (triples[1], 3), (triples[2], 0)]
    stored, _ = hubs_of(triples, {"H1", "H2"}, triple_passages=stated)
    paths = stored.paths
    stating = linked(stored.triple_passages, len(stored.graph.subjects))
    scores = np.array([0.6, 0.4, 0.9])
    first, second = ScoredHub(0, 0.5, (0, 1)), ScoredHub(1, 0.9, (2,))
    levels = [([first], [[(2, 0.8), (1, 0.9), (4, -1.0)]]), ([second], [[(2, 1.0)]])]
    found = rank_passages(levels, scores, paths, stating)
    assert found == [(3, 0.6), (1, 0.45), (2, 0.4), (4, 0.0), (0, 0.9)]
    passages, cosines = np.array([9, 7, 8]), np.array([0.5, 0.5, 0.9])
    assert linked_passages(passages, cosines, 2) == [(8, 0.9), (7, 0.5)]
    assert linked_passages(passages, cosines, 0) == []
