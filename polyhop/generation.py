"""A generated corpus and its questions as files, as `polyhop index` and `polyhop eval` read them.

Draws nothing (tasks/evaluation/generator.py does).
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from polyhop.tasks.evaluation.generator import generate
from polyhop.warehouse.files.disk import require_foreign, writing
from polyhop.warehouse.files.json_lines import write_json_lines

CORPUS_FILE = "corpus.jsonl"
QUESTIONS_FILE = "questions.jsonl"


@dataclass(frozen=True, slots=True)
class GenerationReport:
    """What was written where."""

    corpus: str
    questions: str
    passage_count: int
    question_count: int
    seed: int

    def to_json(self) -> dict[str, Any]:
        """The JSON of `polyhop generate`."""
        return asdict(self)


def write_generated(folder: Path, passages: int, questions: int, seed: int) -> GenerationReport:
    """Writes corpus.jsonl and questions.jsonl into a folder, which is made; the same bytes for the same numbers.

    Raises:
        ConfigurationError: If the numbers are out of their range; nothing is written.
        StoreError: If the disk refuses.
    """
    records, asked = generate(passages, questions, seed)
    require_foreign(folder)
    with writing("a generated corpus", folder):
        folder.mkdir(parents=True, exist_ok=True)
    corpus, question_file = folder / CORPUS_FILE, folder / QUESTIONS_FILE
    return GenerationReport(
        corpus=str(corpus),
        questions=str(question_file),
        passage_count=write_json_lines(corpus, records, "a generated corpus"),
        question_count=write_json_lines(question_file, asked, "generated questions"),
        seed=seed,
    )
