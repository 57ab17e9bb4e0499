"""From a model's text to a valid reply: read leniently, repaired, or refused with a reason.

A reply is data: it is parsed, never evaluated; NaN and infinities never become a
value, and no element is invented. Source: algorithms.md 0.7.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from pydantic import BaseModel, ValidationError

from polyhop.schemas.chat import ChatTask, ReplyT, Rung
from polyhop.schemas.errors import MalformedReplyError, ModelError, ReplyRefusedError
from polyhop.schemas.settings import ReplySettings
from polyhop.warehouse.cache.replies import ReplyCache


def longest_reply(lengths: ReplySettings, task: ChatTask[Any]) -> int:
    """Most tokens of a reply; the task's own number where there is no setting for it."""
    return int(getattr(lengths, task.name.replace(".", "_"), task.max_output_tokens))


def outgrown(cache: ReplyCache, cut: Mapping[str, ChatTask[Any]], longest: Callable[[ChatTask[Any]], int]) -> set[str]:
    """The keys of cut replies that may now become longer.

    Args:
        cache: Knows under which limit they were cut; before it did, that was the task's own number.
        cut: Tasks by the keys of their cut replies.
        longest: Most tokens of a reply to a task, now.
    """
    limits = cache.limits_of_shortened(list(cut)) if cut else {}
    return {key for key, task in cut.items() if longest(task) > limits.get(key, task.max_output_tokens)}


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
        """A string whose closing quote was passed; None if that may be an apostrophe at which the text ends."""
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


REPAIR_REVISION = 1  # raise it when more replies can be read: failures of an earlier one are then read again
# chosen: longer than models write (some 250,000 tokens); bounds what reading takes
MAX_CHARACTERS = 1_000_000
MAX_CANDIDATES = 100  # chosen: a good reply is one object; each candidate is validated, which bounds what reading takes

