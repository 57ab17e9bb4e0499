"""What differs between two versions of an index: records, entities, relations, and how questions are answered."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polyhop.api import Answer, open_index
from polyhop.schemas.errors import SourceError
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.questions import usable_questions
from polyhop.warehouse.files.versions import hold_version
from polyhop.warehouse.tables.version_rows import Compared, compare_versions

FIRST_PASSAGES = 10  # that are compared; as many as a question asks for by default


@dataclass(frozen=True, slots=True)
class AnswerDifference:
    """How a question is answered from either version; passages are the ids of the first ten."""

    question: str
    answers: tuple[str, str]
    passages: tuple[list[str], list[str]]

    @property
    def has_other_answer(self) -> bool:
        """Whether the answer is another."""
        return self.answers[0] != self.answers[1]

    @property
    def has_other_passages(self) -> bool:
        """Whether the first ten passages, or their order, are others."""
        return self.passages[0] != self.passages[1]

    def to_json(self) -> dict[str, Any]:
        """One row of `polyhop versions --diff --json`."""
        before, after = self.passages
        return {
            "question": self.question,
            "answer": {"before": self.answers[0], "after": self.answers[1]},
            "passages": {"before": before, "after": after},
            "passages_added": [one for one in after if one not in before],
            "passages_removed": [one for one in before if one not in after],
        }


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """What differs; `answers` has the questions with another answer or other passages, of `question_count` asked."""

    index: str
    before: int
    after: int
    compared: dict[str, Compared]
    question_count: int = 0
    answers: list[AnswerDifference] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop versions --diff`; `questions` only if a question file was named."""
        document: dict[str, Any] = {"index": self.index, "before": self.before, "after": self.after}
        for what, found in self.compared.items():
            document[what] = {"counts": found.counts, "first": found.first}
        if self.question_count:
            document["questions"] = {
                "asked": self.question_count,
                "other_answers": sum(one.has_other_answer for one in self.answers),
                "other_passages": sum(one.has_other_passages for one in self.answers),
                "changed": [one.to_json() for one in self.answers],
            }
        return document


def diff_versions(
    settings: Settings,
    index: str,
    versions: tuple[int, int],
    questions: Path | None = None,
    strategy: str | None = None,
    *,
    limit: int = 10,
) -> VersionDiff:
    """Compares two published versions: `limit` changes of each kind are listed, and each question is asked of both.

    Without a strategy each version answers by its own default.
    """
    layout = Layout(settings.root)
    with hold_version(layout, index, versions[0]) as first, hold_version(layout, index, versions[1]) as second:
        compared = compare_versions(first.folder, second.folder, limit)
        if questions is None:
            return VersionDiff(index, *versions, compared)
        asked = [record.question for record in usable_questions(questions)[0]]
        if not asked:
            raise SourceError(f"{questions} holds no usable question; at least one is needed.")
        old, new = (_answers(settings, index, number, asked, strategy) for number in versions)
    differences = [
        AnswerDifference(
            before.question,
            (before.answer, after.answer),
            ([row["id"] for row in before.passages], [row["id"] for row in after.passages]),
        )
        for before, after in zip(old, new, strict=True)
    ]
    changed = [one for one in differences if one.has_other_answer or one.has_other_passages]
    return VersionDiff(index, *versions, compared, len(asked), changed)


def _answers(settings: Settings, index: str, version: int, asked: Sequence[str], strategy: str | None) -> list[Answer]:
    with open_index(index, version=version, settings=settings) as opened:
        return opened.ask_batch(asked, strategy=strategy, limit=FIRST_PASSAGES)
