r"""Makes text of corpora, questions, files and servers fit for a terminal or a log.

Prints nothing. A terminal obeys control characters: they clear lines, set titles, colour text or reverse its direction,
and so show what is not there. They become visible escapes such as `\x1b`; letters of every script stay as they are.
"""

import re

_UNFIT = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and line feed, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks, overrides and isolates of direction (Trojan Source)
    "\u180e\u200b\u2060-\u2065\ufeff"  # zero width; joiners (200c, 200d) stay, scripts and emojis need them
    "\u2028\u2029\ufff9-\ufffb\ud800-\udfff"  # separators of lines, annotations, half characters
    "\U000e0000-\U000e007f"  # invisible copies of ASCII
    "]"
)


def printable(text: str) -> str:
    """The text with control characters as visible escapes; tabs and line feeds stay."""
    return _UNFIT.sub(_escape, text)


def printable_line(text: str) -> str:
    r"""The text as one line: a line feed becomes `\n`, so that no title can forge a line of output."""
    return printable(text).replace("\n", "\\n")


def plural(count: int, noun: str, nouns: str = "") -> str:
    """A number with its noun: 1 question, 1,200 questions; `nouns` is a plural that no `s` makes."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def duration(seconds: float) -> str:
    """A time for people: 45 s, 12 min, 3.4 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5_400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h"


def escaped_json(document: str) -> str:
    """A JSON document with its control characters escaped as JSON does, whatever its writer left raw."""
    return _UNFIT.sub(_escape_json, document)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_json(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[start : start + 2].hex()}" for start in range(0, len(units), 2))
