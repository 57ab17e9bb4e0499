"""Metrics of answers and retrieval, scores of predictions, golden triples."""

import json
from pathlib import Path
from typing import Any

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import RR, P, R, Success, nDCG

from polyhop.schemas.graph import NamedTriple
from polyhop.schemas.records import Prediction
from polyhop.schemas.text import norm_answer
from polyhop.tasks.evaluation.metrics import (
    Score,
    all_at,
    containment,
    exact_match,
    f1_at,
    find_golden,
    hit_at,
    judged_ranking,
    mean_scores,
    ndcg_at,
    possible_subjects,
    precision_at,
    recall_at,
    reciprocal_rank,
    score_rows,
    token_f1,
)
from polyhop.warehouse.files.questions import read_questions

GOLDEN = [
    ("The Eiffel Tower!", ["eiffel tower"], "eiffel tower", 1, 1),
    ("Paris, France", ["Paris"], "paris france", 0, 0.666667),
    ("a an the", [""], "", 1, 1),
    ("", ["Paris"], "", 0, 0),  # algorithms.md G-EVAL
    ("U.S.A.", ["usa"], "usa", 1, 1),
    ("rock-and-roll", ["rock and roll"], "rockandroll", 0, 0),
    ("Theodore the Great", ["theodore great"], "theodore great", 1, 1),
    ("New York City New York", ["New York"], "new york city new york", 0, 0.571429),
    ("1,952", ["1952"], "1952", 1, 1),
    ("Louis XIII of France", ["Louis XIV of France"], "louis xiii of france", 0, 0.75),
    ("It is 42 km", ["42 kilometres"], "it is 42 km", 0, 0.333333),
    ("São Paulo", ["sao paulo"], "são paulo", 0, 0.5),
    ("the City of Paris", ["Paris", "City of Paris, France"], "city of paris", 0, 0.857143),
]
CONTAINED = [
    ("Ann Roe wrote it", ["The paper was written by Ann Roe."], 0.5),
    ("The paper was written by Ann Roe.", ["The paper was written by Ann Roe."], 1),
    ("Oslo", ["Bergen and Oslo", "Oslo"], 1),
    ("Oslo, Oslo", ["Oslo and Bergen, Bergen"], 0.5),
    ("who is it", ["it is who"], 1),
    ("", ["Oslo"], 0),
    ("Oslo", ["the"], 1),
]
"""Content words of the first: paper, written, ann, roe; of an answer without any, all its words count."""
TEXTS = st.text(alphabet="ab thé,.-1 ", max_size=20)
IDS = st.sampled_from([f"p{number}" for number in range(12)])
RANKINGS = st.lists(IDS, unique=True)
GOLD_IDS = st.frozensets(IDS, min_size=1)


@pytest.mark.parametrize(("prediction", "answers", "normalised", "em", "f1"), GOLDEN)
def test_golden_answers(prediction: str, answers: list[str], normalised: str, em: float, f1: float) -> None:
    assert norm_answer(prediction) == normalised
    assert exact_match(prediction, answers) == em
    assert token_f1(prediction, answers) == pytest.approx(f1, abs=1e-6)


def test_golden_rankings() -> None:
    rows = [(list("abcde"), {"b", "e"}), (list("xyz"), {"q"}), (list("gh"), {"g", "h", "i"})]
    recalls = {k: sum(recall_at(ranking, gold, k) for ranking, gold in rows) / 3 for k in (1, 2, 5)}
    hits = {k: sum(hit_at(ranking, gold, k) for ranking, gold in rows) / 3 for k in (1, 2, 5)}
    assert recalls == pytest.approx({1: 0.111111, 2: 0.388889, 5: 0.555556}, abs=1e-6)
    assert hits == pytest.approx({1: 0.333333, 2: 0.666667, 5: 0.666667}, abs=1e-6)
    assert [reciprocal_rank(ranking, gold) for ranking, gold in rows] == [0.5, 0, 1]
    assert [reciprocal_rank([f"p{n}" for n in range(200)], {gold}) for gold in ("p99", "p100")] == [0.01, 0]


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3), TEXTS)
def test_laws_of_f1(a: str, answers: list[str], b: str) -> None:
    """Between exact match and one, symmetric, whatever the order of words; another gold answer never lowers it."""
    assert exact_match(a, answers) <= token_f1(a, answers) <= 1
    assert token_f1(a, [b]) == token_f1(b, [a]) == token_f1(" ".join(reversed(norm_answer(a).split())), [b])
    assert token_f1(a, [*answers, b]) == max(token_f1(a, answers), token_f1(a, [b]))


