"""What the commands on the queue print and refuse: jobs, variants, readers, named files."""

import csv
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from real_index import RealIndex, write_lines
from small_indexes import publish
from sqlalchemy import text
from typer.testing import CliRunner

from polyhop.cli import app
from polyhop.commands import queue as commands
from polyhop.commands.index import print_plan
from polyhop.commands.options import with_reader
from polyhop.doctor import check_queue
from polyhop.flows.answer import submit_file
from polyhop.flows.evaluate import answering_settings
from polyhop.flows.plan import IndexPlan
from polyhop.jobs import QuestionPace
from polyhop.schemas.chat import cost_words
from polyhop.schemas.errors import ConfigurationError, PolyhopError, RetryRefusedError, StoreError, SubmissionError
from polyhop.schemas.queue import FinishedQuestion, JobSpec, NewQuestion
from polyhop.schemas.requests import SubmissionRequest, Variant, parse_variant
from polyhop.schemas.settings import Settings, known_settings, parse_settings
from polyhop.tasks.extraction.model import questions as extraction_questions
from polyhop.tasks.planning import PlannedStep, StepEstimate
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.queue.queue import QuestionQueue
from polyhop.worker.loop import WorkerReport

Capture = pytest.CaptureFixture[str]

jobs: Any = partial(commands.list_jobs, cast("Any", SimpleNamespace(invoked_subcommand=None)))
ANSWER = {"question": "Why?", "answer": "yes", "strategy": "bm25", "version": 1, "passages": [], "evidence": {}}
ANSWER |= {"seconds": {}, "parameters": {}, "index": "wiki", "limit": 10}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path / "root", strategies=("bm25",))


def finish(queue: QuestionQueue, count: int) -> None:
    claimed = queue.claim(["default"], "w", count)
    queue.finish([FinishedQuestion(q.lease_token, "yes", 1, "bm25", 0.1, ANSWER) for q in claimed])


def answered(queue: QuestionQueue, count: int) -> int:
    """A job whose questions q0, q1… all have an answer."""
    job = queue.submit(JobSpec("wiki"), [NewQuestion(f"q{n}", "Why?", None, ["yes"]) for n in range(count)])
    finish(queue, count)
    return job


def spoil(queue: QuestionQueue, stored: str) -> None:
    with queue._database.engine.begin() as connection:
        connection.execute(text("UPDATE results SET result_json = :stored"), {"stored": stored})


@pytest.fixture
def answer_two(monkeypatch: pytest.MonkeyPatch) -> Callable[[QuestionQueue], None]:
    """What a worker does in a minute, which passes from look to look."""
    passed = count(0.0, 60.0)
    monkeypatch.setattr("polyhop.jobs.QuestionPace", partial(QuestionPace, lambda: next(passed)))
    return lambda queue: finish(queue, 2)


