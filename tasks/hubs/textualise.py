"""Paths in the words of a model: what is asked of it, and what of its replies is used (pure).

Asks nobody (stage.py does). Paths with the same words are one question, whatever their ids. Source: algorithms.md 4.6.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from pydantic import BaseModel

from polyhop.schemas.chat import ChatRequest, ChatTask
from polyhop.schemas.statements import NamedTriple
from polyhop.warehouse.prompt_files import read_prompt


class PathText(BaseModel):
    """The form of a reply to hub.path_text."""

    text: str


@cache
def path_text_task() -> ChatTask[PathText]:
    """The task hub.path_text with its prompt; a text is about as long as the statements that it is of."""
    prompt = read_prompt(Path(__file__).parent / "prompts" / "hub.path_text.md")
    return ChatTask("hub.path_text", prompt, PathText, max_output_tokens=512, output_per_input=1.2)


def path_lines(triples: Iterable[NamedTriple]) -> str:
    """The path as it is shown to a model: a line per triple, with labels and the predicate as stated."""
    words = ([triple.subject_words, triple.predicate, triple.object_words] for triple in triples)
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in words)


def path_request(lines: str, unit_id: str) -> ChatRequest[PathText]:
    """The question about one path.

    Args:
        lines: Of `path_lines`.
        unit_id: Hash of the path, or of the first of those with these lines.
    """
    return ChatRequest(path_text_task(), unit_id, (("triples", lines),))


def usable_text(reply: PathText) -> str:
    """The reply as one paragraph; "" if it says nothing."""
    return " ".join(reply.text.split())


def distinct_lines(paths: Iterable[Sequence[NamedTriple]]) -> dict[str, int]:
    """Different lines of paths, with the number of the first path that has them, in the order of the paths."""
    first: dict[str, int] = {}
    for number, path in enumerate(paths):
        first.setdefault(path_lines(path), number)
    return first
