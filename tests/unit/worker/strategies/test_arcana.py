"""graph-search and fusion: golden values, names, similarity, fallbacks, evidence."""

import re
import threading
from typing import Any

import numpy as np
import pytest
from memory_index import MemoryIndex, graph_from, ids_of, names_of, relations_from, retrieved, scores_of

from polyhop.schemas.errors import AlgorithmError
from polyhop.schemas.evidence import BY_VECTOR, NOTHING_SEARCHED, QuestionNames
from polyhop.schemas.graph import Mention
from polyhop.schemas.ports import Services
from polyhop.schemas.query import Question, QuestionName, Retrieval
from polyhop.warehouse.artefacts import ALIASES, ENTITY_ENCODER, GRAPH, NAMES, RELATIONS, vectors_of
from polyhop.worker.ranking.traversal import expand
from polyhop.worker.strategies import arcana
from polyhop.worker.strategies.baselines import DenseStrategy
from polyhop.worker.strategies.registry import make

KEYS = ["alder", "birch", "cedar", "dogwood", "elm", "x alder street"]
"""Those of G-ARC, so that they keep the order of its ids; k6 to k9 mention nothing."""
TRIPLES = [("birch", "grows by", "alder"), ("alder", "shades", "cedar")]
TRIPLES += [("dogwood", "r", "alder"), ("elm", "r", "dogwood")]
MENTIONS = ["alder,birch", "alder,cedar", "dogwood,alder", "elm,dogwood", KEYS[5], "", "", "", ""]
SIMILARITIES = {"k3": 0.9, "k9": 0.8, "k1": 0.7}


class Words:
    """Every capitalised word of a question is a name."""

    def find(self, text: str) -> list[Mention]:
        return [Mention(m[0].lower(), m[0], *m.span()) for m in re.finditer(r"\S+", text) if m[0][0].isupper()]


@pytest.fixture
def trees() -> Any:
    return tree_index({})


def tree_index(more: Any) -> Any:
    """G-ARC as an index; the vectors rank k3, k9, k1 first and all others equally."""
    ids = [f"k{number}" for number in range(1, 10)]
    vectors = np.array([[SIMILARITIES.get(i, 0.1), 0] for i in ids], dtype=np.float32)
    entity_vectors = np.array([[1, 0], [0.8, 0.6], [0, 1], [-1, 0], [0, 0], [0, 0]], dtype=np.float32)
    given: Any = {GRAPH: graph_from([dict.fromkeys(filter(None, row.split(",")), 1.0) for row in MENTIONS])}
    given |= {RELATIONS: relations_from(KEYS, TRIPLES), NAMES: Words(), ALIASES: {"tanglewood": "birch"}}
    given |= {vectors_of("passage"): vectors, vectors_of("entity"): entity_vectors}
    return MemoryIndex([(passage_id, "", "") for passage_id in ids], given | more)


def ask(index: Any, name: str, text: str, limit: int = 5, names: tuple[str, ...] = (), **given: object) -> Retrieval:
    brought = tuple(QuestionName(name, name) for name in names)
    return retrieved(index, name, Question(text, vector=np.array([1, 0], np.float32), names=brought), limit, **given)


@pytest.mark.parametrize(
    ("decay", "expected"),
    [(0.5, {"k1": 0.15, "k2": 0.075, "k3": 0.075, "k4": 0.025}), (1, {"k1": 0.2, "k2": 0.2, "k3": 0.2, "k4": 0.1})],
)
def test_golden_graph_search(trees: Any, decay: float, expected: dict[str, float]) -> None:
    """G-ARC; without decay an entity two relations away counts as much as the one asked for."""
    found = scores_of(ask(trees, "graph-search", "where is Birch", depth=2, decay=decay))
    assert list(found) == list(expected)
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("lengths", "wanted"),
    [
        ({}, {"k3": 0.032266, "k1": 0.032266}),
        ((3, 10_000), {"k3": 0.032266, "k1": 0.032266, "k9": 0.016129, "k2": 0.016129, "k4": 0.015625}),
        ((3, 2), {"k1": 0.032266, "k3": 0.016393, "k9": 0.016129, "k2": 0.016129}),
        ((1, 1), {"k3": 0.016393, "k1": 0.016393}),
    ],
    ids=["whole lists", "3 by vector", "2 by the graph", "1 of each"],
)
def test_golden_fusion(trees: Any, lengths: Any, wanted: dict[str, float]) -> None:
    """G-ARC: [k3, k9, k1] by vector, [k1, k2, k3, k4] by the graph, cut as Arcana's page cuts the first.

    Behind the golden three, the whole list by vector has all other passages here, which the limit cuts off.
    """
    assert ids_of(ask(trees, "dense", "birch", 9))[:3] == ["k3", "k9", "k1"]
    given = dict(zip(("vector_passages", "graph_passages"), lengths, strict=False))
    found = ask(trees, "fusion", "where is Birch", 9 if lengths else 2, depth=2, **given)
    assert ids_of(found) == [*wanted]
    assert scores_of(found) == pytest.approx(wanted, abs=1e-6)
    assert found.evidence.fallback is None
    assert ids_of(ask(trees, "fusion", "where is Birch", 2, depth=2, **given)) == [*wanted][:2]


