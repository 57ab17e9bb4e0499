"""Tuning: what is chosen, what it is worth on the rest, and what the page says of both."""

from typing import Any

import pytest
from bs4 import BeautifulSoup

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.records import QuestionRecord
from polyhop.schemas.requests import parse_range
from polyhop.tasks.evaluation.bootstrap import against, intervals
from polyhop.tasks.evaluation.tuning import (
    Part,
    check_parts,
    chosen_setting,
    is_judged,
    tuning_document,
    tuning_findings,
    tuning_page,
)

TRIED = parse_range("s:width=1,2:b=x,y z")
LABELS = ["s", *TRIED.points]
WIDE = "s:width=2:b=y z"
TIMINGS = {"strategies": {label: {"latency_ms": {"p50": None}} for label in LABELS}}


def _part(values: dict[str, list[float]]) -> Part:
    """Questions q0, q1, … with these values of mrr by label."""
    by_label = {s: [{"mrr": v, "f1": v / 2} for v in each] for s, each in values.items()}
    rows = [{"id": f"q{n}", "strategy": s, **row} for s, each in by_label.items() for n, row in enumerate(each)]
    means = intervals(by_label, ["mrr", "f1"])
    points = [{"label": label, "values": list(given)} for label, given in TRIED.points.items()]
    run = {
        "strategies": list(values),
        "results": {
            s: {"mrr": sum(v) / len(v), "f1": sum(v) / len(v) / 2, "intervals": means[s], "failures": 0}
            for s, v in values.items()
        },
        "baseline": "s",
        "paired": against(by_label, ["s"], ["mrr", "f1"])["s"],
        "polyhop": "1.0",
        "interval": {"level": 0.95, "kind": "bootstrap", "resamples": 10},
        "ranges": [{"label": TRIED.label, "parameters": list(TRIED.parameters), "points": points}],
        "questions": {"n": len(values["s"]), "file": "q.jsonl"},
    }
    return Part(run, rows)


def _report(rest: dict[str, list[float]], best: float = 0.9) -> dict[str, Any]:
    sample = _part({label: [best if label == WIDE else 0.4] * 12 for label in LABELS})
    found = tuning_document("mrr", "s", TRIED, sample, _part(rest), {"k": "7"})
    facts = {"index": "towns", "version": 3, "questions": {"file": "q.jsonl", "of": 24}, "seed": 13, "reader": "none"}
    return {**facts, **found}


BETTER = {"s": [0.2] * 12, WIDE: [0.7] * 11 + [0.1]}
EQUAL = {"s": [0.2, 0.8] * 6, WIDE: [0.2, 0.8] * 5 + [0.8, 0.2]}
WORSE = {"s": [0.9] * 12, WIDE: [0.2] * 12}


def test_of_equal_settings_the_default_is_best_then_the_first() -> None:
    for values, best in (([0.5, 0.4, 0.5], "s"), ([0.4, 0.5, 0.5], "s:b")):
        labels = ("s", "s:b", "s:a")
        run = {"results": {label: {"mrr": value} for label, value in zip(labels, values, strict=True)}}
        assert chosen_setting("mrr", "s", labels, run) == best


@pytest.mark.parametrize(
    ("metric", "judged"), [("recall@5", 1), ("mrr", 1), ("em", 2), ("f1", 2), ("triple_mrr", 3), ("triple_f1@10", 3)]
)
def test_a_metric_judges_the_questions_that_have_its_gold(metric: str, judged: int) -> None:
    records = {
        1: QuestionRecord("1", "?", supporting=("p",)),
        2: QuestionRecord("2", "?", answers=("a",)),
        3: QuestionRecord("3", "?", golden_triples=("(a, b, c)",)),
    }
    assert [number for number, record in records.items() if is_judged(record, metric)] == [judged]


@pytest.mark.parametrize(("sizes", "refused"), [((10, 10), False), ((9, 30), True), ((30, 9), True)])
def test_too_few_judged_questions_on_either_side_are_refused(sizes: tuple[int, int], *, refused: bool) -> None:
    judged = [QuestionRecord(str(n), "?", supporting=("p",)) for n in range(30)]
    parts = [[*judged[:size], *([QuestionRecord("u", "?")] * 5)] for size in sizes]
    if not refused:
        check_parts(parts, "mrr")
        return
    with pytest.raises(ConfigurationError) as refused_by:
        check_parts(parts, "mrr")
    assert str(refused_by.value).endswith(
        f"there are {sizes[0]} to tune on and {sizes[1]} to keep back; take more questions, another --sample, or "
        "another --metric (of 49 questions, 39 have supporting passages, 0 have answers, 0 have golden triples)."
    )


