"""Which node a topic means: algorithms.md 4.8."""

import numpy as np
import pytest
from hub_index import hubs_of, written

from polyhop.schemas.text import entity_id, node_id
from polyhop.worker.ranking.hubs import Topics

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
    near = np.array([0.2, 0.6, np.sqrt(1 - 0.04 - 0.36)], dtype=np.float32)
    found = topics().by_vector(near)
    assert found is not None
    assert (OWN[found.node], found.match, [OWN[node] for node in found.others]) == ("R2", "vector", ["R1"])
    assert found.similarity == pytest.approx(0.6)
    assert topics().by_vector(np.array([0.5, 0.59, 0.63], dtype=np.float32)) is None


def test_an_entity_of_a_text_is_the_node_with_its_key() -> None:
    entities = ("R3", "gone"), (entity_id("R3"), entity_id("gone"))
    found = Topics(STORED, {}, entities, VECTORS).by_vector(VECTORS[0])
    assert found is not None
    assert OWN[found.node] == "R3"
    assert Topics(STORED, {}, entities, VECTORS).by_vector(VECTORS[1]) is None


def test_surer_matches_come_first_then_the_order_of_the_question() -> None:
    vectors = {"life": VECTORS[0], "Biology": VECTORS[1]}
    found = topics().find(["life", "SWD", "unknown", "Paper One", "Biology"], vectors)
    assert [(name, topic.match) for name, topic in found.items()] == [
        ("Paper One", "exact"),
        ("Biology", "exact"),
        ("SWD", "alias"),
        ("life", "vector"),
    ]


def test_without_entities_nothing_is_similar() -> None:
    assert Topics(STORED, {}, ((), ()), np.empty((0, 3), dtype=np.float32)).by_vector(VECTORS[0]) is None
