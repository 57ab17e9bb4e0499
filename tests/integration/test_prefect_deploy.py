"""Deployments on a real Prefect server: what deploy refuses and registers, and what schedules bring due."""

import configparser
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect_rest import (
    ask,
    ended_by_schedule,
    events_of,
    kill_run,
    pool_worker,
    post,
    prefect_document,
    run_deployment,
    runs_named,
    schedule_often,
    schedule_once,
    serving,
    wait_for,
)

from polyhop.flows.prefect_deploy import FIRST_INDEX, DeployedIndex

Server = dict[str, str]

Run = Callable[..., subprocess.CompletedProcess[str]]
Write = Callable[..., Path]
PROJECT = Path(__file__).resolve().parents[2]
RECORDS: list[dict[str, object]] = [
    {"id": f"p{n}", "title": f"Lake {n}", "text": f"Lake {n} lies near Mount {n} in Country {n % 3}."} for n in range(6)
]
LAKES = ("--index", "lakes", "--source", "lakes.jsonl")
LEXICAL = {"POLYHOP_STRATEGIES": "bm25,bridge-lexical"}


@pytest.fixture
def received() -> Iterator[tuple[str, list[str]]]:
    """The address of a webhook, and the bodies that it got."""
    bodies: list[str] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", bodies
    server.shutdown()
    server.server_close()


def test_the_file_for_prefect_deploy_offers_what_polyhop_deploy_does() -> None:
    assert yaml.safe_load((PROJECT / "prefect.yaml").read_text()) == prefect_document([DeployedIndex(FIRST_INDEX)])


def test_without_a_server_deploy_says_what_to_start(polyhop: Run, new_polyhop: Run) -> None:
    done = polyhop("deploy", *LAKES)
    said = "No Prefect server is named; start one with `prefect server start`, and set "
    assert (done.returncode, done.stderr) == (2, f"polyhop: {said}PREFECT_API_URL=http://127.0.0.1:4200/api.\n")
    done = new_polyhop("deploy", *LAKES, env={"PREFECT_API_URL": "http://127.0.0.1:9/api"})
    assert done.returncode == 1
    assert done.stderr.startswith("polyhop: The Prefect server at http://127.0.0.1:9/api")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--notify", "ops", *LAKES), "--notify takes TYPE/NAME of a notification block (slack-webhook/ops)"),
        (("--schedule", "export", *LAKES), "--schedule takes incremental, check, evaluation or maintenance, not 'exp"),
        (("--after-publish", "answers", *LAKES), "--after-publish takes export or evaluation, not 'answers'."),
        (("--source", "neo4j://svc:planted-0001@host"), "--source holds a password, and the Prefect server"),
        ((), "There is no index 'main' under "),
        (("--index", "nope"), "There is no index 'nope' under "),
        (("--index", "a", "--index", "b", "--source", "x"), "--source needs a single index, and there are 2;"),
    ],
)
def test_what_deploy_refuses_is_one_sentence(polyhop: Run, options: tuple[str, ...], sentence: str) -> None:
    done = polyhop("deploy", *options)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert done.stderr.startswith(f"polyhop: {sentence}")
    assert "planted-0001" not in done.stderr


