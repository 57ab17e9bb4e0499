"""The published versions of an index as documents: a list of them, and what differs between two."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyhop.schemas.errors import ManifestMismatchError, SourceError
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import hold_version, pinned_version, published_versions, read_manifest

if TYPE_CHECKING:
    from polyhop.api import Answer

FIRST_PASSAGES = 10  # that are compared; as many as a question asks for by default
FIRST_CHANGES = 10  # of each kind that are listed; chosen: a screen, and SQL has all


def version_rows(layout: Layout, index: str, current: int) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """The JSON contract of `polyhop versions`, oldest first, and why versions that cannot be used cannot, by number."""
    rows, damaged, folder = [], {}, layout.index(index)
    pinned = pinned_version(folder)
    for number in published_versions(folder):
        row: dict[str, Any] = {"version": number, "current": number == current, "pinned": number == pinned}
        try:
            manifest = read_manifest(folder.version(number))
        except ManifestMismatchError as error:
            damaged[number] = str(error)
            rows.append({**row, "source": None})
        else:
            rows.append({**row, "source": manifest.source, **manifest.counts, "ratios": manifest.ratios})
    return rows, damaged


def diff_versions(
    settings: Settings, index: str, versions: tuple[int, int], questions: Path | None, strategy: str | None
) -> dict[str, Any]:
    """The JSON contract of `polyhop versions --diff`: what changed, and, if a question file is named, other answers.

    Each question is asked of both versions, by a strategy or each version's own default; the document has those with
    another answer, best guess, sentence shown, or other first ten passages.
    """
    from polyhop.api import open_index
    from polyhop.warehouse.files.questions import usable_questions
    from polyhop.warehouse.tables.version_rows import compare_versions

    def answers_of(version: int) -> "list[Answer]":
        with open_index(index, version=version, settings=settings) as opened:
            return opened.ask_batch(asked, strategy=strategy, limit=FIRST_PASSAGES)

    layout = Layout(settings.root)
    with hold_version(layout, index, versions[0]) as first, hold_version(layout, index, versions[1]) as second:
        document: dict[str, Any] = {"index": index, "before": versions[0], "after": versions[1]}
        for what, found in compare_versions(first.folder, second.folder, FIRST_CHANGES).items():
            document[what] = {"counts": found.counts, "first": found.first}
        if questions is None:
            return document
        asked = [record.question for record in usable_questions(questions)[0]]
        if not asked:
            raise SourceError(f"{questions} has no usable question; add at least one.")
        answers = zip(*map(answers_of, versions), strict=True)
    rows = [_compared(*pair) for pair in answers]
    differing = [[part for part in _COUNTED if row[part]["before"] != row[part]["after"]] for row in rows]
    counts = {count: sum(part in parts for parts in differing) for part, count in _COUNTED.items()}
    changed = [row for row, parts in zip(rows, differing, strict=True) if parts]
    return {**document, "questions": {"asked": len(asked), **counts, "changed": changed}}


_COUNTED = {
    "answer": "other_answers",
    "guess": "other_guesses",
    "sentences": "other_sentences",
    "passages": "other_passages",
}
"""Parts of an answer that are compared, and the counts of questions in which they differ."""


def _compared(before: "Answer", after: "Answer") -> dict[str, Any]:
    """A question with both answers; sentences are compared without their offsets."""
    sentences = [
        [{name: sentence[name] for name in ("passage_id", "text")} for sentence in answer.sentences]
        for answer in (before, after)
    ]
    old, new = ([row["id"] for row in answer.passages] for answer in (before, after))
    return {
        "question": before.question,
        "answer": {"before": before.answer, "after": after.answer},
        "guess": {"before": before.guess, "after": after.guess},
        "sentences": {"before": sentences[0], "after": sentences[1]},
        "passages": {"before": old, "after": new},
        "passages_added": [one for one in new if one not in old],
        "passages_removed": [one for one in old if one not in new],
    }
