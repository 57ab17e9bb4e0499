"""From a model's text to a valid reply: as it is, taken out of what surrounds it, repaired, or refused with a reason.

A reply is data: it is parsed, never evaluated; NaN and infinities never become a value. The package json_repair reads
what is nearly JSON; it completes whatever is cut off, and takes quadratic time where quotes are missing, so that texts
which end too early or have many stray quotes are refused before it. Source: algorithms.md 0.7; decision 0006.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from math import isfinite
from typing import Any

from pydantic import BaseModel, ValidationError

from polyhop.schemas.chat import ChatRequest, ChatTask, Repair, ReplyT
from polyhop.schemas.errors import MalformedReplyError, ReplyRefusedError
from polyhop.warehouse.cache.replies import ReplyCache, StoredReply

MAX_CHARACTERS = 200_000  # chosen: longer than models write (some 50,000 tokens); bounds what reading takes
MAX_CANDIDATES = 100  # chosen: a good reply is one object; each candidate is validated, which bounds what reading takes
_REACHED = 0.9  # share of its limit that a reply that was cut has at least; chosen: servers count tokens differently
MAX_STRAY_QUOTES = 20  # chosen: json_repair takes 6 s for 1,500 of them in 10 kB, and names in quotes are a few

_FENCE = re.compile(r"```[ \t]*\w*[ \t]*\r?\n?(.*?)(?:```|\Z)", re.DOTALL)
_THINKING = re.compile(r"\A.*</think(?:ing)?>|\A\s*<think(?:ing)?>.*", re.DOTALL)
_OPENING = re.compile(r"[{\[](?=\s*+(?:[\"'“{}\[\]]|//|/\*|#|[A-Za-z_]\w{0,40}\s*+:))")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[{\]}]', re.DOTALL)
_STRAY_QUOTE = re.compile(r'[^\s{\[,:\\][ \t]*+"(?=[ \t]*+[^\s}\],:])')
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_MISREAD_ESCAPES = {r"\/": "/", r"\f": r"\u000c", r"\\": r"\u005c"}  # by json_repair 0.64
_SURROGATE = re.compile("[\ud800-\udfff]")
_REFUSAL = re.compile(
    r"\A[\s\W]*(?:i['’]?m sorry|i am sorry|sorry[,.]|i apologi[sz]e|unfortunately,? i|as an ai\b"
    r"|i (?:can['’]?t|cannot|can not|won['’]?t|am unable|am not able|must decline)"
    r"|i['’]m (?:unable|not able)|this request (?:violates|goes against))",
    re.IGNORECASE,
)
_WRAPPERS = ("arguments", "parameters", "input", "function", "tool_calls", "function_call")


REPLY_TOKENS = {
    "kg.extract": 4096,
    "kg.resolve": 4096,
    "prop.propositions": 2048,
    **dict.fromkeys(("prop.entities", "qa.answer", "qa.chains", "qa.closed_book"), 1024),
    **dict.fromkeys(("hub.path_text", "query.entities"), 512),
}
"""Most tokens of a reply of each step; chosen. A reply that its length ended is asked for again under a higher one."""


def longest_reply(chosen: int, task: ChatTask[Any]) -> int:
    """Most tokens of a reply: what `models.max_reply_tokens` says, or, if that is 0, the step's own number."""
    return chosen or REPLY_TOKENS.get(task.name, task.max_output_tokens)


def cached_replies(
    cache: ReplyCache, requests: Mapping[str, ChatRequest[Any]], chosen: int
) -> dict[str, tuple[BaseModel, StoredReply]]:
    """Replies of the cache by key. One that a lower limit cut is missing, and one that its form no longer accepts."""
    found: dict[str, tuple[BaseModel, StoredReply]] = {}
    for key, stored in cache.replies(list(requests)).items():
        task = requests[key].task
        longest = longest_reply(chosen, task)
        if stored.repair == Repair.CUT and stored.usage.completion_tokens < _REACHED * longest * stored.usage.calls:
            continue
        with suppress(ValidationError):
            found[key] = task.reply.model_validate_json(stored.text), stored
    return found