def test_hotpot_gives_a_yes_that_should_be_a_name_nothing_and_gold_is_needed() -> None:
    assert token_f1("yes", ["yes it is"]) == pytest.approx(0.5)
    assert token_f1("yes", ["yes it is"], hotpot_yes_no=True) == 0
    assert token_f1("Yes.", ["yes"], hotpot_yes_no=True) == 1
    assert score_rows([prediction("yes", "yes it is")], hotpot_yes_no=True) == [Score(0.0, 0.0)]
    with pytest.raises(ValueError, match="empty"):
        token_f1("Paris", [])


@given(st.lists(st.tuples(RANKINGS, GOLD_IDS), min_size=1, max_size=4))
def test_retrieval_metrics_agree_with_ir_measures(rows: list[tuple[list[str], frozenset[str]]]) -> None:
    qrels = [ir_measures.Qrel(str(n), gold, 1) for n, (_, supporting) in enumerate(rows) for gold in supporting]
    run = [
        ir_measures.ScoredDoc(str(n), passage_id, float(-place))
        for n, (ranking, _) in enumerate(rows)
        for place, passage_id in enumerate(ranking)
    ]
    measures = [R @ 1, R @ 3, R @ 10, RR @ 100, RR @ 2, Success @ 1, Success @ 5, P @ 1, P @ 10, nDCG @ 3, nDCG @ 10]
    theirs = ir_measures.calc_aggregate(measures, qrels, run)
    ours = {
        **{R @ k: [recall_at(ranking, gold, k) for ranking, gold in rows] for k in (1, 3, 10)},
        **{RR @ k: [reciprocal_rank(ranking, gold, k) for ranking, gold in rows] for k in (2, 100)},
        **{Success @ k: [hit_at(ranking, gold, k) for ranking, gold in rows] for k in (1, 5)},
        **{P @ k: [precision_at(ranking, gold, k) for ranking, gold in rows] for k in (1, 10)},
        **{nDCG @ k: [ndcg_at(ranking, gold, k) for ranking, gold in rows] for k in (3, 10)},
    }
    assert {measure: sum(values) / len(rows) for measure, values in ours.items()} == pytest.approx(theirs)


@given(RANKINGS, GOLD_IDS, st.integers(1, 15))
def test_f1_of_a_ranking_is_the_harmonic_mean_of_precision_and_recall_and_all_gold_means_recall_is_one(
    ranking: list[str], gold: frozenset[str], depth: int
) -> None:
    precision, recall = precision_at(ranking, gold, depth), recall_at(ranking, gold, depth)
    expected = 2 * precision * recall / (precision + recall) if precision else 0
    assert f1_at(ranking, gold, depth) == pytest.approx(expected)
    assert all_at(ranking, gold, depth) == float(recall == 1)


@pytest.mark.parametrize(
    ("passages", "gold", "judged"),
    [("b#2 a#1 b#1 c", {"a", "c"}, "b a c"), ("a#1 a#2 a#3", {"a#2"}, "a a#2")],
    ids=["by record", "named by gold"],
)
def test_pieces_are_judged_by_their_record_unless_gold_names_them(passages: str, gold: set[str], judged: str) -> None:
    assert judged_ranking(passages.split(), gold, lambda one: one.split("#")[0]) == judged.split()


@pytest.mark.parametrize(("prediction", "answers", "wanted"), CONTAINED)
def test_golden_containment(prediction: str, answers: list[str], wanted: float) -> None:
    assert containment(prediction, answers) == wanted


def prediction(said: str, *answers: str) -> Prediction:
    return Prediction(id="q", prediction=said, answers=answers)


def test_the_best_gold_answer_counts_and_no_gold_answer_is_no_score() -> None:
    rows = [prediction("the Ada Lovelace", "Babbage", "Ada Lovelace"), prediction("x"), prediction("", "x")]
    found = score_rows([*rows, prediction("Ada Byron", "Ada Lovelace")])
    assert found == [Score(1.0, 1.0), None, Score(0.0, 0.0), Score(0.0, 0.5)]
    assert mean_scores(found) == {"n": 4, "em": 1 / 3, "f1": 0.5}
    assert mean_scores([None]) == {"n": 1, "em": None, "f1": None}


