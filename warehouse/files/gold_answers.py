"""Gold answers of items that name them otherwise than `answers` or `answer`: NQ and PopQA as HippoRAG stores them.

Opens nothing and judges no answer (tasks/evaluation does).
Source: the fields that HippoRAG's experiments read (main.py, `get_gold_answers`); algorithms.md 6.5.
"""

import json
from collections.abc import Mapping

from polyhop.warehouse.files.records import FaultError, kind_of

REFERENCE = "reference"
POSSIBLE_ANSWERS = "possible_answers"
_OBJECT_FIELDS = ("obj", "o_wiki_title", POSSIBLE_ANSWERS, "o_aliases")
"""PopQA: the object of the triple that a question was made of, and all its names."""
_ALIASES = "answer_aliases"
_IN_REFERENCES = ("answers", "answer", "aliases", _ALIASES)
_USED = frozenset({REFERENCE, *_OBJECT_FIELDS, _ALIASES})


def has_references(item: Mapping[str, object]) -> bool:
    """Whether an item lists its gold answers as `reference`; a string of that name may be anything."""
    return isinstance(item.get(REFERENCE), (list, tuple))


def with_gold_answers(item: Mapping[str, object]) -> Mapping[str, object]:
    """The item with `answers` in place of the fields of NQ and PopQA; unchanged if it has answers, or none of these.

    Raises:
        FaultError: If one of these fields is not written so.
    """
    if item.get("answers") or item.get("answer") or not (has_references(item) or item.get(POSSIBLE_ANSWERS)):
        return item
    return {**{name: value for name, value in item.items() if name not in _USED}, "answers": _gold_answers(item)}


def _gold_answers(item: Mapping[str, object]) -> list[str]:
    """All spellings, in the order of the fields: `reference` or PopQA's names of the object, then the aliases."""
    if has_references(item):
        found = _references(item[REFERENCE])
    else:
        found = [text for name in _OBJECT_FIELDS for text in _strings(name, _unpacked(name, item.get(name)))]
    return [*found, *_strings(_ALIASES, item.get(_ALIASES))]


def _references(value: object) -> list[str]:
    """Spellings, or objects that hold them."""
    found: list[str] = []
    for each in value if isinstance(value, (list, tuple)) else ():
        if not isinstance(each, Mapping):
            found += _strings(REFERENCE, [each])
            continue
        names = [name for name in _IN_REFERENCES if each.get(name) is not None]
        if not names:
            raise FaultError("an object in reference has no field named answers or answer")
        found += [text for name in names for text in _strings(REFERENCE, each[name])]
    return found


def _unpacked(name: str, value: object) -> object:
    """The list that a string holds as JSON, as PopQA's published file has them; anything else as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith("["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise FaultError(f"the answers in {name} begin like a JSON list but are not valid JSON: {error}") from error


def _strings(name: str, value: object) -> list[str]:
    values = value if isinstance(value, (list, tuple)) else () if value is None else (value,)
    for each in values:
        if isinstance(each, bool) or not isinstance(each, (str, int, float)):
            raise FaultError(f"the answers in {name} are not strings but hold {kind_of(each)}")
    return [str(each) for each in values]
