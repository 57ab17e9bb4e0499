"""Reads what models write for JSON: comments, single quotes, trailing commas, Python's words, stray quotes, cut ends.

Pure, in one pass and without eval. What is ambiguous is refused, not guessed: an element that was cut off is dropped,
never completed; a number that is not finite becomes null. (The json-repair package completes cut strings, and takes
quadratic time on stray quotes.)
"""

import re
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

MAX_DEPTH = 40  # chosen: replies of ours nest four levels or so, and Python's stack takes far more

_BLANK = re.compile(r"(?:\s+|//[^\n]*+|#[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/|$))*+")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?=[\s,\]}/#]|\Z)")
_WORD = re.compile(r"-?[A-Za-z_]\w*")
_WORDS: dict[str, Any] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    **dict.fromkeys(("null", "None", "undefined", "NaN", "nan", "Infinity", "-Infinity", "inf", "-inf")),
}
_QUOTES = {'"': '"', "'": "'", "“": "”"}
_PLAIN = {quote: re.compile(rf"[^{quote}\\]+") for quote in ('"', "'", "”")}
_AFTER_KEY = re.compile(r"\s*:")
_AFTER_VALUE = re.compile(
    r"\s*(?:[\]}]|\Z|//|/\*|#|,[\s,]*+(?:[\"'“\[{\]}\d/#.…-]|\Z|(?:true|false|null|None|True|False|NaN)\b|[A-Za-z_]\w{0,40}\s*:))"
    r"|[ \t\r]*\n\s*[\"'“{\[]"
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'"}
_AMBIGUOUS = re.compile(r"\s*[\"“:]")
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_SURROGATES = re.compile("[\ud800-\udfff]")


class LooseJsonError(ValueError):
    """A text that cannot be read without guessing."""


@dataclass(frozen=True, slots=True)
class LooseValue:
    """What was read: the value, where it ends, and whether the text stopped before it did."""

    value: Any
    end: int
    is_cut: bool


@dataclass(slots=True)
class _Part:
    """A value inside another; one that is cut is worth nothing unless it `is_kept`."""

    value: Any
    is_cut: bool = False
    is_kept: bool = True


@dataclass(slots=True)
class _Object:
    """Fields of an object; a field named twice keeps both lists, or one of two equal values."""

    fields: dict[str, Any] = field(default_factory=dict)

    def add(self, key: str, value: Any) -> None:
        known = self.fields.get(key, value)
        if key in self.fields and isinstance(known, list) and isinstance(value, list):
            self.fields[key] = known if known == value else known + value
        elif known == value:
            self.fields[key] = value
        else:
            raise LooseJsonError(f"field '{key[:60]}' has two values")


def read_loosely(text: str, start: int = 0) -> LooseValue:
    """The object or list that begins at `start`.

    A text that ends too early loses what was incomplete: lists below the root's fields keep their complete
    elements, an incomplete object inside a list is dropped as a whole.

    Raises:
        LooseJsonError: If it is ambiguous, no JSON at all, or nested deeper than 40.
    Cost: O(length).
    """
    reader = _Reader(text, start)
    part = reader.value(0, in_list=False)
    if part.is_cut and not part.value:
        raise LooseJsonError("the text ends before anything is complete")
    return LooseValue(part.value, reader.position, part.is_cut)


class _Reader:
    """A position in a text."""

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position

    def value(self, depth: int, *, in_list: bool) -> _Part:
        """The value at the position; `in_list`: inside an element of a list, where a cut value is dropped."""
        if depth > MAX_DEPTH:
            raise LooseJsonError(f"nested deeper than {MAX_DEPTH}")
        first = self._next()
        if first == "{":
            return self._object(depth, in_list=in_list)
        if first == "[":
            return self._list(depth, in_list=in_list)
        if first in _QUOTES:
            text = self._string(_AFTER_VALUE)
            return _Part(text, is_cut=text is None, is_kept=False)
        return self._scalar()

    def _object(self, depth: int, *, in_list: bool) -> _Part:
        self.position += 1
        made = _Object()
        while True:
            self._skip_commas()
            closing = self._next()
            if closing in {"}", "]"}:
                self.position += closing == "}"
                return _Part(made.fields)
            key = self._key() if closing else None
            if key is None or not self._colon():
                return _Part(made.fields, is_cut=True, is_kept=not in_list)
            part = self.value(depth + 1, in_list=in_list)
            if not part.is_cut or part.is_kept:
                made.add(key, part.value)
            if part.is_cut:
                return _Part(made.fields, is_cut=True, is_kept=not in_list)

    def _list(self, depth: int, *, in_list: bool) -> _Part:
        self.position += 1
        made: list[Any] = []
        while True:
            self._skip_commas()
            closing = self._next()
            if closing in {"}", "]"}:
                self.position += closing == "]"
                return _Part(made)
            if not closing:
                break
            part = self.value(depth + 1, in_list=True)
            if part.is_cut:
                break
            made.append(part.value)
        return _Part(made, is_cut=True, is_kept=bool(made) and not in_list)

    def _key(self) -> str | None:
        """The field name at the position, None if the text ends in it."""
        if self._next() in _QUOTES:
            return self._string(_AFTER_KEY)
        word = _WORD.match(self.text, self.position)
        if not word:
            raise LooseJsonError(f"no field name at character {self.position}")
        self.position = word.end()
        return word.group()

    def _colon(self) -> bool:
        """Passes the colon; False if the text ends before a value."""
        if self._next() not in {":", ""}:
            raise LooseJsonError(f"no colon at character {self.position}")
        self.position += 1
        return bool(self._next())

    def _scalar(self) -> _Part:
        number = _NUMBER.match(self.text, self.position)
        if number:
            self.position = number.end()
            return _Part(_number(number.group()), is_cut=self.position == len(self.text), is_kept=False)
        word = _WORD.match(self.text, self.position)
        if word and word.group() in _WORDS:
            self.position = word.end()
            return _Part(_WORDS[word.group()])
        if ((word and word.end()) or self.position + 1) >= len(self.text):
            return _Part(None, is_cut=True, is_kept=False)
        raise LooseJsonError(f"no value at character {self.position}")

    def _string(self, after: re.Pattern[str]) -> str | None:
        """The string at the position, None if the text ends in it; a quote closes it only if what follows fits."""
        quote = _QUOTES[self.text[self.position]]
        self.position += 1
        parts: list[str] = []
        inner = 0
        while self.position < len(self.text):
            plain = _PLAIN[quote].match(self.text, self.position)
            if plain:
                parts.append(plain.group())
                self.position = plain.end()
            elif self.text[self.position] == "\\":
                parts.append(self._escape())
            else:
                self.position += 1
                if after.match(self.text, self.position):
                    return self._closed("".join(parts), quote, inner)
                if quote == '"' and _AMBIGUOUS.match(self.text, self.position):
                    raise LooseJsonError(f"stray quote before character {self.position}")
                parts.append(quote)
                inner += 1
        if inner:
            raise LooseJsonError("stray quotes before the end")
        return None

    def _closed(self, text: str, quote: str, inner: int) -> str | None:
        """A string whose closing quote was passed; None if that may be an apostrophe at which the text ends.

        Args:
            text: What the string holds.
            quote: The closing quote.
            inner: Number of such quotes in it; an odd one of double quotes leaves open which of them closes.
        """
        if quote == '"' and inner % 2:
            raise LooseJsonError(f"stray quotes before character {self.position}")
        if quote == "'" and not self._next():
            return None
        return _SURROGATES.sub("\ufffd", _joined(text))

    def _escape(self) -> str:
        """The character that a backslash sequence stands for; an unknown one stands for itself."""
        letter = self.text[self.position + 1 : self.position + 2]
        self.position += 2
        code = _HEX.match(self.text, self.position) if letter == "u" else None
        if code:
            self.position = code.end()
            return chr(int(code.group(), 16))
        return _ESCAPES.get(letter, "\\" + letter)

    def _next(self) -> str:
        """Skips whitespace and comments; the character that follows, "" at the end."""
        blank = _BLANK.match(self.text, self.position)
        if blank:
            self.position = blank.end()
            if "..." in blank.group() or "…" in blank.group():
                raise LooseJsonError("a comment says that elements are left out")
        return self.text[self.position : self.position + 1]

    def _skip_commas(self) -> None:
        while self._next() == ",":
            self.position += 1


def _number(text: str) -> int | float | None:
    """A finite number, None for one that is not."""
    if re.fullmatch(r"[-+]?\d{1,300}", text):
        return int(text)
    value = float(text)
    return value if isfinite(value) else None


def _joined(text: str) -> str:
    """Surrogate pairs as the one character that they stand for."""
    return (
        text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") if _SURROGATES.search(text) else text
    )