_FENCE = re.compile(r"```[ \t]*\w*[ \t]*\r?\n?(.*?)(?:```|\Z)", re.DOTALL)
_THINKING = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_NESTING = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|[\[{]|[\]}]', re.DOTALL)
_OPENING = re.compile(r"[{\[](?=\s*+(?:[\"'“{}\[\]]|//|/\*|#|[A-Za-z_]\w{0,40}\s*+:))")
_REFUSAL = re.compile(
    r"\A[\s\W]*(?:i['’]?m sorry|i am sorry|sorry[,.]|i apologi[sz]e|unfortunately,? i|as an ai\b"
    r"|i (?:can['’]?t|cannot|can not|won['’]?t|am unable|am not able|must decline)"
    r"|i['’]m (?:unable|not able)|this request (?:violates|goes against))",
    re.IGNORECASE,
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_WRAPPERS = ("arguments", "parameters", "input", "function", "tool_calls", "function_call")


def read_reply(text: str, reply: type[ReplyT]) -> tuple[ReplyT, Rung]:
    """The valid reply in a model's text, and how much help it needed."""
    text = text.removeprefix("\ufeff").strip()
    _check_size(text)
    problem = "there is no JSON in it"
    for rung, parse in _LADDER:
        valid: list[ReplyT] = []
        for number, candidate in enumerate(parse(text, reply)):
            if number >= MAX_CANDIDATES:
                raise MalformedReplyError(f"The reply holds more than {MAX_CANDIDATES} objects.")
            try:
                made = _validated(candidate, reply)
            except (ValidationError, ValueError) as error:
                problem = _sentence(error)
                continue
            if valid and made != valid[0]:
                raise MalformedReplyError("The reply holds several different answers.")
            valid.append(made)
        if valid:
            return valid[0], rung
    raise _reason(text, problem)


def _reason(text: str, problem: str) -> ModelError:
    if _REFUSAL.match(text) or _says_refusal(text):
        return ReplyRefusedError(f"The model declined to answer: {text[:200]}")
    return MalformedReplyError(f"The reply is not what was asked for: {problem}.")


def _says_refusal(text: str) -> bool:
    """An object that holds nothing but a refusal."""
    value = next(_strict_values(text), None)
    if not isinstance(value, dict) or len(value) != 1:
        return False
    ((name, said),) = value.items()
    return isinstance(said, str) and (name == "refusal" or bool(_REFUSAL.match(said)))


def _check_size(text: str) -> None:
    if not text:
        raise MalformedReplyError("The reply is empty.")
    if len(text) > MAX_CHARACTERS:
        raise MalformedReplyError(f"The reply has {len(text)} characters, more than {MAX_CHARACTERS}; it was not read.")
    depth = 0
    for match in _NESTING.finditer(text):
        mark = match.group()
        depth = max(0, depth + (mark in "[{") - (mark in "]}"))
        if depth > MAX_DEPTH:
            raise MalformedReplyError(f"The reply is nested deeper than {MAX_DEPTH}; it was not read.")


def _whole(text: str, _reply: type[BaseModel]) -> Iterator[Any]:
    """The text as it is."""
    try:
        yield _DECODER.decode(text)
    except (ValueError, RecursionError):
        return


def _unwrapped(text: str, _reply: type[BaseModel]) -> Iterator[Any]:
    """What is inside fences, prose, a string or a tool call."""
    for part in _parts(text):
        for value in _strict_values(part):
            yield value
            yield from _inside(value, lambda inner: list(_strict_values(inner)))


def _repaired(text: str, reply: type[BaseModel]) -> Iterator[Any]:
    """What can be read without guessing, in the form's own field names; nothing of a text that ends too early."""
    if not any(read.is_cut for part in _parts(text) for read in _loose_values(part)):
        yield from _shortened(text, reply)


def _shortened(text: str, reply: type[BaseModel]) -> Iterator[Any]:
    """The same, without the element in which the text ends."""
    names = _field_names(reply)
    for part in _parts(text):
        for value in _loose_values(part):
            yield _shaped(_renamed(value.value, names), reply)
            for inner in _inside(value.value, lambda text: [read.value for read in _loose_values(text)]):
                yield _renamed(inner, names)


def _parts(text: str) -> Iterator[str]:
    """The text without the model's thinking: what is inside fences if there are any, else all of it."""
    text = _THINKING.sub("", text)
    if re.match(r"\s*[{\[]\s*\\\"", text):
        text = text.replace('\\"', '"').replace("\\n", "\n")
    fenced = [part for part in _FENCE.findall(text) if _OPENING.search(part)]
    yield from fenced or [text]


def _strict_values(text: str) -> Iterator[Any]:
    """Objects and lists of proper JSON anywhere in a text, in order; a string that holds JSON counts as that."""
    if text.startswith('"'):
        for value in _whole(text, BaseModel):
            yield from _strict_values(value)
        return
    position = 0
    while start := _OPENING.search(text, position):
        try:
            value, position = _DECODER.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            return
        yield value


def _loose_values(text: str) -> Iterator[LooseValue]:
    """Objects and lists anywhere in a text, in order, read loosely, up to the first that cannot be.

    Parts of one that cannot be read are not candidates: they would pass for the whole.
    """
    position = 0
    while start := _OPENING.search(text, position):
        try:
            read = read_loosely(text, start.start())
        except LooseJsonError:
            return
        position = max(read.end, start.end())
        yield read


def _inside(value: Any, parse: Callable[[str], list[Any]]) -> Iterator[Any]:
    """What a tool call or a single field holds, down to five levels."""
    for _ in range(5):
        value = _content(value)
        if isinstance(value, str):
            value = next(iter(parse(value)), None)
        if not isinstance(value, dict | list):
            return
        yield value


def _content(value: Any) -> Any:
    """The one element of a list, or what a dict holds in a tool call's field or its only one; None without such."""
    if isinstance(value, list):
        return value[0] if len(value) == 1 else None
    if not isinstance(value, dict):
        return None
    wrapper = next((name for name in _WRAPPERS if name in value), None)
    if wrapper:
        return value[wrapper]
    return next(iter(value.values())) if len(value) == 1 else None


def _field_names(reply: type[BaseModel]) -> dict[str, str]:
    """{name without case, whitespace, hyphens and underscores: name} of all fields of a form and of the forms in it."""
    schema = reply.model_json_schema()
    forms = [schema, *schema.get("$defs", {}).values()]
    return {_plain(name): name for form in forms for name in form.get("properties", {})}


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """Fields whose names differ only in case or separators, under the form's names."""
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for key, item in value.items():
        name = names.get(_plain(str(key)), str(key))
        made[str(key) if name in value else name] = _renamed(item, names)
    return made


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _shaped(value: Any, reply: type[BaseModel]) -> Any:
    """A bare list as the one field that the form has; an empty one says too little to be an answer."""
    if isinstance(value, list) and value and len(reply.model_fields) == 1:
        return {next(iter(reply.model_json_schema()["properties"])): value}
    return value


def _validated(value: Any, reply: type[ReplyT]) -> ReplyT:
    made = reply.model_validate(value)
    _check_values(made.model_dump())
    return made


def _check_values(value: Any) -> None:
    """No number that is not finite (pydantic reads "NaN" as one), no half characters."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        for item in value:
            _check_values(item)
    elif isinstance(value, float) and not isfinite(value):
        raise ValueError("a number is not finite")
    elif isinstance(value, str) and _SURROGATE.search(value):
        raise ValueError("a text holds half a surrogate pair")


def _sentence(error: Exception) -> str:
    """The first two problems of a reply, in words for the model as for the ledger."""
    if not isinstance(error, ValidationError):
        return str(error)
    found = error.errors(include_url=False, include_input=False, include_context=False)[:2]
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'the reply'}: {one['msg']}" for one in found)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a field is named twice")
    return made


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)
_LADDER = (
    (Rung.AS_IS, _whole),
    (Rung.UNWRAPPED, _unwrapped),
    (Rung.REPAIRED, _repaired),
    (Rung.SHORTENED, _shortened),
)
