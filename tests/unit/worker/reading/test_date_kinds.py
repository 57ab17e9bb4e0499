"""Which kinds of dates a question compares."""

from collections.abc import Callable

import pytest

from polyhop.worker.reading.quantities import date_kinds
from polyhop.worker.reading.question import ParsedQuestion


@pytest.mark.parametrize(
    ("question", "kinds"),
    [
        ("Who is older, A or B?", ["birth"]),
        ("Which film is older, A or B?", ["birth", "release", "founding", "opening", "building", "launch"]),
        ("Who died first, A or B?", ["death"]),
        ("Which magazine was founded first, A or B?", ["founding"]),
        ("Which was first, A or B?", ["release", "founding", "opening", "building", "launch"]),
        ("Which is larger, A or B?", []),
    ],
)
def test_a_question_compares_kinds_of_dates(
    parsed: Callable[..., ParsedQuestion], question: str, kinds: list[str]
) -> None:
    assert [kind.name for kind in date_kinds(parsed(question, "A", "B"))] == kinds