def read_reply(text: str, reply: type[ReplyT]) -> tuple[ReplyT, Repair]:
    """The valid reply in a model's text, and how much help it needed.

    Raises:
        MalformedReplyError: If there is none, or there are several that differ.
        ReplyRefusedError: If the model declined to answer.
    """
    text = text.removeprefix("\ufeff").strip()
    if not text:
        raise MalformedReplyError("The reply is empty.")
    if len(text) > MAX_CHARACTERS:
        raise MalformedReplyError(f"The reply has {len(text)} characters, more than {MAX_CHARACTERS}; it was not read.")
    problem, answer = "there is no JSON in it", _THINKING.sub("", text).strip()
    for repair, parse, source in (
        (Repair.AS_IS, _whole, text),  # a text of the reply may name the mark that ends reasoning
        (Repair.UNWRAPPED, _unwrapped, answer),
        (Repair.REPAIRED, partial(_repaired, reply), answer),
    ):
        found, said = _valid(parse(source), reply)
        problem = said or problem
        if any(other != found[0] for other in found[1:]):
            raise MalformedReplyError("The reply holds several different answers.")
        if found:
            return found[0], repair
    if _is_refusal(answer):
        raise ReplyRefusedError(f"The model declined to answer: {answer[:200]}")
    if not answer:
        raise MalformedReplyError("The reply holds the model's reasoning only.")
    raise MalformedReplyError(f"The reply is not what was asked for: {problem}.")


def read_cut(text: str, reply: type[ReplyT]) -> ReplyT | None:
    """The complete items of the lists in a reply that its limit cut; None if there is none. Cost: O(characters)."""
    if len(text) > MAX_CHARACTERS:
        return None
    answer = _THINKING.sub("", text.strip()).strip()
    start = answer.find("{")
    open_brackets: list[str] = []
    end = 0
    for token in _TOKEN.finditer(answer, max(start, 0)):
        mark = token[0]
        if mark in _CLOSING:
            open_brackets.append(_CLOSING[mark])
        elif mark in "]}" and (not open_brackets or open_brackets.pop() != mark):
            return None
        is_item = mark in "]}" or _ITEM_END.match(answer, token.end()) is not None
        if open_brackets == ["}", "]"] and mark not in _CLOSING and is_item:
            end = token.end()
    found, _ = _valid(_whole(answer[start:end] + "]}"), reply)
    return found[0] if found else None


_CLOSING = {"{": "}", "[": "]"}
_ITEM_END = re.compile(r"\s*+[,\]]")


def _valid(candidates: Iterator[Any], reply: type[ReplyT]) -> tuple[list[ReplyT], str]:
    """The candidates of the form, and the problem of the last that is not, or of what none could be read from."""
    found, problem = [], ""
    try:
        for number, candidate in enumerate(candidates):
            if number >= MAX_CANDIDATES:
                raise MalformedReplyError(f"The reply holds more than {MAX_CANDIDATES} objects.")
            try:
                made = reply.model_validate(_clean(candidate))
                json.dumps(made.model_dump(mode="json"), allow_nan=False)  # pydantic reads the text "NaN" as one
                found.append(made)
            except ValueError as error:
                problem = _sentence(error)
    except (ValueError, RecursionError) as error:  # of json_repair
        problem = str(error).rstrip(".")
    return found, problem


def _is_refusal(text: str) -> bool:
    """Returns whether a text begins like a refusal, or is an object that holds nothing else."""
    value = next(_strict_values(text), None)
    if not isinstance(value, dict) or len(value) != 1:
        return _REFUSAL.match(text) is not None
    ((name, said),) = value.items()
    return isinstance(said, str) and (name == "refusal" or _REFUSAL.match(said) is not None)


def _whole(text: str) -> Iterator[Any]:
    """The text as it is."""
    with suppress(ValueError, RecursionError):
        yield _DECODER.decode(text)


def _unwrapped(text: str) -> Iterator[Any]:
    """Values inside fences, prose, a string or a tool call."""
    for part in _parts(text):
        for value in _strict_values(part):
            yield value
            yield from _inside(value)


