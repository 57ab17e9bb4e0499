"""How results look in a notebook: small HTML tables; all text is data."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from polyhop.schemas.printable import printable

SHOWN_CHARACTERS = 300
"""Of a passage; chosen: some lines."""


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table; numbers are rounded to three places."""
    head = "".join(f"<th>{text(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{text(_shown(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def answer(question: str, short: str, passages: Sequence[Mapping[str, Any]]) -> str:
    """A question with its answer and passages."""
    rows = [
        (row.get("rank"), row.get("score"), row.get("title"), str(row.get("text", ""))[:SHOWN_CHARACTERS])
        for row in passages
    ]
    said = f"<b>{text(short)}</b>" if short else "<i>no answer; read the passages</i>"
    return f"<p>{text(question)}<br>{said}</p>" + table(("rank", "score", "title", "text"), rows)


def text(value: object) -> str:
    """Any text as HTML that shows it."""
    return escape(printable(str(value)))


def _shown(value: object) -> object:
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else value
