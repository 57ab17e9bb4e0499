"""Questions above the accepted length, wherever they come in; and what each question of a batch took."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import polyhop
from polyhop.flows.answer import submit_file
from polyhop.flows.evaluate import run_evaluation
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import QuestionTooLongError, SourceError
from polyhop.schemas.query import Question
from polyhop.schemas.queue import JobSpec
from polyhop.schemas.requests import EvaluationRequest, IndexRequest, SubmissionRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.open import open_questions
from polyhop.worker.answer import Turns

LONG = "Where is London? " * 20_000
SENTENCE = "340,000 characters long; the limit is 10,000"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A root with an index of three passages."""
    path = tmp_path_factory.mktemp("long")
    corpus = path / "corpus.jsonl"
    texts = ("London lies on the River Thames.", "Paris lies on the Seine.", "Ada Lovelace lived in London.")
    rows = [{"id": f"p{n}", "title": text.split(" l")[0], "text": text} for n, text in enumerate(texts)]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    made = Settings(root=path / "root", strategies=("bridge-lexical",))
    run_index(made, IndexRequest("small", corpus), DirectRunner())
    return made


@pytest.fixture
def index(settings: Settings) -> Iterator[polyhop.Index]:
    with polyhop.open_index("small", settings=settings) as opened:
        yield opened


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """A file whose second line is too long."""
    path = tmp_path / "questions.jsonl"
    rows = [{"question": text, "supporting": ["p0"]} for text in ("Where is London?", LONG, "Where is Paris?")]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_asking_a_question_above_the_length_is_refused_with_its_length(index: polyhop.Index) -> None:
    with pytest.raises(QuestionTooLongError, match=SENTENCE):
        index.ask(LONG, strategy="bridge-lexical")


def test_an_evaluation_leaves_it_out_and_names_its_line(settings: Settings, questions: Path) -> None:
    request = EvaluationRequest(questions, "small", ("bridge-lexical",), {})
    evaluation = run_evaluation(settings, request)
    assert evaluation.report["n"] == 2
    assert [(bad.line, bad.reason) for bad in evaluation.bad] == [(2, f"the question is {SENTENCE}")]


@pytest.mark.parametrize("skip_bad", [False, True])
def test_submitting_a_file_with_it_is_refused_with_its_line(
    settings: Settings, questions: Path, *, skip_bad: bool
) -> None:
    request = SubmissionRequest(questions, JobSpec("small", strategy="bridge-lexical", limit=5), skip_bad)
    with open_questions(settings) as queue:
        before = len(queue.jobs())
        if not skip_bad:
            with pytest.raises(SourceError, match=f"line 2: the question is {SENTENCE}"):
                submit_file(settings, queue, request)
            assert len(queue.jobs()) == before
            return
        made = submit_file(settings, queue, request)
        assert (queue.job(made.job_id).question_count, made.count, made.is_new) == (2, 2, True)
        assert [record.line for record in made.bad] == [2]
        assert queue.job(made.job_id).name == questions.name


def test_each_question_of_a_batch_has_seconds_of_its_own_and_they_add_up(index: polyhop.Index) -> None:
    texts = ("Where is London?", "On which river does the city of Ada Lovelace lie?", "Where is Paris?")
    answerer = index.session.answerer("bridge-lexical", {})
    turns = Turns(len(texts))
    answered = answerer.answer([Question(text) for text in texts], limit=3, turns=turns)
    totals = [one.total_seconds for one in answered]
    assert len(set(totals)) == len(texts)
    assert all(total > own > 0 for total, own in zip(totals, turns.seconds, strict=True))
    shared = [total - own for total, own in zip(totals, turns.seconds, strict=True)]
    assert shared == pytest.approx([shared[0]] * len(texts))
    for one, own in zip(answered, turns.seconds, strict=True):
        assert set(one.seconds) >= {"encoding", "seed", "traversal", "reading"}
        assert one.seconds["seed"] + one.seconds["traversal"] + one.seconds["reading"] <= own
