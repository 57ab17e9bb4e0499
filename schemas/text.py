"""Text normalisers (not to be mixed), ids and content hashes, text fit for terminals and Markdown.

Source: algorithms.md 0.2, 2B.1, 6.1.
"""

import re
import string
import unicodedata
from collections.abc import Iterable, Sequence
from hashlib import sha256

# hexadecimal digits, 128 bits: that any two of 10**9 rows share an id has a probability near 10**-21 (birthday bound).
ID_LENGTH = 32


def content_hash(*parts: str) -> str:
    """sha256 of the parts joined by newlines, 64 hexadecimal digits. Source: algorithms.md 0.3(5), 0.6."""
    return sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _short(kind: str, *parts: str) -> str:
    return content_hash(kind, *parts)[:ID_LENGTH]


def record_id(title: str, text: str) -> str:
    """Id of a record that came without one."""
    return _short("record", title, text)


def document_id(title: str) -> str:
    """Id of a document: passages with one title, or a file by its path. `title` is already `norm_ws`-ed."""
    return _short("document", title)


def entity_id(key: str) -> str:
    """Id of the entity with this name key."""
    return _short("entity", key)


def node_id(own_id: str) -> str:
    """Entity id of a graph's node, from the id that the graph gave it: equal names stay different entities."""
    return _short("node", own_id)


def literal_id(subject_id: str, predicate: str, datatype: str, value: str) -> str:
    """Entity id of a value that a graph gave no id: every statement has a separate literal.

    Nothing but the value may contain newlines. Source: algorithms.md 4.3.
    """
    return _short("literal", subject_id, predicate, datatype, value)


def proposition_id(text: str) -> str:
    """Id of a proposition: `text` is already `norm_ws`-ed, so equal texts are one proposition."""
    return _short("proposition", text)


INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200e\u200f\u2060\ufeff"))
"""For `str.translate`: soft hyphens, marks of direction and other characters of no width go.

Joiners and non-joiners (200c, 200d) stay: Persian, Indic scripts and emojis are written with them.
"""

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_NOT_ALPHANUMERIC = re.compile(r"[\W_]+")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_DROP_PUNCTUATION = str.maketrans("", "", string.punctuation)
_PLAIN_SIGNS = str.maketrans({"’": "'", "‘": "'", "ʼ": "'", "\u2010": "-", "\u2011": "-", "ß": "ss", "ẞ": "SS"})
"""Apostrophes, hyphens (U+2011 does not break) and ß as they are written in ASCII."""


def norm_ws(text: str) -> str:
    """NFC, lower case, every run of whitespace one space, stripped. Source: algorithms.md 0.2 (QASA keys)."""
    return " ".join(unicodedata.normalize("NFC", text).lower().split())


norm_lower = norm_ws  # SPRIG's "lower" (2Wiki setting) is the same rule under its own name.


def norm_simple(text: str) -> str:
    """Lower case, every run of other than letters and digits one space. Source: algorithms.md 0.2 (SPRIG "simple")."""
    return _NOT_ALPHANUMERIC.sub(" ", text.lower()).strip()


def norm_answer(text: str) -> str:
    """SQuAD's normalisation: lower case, ASCII punctuation deleted, articles dropped. Source: algorithms.md 6.1."""
    without_punctuation = text.lower().translate(_DROP_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", without_punctuation).split())


def contains_words(text: str, words: str) -> bool:
    """Returns whether a text has these words in a row, both normalised by `norm_answer`; no words are in no text."""
    normalised = norm_answer(words)
    return bool(normalised) and f" {normalised} " in f" {norm_answer(text)} "


def either_contains(first: str, second: str) -> bool:
    """Returns whether one of two names or short answers has the whole other in it, by `contains_words`."""
    return contains_words(first, second) or contains_words(second, first)


def fold(text: str) -> str:
    """Accents dropped (NFKD without combining marks), apostrophes and hyphens plain, ß as ss; case is kept.

    Source: algorithms.md 2B.1.
    """
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text.translate(_PLAIN_SIGNS))
    return _NOT_ASCII.sub(lambda run: "".join([c for c in run[0] if not unicodedata.combining(c)]), decomposed)


def without_last_parenthesis(title: str) -> str:
    """`title` without the `(...)` that it ends with, if it does. Source: algorithms.md 2.7 (EL).

    Cost: O(characters); a pattern for it would start again at every whitespace.
    """
    bare = title.rstrip()
    opening = bare.rfind("(")
    if opening < 0 or bare.find(")", opening) != len(bare) - 1:
        return title
    return bare[:opening].rstrip()


def passage_text(title: str, text: str) -> str:
    """Text of a passage for embedding and search: its title and its text on separate lines.

    Source: algorithms.md 2B.2.
    """
    return f"{title}\n{text}" if title else text


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


_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escaped(text: str) -> str:
    """Text as Markdown shows it: one line, nothing of it markup, no HTML."""
    line = " ".join(text.split())
    line = re.sub(r"[&<>]", lambda match: _ENTITIES[match[0]], line)
    return re.sub(r"([\\`*_\[\]|#!~$])", r"\\\1", line)


def table_lines(cells: Iterable[Sequence[str]], name_columns: int) -> list[str]:
    """The lines of a table.

    Args:
        cells: Header and rows, each cell as Markdown (see `escaped`).
        name_columns: How many columns, from the first, are aligned to the left; the others hold numbers.
    """
    header, *body = cells
    rule = ["---" if column < name_columns else "---:" for column in range(len(header))]
    return [f"| {' | '.join(row)} |" for row in [header, rule, *body]]


def names_in(text: str) -> tuple[str, ...]:
    """Names that are separated by commas, as options and forms take them."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
