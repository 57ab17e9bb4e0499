"""What every IndexReader does: the one in memory, and a version that was really published."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from memory_index import PASSAGES, MemoryIndex, Passage
from real_index import RealIndex

from polyhop.schemas.errors import MissingArtefactError
from polyhop.schemas.graph import BipartiteGraph
from polyhop.schemas.hub_paths import STORED_HUBS
from polyhop.schemas.ports import Artefact, IndexReader
from polyhop.schemas.text import entity_id
from polyhop.warehouse import index_reader
from polyhop.warehouse.artefacts import (
    ALIASES,
    CHUNK_GRAPH,
    ENTITIES,
    ENTITY_IDS,
    EXACT_NAMES,
    GRAPH,
    NAMES,
    NEAREST_PASSAGES,
    RELATIONS,
    SURFACES,
    lexical_of,
    vectors_of,
)
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.warehouse.open import open_published
from polyhop.warehouse.propositions import STORED_PROPOSITIONS, STORED_TRIPLES

pytestmark = pytest.mark.slow

CORPUS: tuple[Passage, ...] = (
    *PASSAGES,
    ("Z9", "Émile Zola", "ÉMILE ZOLA lived in Paris; the Seine was near. Émile Zola wrote of Nana."),
    ("a b", "Seine", "seine, Seine, SEINE."),
    ("é", "", "Łódź lies in Poland. 東京 does not."),
    ("ü", "History of Warsaw", "It began beside a river."),
)
PLAIN = ("bridge", "bridge-masked", "bm25", "qasa", "dense-ann")
ALL_STRATEGIES = (*PLAIN, "proprag", "triple-ppr", "hublink", "hub-facets")
COUNT = "SELECT count(DISTINCT title) FROM passages WHERE title <> ''"
TITLE_COUNT: Artefact[int] = Artefact("graph", lambda stored: stored.rows(COUNT)[0][0])
"""A handle such as another package declares."""
BUILT = (
    *(GRAPH, CHUNK_GRAPH, RELATIONS, ENTITIES, ENTITY_IDS, EXACT_NAMES, NEAREST_PASSAGES, TITLE_COUNT),
    *(STORED_PROPOSITIONS, STORED_TRIPLES, STORED_HUBS, *map(lexical_of, ("plain", "stems"))),
    *map(vectors_of, ("passage", "entity", "proposition", "triple", "hubpath", "hubvalue")),
)
ASKED = "Did Marie Curie, ÉMILE ZOLA or Paris (mythology) see the River Thames?"
TEXTS = (*(text for _, _, text in CORPUS), ASKED, "", "nothing, nowhere")


@pytest.fixture(scope="module")
def publish(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., PublishedIndex]]:
    """Indexes the corpus for strategies, and opens the version."""
    opened: list[PublishedIndex] = []

    def publish(*strategies: str) -> PublishedIndex:
        index = RealIndex(tmp_path_factory.mktemp("contract"), "people", strategies=strategies)
        index.read(dict(zip(("id", "title", "text"), row, strict=True)) for row in reversed(CORPUS))
        opened.append(open_published(index.root, "people"))
        return opened[-1]

    yield publish
    for index in opened:
        index.close()


@pytest.fixture(scope="module")
def published(publish: Callable[..., PublishedIndex]) -> PublishedIndex:
    return publish(*ALL_STRATEGIES)


@pytest.fixture(scope="module")
def memory() -> MemoryIndex:
    titles = {title for _, title, _ in CORPUS if title}
    return MemoryIndex(reversed(CORPUS), {TITLE_COUNT: len(titles)}, name="people")


@pytest.fixture(scope="module", params=["memory", "published"])
def index(request: pytest.FixtureRequest) -> IndexReader:
    found: IndexReader = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module", params=["memory", "published"])
def small(request: pytest.FixtureRequest, publish: Callable[..., PublishedIndex]) -> IndexReader:
    """Built for bm25 only."""
    if request.param == "memory":
        return MemoryIndex(CORPUS, {TITLE_COUNT: 0}, artefacts={"lexical:plain"}, name="people")
    return publish("bm25")


def row_of(graph: BipartiteGraph, passage: int) -> list[int]:
    numbers: list[int] = graph.indices[graph.indptr[passage] : graph.indptr[passage + 1]].tolist()
    return numbers


def test_passages_are_numbered_by_ascending_id_whatever_the_order_of_the_corpus(index: IndexReader) -> None:
    ids, titles, _ = zip(*sorted(CORPUS), strict=True)
    assert (index.name, index.version) == ("people", 1)
    assert (tuple(index.passage_ids), tuple(index.passage_titles)) == (ids, titles)
    assert dict(index.number_of_passage) == {passage_id: number for number, passage_id in enumerate(ids)}
    assert tuple(index.record_of(passage_id) for passage_id in ids) == ids  # each is a whole record
    assert index.artefact(TITLE_COUNT) == len({*titles} - {""})


@pytest.mark.parametrize("numbers", [[], [3], [5, 0, 12], [4, 4, 1, 4]])
def test_passages_come_in_the_order_asked_as_often_as_asked(index: IndexReader, numbers: list[int]) -> None:
    rows = sorted(CORPUS)
    assert [tuple(row) for row in index.passages(numbers)] == [rows[number] for number in numbers]


def test_texts_read_last_are_kept_up_to_a_limit(published: PublishedIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sorted(CORPUS)
    published._passages.clear()
    monkeypatch.setattr(index_reader, "KEPT_PASSAGES", 3)
    for numbers in ([0, 1, 2, 3, 4], [2, 7, 2], [1, 9], [8, 9]):
        assert [tuple(row) for row in published.passages(numbers)] == [rows[number] for number in numbers]
    monkeypatch.setattr(published, "rows", lambda _, ids: [(passage_id, "read", "again") for passage_id in ids["ids"]])
    kept = [rows[number] for number in (9, 8, 9, 1)]
    assert [tuple(row) for row in published.passages([9, 8, 9, 1])] == kept
    assert published.passages([8, 2]) == [rows[8], (rows[2][0], "read", "again")]
    published._passages.clear()


def test_an_index_says_what_it_was_built_with(memory: MemoryIndex, published: PublishedIndex) -> None:
    assert memory.artefacts == published.artefacts == {handle.name for handle in BUILT}


@pytest.mark.parametrize("handle", [*BUILT, SURFACES, ALIASES, NAMES], ids=lambda handle: handle.name)
def test_a_value_is_opened_once(index: IndexReader, handle: Artefact[Any]) -> None:
    again = Artefact(handle.name, handle.open, handle.strategy, handle.is_optional)
    assert index.artefact(handle) is index.artefact(handle) is index.artefact(again)


@pytest.mark.parametrize("handle", [h for h in BUILT if h.name != "lexical:plain"], ids=lambda handle: handle.name)
def test_what_it_was_built_without_is_refused_with_a_command(small: IndexReader, handle: Artefact[Any]) -> None:
    command = f"'{handle.name}', which index 'people' .* --index people --add-strategy {handle.strategy}$"
    with pytest.raises(MissingArtefactError, match=command) as refused:
        small.artefact(handle)
    assert refused.value.artefact == handle.name


def test_what_every_version_has_needs_nothing_built(small: IndexReader, index: IndexReader) -> None:
    assert small.artefact(lexical_of("plain")).terms == index.artefact(lexical_of("plain")).terms
    assert small.artefact(NAMES).find(TEXTS[0]) == index.artefact(NAMES).find(TEXTS[0]) != []
    assert small.artefact(SURFACES).keys == index.artefact(SURFACES).keys
    assert small.artefact(ALIASES) == index.artefact(ALIASES)


def in_lists(found: Any, *names: str) -> list[object]:
    return [(getattr(found, name).tolist(), getattr(found, name).dtype) for name in names]


def graph_of(index: IndexReader, handle: Artefact[BipartiteGraph]) -> list[object]:
    graph = index.artefact(handle)
    return [graph.keys, *in_lists(graph, "indptr", "indices", "tf", "is_title")]


def postings_of(index: IndexReader, analyser: str) -> list[object]:
    lexical = index.artefact(lexical_of(analyser))
    return [list(lexical.terms.items()), *in_lists(lexical, "indptr", "passages", "tf", "lengths")]


SAME: dict[str, Callable[[IndexReader], object]] = {
    "graph": lambda index: graph_of(index, GRAPH),
    "graph with parts of titles": lambda index: graph_of(index, CHUNK_GRAPH),
    "surfaces": lambda index: graph_of(index, SURFACES),
    "names": lambda index: [list(index.artefact(NAMES).find(text)) for text in TEXTS],
    "plain postings": lambda index: postings_of(index, "plain"),
    "postings of stems": lambda index: postings_of(index, "stems"),
    "exact names": lambda index: {name: list(numbers) for name, numbers in index.artefact(EXACT_NAMES).items()},
    "aliases": lambda index: dict(index.artefact(ALIASES)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", SAME)
def test_both_have_the_same(memory: MemoryIndex, published: PublishedIndex, name: str) -> None:
    assert SAME[name](memory) == SAME[name](published)


def test_parts_of_titles_are_edges_of_one_graph_only(index: IndexReader) -> None:
    """`warsaw` is a name elsewhere, `history of` is not, and `thames` of River Thames is none."""
    plain, more = index.artefact(GRAPH), index.artefact(CHUNK_GRAPH)
    passage, entity = index.number_of_passage["ü"], plain.number_of["warsaw"]
    assert more.keys == plain.keys
    assert set(row_of(more, passage)) - set(row_of(plain, passage)) == {entity}
    assert [len(row_of(more, p)) - len(row_of(plain, p)) for p in range(len(CORPUS))].count(0) == len(CORPUS) - 1
    place = more.indptr[passage] + row_of(more, passage).index(entity)
    assert (more.tf[place], more.is_title[place]) == (1, False)
    assert more.df[entity] == plain.df[entity] + 1


def test_relations_keep_their_laws(index: IndexReader) -> None:
    graph, relations = index.artefact(GRAPH), index.artefact(RELATIONS)
    assert relations.entity_count == graph.entity_count
    assert {relations.indptr.dtype, relations.label_indptr.dtype} == {np.dtype(np.int64)}
    assert {relations.indices.dtype, relations.labels.dtype} == {np.dtype(np.int32)}
    assert list(relations.names) == sorted(set(relations.names)) != []
    assert relations.label_indptr.shape == (len(relations.indices) + 1,)
    assert relations.label_indptr[-1] == len(relations.labels) > 0
    pairs = set()
    for entity in range(relations.entity_count):
        row = relations.indices[relations.indptr[entity] : relations.indptr[entity + 1]].tolist()
        assert row == sorted(set(row))
        assert entity not in row
        pairs |= {(entity, other) for other in row}
    assert pairs == {(other, entity) for entity, other in pairs}
    labelled = {(s, t) for s, t in pairs if relations.labels_from(s, t) or relations.labels_from(t, s)}
    assert labelled == pairs


def test_entities_are_those_of_the_graph_in_the_order_asked(index: IndexReader) -> None:
    ids, keys, read = index.artefact(ENTITY_IDS), index.artefact(GRAPH).keys, index.artefact(ENTITIES)
    assert [entity.key for entity in read([3, 0, len(keys) - 1, 3])] == [keys[3], keys[0], keys[-1], keys[3]]
    assert (read([]), list(ids)) == ([], [entity_id(key) for key in keys])
    for entity in read(range(len(keys))):
        assert entity.name
        assert {type(entity.name), type(entity.type), type(entity.description)} == {str}


def test_vectors_have_a_length_of_one_and_a_row_per_number(index: IndexReader) -> None:
    """p11 and p12 hold the same text, p10 another one."""
    for kind, count in (("passage", len(CORPUS)), ("entity", index.artefact(GRAPH).entity_count)):
        matrix = np.asarray(index.artefact(vectors_of(kind)))
        assert (matrix.ndim, len(matrix), matrix.dtype) == (2, count, np.dtype(np.float32))
        assert np.linalg.norm(matrix, axis=1) == pytest.approx(np.ones(count), abs=1e-5)
    matrix = np.asarray(index.artefact(vectors_of("passage")))
    same, twin, other = (matrix[index.number_of_passage[passage_id]] for passage_id in ("p11", "p12", "p10"))
    assert float(same @ twin) == pytest.approx(1, abs=1e-5)
    assert float(same @ other) < 0.9


@pytest.mark.parametrize("count", [1, 4, len(CORPUS), len(CORPUS) + 5])
def test_nearest_passages_are_nearest_first(index: IndexReader, count: int) -> None:
    """So small a graph misses nothing."""
    search, matrix = index.artefact(NEAREST_PASSAGES), np.asarray(index.artefact(vectors_of("passage")))
    for vector in matrix[::5]:
        found = list(search(vector, count, 64))
        assert len(set(found)) == len(found) == min(count, len(CORPUS))
        exact = np.sort(matrix @ vector)[::-1][: len(found)]
        assert (matrix @ vector)[found] == pytest.approx(exact, abs=1e-5)


def test_names_of_entities_and_aliases_are_those_of_the_corpus(published: PublishedIndex) -> None:
    names = {"émile zola": "emile zola", "łódź": "łodz", "paris (mythology)": "paris mythology"}
    numbers = published.artefact(GRAPH).number_of
    assert SAME["exact names"](published) == {name: [numbers[key]] for name, key in names.items()}
    assert (SAME["aliases"](published), any(published.artefact(NAMES).find(text) for text in TEXTS)) == ({}, True)
