"""Several indexes asked at once: each answers by itself, their passages are fused by rank.

Ranks nothing itself (the indexes' strategies do, and ranking/fusion.py). Source: algorithms.md 0.5.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from polyhop.api import Answer, Index, open_index
from polyhop.passages import passage_texts
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.settings import Settings
from polyhop.worker.ranking.fusion import reciprocal_rank_fusion


@dataclass(frozen=True, slots=True)
class SeveralAnswers:
    """The answers of several indexes to one question, and what they make together.

    Attributes:
        question: As asked.
        answer: The short answer of the index that is most certain of its own; of equal ones, or where a model states
            no confidence, of the index that was named first. "" if none has one.
        index: The index that it is from; None without one.
        passages: {index, id, title, score, rank}, fused by rank: `score` is the sum of 1 / (60 + rank) over the
            indexes. A passage that several indexes hold word for word counts once; `also_in` names the others.
        answers: By index, in the order named, each with all that it stands on.
    """

    question: str
    answer: str
    index: str | None
    passages: list[dict[str, Any]]
    answers: dict[str, Answer]

    def to_json(self) -> dict[str, Any]:
        """The JSON contract of `polyhop ask --index a,b` (architecture.md section 9)."""
        return {
            "question": self.question,
            "answer": self.answer,
            "index": self.index,
            "passages": self.passages,
            "answers": [{"index": name, **answer.to_json()} for name, answer in self.answers.items()],
        }


class Indexes:
    """Open versions of several indexes. Close them, or use them in a `with` block."""

    def __init__(self, opened: Sequence[Index]) -> None:
        self._opened = tuple(opened)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the indexes, in the order in which they were named."""
        return tuple(index.name for index in self._opened)

    def ask(
        self,
        question: str,
        *,
        strategy: str | None = None,
        limit: int = 10,
        parameters: Mapping[str, object] | None = None,
        topic: str | None = None,
        where: str | None = None,
    ) -> SeveralAnswers:
        """Asks each index, and fuses their passages by rank.

        Args:
            question: Any text with at least one word.
            strategy: For all of them; default: each index's own.
            limit: Passages to return, at least 1; also of each index.
            parameters: The strategy's own settings.
            topic: The entity that the question is about, by name or id.
            where: A filter, for each of them.

        Raises:
            PolyhopError: As `Index.ask`, if it fails on one of the indexes.
        """
        answers = {
            index.name: index.ask(
                question, strategy=strategy, limit=limit, parameters=parameters, topic=topic, where=where
            )
            for index in self._opened
        }
        chosen = _most_certain(answers)
        answer = answers[chosen].answer if chosen is not None else ""
        return SeveralAnswers(question, answer, chosen, self._fused(answers)[:limit], answers)

    def texts(self, passages: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
        """Text by (index, passage id) of fused passages."""
        texts: dict[tuple[str, str], str] = {}
        for index in self._opened:
            own = [passage for passage in passages if passage["index"] == index.name]
            found = passage_texts(index.session.published, own)
            texts |= {(index.name, passage_id): text for passage_id, text in found.items()}
        return texts

    def _fused(self, answers: Mapping[str, Answer]) -> list[dict[str, Any]]:
        """Every passage once, by the sum of its reciprocal ranks."""
        number_of: dict[tuple[str, str], int] = {}
        holders: list[dict[str, dict[str, Any]]] = []
        lists: list[list[int]] = []
        for index in self._opened:
            ranked = answers[index.name].passages
            texts = passage_texts(index.session.published, ranked)
            numbers = [number_of.setdefault((row["title"], texts[row["id"]]), len(number_of)) for row in ranked]
            holders += [{} for _ in range(len(number_of) - len(holders))]
            for number, row in zip(numbers, ranked, strict=True):
                holders[number].setdefault(index.name, row)
            lists.append(numbers)
        fused = reciprocal_rank_fusion(lists)
        return [_row(holders[number], score, rank) for rank, (number, score) in enumerate(fused, start=1)]

    def close(self) -> None:
        """Releases all versions."""
        for index in self._opened:
            index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _most_certain(answers: Mapping[str, Answer]) -> str | None:
    """The index whose answer is the one to give; None if none has one."""
    certain = {name: float(one.reading.get("confidence") or 0.0) for name, one in answers.items() if one.answer}
    return max(certain, key=lambda name: certain[name], default=None)


def _row(holders: Mapping[str, Mapping[str, Any]], score: float, rank: int) -> dict[str, Any]:
    (first, passage), *others = holders.items()
    row = {"index": first, **passage, "score": round(score, 6), "rank": rank}
    return {**row, "also_in": [name for name, _ in others]} if others else row


def open_indexes(names: Sequence[str], *, root: str | Path | None = None, settings: Settings | None = None) -> Indexes:
    """Opens the current versions of several indexes.

    Args:
        names: Names of indexes of one root, each once.
        root: Folder of all data; default from settings, ./polyhop-data.
        settings: Default: polyhop.toml and POLYHOP_… variables.

    Raises:
        ConfigurationError: If no index is named, or one twice.
        UnknownIndexError: If nothing was published under one of the names.
    """
    if not names:
        raise ConfigurationError("No index is named; name at least one.")
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise ConfigurationError(f"The index '{twice}' is named twice; name each once.")
    with ExitStack() as opening:
        opened = [opening.enter_context(open_index(name, root=root, settings=settings)) for name in names]
        opening.pop_all()
    return Indexes(opened)
