"""Names of a question to nodes: which match, and how much each of several that bear one name weighs."""

import numpy as np
import pytest

from polyhop.worker.strategies.entities import match_meanings

NUMBERS = {"mercury": 0, "mercury mythology": 1, "mercury planet": 2, "venus": 3, "vulcan": 4}
PASSAGES = np.array([1, 1, 6, 3, 0])


def test_those_that_bear_one_name_share_its_weight_by_the_passages_that_mention_them() -> None:
    found = match_meanings([("mercury", "mercury mythology", "mercury planet"), ("venus",)], NUMBERS, PASSAGES)
    assert found.matched == ("mercury", "mercury mythology", "mercury planet", "venus")
    assert found.numbers.tolist() == [0, 1, 2, 3]
    assert found.shares.tolist() == pytest.approx([1 / 8, 1 / 8, 6 / 8, 1])


def test_a_name_said_both_shortly_and_in_full_weighs_as_in_full() -> None:
    found = match_meanings([("mercury", "mercury planet"), ("mercury planet",)], NUMBERS, PASSAGES)
    assert found.shares.tolist() == pytest.approx([1 / 7, 1])


def test_names_without_passages_or_nodes_are_unmatched_and_weigh_nothing() -> None:
    found = match_meanings([("vulcan", "venus"), ("",), ("pluto",)], NUMBERS, PASSAGES)
    assert (found.matched, found.unmatched) == (("venus",), ("pluto", "vulcan"))
    assert found.shares.tolist() == [1]