def test_watched_jobs_say_how_fast_they_are_answered_and_how_long_that_takes(
    settings: Settings, answer_two: Callable[[QuestionQueue], None], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs(root=settings.root, json=True)
    assert json.loads(capsys.readouterr().out) == []
    with open_questions(settings) as queue:
        queue.submit(JobSpec("wiki", name="a"), [NewQuestion(f"q{n}", "Why?") for n in range(5)])
        monkeypatch.setattr("polyhop.commands.queue.time.sleep", lambda _: answer_two(queue))
        jobs(watch=True, root=settings.root)
        said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  job")]
        assert said == ["  job 1: 2 a minute, about 2 min left", "  job 1: 2 a minute, about 30 s left"]
        queue.submit(JobSpec("wiki", name="b"), [NewQuestion("q", "Why?")])
        queue.report_worker("w", host="h", process_id=1, queues=["default"], versions={})
    jobs(root=settings.root, json=True)
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["b", "a"]
    jobs(workers=True, root=settings.root, json=True)
    assert [row["worker_id"] for row in json.loads(capsys.readouterr().out)] == ["w"]


def test_a_worker_says_each_minute_how_far_it_is_and_nothing_when_there_is_nothing_to_do(
    settings: Settings, answer_two: Callable[[QuestionQueue], None], capsys: Capture
) -> None:
    running, waits = SimpleNamespace(report=WorkerReport("w")), []
    with open_questions(settings) as queue:
        queue.submit(JobSpec("wiki"), [NewQuestion(f"q{n}", "Why?") for n in range(3)])

        def wait(seconds: float) -> bool:
            waits.append(seconds)
            answer_two(queue)
            running.report.finished = min(3, 2 * len(waits))
            return len(waits) > 3

        commands.say_progress(running, queue, ["default"], wait)  # type: ignore[arg-type]
    assert waits == [60.0] * 4
    assert capsys.readouterr().err.splitlines() == [
        "2 answered, 0 failed; 1 question open, 2 a minute, about 30 s left",
        "3 answered, 0 failed; 0 questions open, 2 a minute, about 0 s left",
    ]


def test_a_worker_says_which_of_its_queues_nobody_has_submitted_to(settings: Settings) -> None:
    with open_questions(settings) as queue:
        for name in ("default", "big"):
            queue.submit(JobSpec("wiki", queue=name), [NewQuestion("q", "Why?")])
        assert commands._unknown_queues(queue, ["default"]) == ""
        said = "Nothing has been submitted to 'nope', 'more'; queues with jobs: big, default."
        assert commands._unknown_queues(queue, ["default", "nope", "more"]) == said


@pytest.mark.parametrize(
    ("stored", "said"), [('{"answer": ', "a row is damaged"), ('{"answer": "yes"}', "lacks 'evidence'")]
)
def test_a_damaged_answer_is_neither_redrawn_nor_replayed(settings: Settings, stored: str, said: str) -> None:
    with open_questions(settings) as queue:
        job = answered(queue, 1)
        spoil(queue, stored)
    for command in (commands.explain, commands.replay):
        with pytest.raises(StoreError, match=said):
            command(job, "q0", root=settings.root)


def test_doctor_looks_into_the_queue(settings: Settings) -> None:
    assert check_queue(settings) == "not created yet; `polyhop submit` creates it"
    assert not (settings.root / "queue.sqlite").exists()
    with open_questions(settings) as queue:
        answered(queue, 7)
        assert "1 job, 7 questions, every row readable" in check_queue(settings)
        spoil(queue, "{")
    with pytest.raises(StoreError, match="a row is damaged"):
        check_queue(settings)
    (settings.root / "queue.sqlite").write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreError, match="file is not a database"):
        check_queue(settings)


def test_a_retry_says_its_deadline_and_an_ended_job_its_metrics(settings: Settings, capsys: Capture) -> None:
    with open_questions(settings) as queue:
        job = queue.submit(JobSpec("wiki", deadline_seconds=5), [NewQuestion("q", "Why?", None, ["yes"])])
        queue.cancel(job)
    commands.retry(job, root=settings.root)
    said = "Job 1: 1 question queued again; questions not started within 5 s become dead"
    assert capsys.readouterr().out == f"{said} (--deadline SECONDS changes that)\n"
    with open_questions(settings) as queue:
        queue.cancel(job)
    commands.retry(job, question=["q"], deadline=3600, root=settings.root, json=True)
    document = json.loads(capsys.readouterr().out)
    assert (document["requeued"], document["deadline"] is not None) == (1, True)
    with pytest.raises(RetryRefusedError, match="it is queued"):
        commands.retry(job, question=["q"], root=settings.root)
    with open_questions(settings) as queue:
        assert queue.job(job).deadline_seconds == 3600
        finish(queue, 1)
    commands.cancel(job, root=settings.root)
    ended = "Job 1 has ended: no question was open, so nothing was cancelled (polyhop jobs results 1)\n"
    assert capsys.readouterr().out == ended
    commands.results(job, metrics=True, root=settings.root)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1 question; ")
    assert ["em", "1.000"] in [line.split() for line in lines]
    commands.results(job, metrics=True, root=settings.root, json=True)
    assert json.loads(capsys.readouterr().out)["em"] == 1