def _repaired(reply: type[BaseModel], text: str) -> Iterator[Any]:
    """Values that can be read without guessing, with the form's field names; none of a text that ends too early."""
    from json_repair import loads

    schema = reply.model_json_schema()
    forms = [schema, *schema.get("$defs", {}).values()]
    names = {_plain(name): name for form in forms for name in form.get("properties", {})}
    for part in _parts(text):
        start = _OPENING.search(part)
        tokens = list(_TOKEN.finditer(part, start.start())) if start else []
        if not tokens:
            continue
        if tokens[-1].group() not in "]}":
            raise ValueError("it ends too early, or a quote is missing")
        if sum(1 for _ in _STRAY_QUOTE.finditer(part)) > MAX_STRAY_QUOTES:
            raise ValueError("it has many quotes inside of texts, which need a backslash each")
        json_text = part[tokens[0].start() : tokens[-1].end()]
        json_text = _ESCAPE.sub(lambda escape: _MISREAD_ESCAPES.get(escape[0], escape[0]), json_text)
        value = loads(json_text, skip_json_loads=True, strict=True)
        # Refuses texts that json_repair splits at an apostrophe, and lists that say that something is left out.
        said = json.dumps(value, ensure_ascii=False)
        if any(part.count(dots) > said.count(dots) for dots in ("...", "…")):
            raise ValueError("elements are left out")
        if re.search(r"(?<!\\)\"(?:'|[^\"]*'\"(?!:))", said):
            raise ValueError("a text begins or ends with an apostrophe")
        renamed = _renamed(value, names)
        if isinstance(renamed, list) and renamed and len(reply.model_fields) == 1:
            renamed = {next(iter(schema["properties"])): renamed}  # an empty list says too little to be an answer
        yield renamed
        yield from (_renamed(inner, names) for inner in _inside(value))


def _parts(text: str) -> Iterator[str]:
    """Text inside fences if there are any, else all of it."""
    if re.match(r"\s*[{\[]\s*\\\"", text):
        text = text.replace('\\"', '"').replace("\\n", "\n")
    fenced = [part for part in _FENCE.findall(text) if _OPENING.search(part)]
    yield from fenced or [text]


def _strict_values(text: str) -> Iterator[Any]:
    """Objects and lists of proper JSON anywhere in a text, in order; a string that holds JSON counts as that.

    Parts of one that cannot be read are not candidates: they would pass for the whole.
    """
    try:
        if text.startswith('"'):
            yield from _strict_values(_DECODER.decode(text))
            return
        position = 0
        while start := _OPENING.search(text, position):
            value, position = _DECODER.raw_decode(text, start.start())
            yield value
    except (ValueError, RecursionError):
        return


def _inside(value: Any) -> Iterator[Any]:
    """Value inside a tool call or a single field, down to five levels."""
    for _ in range(5):
        if isinstance(value, list):
            value = value[0] if len(value) == 1 else None
        elif isinstance(value, dict):
            wrapper = next((name for name in _WRAPPERS if name in value), None)
            value = value[wrapper] if wrapper else next(iter(value.values())) if len(value) == 1 else None
        if isinstance(value, str):
            value = next(_strict_values(value), None)
        if not isinstance(value, dict | list):
            return
        yield value


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


def _clean(value: Any) -> Any:
    """The value with null for numbers that are not finite, and without half surrogate pairs."""
    if isinstance(value, dict):
        return {name: _clean(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, str) and _SURROGATE.search(value):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def _sentence(error: Exception) -> str:
    """The first two problems of a reply, in words for the model as for the ledger."""
    if not isinstance(error, ValidationError):
        return str(error)
    found = error.errors(include_url=False, include_input=False, include_context=False)[:2]
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or 'the reply'}: {one['msg']}" for one in found)


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; a field named twice keeps both lists, or one of two equal values."""
    made: dict[str, Any] = {}
    for name, value in pairs:
        known = made.get(name)
        if name not in made or known == value:
            made[name] = value
        elif isinstance(known, list) and isinstance(value, list):
            made[name] = known + value
        else:
            raise MalformedReplyError(f"The reply is not what was asked for: field '{name[:60]}' has two values.")
    return made


_DECODER = json.JSONDecoder(object_pairs_hook=_fields)