@pytest.mark.prefect
def test_a_schedule_makes_runs_and_a_run_an_artifact_an_event_an_export_that_fails_and_its_notification(
    polyhop: Run, write_corpus: Write, clean_server: Server, received: tuple[str, list[str]], tmp_path: Path
) -> None:
    server, (address, bodies) = clean_server, received
    _make_block(server, address)
    source = write_corpus(RECORDS)
    options = ("deploy", "--index", "scheduled", "--source", source, "--notify", "custom-webhook/ops", "--json")
    made = json.loads(polyhop(*options, "--after-publish", "export", env=server).stdout)
    assert "index/scheduled-incremental" in made["deployments"]
    path = "/deployments/name/index/scheduled-incremental"
    deployment = ask(server, path, "GET")
    assert deployment["tags"] == ["polyhop", "scheduled", "incremental"]
    assert deployment["parameter_openapi_schema"]["properties"]["index"]["enum"] == ["scheduled"]
    (schedule,) = deployment["schedules"]
    assert (schedule["active"], schedule["schedule"]["cron"]) == (False, "*/15 * * * *")

    schedules = f"/deployments/{deployment['id']}/schedules/{schedule['id']}"
    weekly = {"cron": "0 0 * * 0", "timezone": "UTC"}
    ask(server, schedules, "PATCH", {"schedule": weekly, "active": True})
    with pool_worker(server, tmp_path / "root", tmp_path, tmp_path, LEXICAL):
        for _ in range(2):
            run_deployment(server, "index/scheduled-incremental", {"index": "scheduled", "source": str(source)})
        wait_for(lambda: bool(runs_named(server, "index scheduled v1")), "neither run published")
        schedule_once(server, "maintain/maintenance", {"index": "scheduled"})
        events_of(server, "polyhop.index.published", "polyhop.index.scheduled")
        wait_for(lambda: any("export scheduled" in body for body in bodies), "nobody was told of the export")
        wait_for(lambda: bool(ended_by_schedule(server, "maintain/maintenance")), "no maintenance on schedule")
        wait_for(lambda: _has_waited(server, deployment["id"]), "of two runs at once, none waited")
        wait_for(lambda: _is_scheduled(server, deployment["id"]), "the schedule made no run")
    (published,) = runs_named(server, "index scheduled v1")
    shown = {a["key"] for a in post(server, "/artifacts/filter") if a["flow_run_id"] == published["id"]}
    assert "index-scheduled-summary" in shown
    (maintained,) = ended_by_schedule(server, "maintain/maintenance")
    assert (maintained["state_type"], maintained["created_by"]["type"]) == ("COMPLETED", "SCHEDULE")
    (sizes,) = (a for a in post(server, "/artifacts/filter") if a["flow_run_id"] == maintained["id"])
    assert (sizes["key"], sizes["description"].partition(",")[0]) == ("maintenance", "Removed 0 versions")
    assert "queue" in {row["part"] for row in json.loads(sizes["data"])}
    (failed,) = runs_named(server, "export scheduled")
    assert (failed["state_type"], failed["created_by"]["type"]) == ("FAILED", "AUTOMATION")
    assert "NEO4J_URI" in next(body for body in bodies if "export scheduled" in body)

    news = write_corpus([{"id": "n1", "title": "News", "text": "Lake 1 is dry."}], "news.jsonl")
    more = ("--index", "scheduled", "--root", tmp_path / "root")
    assert polyhop("index", news, "--source-name", "news", *more, env=LEXICAL).returncode == 0
    again = json.loads(polyhop("deploy", *more, "--notify", "custom-webhook/ops", "--json", env=server).stdout)
    read = ask(server, path, "GET")["schedules"]
    assert {each["slug"]: (each["schedule"]["cron"], each["active"], each["parameters"]) for each in read} == {
        "corpus": (weekly["cron"], True, {"source": str(source), "source_name": "corpus", "partial": False}),
        "news": ("*/15 * * * *", False, {"source": str(news), "source_name": "news", "partial": False}),
    }
    names = sorted(automation["name"] for automation in post(server, "/automations/filter"))
    assert (again, names) == (made, sorted(made["automations"]))


def _make_block(server: dict[str, str], address: str) -> None:
    types = ask(server, "/block_types/slug/custom-webhook", "GET")
    schema = post(server, "/block_schemas/filter", {"block_schemas": {"block_type_id": {"any_": [types["id"]]}}})[0]
    data = {"name": "ops", "url": address, "method": "POST", "json_data": {"text": "{{subject}} {{body}}"}}
    block = {"name": "ops", "data": data, "block_schema_id": schema["id"], "block_type_id": types["id"]}
    post(server, "/block_documents/", block)


def _is_scheduled(server: dict[str, str], deployment_id: str) -> bool:
    return any(run["auto_scheduled"] and run["state_type"] == "SCHEDULED" for run in _runs_of(server, deployment_id))


@pytest.mark.rare  # two minutes, most of which it waits for schedules
@pytest.mark.prefect
def test_a_schedule_takes_an_index_from_submission_over_runs_that_wait_to_publication(
    polyhop: Run, write_corpus: Write, clean_server: Server, model_server: Any, tmp_path: Path
) -> None:
    source = write_corpus(RECORDS)
    asks = {"EXTRACTION__EXTRACTOR": "model", "MODELS__EXTRACT": "openai/scripted", "MODELS__MODE": "batch"}
    settings = {f"POLYHOP_{name}": value for name, value in (asks | {"MODELS__API_BASE": model_server.url}).items()}
    done = polyhop("deploy", "--index", "batched", "--source", source, env=clean_server)
    assert done.returncode == 0, done.stderr
    name = "index/batched-incremental"
    with pool_worker(clean_server, tmp_path / "root", tmp_path, tmp_path, LEXICAL | settings):
        schedule_often(clean_server, name, 12)
        wait_for(lambda: len(ended_by_schedule(clean_server, name)) >= 3, "not three scheduled runs ended", 300)
    ended = sorted(ended_by_schedule(clean_server, name), key=lambda run: run["start_time"])
    assert [run["state_name"] for run in ended][:3] == ["Waiting", "Waiting", "Completed"]
    assert {run["state_type"] for run in ended} == {"COMPLETED"}
    names = [*["index batched waiting"] * 2, "index batched v1"]
    assert [" ".join(run["name"].split()[:3]) for run in ended][:3] == names
    shown = [each for each in post(clean_server, "/artifacts/filter") if each["key"] == "index-batched-waiting"]
    assert sorted(each["flow_run_id"] for each in shown) == sorted(run["id"] for run in ended[:2])
    sentence = "Index 'batched' waits for 12 replies of openai/scripted in 1 batch, due within 24 hours of submission."
    assert {each["description"].partition(" Run")[0] for each in shown} == {sentence, sentence.replace("12", "6")}
    waited = events_of(clean_server, "polyhop.index.waiting", "polyhop.index.batched")
    assert sorted(each["payload"]["requests"] for each in waited) == [6, 12]
    assert set(model_server.desk.done.values()) == {1}
    assert model_server.desk.done.total() == len(model_server.requests) == 18


