"""Checks of a model's answer: options, quotes that have to do with the question, and the confidence."""

from collections.abc import Sequence
from math import exp
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from memory_index import ReadingIndex
from numpy.typing import NDArray
from one_reply import OneReply

from polyhop.schemas.chat import Prompt
from polyhop.schemas.query import Question, ReaderResult, ReadingItem, Retrieval, reading_row
from polyhop.schemas.settings import PASSAGES, Space
from polyhop.worker.reading.models import AnswerChecks, ChainReader, ModelReader

PAGES = [
    ("Ada Lovelace", "Ada Lovelace was born in London. She wrote the first program."),
    ("River Thames", "The River Thames flows through London. Swans nest on its banks."),
    ("Lacquer", "Lacquer dries within four hours."),
]
INDEX = ReadingIndex(PAGES)
BIRTHPLACE = "Which river flows through the birthplace of Ada Lovelace?"
BORN = {"passage": 1, "quote": "Ada Lovelace was born in London."}
FLOWS = {"passage": 2, "quote": "The River Thames flows through London."}
LACQUER = {"passage": 3, "quote": "Lacquer dries within four hours."}
MADE_UP = {"passage": 2, "quote": "The River Thames rises in Kemble."}
WORD = {"passage": 2, "quote": "through"}
PROMPT = Prompt("qa.answer", "{{question}}{{passages}}{{notes}}")


def read(
    answer: str, *sources: Any, guess: str = "", question: str = BIRTHPLACE, checks: AnswerChecks | None = None
) -> ReaderResult:
    reply = {"reasoning": "It does [2].", "answer": answer, "citations": list(sources)}
    local = Mock(batches=False, read=lambda items: [ReaderResult("", guess=guess, kind="extracted") for _ in items])
    reader = ModelReader(OneReply(reply), PROMPT, local, checks or AnswerChecks(INDEX))
    (reading,) = reader.read([ReadingItem(Question(question), Retrieval(()), INDEX.context())])
    return reading


def with_vectors(cosines: dict[str, float]) -> AnswerChecks:
    """Checks with an encoder of two dimensions: texts that begin so have that cosine with the question, others none."""

    def encode(texts: Sequence[str], space: Space = PASSAGES, *, is_repeated: bool = False) -> NDArray[np.float32]:
        del space, is_repeated
        found = [next((value for text, value in cosines.items() if one.startswith(text)), None) for one in texts]
        unrelated = [0.1 * (-1) ** number for number in range(len(texts))]
        values = [noise if value is None else value for value, noise in zip(found, unrelated, strict=True)]
        return np.array([(value, (1 - value**2) ** 0.5) for value in values], dtype=np.float32)

    index = ReadingIndex(PAGES, np.eye(3, 2, dtype=np.float32))
    index.artefacts = frozenset({*index.artefacts, "vectors:passage"})
    return AnswerChecks(index, encode)


@pytest.mark.parametrize("sources", [[], [MADE_UP], [LACQUER], [{"passage": 9, "quote": "x"}], [WORD], [3], [None]])
def test_an_answer_without_a_source_that_holds_is_not_verified(sources: list[Any]) -> None:
    row = reading_row(read("River Thames", *sources, guess="River Thames"))
    assert (row["verified"], row["confidence"], row["citations"]) == (False, 0.0, [])
    assert (row["reasoning"], row["dropped_citations"]) == ("It does [not verified].", len(sources))


def test_an_answer_with_a_quote_that_holds_is_verified() -> None:
    row = reading_row(read("River Thames", FLOWS))
    assert (row["verified"], row["reasoning"]) == (True, "It does [2].")
    assert row["confidence"] > 0


def test_an_answer_from_chains_cites_nothing_and_is_not_verified() -> None:
    chat = OneReply({"reasoning": "So.", "answer": "Thames"})
    (reading,) = ChainReader(chat, Prompt("qa.chains", "{{question}}{{context}}")).read(
        [ReadingItem(Question("Which?"), Retrieval((), Mock(context="A --[b]--> C")), [])]
    )
    assert (reading.answer, reading_row(reading)["verified"]) == ("Thames", False)


