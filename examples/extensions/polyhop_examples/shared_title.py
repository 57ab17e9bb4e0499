"""A strategy in one file: passages whose titles share words with the question, with evidence of its own.

`polyhop ask … --strategy shared-title --explain` draws the words, the titles that have them, and a path for each.
"""

import re
from collections.abc import Sequence

from pydantic import Field

from polyhop.schemas.evidence import Edge, Evidence, Node, Note, Path, QuestionNames, Seed
from polyhop.schemas.ports import IndexReader, Services
from polyhop.schemas.query import Question, RankedPassage, Retrieval
from polyhop.worker.strategies.base import Parameters, strategy


class SharedTitleParameters(Parameters):
    """Parameters of `shared-title`."""

    shortest: int = Field(4, ge=1, le=50, description="Words with fewer letters are skipped, default 4.")


class SharedTitle:
    """Ranks by the share of a title's words that the question has."""

    def __init__(self, reader: IndexReader, shortest: int) -> None:
        self._reader = reader
        self._shortest = shortest
        self._words = [self._of(title) for title in reader.passage_titles]

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `polyhop.schemas.ports.Strategy`."""
        return [self._retrieve(question, limit) for question in questions]

    def _of(self, text: str) -> frozenset[str]:
        return frozenset(word for word in re.findall(r"\w+", text.lower()) if len(word) >= self._shortest)

    def _retrieve(self, question: Question, limit: int) -> Retrieval:
        asked = self._of(question.text)
        shares = [(len(asked & words) / len(words), number) for number, words in enumerate(self._words) if words]
        found = sorted(((-share, number) for share, number in shares if share > 0))[:limit]
        ids = self._reader.passage_ids
        ranked = tuple(RankedPassage(ids[n], rank, -share) for rank, (share, n) in enumerate(found, start=1))
        return Retrieval(
            ranked, self._evidence(asked, [number for _, number in found]), {"seed": 0.0, "traversal": 0.0}
        )

    def _evidence(self, asked: frozenset[str], found: Sequence[int]) -> Evidence:
        known = sorted(asked & frozenset().union(*(self._words[number] for number in found)))
        titles = {number: self._reader.passage_titles[number] for number in found}
        paths = tuple(
            Path(f"{word} → {titles[number]}", (word, f"title {number}"), (word, titles[number]),
                 (Edge(word, f"title {number}", ("is in",)),))
            for number in found for word in sorted(asked & self._words[number])
        )  # fmt: skip
        return Evidence(
            names=QuestionNames(tuple(known), tuple(sorted(asked - set(known))), "words"),
            seeds=tuple(Seed("word", word, 1.0) for word in known),
            nodes=tuple(Node(f"title {number}", title, kind="title") for number, title in titles.items()),
            paths=paths,
            notes=(Note("Titles looked at", str(len(self._words))),),
            node_count=len(titles),
        )


@strategy("shared-title", "Passages whose titles share words with the question.", SharedTitleParameters, needs=())
def build_shared_title(reader: IndexReader, parameters: SharedTitleParameters, _services: Services) -> SharedTitle:
    """`shared-title` on an open version."""
    return SharedTitle(reader, parameters.shortest)