def _has_waited(server: dict[str, str], deployment_id: str) -> bool:
    """Whether a run of the deployment had to wait for another one."""
    states = (state for run in _runs_of(server, deployment_id) for state in _states(server, run["id"]))
    return any(state["name"] == "AwaitingConcurrencySlot" for state in states)


def _runs_of(server: dict[str, str], deployment_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = post(server, "/flow_runs/filter", {"deployments": {"id": {"any_": [deployment_id]}}})
    return found


def _states(server: dict[str, str], run_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(server, f"/flow_run_states/?flow_run_id={run_id}", "GET")
    return found


@pytest.mark.rare
@pytest.mark.prefect
def test_a_killed_run_starts_again(write_corpus: Write, clean_server: Server, tmp_path: Path) -> None:
    corpus = write_corpus(RECORDS)
    fifo = tmp_path / "slow.jsonl"
    os.mkfifo(fifo)  # the run waits for its source, and is killed then
    options = ("--index", "served-again", "--source", str(fifo))

    def is_running() -> bool:
        return any(run["state_type"] == "RUNNING" for run in runs_named(clean_server, "index served-again"))

    with serving(clean_server, tmp_path / "root", tmp_path, options, LEXICAL):
        run_deployment(clean_server, "index/served-again-incremental", {"index": "served-again", "source": str(fifo)})
        wait_for(is_running, "it did not start")
        kill_run(runs_named(clean_server, "index served-again")[0]["id"])
        fifo.unlink()
        fifo.symlink_to(corpus)
        wait_for(lambda: bool(runs_named(clean_server, "index served-again v1")), "it did not start again")
        schedule_once(clean_server, "verify/served-again-check")
        wait_for(lambda: bool(ended_by_schedule(clean_server, "verify/served-again-check")), "no check on schedule")
    (run,) = runs_named(clean_server, "index served-again v1")
    assert run["run_count"] == 2
    assert [state["type"] for state in _states(clean_server, run["id"]) if state["type"] == "CRASHED"] == ["CRASHED"]
    (checked,) = ended_by_schedule(clean_server, "verify/served-again-check")
    (said,) = (a for a in post(clean_server, "/artifacts/filter") if a["key"] == "verify-served-again")
    assert (said["flow_run_id"], said["description"]) == (checked["id"], "all stores match the published version")


ARTIFACTS = {
    "index/on-schedule-incremental": "index-on-schedule-summary",
    "verify/on-schedule-check": "verify-on-schedule",
}
ARTIFACTS |= {"export/on-schedule-export": "export-on-schedule", "answer/on-schedule-answers": "job-on-schedule"}
ARTIFACTS |= {"evaluate/on-schedule-evaluation": "evaluation-on-schedule", "maintain/maintenance": "maintenance"}
"""By deployment, the key under which its runs leave what became of them."""
ASKED: dict[str, object] = {
    "id": "q1", "question": "What lies near Mount 1?", "answers": ["Lake 1"], "supporting": ["p1"]
}  # fmt: skip


@pytest.mark.rare
@pytest.mark.prefect
@pytest.mark.neo4j
def test_every_kind_runs_on_its_schedule_and_leaves_its_artifact(
    polyhop: Run, write_corpus: Write, clean_server: Server, neo4j_server: Any, tmp_path: Path
) -> None:
    variables = LEXICAL | {"NEO4J_URI": neo4j_server.uri, "NEO4J_PASSWORD": neo4j_server.password}
    assert polyhop("index", write_corpus(RECORDS[:-1]), "--index", "on-schedule", env=variables).returncode == 0
    questions, source = write_corpus([ASKED], "questions.jsonl"), write_corpus(RECORDS)
    options = ("--index", "on-schedule", "--source", str(source), "--questions", str(questions))
    with serving(clean_server, tmp_path / "polyhop-data", tmp_path, options, variables):
        for name in ARTIFACTS:
            schedule_once(clean_server, name, {"strategy": "bm25"} if name.startswith("answer/") else {})
        for name in ARTIFACTS:
            wait_for(lambda of=name: bool(ended_by_schedule(clean_server, of)), f"no scheduled run of {name} ended")  # type: ignore[misc]
    for name, key in ARTIFACTS.items():
        (run,) = ended_by_schedule(clean_server, name)
        assert (run["state_type"], run["created_by"]["type"]) == ("COMPLETED", "SCHEDULE"), (name, run["state"])
        shown = [a["key"] for a in post(clean_server, "/artifacts/filter") if a["flow_run_id"] == run["id"]]
        assert key in shown, name


BIN = Path(sys.executable).parent
GUIDE = re.search(
    r"\n## Prefect: deploy, serve, watch\n.*?\n### On one host\n(?P<one>.*?)\n### On three hosts\n(?P<three>.*?)\n### ",
    (PROJECT / "docs" / "operations.md").read_text(encoding="utf-8"),
    re.DOTALL,
)
"""docs/operations.md tells the truth: its commands lead from nothing to a scheduled installation with alerts.

Its services are replaced by those of the tests: the Prefect server of the session, and none that starts runs.
"""
DOCUMENT: dict[str, object] = {"id": "p1", "title": "Lake 1", "text": "Lake 1 lies near Mount 1."}


def blocks(part: str, language: str) -> list[str]:
    """The fenced blocks of a part of the page, without the indentation of their list."""
    assert GUIDE is not None, "docs/operations.md has lost its guide"
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```$", GUIDE[part], re.DOTALL | re.MULTILINE)
    return [re.sub(r"^ {4}", "", block, flags=re.MULTILINE) for block in found]


def unit(block: str) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(block)
    return parser["Service"]


@pytest.mark.rare
@pytest.mark.prefect
def test_the_commands_of_the_guide_deploy(clean_server: Server, write_corpus: Write, tmp_path: Path) -> None:
    write_corpus([DOCUMENT])
    write_corpus([ASKED], "questions.jsonl")
    (one,) = blocks("one", "bash")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("POLYHOP_", "PREFECT_", "NEO4J_"))}
    clean |= {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "POLYHOP_ROOT": str(tmp_path / "root")}
    command: Any = {"args": ["bash", "-euc", one], "env": clean | clean_server, "cwd": tmp_path, "timeout": 300}
    done = subprocess.run(**command, capture_output=True, text=True, check=False)
    assert (done.returncode, "Created flow run" in done.stdout) == (0, True), done.stdout + done.stderr
    block = ask(clean_server, "/block_types/slug/slack-webhook/block_documents/name/ops", "GET")
    assert block["data"]["url"] == "********"
    for kind, flow in (("incremental", "index"), ("check", "verify"), ("evaluation", "evaluate")):
        deployment = ask(clean_server, f"/deployments/name/{flow}/main-{kind}", "GET")
        assert [schedule["active"] for schedule in deployment["schedules"]] == [kind != "evaluation"]
    is_on = {automation["name"]: automation["enabled"] for automation in post(clean_server, "/automations/filter")}
    assert is_on["polyhop: notify of failures"]
    assert is_on["polyhop: evaluation of main after publish"]
    assert not is_on["polyhop: export of main after publish"]


@pytest.mark.rare
def test_the_commands_of_a_host_that_answers_questions_run(polyhop: Run, write_corpus: Write) -> None:
    write_corpus([DOCUMENT])
    write_corpus([ASKED], "questions.jsonl")
    (three,) = blocks("three", "bash")
    for command in three.splitlines():
        name, *arguments = command.split()
        assert name == "polyhop"
        done = polyhop(*arguments)
        assert done.returncode == 0, (command, done.stderr)
    assert polyhop("worker", "--queues", "default", "--until-empty").returncode == 0
    assert '"done": 1' in polyhop("jobs", "--json").stdout


def test_the_services_of_the_guide_are_those_that_the_tests_start_and_start_again() -> None:
    for part, started in (("one", ["prefect server start", "prefect worker start"]), ("three", ["polyhop worker"])):
        services = [unit(block) for block in blocks(part, "ini") if "[Service]" in block]
        for service, command in zip(services, started, strict=True):
            assert service["ExecStart"].startswith(f"/opt/polyhop/bin/{command} --")
        assert {service["Restart"] for service in services} == {"always"}
        assert all(service["EnvironmentFile"] == "/etc/polyhop.env" for service in services)