def test_the_document_has_both_parts_the_paired_test_and_how_to_use_the_setting() -> None:
    report = _report(BETTER)
    assert (report["default"], report["chosen"], report["is_default"]) == ("s", WIDE, False)
    assert report["grid"] == {"width": ["1", "2"], "b": ["x", "y z"]}
    assert [row["label"] for row in report["tried"]] == LABELS
    assert [row["values"] for row in report["tried"][:2]] == [{}, {"width": "1", "b": "x"}]
    assert report["tuning"]["chosen"] == {"mean": pytest.approx(0.9), "low": 0.9, "high": 0.9}
    rest = report["rest"]
    assert (rest["n"], rest["judged"], rest["default"]["mean"]) == (12, 12, pytest.approx(0.2))
    assert (rest["paired"]["wins"], rest["paired"]["losses"]) == (11, 1)
    assert rest["paired"]["difference"] == pytest.approx(rest["chosen"]["mean"] - 0.2)
    assert rest["paired"]["p"] < 0.05
    assert rest["paired"]["significant"]
    assert list(rest["metrics"]) == ["f1"]
    assert rest["metrics"]["f1"]["paired"]["difference"] == pytest.approx(rest["paired"]["difference"] / 2)
    assert report["use"] == {"strategy": "s", "param": ["k=7", "width=2", "b=y z"], "label": WIDE}


@pytest.mark.parametrize(
    ("rest", "verdict", "use"),
    [
        (BETTER, "better by more than chance.", "to use it: "),
        (EQUAL, "no more than chance, so the default is as good a choice.", "to use it all the same: "),
        (WORSE, "worse by more than chance: keep the default.", "to use it all the same: "),
    ],
    ids=["better", "equal", "worse"],
)
def test_the_sentences_say_what_the_rest_says(rest: dict[str, list[float]], verdict: str, use: str) -> None:
    first, second, third = tuning_findings(_report(rest))
    assert first == f"Highest mrr on the sample: {WIDE} with 0.900; the default has 0.400."
    assert second.startswith("On the 12 questions kept back, chosen minus default: ")
    assert second.endswith(verdict)
    assert third == (
        f"Nothing was changed; {use}polyhop ask QUESTION --index towns --strategy s --param k=7 --param width=2 "
        "--param 'b=y z'"
    )


def test_where_no_setting_is_higher_there_is_nothing_to_change_and_where_nothing_was_judged_it_is_refused() -> None:
    report = _report({"s": [0.2] * 12}, best=0.4)
    assert (report["chosen"], report["is_default"], report["rest"]["paired"]) == ("s", True, None)
    assert tuning_findings(report) == [
        "No setting has a higher mrr on the sample than the default; there is nothing to change."
    ]
    sample = _part({label: [0.4] * 12 for label in LABELS})
    page = BeautifulSoup(tuning_page(report, sample.run, TIMINGS), "html.parser")
    assert len(page.select("#parts table")) == 1
    with pytest.raises(ConfigurationError, match="recall@5 judged nothing"):
        tuning_document("recall@5", "s", TRIED, sample, _part(BETTER), {})


def test_the_page_shows_sample_and_rest_side_by_side_and_all_that_was_tried() -> None:
    run = _part({label: [0.9 if label == WIDE else 0.4] * 12 for label in LABELS}).run
    page = BeautifulSoup(tuning_page(_report(BETTER), run, TIMINGS), "html.parser")
    first, second = page.select("#parts table")
    cells = [[cell.get_text() for cell in row.find_all(["th", "td"])] for row in first.select("tbody tr")]
    assert cells[0] == ["default", "s", "0.400 [0.400, 0.400]", "0.200 [0.200, 0.200]"]
    assert cells[1][:3] == ["chosen", WIDE, "0.900 [0.900, 0.900]"]
    assert [row.find("th").get_text() for row in second.select("tbody tr")] == ["mrr", "f1"]  # type: ignore[union-attr]
    assert second.select("td.better")
    assert not page.select("#ranges img")
    assert len(page.select("#ranges tbody tr")) == len(TRIED.points)
    facts = {item.dt.get_text(): item.dd.get_text() for item in page.select(".facts div") if item.dt and item.dd}
    assert (facts["Tuned on"], facts["Kept back"], facts["Settings tried"]) == ("12, random, seed 13", "12", "5")


@pytest.mark.parametrize(("words", "refused"), [(2, "containment"), (11, "em")])
def test_a_metric_that_gold_answers_of_this_length_do_not_have_is_refused(words: int, refused: str) -> None:
    parts = [[QuestionRecord(str(n), "?", answers=("word " * words,)) for n in range(10)]] * 2
    check_parts(parts, "f1")
    with pytest.raises(ConfigurationError, match=f"not judged by {refused}; take --metric f1"):
        check_parts(parts, refused)
