"""The questions that a strategy missed, as the page of an evaluation lists them."""

from polyhop.server.table_pages import missed_questions


def row(own_id: str, strategy: str, recall: float | None, exact: float | None) -> dict[str, object]:
    return {"id": own_id, "strategy": strategy, "recall@5": recall, "em": exact}


ROWS = [
    row("right", "bridge", 1.0, 1.0),
    row("half", "bridge", 0.5, 1.0),
    row("wrong", "bridge", 0.5, 0.0),
    row("unread", "bridge", 1.0, None),
    row("other", "bm25", 0.0, 0.0),
    row("without gold", "bridge", None, None),
]


def test_what_a_strategy_missed_is_listed_the_worst_first() -> None:
    assert [one["id"] for one in missed_questions(ROWS, "bridge")] == ["wrong", "half"]
    assert [one["id"] for one in missed_questions(ROWS, "bm25")] == ["other"]
    assert missed_questions(ROWS, "dense") == []