def test_an_empty_answer_is_neither_verified_nor_not() -> None:
    assert reading_row(read("", FLOWS))["verified"] is None


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (("River Thames", [FLOWS]), ("River Thames", [BORN])),
        (("River Thames", [FLOWS], "River Thames"), ("River Thames", [FLOWS])),
        (("River Thames", [FLOWS]), ("River Thames", [FLOWS], "River Cam")),
    ],
    ids=["relevance", "agreement", "no guess"],
)
def test_each_check_raises_the_confidence(better: tuple[Any, ...], worse: tuple[Any, ...]) -> None:
    first, second = (
        read(answer, *sources, guess="".join(guess)).confidence for answer, sources, *guess in (better, worse)
    )
    assert 0.95 >= first > second > 0


@pytest.mark.parametrize(("guess", "agreement"), [("Thames", 1), ("River Cam", -1), ("", 0)])
def test_the_confidence_by_hand(guess: str, agreement: int) -> None:
    # of six content words (river flow through birthplac ada lovelac) the quote has three
    score = -0.16 + 0.84 * 3 / 6 + 2.13 * agreement
    assert read("River Thames", FLOWS, MADE_UP, guess=guess).confidence == round(1 / (1 + exp(-score)), 4)


def test_no_answer_of_a_model_is_surer_than_the_surest_computed_one() -> None:
    asked = "Which River Thames flows through London?"  # all of its content words are in the quote
    confidence = read("River Thames", FLOWS, guess="River Thames", question=asked).confidence
    assert confidence == round(1 / (1 + exp(0.16 - 0.84 - 2.13)), 4) < 0.95


def test_by_vectors_a_quote_that_is_no_nearer_than_unrelated_sentences_does_not_hold() -> None:
    near = {BIRTHPLACE: 1.0, "River Thames\n": 0.5, "Ada Lovelace\n": 0.12}
    reading = read("River Thames", FLOWS, BORN, checks=with_vectors(near))
    assert ([one.number for one in reading.citations], reading.dropped_citations) == ([2], 1)


@pytest.mark.parametrize(
    ("question", "answer", "is_used"),
    [
        ("Who was born first, Ada Lovelace or Mary Shelley?", "2010", False),
        ("Who was born first, Ada Lovelace or Mary Shelley?", "Lovelace", True),
        ("Who was born first, Ada Lovelace or Mary Shelley?", "Mary Shelley (1797)", True),
        ("Who was born first, Ada Lovelace or Mary Shelley?", "neither", True),
        ("Was Ada Lovelace or Mary Shelley born first?", "1815", False),
        ("Did Ada Lovelace or Mary Shelley write a program?", "yes", True),
        ("Who is older: Ada Lovelace or Mary Shelley?", "Percy Shelley", False),
        ("Which river flows through Oxford or London?", "River Thames", True),
        ("How many people live in Oxford or London?", "9 million", True),
        ("Where did Ada Lovelace or Mary Shelley live?", "London", True),
        ("Which river flows through London?", "River Cam", True),
    ],
)
def test_an_answer_that_is_none_of_the_options_is_read_by_the_local_reader(
    question: str, answer: str, *, is_used: bool
) -> None:
    reading = read(answer, guess="Ada Lovelace", question=question)
    row = reading_row(reading)
    assert (reading.kind, row["fallback"] is None) == (("generated", True) if is_used else ("extracted", False))


def test_the_fallback_names_the_options_and_the_answer() -> None:
    row = reading_row(read("2010", question="Who was born first, Ada Lovelace or Mary Shelley?"))
    assert row["fallback"]["error"] == (
        "The question offers 'Ada Lovelace' and 'Mary Shelley'; the model's answer '2010' is none of them."
    )