@pytest.mark.parametrize(("text", "unmatched", "score"), [("where", (), 0.9), ("Oak", ("oak",), 1 / 61)])
def test_without_a_known_name_vectors_alone_rank(trees: Any, text: str, unmatched: Any, score: float) -> None:
    found = ask(trees, "fusion", text, 3)
    assert ids_of(found) == ["k3", "k9", "k1"]
    assert found.passages[0].score == pytest.approx(score)
    assert (found.evidence.fallback, found.evidence.names) == (BY_VECTOR, QuestionNames((), unmatched))
    nothing = ask(trees, "graph-search", text)
    assert (nothing.passages, nothing.evidence.fallback) == ((), NOTHING_SEARCHED)
    assert (nothing.evidence.node_count, nothing.evidence.nodes) == (0, ())


@pytest.mark.parametrize(
    ("text", "names", "matcher", "matched", "passages"),
    [
        ("Birch", ("elm",), "exact", "elm", "k4"),
        ("Tanglewood", (), "exact", "birch", "k1"),
        ("Alder", (), "exact", "alder", "k1 k2 k3"),
        ("Alder", (), "fuzzy", "alder, x alder street", "k1 k2 k3 k5"),
    ],
    ids=["names of the question first", "merged", "the name itself", "what contains the name"],
)
def test_passages_at_depth_0(trees: Any, text: str, names: Any, matcher: str, matched: str, passages: str) -> None:
    found = ask(trees, "graph-search", text, names=names, depth=0, matcher=matcher)
    assert (", ".join(names_of(found.evidence).matched), " ".join(ids_of(found))) == (matched, passages)


@pytest.mark.parametrize(
    ("enough", "reached", "passages"),
    [(1, 1, "k1"), (2, 2, "k1 k2 k3"), (3, 2, "k1 k2 k3"), (4, 4, "k1 k2 k3 k4"), (None, 4, "k1 k2 k3 k4")],
)
def test_traversal_ends_at_the_level_with_enough_passages(trees: Any, enough: Any, reached: int, passages: str) -> None:
    """By hand, on G-ARC from birch: k1 at depth 0, with alder k2 and k3, with cedar and dogwood k4."""
    found = ask(trees, "graph-search", "where is Birch", depth=2, enough_passages=enough)
    assert (found.evidence.node_count, " ".join(ids_of(found))) == (reached, passages)


@pytest.mark.parametrize("text", ["where is Birch", "where", "Oak"])
def test_both_searches_at_the_same_time_give_the_same(trees: Any, text: str) -> None:
    one, both = (ask(trees, "fusion", text, 9, depth=2, parallel=parallel) for parallel in (False, True))
    assert (both.passages, both.evidence) == (one.passages, one.evidence)


def test_the_vector_search_runs_while_the_graph_is_searched(trees: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search waits until the other one has begun."""
    both = threading.Barrier(2, timeout=20)

    def waiting(search: Any) -> Any:
        return lambda *given: both.wait() is not None and search(*given)

    monkeypatch.setattr(DenseStrategy, "rank", waiting(DenseStrategy.rank))
    monkeypatch.setattr(arcana, "expand", waiting(expand))
    assert ids_of(ask(trees, "fusion", "where is Birch", 2, depth=2, parallel=True)) == ["k3", "k1"]


def test_similarity_needs_no_name(trees: Any) -> None:
    found = ask(trees, "graph-search", "where", depth=0, matcher="embedding")
    found_by = {seed.key: seed.similarity for seed in found.evidence.seeds if seed.match == "vector"}
    assert found_by == {"alder": 1.0, "birch": pytest.approx(0.8, abs=1e-6)}
    assert ids_of(found) == ["k1", "k2", "k3"]
    nothing = ask(trees, "fusion", "where", matcher="embedding", min_similarity=1.0, entities=1, depth=0)
    assert names_of(nothing.evidence).matched == ("alder",)


def test_a_question_without_its_vector_asks_for_it_only_where_similarity_is_wanted(trees: Any) -> None:
    question, services = Question("where"), Services(lambda texts, *_, **__: np.ones((len(texts), 2), np.float32))
    with pytest.raises(AlgorithmError, match="No encoder was given"):
        make("graph-search", trees, {"matcher": "embedding"}).retrieve([question], limit=1)
    (found,) = make("graph-search", trees, {"matcher": "embedding"}, services).retrieve([question], limit=1)
    assert set(names_of(found.evidence).matched) >= {"alder", "birch"}
    assert make("graph-search", trees, {}).retrieve([question], limit=1)[0].evidence.fallback is not None


def test_the_evidence_shows_how_each_entity_was_reached_whatever_the_limit(trees: Any) -> None:
    evidence = ask(trees, "graph-search", "Birch Oak", depth=2).evidence
    assert (evidence.names, evidence.node_count) == (QuestionNames(("birch",), ("oak",)), 4)
    assert [(node.key, node.distance) for node in evidence.nodes[:3]] == [("birch", 0), ("alder", 1), ("cedar", 2)]
    first = "Birch --[grows by]--> Alder"
    assert [path.text for path in evidence.paths[:2]] == [first, f"{first} --[shades]--> Cedar"]
    assert evidence.paths[1].nodes == ("birch", "alder", "cedar")
    few, many = (ask(trees, "fusion", "Birch", limit=limit, over_fetch=1) for limit in (2, 9))
    assert (ids_of(few), few.evidence) == (ids_of(many)[:2], many.evidence)


def test_the_least_similarity_follows_the_encoder_of_entities() -> None:
    """cedar's cosine is 0, which of bge's cosines is far below that of any two texts."""
    indexes = [tree_index({ENTITY_ENCODER: encoder}) for encoder in ("local", "bge")]
    given: Any = {"depth": 0, "matcher": "embedding", "min_similarity": 0.0}
    found = [ask(index, "graph-search", "where", **given) for index in indexes]
    assert [len(names_of(each.evidence).matched) for each in found] == [3, 2]
