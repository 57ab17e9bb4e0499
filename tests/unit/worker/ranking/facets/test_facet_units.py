"""Signatures, documents and labels of hub paths: algorithms.md 4B, units."""

import numpy as np
import pytest
from facet_index import make_units, music_hubs, shown, units_from

from polyhop.worker.ranking.facets.units import Units


@pytest.fixture(scope="module")
def music() -> Units:
    return units_from(music_hubs())


def test_signatures_are_the_ways_from_hubs_to_values_in_words(music: Units) -> None:
    assert list(music.signature_texts) == [
        "has genre",
        "live album",
        "performed by",
        "recorded at located in",
        "release year",
    ]


def test_paths_of_one_signature_and_value_are_one_document(music: Units) -> None:
    documents = [shown(music, number) for number in range(len(music.copies))]
    assert len(set(documents)) == len(documents) == 11
    copies = dict(zip(documents, music.copies.tolist(), strict=True))
    assert copies["has genre", "Rock"] == 2
    assert copies["performed by", "Anna Ångström"] == 2
    assert music.copies.sum() == len(music.path_hubs) == 14
    for document in range(len(music.copies)):
        assert set(music.path_documents[music.document_paths.of_all([document])].tolist()) == {document}


def test_documents_of_a_signature_stand_together(music: Units) -> None:
    for signature in range(len(music.signature_texts)):
        expected = np.flatnonzero(music.document_signatures == signature)
        assert np.array(music.documents_of(signature)).tolist() == expected.tolist()


def test_values_are_compared_by_stems() -> None:
    units = make_units(
        "a p v1; b p v2; c p v3", ("a", "b", "c"), {"v1": "Focus Group", "v2": "focus groups", "v3": "x"}
    )
    assert len(units.copies) == 3
    assert len(set(units.document_labels.tolist())) == 2


def test_a_path_of_two_triples_has_the_middle_node_as_parent(music: Units) -> None:
    """Three albums and two studios are what last triples leave."""
    assert len(set(music.path_parents.tolist())) == 5


def test_labels_that_are_numbers_are_known_as_numbers(music: Units) -> None:
    numbers = music.label_numbers[~np.isnan(music.label_numbers)]
    assert sorted(numbers.tolist()) == [1969, 1970, 1973]


def test_a_graph_without_hubs_has_no_units() -> None:
    units = make_units("a p v1", ())
    assert (units.hub_count, len(units.copies), units.signature_texts) == (0, 0, ())
