"""Plausible replies of the scripted model, derived from the prompt's <data> blocks alone, the same every time.

Knows the forms of algorithms.md 0.7; any other schema is filled with empty values.
"""

import hashlib
import itertools
import json
import re
from typing import Any

_DATA = re.compile(r"<data\b[^>]*>(.*?)</data>", re.DOTALL | re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_CAPITALISED = r"[A-Z][\w'’&-]*"
_NAME = re.compile(rf"{_CAPITALISED}(?:\s+(?:(?:of|the|de|von|van)\s+)*{_CAPITALISED})*")
_STOP = {
    "The",
    "A",
    "An",
    "In",
    "On",
    "At",
    "It",
    "He",
    "She",
    "They",
    "His",
    "Her",
    "This",
    "That",
    "Its",
    "As",
    "But",
}
_TYPES = ("PERSON", "ORGANIZATION", "LOCATION", "EVENT", "CONCEPT")
_FORMS = {
    "kg.extract": {"entities", "relations"},
    "kg.resolve": {"groups"},
    "prop.propositions": {"propositions"},
    "qa.answer": {"answer", "reasoning"},
}


def derived_reply(prompt: str, schema_name: str, schema: dict[str, Any] | None) -> str:
    """JSON text for a prompt: by the schema's name ("kg_extract"), by its fields, or by its types."""
    name = task_name(schema_name, schema, prompt)
    blocks = [block.strip() for block in _DATA.findall(prompt)] or [prompt]
    maker = _MAKERS.get(name)
    value = maker(blocks) if maker else _filled(schema or {}, schema or {})
    return json.dumps(value, ensure_ascii=False)


def task_name(schema_name: str, schema: dict[str, Any] | None, prompt: str) -> str:
    """The task of algorithms.md 0.7 that a request is about, "" if it is another one."""
    for name in _MAKERS:
        if re.sub(r"\W", "_", name) == re.sub(r"\W", "_", schema_name):
            return name
    fields = set((schema or {}).get("properties", {}))
    if not fields:
        fields = set(re.findall(r'"(\w+)"', _DATA.sub("", prompt)))
    for name, form in _FORMS.items():
        if form <= fields:
            return name
    if "entities" in fields:
        return "query.entities" if "search_hint" in json.dumps(schema or prompt) else "prop.entities"
    return ""


def names_in(text: str) -> list[str]:
    """Capitalised runs, each once, in order, without the articles that begin sentences."""
    found: dict[str, None] = {}
    for match in _NAME.findall(text):
        words = match.split()
        while words and words[0] in _STOP:
            words = words[1:]
        if words:
            found[" ".join(words)] = None
    return list(found)


def _sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in _SENTENCE.split(text) if sentence.strip()]


def _type_of(name: str) -> str:
    return _TYPES[hashlib.sha256(name.encode()).digest()[0] % len(_TYPES)]


def _graph(blocks: list[str]) -> dict[str, Any]:
    text = "\n".join(blocks)
    entities: dict[str, dict[str, str]] = {}
    relations = []
    for sentence in _sentences(text):
        names = names_in(sentence)
        for name in names:
            entities.setdefault(name, {"name": name, "type": _type_of(name), "description": sentence})
        for source, target in itertools.pairwise(names):
            between = sentence.partition(source)[2].partition(target)[0]
            words = re.findall(r"[a-z]+", between)[:4]
            relations.append(
                {"source_name": source, "relation": " ".join(words) or "related to", "target_name": target}
            )
    return {"entities": list(entities.values()), "relations": relations}


def _names(blocks: list[str]) -> dict[str, Any]:
    return {"entities": names_in("\n".join(blocks))}


def _propositions(blocks: list[str]) -> dict[str, Any]:
    """One proposition per sentence of the longest block, with the names in it."""
    made = [{"text": sentence, "entities": names_in(sentence)} for sentence in _sentences(max(blocks, key=len))]
    return {"propositions": [proposition for proposition in made if proposition["entities"]]}