def test_a_repeated_key_names_the_existing_job(tmp_path: Path, capsys: Capture) -> None:
    settings = Settings(root=publish(tmp_path, [{"id": "a", "text": "Ada lived in London."}], "one", "bm25"))
    questions = tmp_path / "questions.txt"
    questions.write_text("Where did Ada live?\n", encoding="utf-8")

    def send(key: str | None, **more: Any) -> str:
        commands.submit(questions, index="one", strategy="bm25", key=key, root=settings.root, **more)
        return capsys.readouterr().out

    assert send("monday").startswith("Job 1: 1 question for 'one', queue 'default'\n")
    for _ in range(3):
        assert send("monday").startswith(
            "Job 1 has the key 'monday' already: 1 question for 'one', queue 'default'; nothing was submitted again\n"
        )
    assert json.loads(send("monday", json=True)) == {"job_id": 1, "questions": 1, "new": False}
    assert send(None).startswith("Job 2: ")
    request = SubmissionRequest(questions, JobSpec("one", queue="a,b", strategy="bm25"))
    with open_questions(settings) as queue, pytest.raises(SubmissionError, match="a comma separates queues"):
        submit_file(settings, queue, request)


def test_less_than_a_cent_has_two_digits_and_an_unknown_cost_is_no_0() -> None:
    shown: dict[float | None, str] = {None: "cost unknown", 0.0: "0.00 USD", 0.00000123: "0.0000012 USD"}
    shown |= {0.0099: "0.0099 USD", 0.01: "0.01 USD", 1234.5: "1,234.50 USD"}
    assert {amount: cost_words(amount) for amount in shown} == shown


KG_EXTRACT = extraction_questions().kg_extract
STEP = StepEstimate(PlannedStep(KG_EXTRACT, units=2, prompt_tokens=1000), 500, (250, 900), True, 8.0, price=(0.15, 0.6))
PLAN = IndexPlan("corpus.jsonl", "openai/x", 1, 2, (STEP,), {})


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([{}], "  cost 0.00045 USD (0.00030 to 0.00069)"),
        ([{}, {"price": None}], "  cost unknown: no price of 'openai/x' is known; set models.price"),
        ([{"price": (0.0, 0.0)}], "  no cost: the price of 'openai/x' is 0"),
        ([], "  no cost: every reply is cached already"),
    ],
)
def test_a_plan_says_an_amount_or_why_there_is_none(steps: list[dict[str, Any]], words: str, capsys: Capture) -> None:
    print_plan(replace(PLAN, steps=tuple(replace(STEP, **changed) for changed in steps)))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "cost" in line]
    assert line.startswith(words)


@pytest.mark.parametrize(
    ("price", "waits", "later", "words"),
    [
        ((0.1, 0.4), ["kg.extract"], 0, "0.00030 USD (0.00020 to 0.00046); 1 wait of at most 24 hours"),
        (None, ["kg.extract"], 1, "price unknown; set models.batch_price; 2 waits of at most 24 hours"),
        ((0.075, 0.3), ["kg.extract", "kg.extract", "x", ""], 1, "(0.00060 to 0.0014); 3 waits of at most 24 hours"),
    ],
)
def test_a_plan_says_what_batches_cost(price: Any, waits: list[str], later: int, words: str, capsys: Capture) -> None:
    steps = tuple(replace(STEP, batch_price=price, wait=wait) for wait in waits)
    print_plan(replace(PLAN, steps=steps, later_waits=later))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "in batches" in line]
    assert line.startswith("  in batches of the provider (models.mode=batch): ")
    assert line.endswith(words)


def test_a_value_that_breaks_a_rule_is_told_in_our_words() -> None:
    told = []
    for name, _, _ in known_settings():
        try:
            parse_settings({"test": {name: object()}})
        except ConfigurationError as error:
            told.append(str(error))
    assert len(told) > 50
    assert [line for line in told if re.search(r"Input should|valid|unable to|greater than|less than", line)] == []
    for line in (["results", "abc"], ["jobs", "results", "abc"], ["ask", "?", "--index", "x", "--limit", "0"]):
        done = CliRunner().invoke(app, line)
        assert (done.exit_code, "Input should" in done.output) == (2, False)
        assert "it must be " in done.output


