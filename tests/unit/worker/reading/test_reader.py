"""The reader without a model: evidence, confidence, silence, the same answer in any batch, odd texts, own questions."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from memory_index import ReadingIndex

from polyhop.schemas.query import ContextPassage, Question, Reading, ReadingItem, Retrieval
from polyhop.worker.reading.pages import MOST_CHARACTERS
from polyhop.worker.reading.reader import RuleReader

Ask = Callable[..., Reading]

CURIE = (
    "Marie Curie",
    "Marie Curie (1867 – 1934) was a Polish physicist. She married Pierre Curie in 1895. She was born in Warsaw.",
)
WARSAW = ("Warsaw", "Warsaw is the capital of Poland. It has 1,863,000 inhabitants and lies on the Vistula River.")
TOWER = ("Eiffel Tower", "The Eiffel Tower was designed by Stephen Sauvestre. It opened in May 1889.")
PROJECT = Path(__file__).resolve().parents[4]
GOLDEN = PROJECT / "tests" / "golden" / "comparison_questions.jsonl"
CORPUS = PROJECT.parent / "shared" / "data" / "wiki2" / "corpus.jsonl"


def item(question: str | Question, context: Sequence[ContextPassage]) -> ReadingItem:
    return ReadingItem(Question(question) if isinstance(question, str) else question, Retrieval(()), context)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who is the husband of Marie Curie?", "Pierre Curie"),
        ("Where was Marie Curie born?", "Warsaw"),
        ("Who designed the Eiffel Tower?", "Stephen Sauvestre"),
        ("What nationality is Marie Curie?", "Polish"),
        ("On which river lies the city where Marie Curie was born?", "Vistula River"),
    ],
)
def test_an_extracted_answer_names_its_sentence(ask: Ask, question: str, answer: str) -> None:
    reading = ask(question, CURIE, WARSAW, TOWER)
    assert (reading.answer, reading.guess, reading.kind) == (answer, answer, "extracted")
    assert answer in reading.sentences[0].text
    assert 0 < reading.confidence < 1


@pytest.mark.parametrize(
    ("question", "title", "text", "guess"),
    [
        ("In which town was Ann Roe born?", "Ann Roe", "She was born in Ely, a small town in England.", "Ely"),
        ("Where did Byron die?", "Lord Byron", "Byron was a poet. He died at Missolonghi in Greece.", "Missolonghi"),
        ("In which city is Acme Works?", "Acme Works", "Acme Works is based in Fulda, Texas.", "Fulda"),
        ("In which state is Fulda?", "Fulda", "Fulda is a city in Texas in the United States.", "Texas"),
        ("What is the title of the play by Tom Rye?", "Tom Rye", "Tom Rye wrote “The Long Field”.", "Long Field"),
    ],
)
def test_plain_questions_that_no_measured_set_asks(ask: Ask, question: str, title: str, text: str, guess: str) -> None:
    """Each needs a rule that `benchmarks/reader_ablation.py` could not tell from none."""
    assert ask(question, (title, text)).guess == guess


def test_without_candidates_or_passages_there_is_no_answer(ask: Ask) -> None:
    ulm = ("Ulm", "Ulm is a town in Germany.")
    for question, passages in (
        ("When was Ulm founded?", (ulm,)),
        ("When was Ulm founded?", ()),
        ("Who is it?", (ulm,)),
    ):
        reading = ask(question, *passages)
        assert (reading.answer, reading.guess, reading.kind, reading.confidence) == ("", "", "none", 0.0)


def test_a_short_answer_below_the_least_confidence_is_a_guess_and_its_sentences_are_the_answer(ask: Ask) -> None:
    question = "Who designed the Eiffel Tower?"
    stated = ask(question, CURIE, WARSAW, TOWER).confidence
    assert ask(question, CURIE, WARSAW, TOWER, min_confidence=stated).answer == "Stephen Sauvestre"
    silent = ask(question, CURIE, WARSAW, TOWER, min_confidence=stated + 1e-6)
    assert (silent.answer, silent.guess, silent.confidence) == ("", "Stephen Sauvestre", stated)
    assert any(silent.guess in sentence.text for sentence in silent.sentences)


def test_vectors_decide_which_page_is_close_to_the_question() -> None:
    """A passage that the index does not hold can be read, too."""
    passages = (
        ("Ann Hill", "Ann Hill met Eve."),
        ("Bob Hall", "Bob Hall met Una."),
        ("Eve", "She saw Ed Noe."),
        ("Una", "She saw Al Moe."),
    )
    index = ReadingIndex(passages, np.eye(4, 2, dtype=np.float32))
    reader = RuleReader(index, min_confidence=0.0)
    context = index.context()
    for vector, answer in (([1.0, 0.0], "Ed Noe"), ([0.0, 1.0], "Al Moe")):
        question = Question("Whom did she see?", vector=np.array(vector, dtype=np.float32))
        assert reader.read([item(question, context)])[0].answer == answer
    question = Question("Who designed the Eiffel Tower?", vector=np.ones(2, dtype=np.float32))
    assert reader.read([item(question, [ContextPassage("x", *TOWER, 1, 1.0)])])[0].answer == "Stephen Sauvestre"


def test_only_the_beginning_of_an_endless_text_is_read(ask: Ask) -> None:
    late = f"{'word ' * MOST_CHARACTERS}Ann Roe."
    assert ask("Who came?", ("Page", late)).answer == ""
    assert ask("Who came?", ("Page", f"Then Ben Poe came. {late}")).answer == "Ben Poe"


@pytest.mark.skipif(not CORPUS.exists(), reason="the shared wiki2 corpus is not on this machine")
def test_own_comparison_questions_are_answered_from_their_passages() -> None:
    rows = {row["id"]: row for row in map(json.loads, CORPUS.read_text(encoding="utf-8").splitlines())}
    questions = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    used = sorted({passage_id for question in questions for passage_id in question["passages"]})
    reader = RuleReader(ReadingIndex([(rows[i]["title"], rows[i]["text"]) for i in used]))
    right = computed = 0
    for question in questions:
        context = [
            ContextPassage(i, rows[i]["title"], rows[i]["text"], n, 1 / n)
            for n, i in enumerate(question["passages"], start=1)
        ]
        reading = reader.read([item(question["question"], context)])[0]
        computed += reading.kind == "computed"
        right += reading.kind == "computed" and reading.answer == question["answer"]
    assert len(questions) == 60
    assert right / computed >= 0.85
    assert right >= 51
