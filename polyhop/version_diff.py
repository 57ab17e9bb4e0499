"""What differs between two versions of an index: records, entities, relations, and how questions are answered."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polyhop.api import Answer, open_index
from polyhop.schemas.errors import SourceError
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.questions import usable_questions
from polyhop.warehouse.files.versions import hold_version
from polyhop.warehouse.tables.version_rows import compare_versions

FIRST_PASSAGES = 10  # that are compared; as many as a question asks for by default
FIRST_CHANGES = 10  # of each kind that are listed; chosen: a screen, and SQL has all


def diff_versions(
    settings: Settings, index: str, versions: tuple[int, int], questions: Path | None, strategy: str | None
) -> dict[str, Any]:
    """The JSON contract of `polyhop versions --diff`: what changed, and, if a question file is named, other answers.

    Each question is asked of both versions, by a strategy or each version's own default; the document has those with
    another answer, or other first ten passages.
    """
    layout = Layout(settings.root)
    with hold_version(layout, index, versions[0]) as first, hold_version(layout, index, versions[1]) as second:
        document: dict[str, Any] = {"index": index, "before": versions[0], "after": versions[1]}
        for what, found in compare_versions(first.folder, second.folder, FIRST_CHANGES).items():
            document[what] = {"counts": found.counts, "first": found.first}
        if questions is None:
            return document
        asked = [record.question for record in usable_questions(questions)[0]]
        if not asked:
            raise SourceError(f"{questions} holds no usable question; at least one is needed.")
        old, new = (_answers(settings, index, number, asked, strategy) for number in versions)
    rows = [_answer_row(before, after) for before, after in zip(old, new, strict=True)]
    answers = [row["answer"]["before"] != row["answer"]["after"] for row in rows]
    passages = [row["passages"]["before"] != row["passages"]["after"] for row in rows]
    changed = [row for row, *others in zip(rows, answers, passages, strict=True) if any(others)]
    counts = {"asked": len(asked), "other_answers": sum(answers), "other_passages": sum(passages)}
    return {**document, "questions": {**counts, "changed": changed}}


def _answers(settings: Settings, index: str, version: int, asked: Sequence[str], strategy: str | None) -> list[Answer]:
    with open_index(index, version=version, settings=settings) as opened:
        return opened.ask_batch(asked, strategy=strategy, limit=FIRST_PASSAGES)


def _answer_row(before: Answer, after: Answer) -> dict[str, Any]:
    """How a question is answered from either version."""
    old, new = ([row["id"] for row in one.passages] for one in (before, after))
    return {
        "question": before.question,
        "answer": {"before": before.answer, "after": after.answer},
        "passages": {"before": old, "after": new},
        "passages_added": [one for one in new if one not in old],
        "passages_removed": [one for one in old if one not in new],
    }