def test_a_reader_on_the_command_line_decides_who_reads() -> None:
    def read(settings: Settings, reader: str | None) -> tuple[str, bool, str]:
        found = with_reader(settings, reader)
        return found.models.read, found.models.name_questions, found.reader.name

    with_model = Settings(models={"read": "openai/x", "name_questions": True})
    unread = Settings(models={"read": "openai/x"}, reader={"name": "none"})
    assert with_reader(with_model, None) is with_model
    assert read(with_model, "spans") == ("", True, "spans")
    assert read(with_model, "none") == ("openai/x", True, "none")
    readers = (None, "spans", "sentences", "model")
    assert [read(unread, reader)[2] for reader in readers] == ["none", "spans", "sentences", "spans"]
    with pytest.raises(ConfigurationError, match=r"^--reader takes spans, sentences, model or none, not 'rules'\.$"):
        with_reader(Settings(), "rules")
    with pytest.raises(ConfigurationError, match=r"^--reader model needs a model: set models\.read"):
        with_reader(Settings(), "model")


def test_own_parameters_win_over_those_of_all() -> None:
    variant = parse_variant("qasa:gate=none: steps = 1", {"steps": "3", "decay": ".5"})
    assert variant == Variant("qasa:gate=none: steps = 1", "qasa", {"gate": "none", "steps": "1", "decay": ".5"})
    with pytest.raises(ConfigurationError, match="not 'qasa:gate'"):
        parse_variant("qasa:gate", {})


def test_settings_that_decide_speed_cost_or_place_are_not_part_of_an_evaluation() -> None:
    settings = Settings()
    named = answering_settings(settings, settings.model_dump(mode="json"))
    assert (named["reader.min_confidence"], named["index.corpus.max_passage_characters"]) == (0.5, 2000)
    elsewhere: Any = {"root": "elsewhere", "queue": {"url": "sqlite:///other.sqlite"}}
    costs: Any = {"max_cost_usd": 3, "models": {"timeout_seconds": 1, "price": (5.0, 5.0)}}
    idle = Settings(batch_size=7, cores=3, index={"remote": "s3://other"}, **elsewhere, **costs)
    assert answering_settings(idle, settings.model_dump(mode="json")) == named
    assert answering_settings(Settings(models={"read": "openai/x"}), {})["models.read"] == "openai/x"
    known = {name for name, _, _ in known_settings()}
    assert {name.removeprefix("index.") for name in named} <= known


