"""Flows on a real Prefect server: results as without it, artifacts, events of trouble, retries, its dashboard."""

import base64
import json
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from command_processes import Commands
from prefect_rest import events_of, kill_run, pool_worker, post, run_deployment, runs_named, wait_for
from small_indexes import printed, publish, write_rows

from polyhop.doctor import check_deployments, check_prefect
from polyhop.schemas.errors import SourceError, StoreConflictError
from polyhop.schemas.ports import GRAPH_KINDS, HUB_KINDS
from polyhop.schemas.queue import QuestionState
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import read_manifest
from polyhop.warehouse.open import open_questions
from polyhop.warehouse.queue.queue import QuestionQueue

Server = dict[str, str]

pytestmark = pytest.mark.prefect
Run = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[..., Path]

PROJECT = Path(__file__).resolve().parents[2]
TEXT = "Lake {} is a lake near Mount {} in Country {}."
RECORDS: list[Any] = [{"id": f"p{n}", "title": f"Lake {n}", "text": TEXT.format(n, n % 5, n % 3)} for n in range(42)]


def tasks_of(server: dict[str, str], run: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = post(server, "/task_runs/filter", {"flow_runs": {"id": {"any_": [run["id"]]}}})
    return found


def shown_by(server: dict[str, str], run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {a["key"]: a for a in post(server, "/artifacts/filter") if a["flow_run_id"] == run["id"]}


def test_a_flow_run_gives_the_same_tables_as_the_direct_run(
    polyhop: Run, write_corpus: Write, prefect_server: Server, tmp_path: Path
) -> None:
    corpus = write_corpus(RECORDS)
    settings = ("--set", "batch_size=15", "--json")
    on_server = polyhop("index", corpus, "--index", "served", *settings, env=prefect_server)
    assert [line for line in on_server.stderr.splitlines() if "leaked" in line] == []
    counts = printed(on_server)["counts"]
    assert counts == printed(polyhop("index", corpus, "--index", "direct", *settings))["counts"]
    versions = [Layout(tmp_path / "polyhop-data").index(name).version(1) for name in ("served", "direct")]
    served, alone = map(read_manifest, versions)
    assert (served.tables, served.arrays) == (alone.tables, alone.arrays)

    (run,) = runs_named(prefect_server, "index served")
    assert run["state_type"] == "COMPLETED"
    assert re.fullmatch(r"index served v1 \d{4}-\d\d-\d\d \d\d:\d\d", run["name"])
    tasks = tasks_of(prefect_server, run)
    extracted = [f"extract batch {n}" for n in range(3)]
    assert sorted(t["name"] for t in tasks if t["name"].startswith("extract")) == [*extracted, "extract finish"]
    assert {task["state_type"] for task in tasks} == {"COMPLETED"}
    shown = shown_by(prefect_server, run)
    assert {"index-served-stages", "index-served-summary"} <= shown.keys()
    changes = shown["index-served-changes"]["data"].splitlines()
    assert changes[0] == "# Version 1 of served: 42 added"
    assert {"| passages | 0 | 42 | +42 |", "| p7 | added |  | corpus |"} <= set(changes)
    progress = shown["index-served-progress-extract"]
    assert (progress["description"], progress["data"]) == ("passages of stage extract: 42 of 42", 100.0)
    published = events_of(prefect_server, "polyhop.index.published", "polyhop.index.served")[0]
    assert (published["payload"]["version"], published["payload"]["counts"]) == (1, counts)
    assert run["id"] in json.dumps(published["related"])
    assert published["payload"]["run_url"].endswith(f"/runs/flow-run/{run['id']}")

    assert printed(polyhop("index", corpus, "--index", "served", *settings, env=prefect_server))["changed"] is False
    made = shown_by(prefect_server, runs_named(prefect_server, "index served unchanged v1")[0])
    said = {key: artifact["description"] for key, artifact in made.items()}
    assert said == {"index-served-summary": "nothing has changed; version 1 stays current"}


def test_many_batches_are_a_few_task_runs(polyhop: Run, write_corpus: Write, prefect_server: Server) -> None:
    corpus = write_corpus(RECORDS)
    corpus.write_text(f"{corpus.read_text()}{{broken\n")
    settings = ("--set", "batch_size=2", "--set", "strategies=bm25,bridge-lexical")
    done = polyhop("index", corpus, "--index", "Many_batches", *settings, env=prefect_server)
    assert done.returncode == 0, done.stderr
    run = runs_named(prefect_server, "index Many_batches v1")[0]
    groups = {task["name"] for task in tasks_of(prefect_server, run) if task["name"].startswith("extract batch")}
    assert groups == {f"extract batches {n} to {n + 1}" for n in range(0, 20, 2)} | {"extract batch 20"}
    (quarantine,) = (a for key, a in shown_by(prefect_server, run).items() if key.endswith("-quarantine"))
    assert re.fullmatch(r"index-many-batches-[0-9a-f]{6}-quarantine", quarantine["key"])
    assert [row["line"] for row in json.loads(quarantine["data"])] == [43]
    gaps = events_of(prefect_server, "polyhop.index.gaps", "polyhop.index.Many_batches")[0]
    assert (gaps["payload"]["quarantined"], gaps["payload"]["failed_units"]) == (1, 0)


@pytest.mark.rare
def test_a_graph_is_indexed_by_a_flow_run(polyhop: Run, write_corpus: Write, prefect_server: Server) -> None:
    graph = write_corpus([{"subject": {"id": 1, "name": "Ada"}, "predicate": "born", "object": 1815}], "graph.jsonl")
    texts = write_corpus([{"id": 1, "title": "Ada", "text": "Ada wrote notes."}], "texts.jsonl")
    hubs = ("--set", "strategies=hub-facets,bm25", "--set", "hubs.min_edges=1")
    arguments = ("--graph-sources", texts, "--index", "graph-served", *hubs, "--json")
    counts = printed(polyhop("index", "--graph", graph, *arguments, env=prefect_server))["counts"]
    assert (counts["entities"], counts["relations"], counts["passages"]) == (2, 1, 1)
    (run,) = runs_named(prefect_server, "index graph-served")
    assert (run["parameters"]["kind"], run["parameters"]["graph_sources"]) == ("graph", str(texts))
    coverage = json.loads(shown_by(prefect_server, run)["index-graph-served-coverage"]["data"])
    assert {"what": "triples", "part": "(all)", "covered": 1, "uncovered": 0, "share": 1.0} in coverage


def test_a_flow_run_on_a_bad_corpus_says_so(polyhop: Run, prefect_server: Server, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{broken\n" * 3)
    bad, none = (polyhop("index", f"{name}.jsonl", "--index", name, env=prefect_server) for name in ("bad", "none"))
    assert "\npolyhop: 3 of 3 records" in f"\n{bad.stderr}"
    assert bad.stderr.splitlines()[-1].startswith("  bad.jsonl line 3: not JSON: ")
    assert none.stderr.splitlines()[-1].startswith("polyhop: There is no file or folder none.jsonl; check the ")
    assert len(none.stderr.splitlines()) <= 3
    for done in (bad, none):
        assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert [run["state_type"] for run in runs_named(prefect_server, "index bad")] == ["FAILED"]


def test_a_server_that_does_not_answer_is_one_sentence(new_polyhop: Run, write_corpus: Write) -> None:
    dead = "http://127.0.0.1:9/api"
    done = new_polyhop("index", write_corpus(RECORDS), "--index", "none", env={"PREFECT_API_URL": dead})
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 2)
    sentence = done.stderr.splitlines()[-1]
    assert sentence.startswith(f"polyhop: The Prefect server at {dead} does not answer (")
    assert sentence.endswith("start it with `prefect server start`, or unset PREFECT_API_URL.")


def test_only_errors_that_may_go_away_are_retried() -> None:
    from polyhop.flows.prefect_run import is_retryable

    def is_tried_again(error: Exception) -> bool:
        return is_retryable(None, None, Mock(result=Mock(side_effect=error)))

    assert is_tried_again(StoreConflictError("busy"))
    assert not is_tried_again(SourceError("bad"))
    assert not is_tried_again(ValueError("defect"))


def test_every_deployment_names_a_flow_that_takes_its_parameters() -> None:
    from prefect.flows import load_flow_from_entrypoint

    names = []
    for deployment in yaml.safe_load((PROJECT / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]:
        flow = load_flow_from_entrypoint(deployment["entrypoint"])  # type: ignore[var-annotated]
        flow.validate_parameters(deployment["parameters"])
        names.append(f"{flow.name}/{deployment['name']}")
    assert "export/main-export" in names


@pytest.mark.rare
@pytest.mark.neo4j
def test_an_export_run_writes_all(polyhop: Run, write_corpus: Write, prefect_server: Server, neo4j_server: Any) -> None:
    done = polyhop("index", write_corpus(RECORDS[:6]), "--index", "lakes", "--set", "strategies=bm25")
    assert done.returncode == 0, done.stderr
    server = {"NEO4J_URI": neo4j_server.uri, "NEO4J_PASSWORD": neo4j_server.password}
    export = ("export", "neo4j", "--index", "lakes", "--json")
    report = printed(polyhop(*export, env=server | prefect_server))
    assert report["created"] == sum(report["counts"].values()) > 0
    directly = printed(polyhop(*export, env=server))
    assert (directly["created"], directly["updated"], directly["deleted"]) == (0, 0, 0)
    (run,) = runs_named(prefect_server, "export lakes v1")
    names = {task["name"].rsplit("-", 1)[0] for task in tasks_of(prefect_server, run)}
    steps = {f"export {kind}" for kind in GRAPH_KINDS if kind not in HUB_KINDS}
    assert steps | {"export schema", "export verification"} <= names
    assert not names & {f"export {kind}" for kind in HUB_KINDS}
    assert neo4j_server.password not in json.dumps(post(prefect_server, "/flow_runs/filter"))


def test_a_server_says_its_version_and_database(prefect_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in prefect_server.items():
        monkeypatch.setenv(name, value)
    url = prefect_server["PREFECT_API_URL"]
    assert check_prefect(Settings()) == f"server {version('prefect')} at {url} answers, database SQLite"
    monkeypatch.setattr("polyhop.doctor._OUR_FLOWS", "no flow has this in its entrypoint")
    assert check_deployments(Settings()) == "none of Polyhop's flows; create them with: polyhop deploy --index NAME"


@pytest.mark.rare
def test_the_dashboard_shows_runs_their_tasks_artifacts_with_their_history_and_events(
    polyhop: Run, write_corpus: Write, prefect_server: Server, browser: Any
) -> None:
    for count in (3, 4):
        arguments = ("--index", "seen", "--set", "strategies=bm25")
        variables = prefect_server | {"PREFECT_LOGGING_LEVEL": "INFO"}
        done = polyhop("index", write_corpus(RECORDS[:count]), *arguments, env=variables)
        assert done.returncode == 0, done.stderr
    first, second = (runs_named(prefect_server, f"index seen v{number}")[0] for number in (1, 2))
    changes = shown_by(prefect_server, second)["index-seen-changes"]
    events_of(prefect_server, "polyhop.index.published", "polyhop.index.seen")
    address = prefect_server["PREFECT_API_URL"].removesuffix("/api")

    def see(path: str, *words: str) -> None:
        """Opens a page until a person can read all of these words on it."""

        def shows_all() -> bool:
            text = {"text": "document.body.innerText"}
            seen = browser.look(f"{address}{path}", evaluate=text, wait_milliseconds=1000).values["text"]
            return all(word in seen for word in words)

        wait_for(shows_all, f"{path} does not show {words}")

    see("/runs", first["name"], second["name"])
    see(f"/runs/flow-run/{second['id']}", second["name"], "version 2 published")
    tasks = tasks_of(prefect_server, second)
    see(f"/runs/flow-run/{second['id']}?tab=TaskRuns", *(task["name"] for task in tasks[:5]))
    see("/artifacts", "index-seen-summary", "index-seen-changes", "Version 2: 1 added")
    see("/artifacts/key/index-seen-changes", "index-seen-changes", first["name"], second["name"])
    see(f"/artifacts/artifact/{changes['id']}", "Version 2 of seen: 1 added", "All of them:", "The run that wrote this")
    see("/events", "polyhop.index.published")


LAKES: list[Any] = [{"id": f"p{n}", "title": f"Lake {n}", "text": f"Lake {n} lies near Mount {n}."} for n in range(20)]


def asked_of(count: int, waters: str) -> list[Any]:
    question = "What lies near Mount {}?"
    gold = [{"answers": [f"{waters} {n}"], "supporting": [f"p{n}"]} for n in range(count)]
    return [{"id": f"q{n}", "question": question.format(n)} | row for n, row in enumerate(gold)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("lakes"), LAKES, "lakes", "bridge-lexical,bm25")


@pytest.fixture(scope="module")
def pool(root: Path, prefect_server: Server) -> Iterator[Callable[..., str]]:
    """Runs `prefect` commands beside a worker, with all deployments of the repository."""
    with pool_worker(prefect_server, root, root.parent, PROJECT) as run:
        run("deploy", "--all")
        yield run


@pytest.fixture
def questions(write_corpus: Write) -> Path:
    """A question file with gold, in a folder that no other test has."""
    return write_corpus(asked_of(8, "Lake"), "questions.jsonl")


@pytest.fixture
def queue(root: Path) -> Iterator[QuestionQueue]:
    with open_questions(Settings(root=root)) as opened:
        yield opened


def test_a_job_is_one_flow_run_with_progress_results_and_metrics(
    commands: Commands, root: Path, questions: Path, prefect_server: Server, tmp_path: Path
) -> None:
    questions.rename(tmp_path / "one-job.jsonl")  # a name that no other test on this server uses
    answer = "json.dumps(answer_flow('one-job.jsonl', 'lakes', strategy='bm25'))"
    script = f"import json\nfrom polyhop.flows.prefect_answer import answer_flow\nprint({answer})\n"
    variables = prefect_server | {"PREFECT_LOGGING_LEVEL": "INFO", "POLYHOP_ROOT": str(root)}
    done = commands.python(script, (), tmp_path, variables)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    job = f"job {report['job_id']}"
    assert (report["done"], report["dead"], report["metrics"]["recall@5"]) == (8, 0, 1.0)
    (run,) = runs_named(prefect_server, f"answer lakes {job} one-job.jsonl")
    assert run["state_type"] == "COMPLETED"
    steps = {task["name"] for task in tasks_of(prefect_server, run)}
    assert steps == {"submit questions", "answer questions", "show results"}
    shown = shown_by(prefect_server, run)
    assert shown.keys() == {"job-lakes", "job-lakes-progress", "job-lakes-results"}
    assert shown["job-lakes-progress"]["description"] == f"questions of {job}: 8 of 8"
    wait_for(lambda: f"{job}: 8 done" in _logged(prefect_server, run["id"]), "its log did not arrive")
    logged = _logged(prefect_server, run["id"])
    assert f"{job}: 8 questions, 0 left out" in logged
    assert "answers default." in logged  # the worker's own words


@pytest.mark.rare
@pytest.mark.usefixtures("pool")
def test_a_work_pool_runs_both_deployments(queue: QuestionQueue, questions: Path, prefect_server: Server) -> None:
    before = len(queue.jobs())
    asked = {"questions": str(questions), "index": "lakes", "strategy": "bm25", "workers": 0}
    run_deployment(prefect_server, "answer/main-answers", asked)
    wait_for(lambda: len(queue.jobs()) > before, "no job was submitted")
    run_deployment(prefect_server, "worker/worker", {"queues": "default"})
    wait_for(lambda: _states(prefect_server, questions) == ["COMPLETED"], "the job did not complete")
    (worked,) = runs_named(prefect_server, "worker default")
    wait_for(lambda: runs_named(prefect_server, "worker default")[0]["state_type"] == "COMPLETED", "the worker goes on")
    assert {task["name"] for task in tasks_of(prefect_server, worked)} == {"answer questions of default"}
    assert queue.jobs()[0].counts[QuestionState.DONE] == 8


@pytest.mark.rare
def test_cancelling_or_killing_a_run_cancels_the_questions_that_nobody_has_answered(
    pool: Any, queue: QuestionQueue, questions: Path, prefect_server: Server
) -> None:
    for end in (lambda run_id: pool("flow-run", "cancel", run_id), kill_run):
        before = len(queue.jobs())
        asked = {"questions": str(questions), "index": "lakes", "strategy": "bm25", "workers": 0, "queue": "nobody"}
        run_deployment(prefect_server, "answer/main-answers", asked)
        wait_for(lambda held=before: len(queue.jobs()) > held, "no job was submitted")  # type: ignore[misc]
        job_id = queue.jobs()[0].job_id
        assert queue.job(job_id).counts[QuestionState.QUEUED] == 8
        (running,) = (run["id"] for run in _runs(prefect_server, questions) if run["state_type"] == "RUNNING")
        end(running)
        wait_for(lambda number=job_id: not queue.job(number).is_open, "its questions stayed queued")  # type: ignore[misc]
        assert queue.job(job_id).counts[QuestionState.CANCELLED] == 8
    wait_for(lambda: _states(prefect_server, questions) == ["CANCELLED", "CRASHED"], "the runs go on")


def _states(environment: dict[str, str], questions: Path) -> list[str]:
    return sorted(run["state_type"] for run in _runs(environment, questions))


def _runs(environment: dict[str, str], questions: Path) -> list[dict[str, Any]]:
    """The runs that were asked to answer this file."""
    found = post(environment, "/flow_runs/filter")
    return [run for run in found if run["parameters"].get("questions") == str(questions)]


def _logged(environment: dict[str, str], *run_ids: str) -> str:
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
    commands: Commands, polyhop: Run, prefect_server: Server, tmp_path: Path
) -> None:
    root = publish(tmp_path, LAKES[:8], "lakes", "bridge-lexical,bm25")
    write_rows(tmp_path / "questions.jsonl", asked_of(4, "Pond"), "{broken")
    variables = prefect_server | {"POLYHOP_ROOT": str(root), "PREFECT_LOGGING_LEVEL": "INFO"}
    done = commands.python(SCRIPT, (), tmp_path, variables)
    assert done.returncode == 0, done.stderr
    first, second, processes = json.loads(done.stdout.splitlines()[-1])
    assert (first["run"], processes) == (1, [])  # the evaluation ran in the flow's own process
    assert [row["recall@5"] for row in first["strategies"]] == [1.0, 1.0]
    assert "em of bm25 is 0, below 1" in second
    for number, state, asked in (
        (1, "COMPLETED", {"bm25", "bridge-lexical"}),
        (2, "FAILED", {"bm25", "bm25:b=0", "bm25:b=1"}),
    ):
        (run,) = runs_named(prefect_server, f"evaluate lakes v1 run {number}")
        assert (run["state_type"], set(run["tags"])) == (state, {"polyhop", "lakes", "evaluation"})
        shown = shown_by(prefect_server, run)
        table = json.loads(shown["evaluation-lakes-strategies"]["data"])
        assert {row["strategy"] for row in table} == asked
        steps = {task["name"] for task in tasks_of(prefect_server, run)}
        assert steps == {*(f"evaluate {name}" for name in asked), "show results"}
        report = root / "evaluations" / f"{number:06d}" / "report.html"
        assert "recall@5" in shown["evaluation-lakes"]["data"]
        assert f"`{report}`" in shown["evaluation-lakes"]["data"]
        assert report.is_file()
        plot = shown["evaluation-lakes-recall-at-k"]
        picture = base64.b64decode(plot["data"].removeprefix("data:image/png;base64,"))
        assert (plot["type"], picture) == ("image", (report.parent / "recall_at_k.png").read_bytes())
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
    commands: Commands, write_corpus: Write, model_server: Any, prefect_server: Server, tmp_path: Path
) -> None:
    model_server.respond(_UnavailableAtFirst())
    models = {"API_BASE": model_server.url, "MAX_ATTEMPTS": "1"} | dict.fromkeys(("EXTRACT", "READ"), "openai/scripted")
    variables = {f"POLYHOP_MODELS__{name}": value for name, value in models.items()}
    variables |= {"POLYHOP_ROOT": str(tmp_path / "root"), "POLYHOP_STRATEGIES": "bm25", "OPENAI_API_KEY": "not-a-key"}
    rows: list[dict[str, object]] = [{"id": f"q{n}", "question": f"What lies near Mount {n}?"} for n in range(2)]
    questions = write_corpus(rows, "troubled.jsonl")
    arguments = (str(write_corpus(LAKES[:4])), str(questions))
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
