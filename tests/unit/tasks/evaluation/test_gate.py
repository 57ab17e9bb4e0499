"""Gates: how they are written, what they refuse, what they say when they fail."""

from typing import Any

import pytest

from polyhop.schemas.errors import ConfigurationError
from polyhop.tasks.evaluation.report import (
    Gate,
    check_measured,
    check_names,
    failure_sentence,
    gate_rows,
    parse_gate,
)

Results = dict[str, dict[str, Any]]

STRATEGIES: Results = {"bridge": {"recall@5": 0.65, "em": None}, "bm25": {"recall@5": 0.4992, "em": 0.1}}


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("recall@5=.65", Gate("recall@5", 0.65)),
        ("bridge:em=0.1", Gate("em", 0.1, "bridge")),
        (" qasa:gate=none:steps=1 : mrr = 1", Gate("mrr", 1.0, "qasa:gate=none:steps=1")),
    ],
)
def test_a_gate_is_read_with_and_without_a_strategy(text: str, gate: Gate) -> None:
    assert parse_gate(text) == gate


@pytest.mark.parametrize("text", ["recall@5", "recall@5=", "recall@5=high", "recall@5=65", "recall@5=nan", "=.5x"])
def test_a_gate_written_otherwise_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="takes metric=value"):
        parse_gate(text)


def test_an_unknown_metric_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"unknown metric 'recal@5'; metrics: recall@1, .*, containment, .*, triple_mrr\.",
    ):
        parse_gate("bridge:recal@5=.5")


def test_a_strategy_that_is_not_evaluated_is_refused() -> None:
    gates = [Gate("em", 0.1, "dense")]
    with pytest.raises(ConfigurationError, match="'dense', which is not evaluated; evaluated: bridge, bm25"):
        check_names(gates, ["bridge", "bm25"])
    check_names([Gate("em", 0.1), Gate("em", 0.1, "bm25")], ["bridge", "bm25"])


def test_a_value_equal_to_the_threshold_passes_and_every_strategy_counts() -> None:
    rows = gate_rows([Gate("recall@5", 0.65)], STRATEGIES)
    assert [(row["strategy"], row["passed"]) for row in rows] == [("bridge", True), ("bm25", False)]
    assert failure_sentence(rows) == "The gate failed: recall@5 of bm25 is 0.4992, below 0.65."
    assert failure_sentence(gate_rows([Gate("recall@5", 0.65, "bridge")], STRATEGIES)) is None


def test_a_value_just_below_the_threshold_is_not_written_like_it() -> None:
    sentence = failure_sentence(gate_rows([Gate("mrr", 0.65)], {"bm25": {"mrr": 0.649986}}))
    assert sentence == "The gate failed: mrr of bm25 is 0.649986, below 0.65."


def test_a_metric_that_could_not_be_measured_does_not_pass() -> None:
    sentence = failure_sentence(gate_rows([Gate("em", 0.1)], STRATEGIES))
    assert sentence is not None
    assert "em of bridge could not be measured" in sentence
    assert "bm25" not in sentence


def test_gates_for_what_is_not_measured_are_refused() -> None:
    check_measured([Gate("recall@5", 0.1), Gate("em", 0.1, "closed-book")], unranked="closed-book", reads=True)
    check_measured([Gate("mrr", 0.1, "bm25")], unranked="closed-book", reads=False)
    with pytest.raises(ConfigurationError, match=r"^--fail-below em needs answers, and --reader none reads none\.$"):
        check_measured([Gate("em", 0.1)], unranked="closed-book", reads=False)
    with pytest.raises(ConfigurationError, match=r"cannot judge mrr of 'closed-book', .*: em, f1, containment\.$"):
        check_measured([Gate("mrr", 0.1, "closed-book")], unranked="closed-book", reads=True)


def test_a_gate_for_the_retrieval_of_all_leaves_out_the_row_without_retrieval() -> None:
    results: Results = {"bm25": {"recall@5": 0.7, "em": 0.2}, "closed-book": {"recall@5": None, "em": 0.1}}
    gates = [Gate("recall@5", 0.5), Gate("em", 0.15)]
    rows = [
        (row["strategy"], row["metric"], row["passed"]) for row in gate_rows(gates, results, unranked="closed-book")
    ]
    assert rows == [("bm25", "recall@5", True), ("bm25", "em", True), ("closed-book", "em", False)]


def test_a_gate_for_triples_fails_where_none_were_judged_and_says_why() -> None:
    gate = parse_gate("triple_recall@10=.9")
    results: Results = {"hublink": {"triple_recall@10": 0.95}, "bm25": {"triple_recall@10": None}, "dense": {}}
    sentence = failure_sentence(gate_rows([gate], results))
    assert sentence is not None
    assert sentence.count("(the questions have no gold for it, or the strategy ranks no triples), 0.9 is wanted") == 2
    assert "hublink" not in sentence
    with pytest.raises(ConfigurationError, match=r"cannot judge triple_mrr of 'closed-book'"):
        check_measured([Gate("triple_mrr", 0.1, "closed-book")], unranked="closed-book", reads=True)