COMMANDS = {
    "ask": "ask Where? --index small --strategy bm25 --html {file}",
    "cache export": "cache export {file}",
    "eval": "eval {questions} --index small --strategies bm25 --out {file}",
    "export extraction": "export extraction {file} --index small",
    "export graphml": "export graphml {file} --index small",
    "export parquet": "export parquet {file} --index small",
    "explain": "explain 1 q1 --html {file}",
    "results": "results 1 --out {file}",
    "score": "score {predictions} --out {file}",
}
PROTECTED = "is among Polyhop's own files below"
OWN = ("indexes/small/CURRENT", "indexes/small/new/er.jsonl", "queue.sqlite", "caches/x")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with an index, a cache of replies and an answered job."""
    small = RealIndex(tmp_path_factory.mktemp("named"), "small")
    folder, root = small.folder, ("--root", str(small.root))
    question = {"id": "q1", "question": "Where did Ada live?", "answers": ["London"], "supporting": ["ada"]}
    write_lines(folder / "questions.jsonl", [question])
    write_lines(folder / "predictions.jsonl", [{"id": "q1", "prediction": "London", "answers": ["London"]}])
    small.read([{"id": "ada", "title": "Ada", "text": "Ada lived in London."}])
    for line in (f"submit {folder}/questions.jsonl --index small --strategy bm25", "worker --until-empty"):
        assert CliRunner().invoke(app, [*line.split(), *root]).exit_code == 0
    CliRunner().invoke(app, ["cache", "export", str(folder / "replies.parquet"), *root])
    return small.root


def contents(root: Path) -> dict[Path, str]:
    files = [file for file in root.rglob("*") if file.is_file() and "-shm" not in file.name]
    return {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.parametrize(
    ("command", "file", "error", "words"),
    [
        *((command, "/dev/null/x", StoreError, "Cannot write ") for command in COMMANDS),
        *((command, f"{{root}}/{OWN[0]}", ConfigurationError, PROTECTED) for command in COMMANDS),
        *(("results", f"{{root}}/{own}", ConfigurationError, PROTECTED) for own in OWN[1:]),
    ],
)
def test_a_place_that_is_none_is_refused_in_a_sentence_and_nothing_changes(
    root: Path, command: str, file: str, error: type[PolyhopError], words: str
) -> None:
    named = {name: root.parent / f"{name}.jsonl" for name in ("questions", "predictions")}
    line = COMMANDS[command].format(file=file.format(root=root), **named)
    before = contents(root)
    done = CliRunner().invoke(app, [*line.split(), *([] if command == "score" else ["--root", str(root)])])
    assert type(done.exception) is error, done.output
    assert words in str(done.exception)
    assert contents(root) == before


def invoked(root: Path, line: str) -> str:
    """Standard output of a command on the root, which ends well."""
    done = CliRunner().invoke(app, [*line.split(), "--root", str(root)])
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(root: Path, line: str) -> str:
    """The sentence with which a command on the root is refused as wrong use."""
    done = CliRunner().invoke(app, [*line.split(), "--root", str(root)])
    assert type(done.exception) is ConfigurationError, done.output
    return str(done.exception)


READ_BACK: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    "csv": lambda file: list(csv.DictReader(file.read_text().splitlines())),
    "jsonl": lambda file: [json.loads(line) for line in file.read_text().splitlines()],
    "PARQUET": lambda file: pq.read_table(file).to_pylist(),
}


@pytest.mark.parametrize("suffix", READ_BACK)
def test_results_are_written_in_the_format_of_the_suffix(root: Path, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"r.{suffix}"
    invoked(root, f"jobs results 1 --out {file}")
    assert [(row["id"], row["answer"]) for row in READ_BACK[suffix](file)] == [("q1", "London")]


def test_a_json_line_of_a_results_file_is_the_printed_one(root: Path, tmp_path: Path) -> None:
    invoked(root, f"jobs results 1 --out {tmp_path / 'r.jsonl'}")
    assert json.loads((tmp_path / "r.jsonl").read_text()) == json.loads(invoked(root, "jobs results 1"))


@pytest.mark.parametrize("name", ["r.txt", "r", "r.csv.gz"])
def test_results_of_an_unknown_suffix_are_refused(root: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    sentence = f"Cannot write the results to {file}: the name must end in .csv or .jsonl or .parquet."
    assert refused(root, f"jobs results 1 --out {file}") == sentence
    assert not file.exists()


OTHER_FORMATS = {
    "ask": ("page.parquet", ".html"),
    "cache export": ("replies.jsonl", ".parquet"),
    "eval": ("scores.csv", ".jsonl"),
    "export extraction": ("mine.parquet", ".jsonl"),
    "export graphml": ("graph.jsonl", ".graphml"),
    "explain": ("page.csv", ".html"),
}


@pytest.mark.parametrize("command", OTHER_FORMATS)
def test_a_file_named_for_another_format_is_refused(root: Path, tmp_path: Path, command: str) -> None:
    name, own = OTHER_FORMATS[command]
    named = {name: root.parent / f"{name}.jsonl" for name in ("questions", "predictions")}
    sentence = refused(root, COMMANDS[command].format(file=tmp_path / name, **named))
    assert sentence.endswith(f"{name}: the name must end in {own}.")