ADA = NamedTriple("R1", "Ada Lovelace", "born in", "R2", "London")
NAMED_BADLY = NamedTriple("R3", "Titles (1), born in, R2:x: a history", "part of: a, b", "R4", "Volume, part (2)")
URIS = NamedTriple("http://ex.org/a", "A", "http://ex.org/p", "http://ex.org/b", "B")
VALUE = NamedTriple("R1", "Ada Lovelace", "born in year", "6f1c", "1815, December")
GRAPH = [ADA, NAMED_BADLY, URIS, VALUE, NamedTriple("R1", "Ada Lovelace", "lived in", "R2", "London")]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("R1:Ada Lovelace, born in, R2:London", ADA),
        ("(R1:Augusta Ada King, born in, R2:London, England)", ADA),
        ("(R1, born in, R2)", ADA),
        (f"(R3:{NAMED_BADLY.subject}, part of: a, b, R4:Volume, part (2))", NAMED_BADLY),
        ("(http://ex.org/a:A, http://ex.org/p, http://ex.org/b:B)", URIS),
        ("(http://ex.org/a, http://ex.org/p, http://ex.org/b)", URIS),
        ("(R1:Ada Lovelace, born in year, 1815, December)", VALUE),
        (("R1", "born in year", "1815, December"), VALUE),
    ],
)
def test_a_golden_triple_is_found_whatever_is_in_names_and_ids(written: Any, meant: NamedTriple) -> None:
    assert find_golden([written], GRAPH) == {written: meant.ids}


def test_golden_triples_that_the_graph_does_not_have_are_not_found() -> None:
    others = ["None", "(R1:Ada Lovelace, born in, R9:London)", "(R9:Ada Lovelace, born in, R2:London)"]
    others += ["", "(R1:Ada Lovelace, died in, R2:London)", "(R10:Ada Lovelace, born in, R2:London)"]
    assert find_golden([*others, ("R1", "born in", "London, Ontario"), ("R2", "born in", "R1")], GRAPH) == {}
    twice = [VALUE, VALUE._replace(object_id="7a2d")]  # a value that two objects have means neither
    assert find_golden([("R1", "born in year", VALUE.object)], twice) == {}


def test_of_two_triples_that_fit_it_is_the_one_whose_names_the_text_has() -> None:
    other = NamedTriple("R1", "Ada Lovelace, born in, R2:London", "born in", "R5", "x")
    text = "(R1:Ada Lovelace, born in, R2:London, born in, R5:x)"
    named_otherwise = NamedTriple("R1", "Ada Lovelace", "born in", "R2", "London, born in, R5:x")
    assert find_golden([text], [other, ADA]) == {text: other.ids}
    without_names = other._replace(subject="Ada", object="y")
    assert find_golden([text], [named_otherwise, without_names]) == {text: named_otherwise.ids}
    assert find_golden([text], [ADA._replace(subject="Ada"), without_names]) == {text: other.ids}


AWKWARD = st.text(alphabet="aR1,: ()", max_size=8).map(str.strip)
GOLDEN_IDS = st.sampled_from(["R1", "R2", "R11", "a:b", "L,1"])
TRIPLES = st.builds(NamedTriple, GOLDEN_IDS, AWKWARD, AWKWARD.filter(bool), GOLDEN_IDS, AWKWARD)


def _written(row: NamedTriple) -> str:
    return f"({row.subject_id}:{row.subject}, {row.predicate}, {row.object_id}:{row.object})"


@given(st.lists(TRIPLES, min_size=1, max_size=6, unique_by=lambda row: row.ids), st.data())
def test_every_triple_of_a_graph_is_found_by_a_text_of_its_own(graph: list[NamedTriple], data: st.DataObject) -> None:
    meant = data.draw(st.sampled_from(graph))
    text = _written(meant)
    assert meant.subject_id in possible_subjects([text])
    found = find_golden([text], graph)[text]
    assert found in {row.ids for row in graph if _written(row) == text}  # two triples may be written alike


def test_cells_of_a_csv_file_hold_several(tmp_path: Path) -> None:
    (tmp_path / "questions.csv").write_text('question,golden_triples\nWho?,"(R1:a, p, R2:b)|(R1:a, p, R3:c)"\n')
    ((record,), _) = read_questions(tmp_path / "questions.csv")
    assert record.golden_triples == ("(R1:a, p, R2:b)", "(R1:a, p, R3:c)")
    assert record.metadata == {"golden_triples": [*record.golden_triples]}


@pytest.mark.shared_data
def test_all_golden_triples_of_orkg_but_the_one_that_is_none_are_in_its_graph(shared_data: Path) -> None:
    def end(node: Any) -> tuple[str, str]:
        return (node["id"], node["name"]) if isinstance(node, dict) else (str(node), str(node))

    lines = (shared_data / "orkg" / "triples.jsonl").read_text(encoding="utf-8").splitlines()
    rows = map(json.loads, lines)
    stated = [NamedTriple(*end(row["subject"]), row["predicate"], *end(row["object"])) for row in rows]
    records, _ = read_questions(shared_data / "orkg" / "questions.jsonl")
    golden = [triple for record in records for triple in record.golden_triples]
    found = find_golden(golden, stated)
    assert len(golden) > 800
    assert [triple for triple in golden if triple not in found] == ["None"]
