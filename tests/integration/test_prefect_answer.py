"""Questions on a real Prefect server: jobs, evaluations, and events of trouble."""

import base64
import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from command_processes import Commands
from prefect_rest import events_of, kill_run, pool_worker, post, run_deployment, runs_named, wait_for

from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.queue import QuestionState
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.queue.queue import QuestionQueue

pytestmark = pytest.mark.prefect

Run = Callable[..., subprocess.CompletedProcess[str]]
WriteCorpus = Callable[..., Path]
PROJECT = Path(__file__).resolve().parents[2]
RECORDS: list[dict[str, object]] = [
    {"id": f"p{n}", "title": f"Lake {n}", "text": f"Lake {n} lies near Mount {n} in Country {n % 3}."}
    for n in range(20)
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with an index that needs no vectors."""
    folder = tmp_path_factory.mktemp("lakes")
    (folder / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    settings = Settings(root=folder / "root", strategies=("bridge-lexical", "bm25"))
    run_index(settings, IndexRequest("lakes", folder / "corpus.jsonl"), DirectRunner())
    return settings.root


@pytest.fixture(scope="module")
def pool(root: Path, prefect_server: dict[str, str]) -> Iterator[Callable[..., str]]:
    """Runs `prefect` commands beside a worker, with all deployments of the repository."""
    with pool_worker(prefect_server, root, root.parent, PROJECT) as run:
        run("deploy", "--all")
        yield run


@pytest.fixture
def questions(write_corpus: WriteCorpus) -> Path:
    """A question file with gold, in a folder that no other test has."""
    rows: list[dict[str, object]] = [
        {"id": f"q{n}", "question": f"What lies near Mount {n}?", "answers": [f"Lake {n}"], "supporting": [f"p{n}"]}
        for n in range(8)
    ]
    return write_corpus(rows, "questions.jsonl")


@pytest.fixture
def queue(root: Path) -> Iterator[QuestionQueue]:
    opened = open_questions(Settings(root=root))
    yield opened
    opened.close()


def test_a_job_is_one_flow_run_with_progress_results_and_metrics(
    commands: Commands, root: Path, questions: Path, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    questions.rename(tmp_path / "one-job.jsonl")  # a name that no other test on this server uses
    script = (
        "import json\nfrom polyhop.flows.prefect_answer import answer_flow\n"
        "print(json.dumps(answer_flow('one-job.jsonl', 'lakes', strategy='bm25')))\n"
    )
    variables = prefect_server | {"PREFECT_LOGGING_LEVEL": "INFO", "POLYHOP_ROOT": str(root)}
    done = commands.python(script, (), tmp_path, variables)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    job = f"job {report['job_id']}"
    assert (report["done"], report["dead"]) == (8, 0)
    assert report["metrics"]["recall@5"] == 1.0
    (run,) = runs_named(prefect_server, f"answer lakes {job} one-job.jsonl")
    assert run["state_type"] == "COMPLETED"
    tasks = post(prefect_server, "/task_runs/filter", {"flow_runs": {"id": {"any_": [run["id"]]}}})
    assert {task["name"] for task in tasks} == {"submit questions", "answer questions", "show results"}
    shown = {a["key"]: a for a in post(prefect_server, "/artifacts/filter") if a["flow_run_id"] == run["id"]}
    assert shown.keys() == {"job-lakes", "job-lakes-progress", "job-lakes-results"}
    assert shown["job-lakes-progress"]["description"] == f"questions of {job}: 8 of 8"
    wait_for(lambda: f"{job}: 8 done" in _logged(prefect_server, run["id"]), "its log did not arrive")
    logged = _logged(prefect_server, run["id"])
    assert f"{job}: 8 questions, 0 left out" in logged
    assert "answers default." in logged  # the worker's own words


@pytest.mark.rare
@pytest.mark.usefixtures("pool")
def test_a_process_work_pool_starts_a_worker_and_a_deployment_takes_a_file_path(
    polyhop: Run, root: Path, queue: QuestionQueue, questions: Path, prefect_server: dict[str, str]
) -> None:
    before = len(queue.jobs())
    asked = {"questions": str(questions), "index": "lakes", "strategy": "bm25", "workers": 0}
    run_deployment(prefect_server, "answer/main-answers", asked)
    wait_for(lambda: len(queue.jobs()) > before, "no job was submitted")
    run_deployment(prefect_server, "worker/worker", {"queues": "default"})
    wait_for(lambda: _states(prefect_server, questions) == ["COMPLETED"], "the job did not complete")
    (worked,) = runs_named(prefect_server, "worker default")
    wait_for(lambda: runs_named(prefect_server, "worker default")[0]["state_type"] == "COMPLETED", "the worker goes on")
    tasks = post(prefect_server, "/task_runs/filter", {"flow_runs": {"id": {"any_": [worked["id"]]}}})
    assert [task["name"] for task in tasks] == ["answer questions of default"]
    job = json.loads(polyhop("jobs", "--json", "--root", root).stdout)[0]
    assert (job["done"], job["queued"], job["dead"]) == (8, 0, 0)


@pytest.mark.rare
def test_cancelling_or_killing_a_run_cancels_the_questions_that_nobody_has_answered(
    pool: Callable[..., str], queue: QuestionQueue, questions: Path, prefect_server: dict[str, str]
) -> None:
    for end in (lambda run_id: pool("flow-run", "cancel", run_id), kill_run):
        before = len(queue.jobs())
        asked = {"questions": str(questions), "index": "lakes", "strategy": "bm25", "workers": 0, "queue": "nobody"}
        run_deployment(prefect_server, "answer/main-answers", asked)
        wait_for(lambda held=before: len(queue.jobs()) > held, "no job was submitted")  # type: ignore[misc]
        job_id = queue.jobs()[0].job_id
        assert queue.job(job_id).counts[QuestionState.QUEUED] == 8
        end(_running_id(prefect_server, questions))
        wait_for(lambda number=job_id: not queue.job(number).is_open, "its questions stayed queued")  # type: ignore[misc]
        assert queue.job(job_id).counts[QuestionState.CANCELLED] == 8
    wait_for(lambda: _states(prefect_server, questions) == ["CANCELLED", "CRASHED"], "the runs go on")


def _running_id(environment: dict[str, str], questions: Path) -> str:
    """The run that answers this file; others may be running that another test has left."""
    (found,) = (run["id"] for run in _runs(environment, questions) if run["state_type"] == "RUNNING")
    return str(found)


def _states(environment: dict[str, str], questions: Path) -> list[str]:
    return sorted(run["state_type"] for run in _runs(environment, questions))


def _runs(environment: dict[str, str], questions: Path) -> list[dict[str, Any]]:
    """The runs that were asked to answer this file."""
    found = post(environment, "/flow_runs/filter")
    return [run for run in found if run["parameters"].get("questions") == str(questions)]


def _logged(environment: dict[str, str], *run_ids: str) -> str:
    """The lines of these runs, or of all."""
    wanted = {"flow_run_id": {"any_": run_ids}} if run_ids else {"level": {"ge_": 0}}
    return "\n".join(log["message"] for log in post(environment, "/logs/filter", {"logs": wanted}))


SCRIPT = """
import json, sys
started = []
sys.addaudithook(lambda event, given: event == "subprocess.Popen" and started.append([str(part) for part in given[1]]))
from polyhop.flows.prefect_answer import evaluate_flow
from polyhop.schemas.errors import PolyhopError

first = evaluate_flow("questions.jsonl", "lakes", "bm25,bridge-lexical", fail_below=["recall@5=.5"])
try:
    options = {"baseline": "bm25:b=0,bm25", "fail_below": ["bm25:em=1"], "min_confidence": 1.0, "sample": 3, "seed": 4}
    evaluate_flow("questions.jsonl", "lakes", "bm25,bm25:b=0..1", {"k1": 1.3}, **options)
    second = "passed"
except PolyhopError as error:
    second = str(error)
print(json.dumps([first, second, [command for command in started if "polyhop.cli" in command]]))
"""


def test_an_evaluation_shows_its_run_as_artifacts_and_a_gate_fails_the_flow_run(
    commands: Commands, polyhop: Run, write_corpus: WriteCorpus, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    root = tmp_path / "root"
    settings = ("--set", "strategies=bridge-lexical,bm25", "--root", root)
    assert polyhop("index", write_corpus(RECORDS[:8]), "--index", "lakes", *settings).returncode == 0
    rows = [
        {"id": f"q{n}", "question": f"What lies near Mount {n}?", "answers": [f"Pond {n}"], "supporting": [f"p{n}"]}
        for n in range(4)
    ]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "{broken\n")
    variables = prefect_server | {"POLYHOP_ROOT": str(root), "PREFECT_LOGGING_LEVEL": "INFO"}
    done = commands.python(SCRIPT, (), tmp_path, variables)
    assert done.returncode == 0, done.stderr
    first, second, processes = json.loads(done.stdout.splitlines()[-1])
    assert (first["run"], processes) == (1, [])  # the evaluation ran in the flow's own process
    assert [row["recall@5"] for row in first["strategies"]] == [1.0, 1.0]
    assert "em of bm25 is 0, below 1" in second
    for number in (1, 2):
        (run,) = runs_named(prefect_server, f"evaluate lakes v1 run {number}")
        assert set(run["tags"]) == {"polyhop", "lakes", "evaluation"}
        assert run["state_type"] == ("COMPLETED", "FAILED")[number - 1]
        shown = {a["key"]: a for a in post(prefect_server, "/artifacts/filter") if a["flow_run_id"] == run["id"]}
        table = json.loads(shown["evaluation-lakes-strategies"]["data"])
        asked = {"bm25", "bridge-lexical"} if number == 1 else {"bm25", "bm25:b=0", "bm25:b=1"}
        assert {row["strategy"] for row in table} == asked
        tasks = post(prefect_server, "/task_runs/filter", {"flow_runs": {"id": {"any_": [run["id"]]}}})
        assert {task["name"] for task in tasks} == {*(f"evaluate {name}" for name in asked), "show results"}
        report = root / "evaluations" / f"{number:06d}" / "report.html"
        assert "recall@5" in shown["evaluation-lakes"]["data"]
        assert f"`{report}`" in shown["evaluation-lakes"]["data"]
        assert report.is_file()
        plot = shown["evaluation-lakes-recall-at-k"]
        assert plot["type"] == "image"
        picture = base64.b64decode(plot["data"].removeprefix("data:image/png;base64,"))
        assert picture == (report.parent / "recall_at_k.png").read_bytes()
    assert shown["evaluation-lakes-paired-differences-2"]["type"] == "image"
    wait_for(lambda: "evaluation 2 stored" in _logged(prefect_server), "its log did not arrive")
    logged = _logged(prefect_server)
    for line in ("bm25: 4 of 4 questions", "bridge-lexical: 4 of 4 questions", "questions.jsonl line 5 was left out"):
        assert line in logged
    again = polyhop("eval", "questions.jsonl", "--index", "lakes", "--strategies", "bm25,bm25:b=0..1",
                    "--param", "k1=1.3", "--set", "reader.min_confidence=1", "--sample", "3", "--seed", "4",
                    "--baseline", "bm25:b=0", "--baseline", "bm25", "--root", root)  # fmt: skip
    assert again.returncode == 0, again.stderr
    by_flow, by_command = (root / "evaluations" / number for number in ("000002", "000003"))
    results = json.loads((by_flow / "run.json").read_text())["results"]
    assert [result["shown"]["share"] for result in results.values()] == [0.0] * 3  # with reader.min_confidence=1
    for name in ("run.json", "questions.jsonl"):
        assert (by_flow / name).read_bytes() == (by_command / name).read_bytes()


UNAVAILABLE_SECONDS = 4.0
TROUBLE_SCRIPT = """
import json, sys
from polyhop.flows.prefect_answer import answer_flow
from polyhop.flows.prefect_index import index_flow
from polyhop.schemas.errors import BudgetExceededError, LossRefusedError

corpus, questions = sys.argv[1:]
try:
    index_flow("spent", corpus, extractor="model", settings={"max_tokens": 900})
except BudgetExceededError as error:
    spent = str(error)
index_flow("asked", corpus)
answered = answer_flow(questions, "asked", strategy="bm25", queue="troubled")
try:
    index_flow("asked", questions)
except LossRefusedError as error:
    print(json.dumps([spent, answered, str(error)]))
"""


@pytest.mark.rare
def test_a_spent_budget_an_unavailable_model_and_a_dead_question_are_events_with_what_to_know(
    commands: Commands, write_corpus: WriteCorpus, model_server: Any, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    model_server.respond(_UnavailableAtFirst())
    variables = {
        "POLYHOP_ROOT": str(tmp_path / "root"),
        "POLYHOP_STRATEGIES": "bm25",
        "POLYHOP_MODELS__EXTRACT": "openai/scripted",
        "POLYHOP_MODELS__READ": "openai/scripted",
        "POLYHOP_MODELS__API_BASE": model_server.url,
        "POLYHOP_MODELS__MAX_ATTEMPTS": "1",
        "OPENAI_API_KEY": "not-a-key",
    }
    rows: list[dict[str, object]] = [{"id": f"q{n}", "question": f"What lies near Mount {n}?"} for n in range(2)]
    questions = write_corpus(rows, "troubled.jsonl")
    arguments = (str(write_corpus(RECORDS[:4])), str(questions))
    done = commands.python(TROUBLE_SCRIPT, arguments, tmp_path, prefect_server | variables)
    assert done.returncode == 0, done.stderr
    spent, answered, refused = json.loads(done.stdout.splitlines()[-1])
    assert (answered["done"], answered["dead"]) == (1, 1)

    (paused,) = events_of(prefect_server, "polyhop.budget.paused", "polyhop.index.spent")
    (failed,) = runs_named(prefect_server, "index spent")
    assert failed["state_type"] == "FAILED"
    assert paused["payload"].keys() == {"index", "reason", "run_url"}
    assert (paused["payload"]["index"], paused["payload"]["reason"]) == ("spent", spent)
    assert paused["payload"]["run_url"].endswith(failed["id"])
    assert paused["resource"]["polyhop.index"] == "spent"

    (event,) = events_of(prefect_server, "polyhop.index.refused", "polyhop.index.asked")
    assert event["payload"]["reason"] == refused
    assert "is not a source of index 'asked'" in refused
    assert "FAILED" in {run["state_type"] for run in runs_named(prefect_server, "index asked")}

    outage = events_of(prefect_server, "polyhop.worker.outage", "polyhop.queue.troubled")[0]
    (run,) = runs_named(prefect_server, "answer asked job 1 troubled.jsonl")
    said = outage["payload"]
    assert (said["queues"], said["job"], said["index"]) == (["troubled"], 1, "asked")
    assert "scripted" in said["reason"]
    assert (said["host"], bool(said["worker"])) == (socket.gethostname(), True)
    assert 0 <= time.time() - said["since"] < 300
    assert said["run_url"].endswith(run["id"])
    assert f"prefect.flow-run.{run['id']}" in {related["prefect.resource.id"] for related in outage["related"]}

    (dead,) = events_of(prefect_server, "polyhop.queue.dead_letter", "polyhop.queue.troubled")
    said = dead["payload"]
    assert (said["job"], said["index"], said["dead"], said["questions"]) == (1, "asked", 1, 2)
    ((error, count),) = ((each["error"], each["count"]) for each in said["errors"])
    assert (error, count) == ("ModelRejectedError", 1)
    assert "we do not answer" in said["errors"][0]["example"]


class _UnavailableAtFirst:
    """Reads nothing in its first seconds, and refuses the first question for good; extracts as it should."""

    def __init__(self) -> None:
        self._since: float | None = None

    def __call__(self, asked: Any) -> Mapping[str, object] | None:
        if asked.task != "qa.answer":
            return None
        self._since = self._since or time.monotonic()
        if time.monotonic() - self._since < UNAVAILABLE_SECONDS:
            return {"kind": "error", "status": 503}
        if "Mount 0?" in asked.prompt:
            return {"kind": "error", "status": 403, "message": "we do not answer"}
        reply = {"reasoning": "The passage says so.", "answer": "Lake 1", "citations": []}
        return {"kind": "reply", "content": json.dumps(reply)}
