"""How wide texts are about, and how they are cut or broken to fit; no font is measured: the reader's is unknown."""

from unicodedata import east_asian_width

_NARROW, _BROAD = frozenset(" !'(),.:;I[]fijlrt|"), frozenset("%@MWmw—…")


def text_width(text: str) -> float:
    """About how wide a text is, in widths of a plain letter."""
    return sum(_letter_width(letter) for letter in text)


def clipped(text: str, width: float) -> str:
    """One line of at most this width (in plain letters); what is cut shows as an ellipsis."""
    line = " ".join(text.split())
    if text_width(line) <= width:
        return line
    return line[: _fitting(line, width - _letter_width("…"))].rstrip() + "…"


def wrapped(text: str, width: float, most: int) -> tuple[tuple[str, ...], bool]:
    """The text in lines of at most this width (in plain letters), broken at spaces where there are any.

    Args:
        text: Any text.
        width: In plain letters.
        most: Lines at most; the last one ends with an ellipsis if there is more.

    Returns:
        At least one line, and whether something was cut.
    """
    lines: list[str] = []
    rest = " ".join(text.split())
    while rest and len(lines) < most - 1 and text_width(rest) > width:
        end = _fitting(rest, width)
        space = rest.rfind(" ", 0, end + 1)
        end = space if space > 0 else max(1, end)
        lines.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    last = clipped(rest, width)
    return (*lines, last), last != rest


def _fitting(text: str, width: float) -> int:
    """How many letters of the text fit into this width."""
    room, count = width, 0
    while count < len(text) and _letter_width(text[count]) <= room:
        room -= _letter_width(text[count])
        count += 1
    return count


def _letter_width(letter: str) -> float:
    if letter in _NARROW:
        return 0.6
    if east_asian_width(letter) in "WF":
        return 1.8
    return 1.5 if letter in _BROAD else 1.15 if letter.isupper() else 1.0
