"""A path in words, and what identifies it (pure). Source: algorithms.md 0.8 F-PATH, 4.2; G-HUB-5."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256

from polyhop.schemas.statements import NamedTriple

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATORS = re.compile(r"[_\-\s]+")


@cache
def humanised(predicate: str) -> str:
    """A predicate in words: `http://x.org/hasVenue` is `has venue`."""
    local = re.split(r"[#/]", predicate.rstrip("#/"))[-1] if "://" in predicate else predicate
    return _SEPARATORS.sub(" ", _CAMEL.sub(" ", local)).strip().lower()


def path_text(triples: Iterable[NamedTriple]) -> str:
    """The path as one sentence, its triples joined by `; `: `Paper One author Jane Doe; Jane Doe affiliation …`."""
    return "; ".join(map(_triple_text, triples)) + "."


def _triple_text(triple: NamedTriple) -> str:
    value = triple.object_words
    words = [
        triple.subject_words,
        humanised(triple.predicate),
        "" if value.startswith(("http://", "https://")) else value,
    ]
    return " ".join(filter(None, words))


def path_json(triples: Sequence[NamedTriple]) -> str:
    """The path as compact JSON: a list for each triple."""
    return json.dumps(list(map(list, triples)), ensure_ascii=False, separators=(",", ":"))


def path_hash(triples: Sequence[NamedTriple]) -> bytes:
    """sha256 over all ids, labels and predicates: a path with another of them is another path."""
    return sha256(path_json(triples).encode("utf-8", "surrogatepass")).digest()
