"""Tables of a notebook: text is data, numbers are rounded, nothing is shown as nothing."""

from typing import Any

from polyhop.api import SHOWN_CHARACTERS, Answer
from polyhop.api import html_text as text
from polyhop.api import table_html as table

EVIL = '<script>alert(1)</script> & "x" \x1b[2J'


def answer(question: str, short: str, passages: list[dict[str, Any]]) -> str:
    return Answer(question, short, "bm25", 1, passages, {}, {})._repr_html_()


def test_every_text_is_escaped_and_control_characters_are_visible() -> None:
    shown = table([EVIL], [[EVIL]]) + answer(EVIL, EVIL, [{"title": EVIL, "text": EVIL}])
    assert "<script>" not in shown
    assert "\x1b" not in shown
    assert shown.count("&lt;script&gt;") == 6
    assert text(EVIL) in shown


def test_cells_are_rounded_and_none_is_empty() -> None:
    assert table(["a", "b", "c"], [[0.12345, None, 7]]) == (
        "<table><thead><tr><th>a</th><th>b</th><th>c</th></tr></thead>"
        "<tbody><tr><td>0.123</td><td></td><td>7</td></tr></tbody></table>"
    )
    assert table([], []).endswith("<tbody></tbody></table>")


def test_no_answer_says_what_to_do_and_long_passages_are_cut() -> None:
    shown = answer("Who?", "", [{"rank": 1, "score": 0.5, "text": "x" * (SHOWN_CHARACTERS + 50)}])
    assert "no answer; read the passages" in shown
    assert shown.count("x") == SHOWN_CHARACTERS + "text".count("x")
