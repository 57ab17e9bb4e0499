"""Numbers whose position carries meaning: numbers of list items, superscripts, marks of footnotes."""

import re

_RAISED_NUMBER = re.compile(r"[+\-−–]?\d+")
_BASE = re.compile(r"(?:(?<![^\W_])(?:[^\W\d_]{1,2}|\d{1,3})|\))\Z")
"""A number of up to three digits, a unit or variable of up to two letters, or a bracket: what has an exponent."""
_ROMAN = {1000: "m", 900: "cm", 500: "d", 400: "cd", 100: "c", 90: "xc", 50: "l", 40: "xl", 10: "x", 9: "ix", 5: "v"}
_ROMAN |= {4: "iv", 1: "i"}
_MOST_ROMAN = 4000


def raised(before: str, text: str, *, is_mark: bool = False) -> str:
    """A superscript after a text: `^6` as an exponent, ` [12]` as the mark of a footnote, else as it is (`1st`).

    Args:
        before: The end of the text before it.
        text: The superscript.
        is_mark: Whether it is known for a mark, such as a link to a footnote.
    """
    number = text.strip("[]()* ")
    if not _RAISED_NUMBER.fullmatch(number):
        return text
    if not is_mark and number == text and _BASE.search(before):
        return f"^{text}"
    return f"{' ' if before[-1:].strip() else ''}[{number}]"


def list_number(number: int, kind: str) -> str:
    """The number of a list item: `kind` is as HTML calls it, 1, a, A, i or I."""
    if kind in {"a", "A"} and number > 0:
        letter = chr(ord(kind) + (number - 1) % 26)
        return letter * (1 + (number - 1) // 26)
    if kind in {"i", "I"} and 0 < number < _MOST_ROMAN:
        written = ""
        for value, letters in _ROMAN.items():
            written += letters * (number // value)
            number %= value
        return written if kind == "i" else written.upper()
    return str(number)