def _listed_names(block: str) -> list[str]:
    """Names of a cluster, given as JSON (strings or objects with a name) or one a line ("- name: description")."""
    try:
        value = json.loads(block)
    except ValueError:
        lines = (re.sub(r"^\s*(?:[-*•]|\d+[.)])\s*", "", line) for line in block.splitlines())
        names = (re.split(r"\s*(?:[:|\t]|\s[-–—]\s|\()", line)[0].strip() for line in lines)
        return [name for name in names if name]
    value = next(iter(value.values())) if isinstance(value, dict) else value
    return [item["name"] if isinstance(item, dict) else str(item) for item in value]


def _groups(blocks: list[str]) -> dict[str, Any]:
    """Names whose words are all in a longer name belong to it."""
    groups: dict[str, list[str]] = {}
    listed = list(dict.fromkeys(name for block in blocks for name in _listed_names(block)))
    for name in sorted(listed, key=lambda name: (-len(name.split()), name)):
        words = set(name.lower().split())
        home = next((long for long in groups if words <= set(long.lower().split())), None)
        groups.setdefault(home or name, []).append(name)
    return {
        "groups": [
            {"canonical_name": canonical, "members": members, "description": f"{canonical}, by {len(members)} names"}
            for canonical, members in groups.items()
        ]
    }


def _answer(blocks: list[str]) -> dict[str, Any]:
    """The first name of the context that the question does not have; the shortest block is the question."""
    question = min(blocks, key=len)
    context = "\n".join(block for block in blocks if block is not question) or question
    name = next((name for name in names_in(context) if name not in question), "")
    sentence = next((sentence for sentence in _sentences(context) if name and name in sentence), "")
    markers = re.findall(r"\[(\d+)\]", context)
    return {"answer": name, "reasoning": sentence, "citations": [int(marker) for marker in markers[:1]]}


def _hints(blocks: list[str]) -> dict[str, Any]:
    return {"entities": [{"name": name, "search_hint": name.lower()} for name in names_in("\n".join(blocks))]}


def _path_text(blocks: list[str]) -> dict[str, Any]:
    """The statements of a path, one JSON list a line, as sentences."""
    statements = [json.loads(line) for line in "\n".join(blocks).splitlines()]
    return {"text": " ".join(f"{' '.join(words)}." for words in statements)}


def _components(blocks: list[str]) -> dict[str, Any]:
    return {"components": names_in("\n".join(blocks))}


def _numbered(block: str) -> dict[int, str]:
    """Lines like `[2] …`, by number."""
    return {int(number): text for number, text in re.findall(r"^\[(\d+)\] (.*)$", block, re.MULTILINE)}


def _partial(blocks: list[str]) -> dict[str, Any]:
    """The first numbered statement, word for word."""
    statements = next((found for found in map(_numbered, blocks) if found), {})
    return {"sufficient": bool(statements), "answer": next(iter(statements.values()), ""), "used": [*statements][:1]}


def _final(blocks: list[str]) -> dict[str, Any]:
    """The first partial answer, word for word."""
    partial = _partial(blocks)
    return {"sufficient": partial["sufficient"], "answer": partial["answer"], "citations": partial["used"]}


def _filter(blocks: list[str]) -> dict[str, Any]:
    """All numbered statements."""
    return {"ids": [*next((found for found in map(_numbered, blocks[::-1]) if found), {})]}


def _filled(schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """An empty value of any JSON schema."""
    if "$ref" in schema:
        return _filled(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root)
    if "enum" in schema:
        return schema["enum"][0]
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return _filled(schema[choice][0], root)
    empty = {"string": "", "integer": 0, "number": 0.0, "boolean": False, "array": [], "null": None}
    kind = schema.get("type", "object")
    if kind != "object":
        return empty[kind]
    return {name: _filled(part, root) for name, part in schema.get("properties", {}).items()}


_MAKERS = {
    "kg.extract": _graph,
    "kg.resolve": _groups,
    "hub.components": _components,
    "hub.filter": _filter,
    "hub.final": _final,
    "hub.partial": _partial,
    "hub.path_text": _path_text,
    "prop.entities": _names,
    "prop.propositions": _propositions,
    "qa.answer": _answer,
    "qa.chains": _answer,
    "qa.closed_book": _answer,
    "query.entities": _hints,
}
