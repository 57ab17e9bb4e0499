"""Index and export flows on a real Prefect server: results as without it, artifacts, retries, its dashboard."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect_rest import events_of, post, runs_named

from polyhop.doctor import check_deployments, check_prefect
from polyhop.schemas.ports import GRAPH_KINDS, HUB_KINDS
from polyhop.schemas.settings import Settings

Run = Callable[..., subprocess.CompletedProcess[str]]
WriteCorpus = Callable[..., Path]
RECORDS: list[dict[str, object]] = [
    {"id": f"p{n}", "title": f"Lake {n}", "text": f"Lake {n} is a lake near Mount {n % 5} in Country {n % 3}."}
    for n in range(40)
]


@pytest.mark.prefect
def test_a_flow_run_gives_the_same_tables_as_the_direct_run(
    polyhop: Run, write_corpus: WriteCorpus, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    corpus = write_corpus(RECORDS)
    settings = ("--set", "batch_size=15", "--json")
    on_server = polyhop("index", corpus, "--index", "served", *settings, env=prefect_server)
    assert on_server.returncode == 0, on_server.stderr
    assert [line for line in on_server.stderr.splitlines() if "leaked" in line] == []
    direct = polyhop("index", corpus, "--index", "direct", *settings)
    assert direct.returncode == 0, direct.stderr
    reports = [json.loads(done.stdout) for done in (on_server, direct)]
    assert reports[0]["counts"] == reports[1]["counts"]
    manifests = [
        json.loads((tmp_path / f"polyhop-data/indexes/{name}/versions/000001/manifest.json").read_text())
        for name in ("served", "direct")
    ]
    assert manifests[0]["tables"] == manifests[1]["tables"]
    assert manifests[0]["arrays"] == manifests[1]["arrays"]

    runs = runs_named(prefect_server, "index served")
    assert [run["state_type"] for run in runs] == ["COMPLETED"]
    assert re.fullmatch(r"index served v1 \d{4}-\d\d-\d\d \d\d:\d\d", runs[0]["name"])
    tasks = post(prefect_server, "/task_runs/filter", {"flow_runs": {"id": {"any_": [runs[0]["id"]]}}})
    names = sorted(task["name"] for task in tasks)
    assert [name for name in names if name.startswith("extract")] == [
        "extract batch 0",
        "extract batch 1",
        "extract batch 2",
        "extract finish",
    ]
    assert {task["state_type"] for task in tasks} == {"COMPLETED"}
    shown = {artifact["key"]: artifact for artifact in post(prefect_server, "/artifacts/filter")}
    assert {"index-served-stages", "index-served-summary"} <= shown.keys()
    changes = shown["index-served-changes"]["data"].splitlines()
    assert changes[0] == "# Version 1 of served: 40 added"
    assert {"| passages | 0 | 40 | +40 |", "| p7 | added |  | corpus |"} <= set(changes)
    assert shown["index-served-progress-extract"]["description"] == "passages of stage extract: 40 of 40"
    assert shown["index-served-progress-extract"]["data"] == 100.0
    published = events_of(prefect_server, "polyhop.index.published", "polyhop.index.served")[0]
    assert (published["payload"]["version"], published["payload"]["counts"]) == (1, reports[0]["counts"])
    assert runs[0]["id"] in json.dumps(published["related"])
    assert published["payload"]["run_url"].endswith(f"/runs/flow-run/{runs[0]['id']}")

    again = polyhop("index", corpus, "--index", "served", *settings, env=prefect_server)
    assert json.loads(again.stdout)["changed"] is False, again.stderr
    run = runs_named(prefect_server, "index served unchanged v1")[0]
    made = [a for a in post(prefect_server, "/artifacts/filter") if a["flow_run_id"] == run["id"]]
    assert [(a["key"], a["description"]) for a in made] == [
        ("index-served-summary", "nothing has changed; version 1 stays current")
    ]


@pytest.mark.prefect
def test_a_stage_of_many_batches_is_a_few_task_runs_and_what_is_in_quarantine_is_shown(
    polyhop: Run, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    corpus = tmp_path / "many.jsonl"
    lines = [
        json.dumps({"id": f"p{n}", "title": f"Lake {n}", "text": f"Lake {n} is near Mount {n}."}) for n in range(42)
    ]
    corpus.write_text("\n".join([*lines, "{broken"]) + "\n")
    settings = ("--set", "batch_size=2", "--set", "strategies=bm25,bridge-lexical")
    done = polyhop("index", corpus, "--index", "Many_batches", *settings, env=prefect_server)
    assert done.returncode == 0, done.stderr
    run = runs_named(prefect_server, "index Many_batches v1")[0]
    tasks = post(prefect_server, "/task_runs/filter", {"flow_runs": {"id": {"any_": [run["id"]]}}})
    groups = {task["name"] for task in tasks if task["name"].startswith("extract batch")}
    assert groups == {f"extract batches {n} to {n + 1}" for n in range(0, 20, 2)} | {"extract batch 20"}
    shown = [a for a in post(prefect_server, "/artifacts/filter") if a["flow_run_id"] == run["id"]]
    (quarantine,) = [a for a in shown if a["key"].endswith("-quarantine")]
    assert re.fullmatch(r"index-many-batches-[0-9a-f]{6}-quarantine", quarantine["key"])
    assert [row["line"] for row in json.loads(quarantine["data"])] == [43]
    gaps = events_of(prefect_server, "polyhop.index.gaps", "polyhop.index.Many_batches")[0]
    assert (gaps["payload"]["quarantined"], gaps["payload"]["failed_units"]) == (1, 0)


@pytest.mark.rare
@pytest.mark.prefect
def test_a_graph_is_indexed_by_a_flow_run_that_says_what_its_source_is(
    polyhop: Run, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    graph = tmp_path / "graph.jsonl"
    graph.write_text('{"subject": {"id": 1, "name": "Ada"}, "predicate": "born", "object": 1815}\n')
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"id": 1, "title": "Ada", "text": "Ada wrote notes."}\n')
    hubs = ("--set", "strategies=hub-facets,bm25", "--set", "hubs.min_edges=1")
    arguments = ("--graph-sources", texts, "--index", "graph-served", *hubs, "--json")
    done = polyhop("index", "--graph", graph, *arguments, env=prefect_server)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)["counts"]
    assert (counts["entities"], counts["relations"], counts["passages"]) == (2, 1, 1)
    runs = runs_named(prefect_server, "index graph-served")
    stated = [(run["state_type"], run["parameters"]["kind"], run["parameters"]["graph_sources"]) for run in runs]
    assert stated == [("COMPLETED", "graph", str(texts))]
    (shown,) = [
        json.loads(artifact["data"])
        for artifact in post(prefect_server, "/artifacts/filter")
        if artifact["key"] == "index-graph-served-coverage"
    ]
    assert {"what": "triples", "part": "(all)", "covered": 1, "uncovered": 0, "share": 1.0} in shown


@pytest.mark.prefect
def test_a_flow_run_on_a_bad_corpus_fails_with_the_same_sentence(
    polyhop: Run, prefect_server: dict[str, str], tmp_path: Path
) -> None:
    corpus = tmp_path / "bad.jsonl"
    corpus.write_text("{broken\n" * 3)
    done = polyhop("index", corpus, "--index", "bad", env=prefect_server)
    assert done.returncode == 1
    assert "\npolyhop: 3 of 3 records" in f"\n{done.stderr}"
    assert done.stderr.splitlines()[-1].startswith("  bad.jsonl line 3: not JSON: ")
    assert "Traceback" not in done.stderr
    runs = runs_named(prefect_server, "index bad")
    assert [run["state_type"] for run in runs] == ["FAILED"]


@pytest.mark.prefect
def test_a_missing_file_is_one_sentence_without_a_traceback(polyhop: Run, prefect_server: dict[str, str]) -> None:
    done = polyhop("index", "nothing.jsonl", "--index", "none", env=prefect_server)
    lines = done.stderr.splitlines()
    sentence = "There is no file or folder nothing.jsonl; check the path, and whether its disk is mounted."
    assert (done.returncode, lines[-1]) == (1, f"polyhop: {sentence} No record was deleted.")
    assert "Traceback" not in done.stderr
    assert len(lines) <= 3


@pytest.mark.prefect
def test_a_server_that_does_not_answer_is_one_sentence(new_polyhop: Run, write_corpus: WriteCorpus) -> None:
    dead = "http://127.0.0.1:9/api"
    done = new_polyhop("index", write_corpus(RECORDS), "--index", "none", env={"PREFECT_API_URL": dead})
    assert done.returncode == 1
    sentence = done.stderr.splitlines()[-1]
    assert sentence.startswith(f"polyhop: The Prefect server at {dead} does not answer (")
    assert sentence.endswith("start it with `prefect server start`, or unset PREFECT_API_URL.")
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.prefect
def test_only_errors_that_may_go_away_are_retried() -> None:
    from polyhop.flows.prefect_run import is_retryable
    from polyhop.schemas.errors import SourceError, StoreConflictError

    class State:
        def __init__(self, error: Exception) -> None:
            self._error = error

        def result(self) -> None:
            raise self._error

    assert is_retryable(None, None, State(StoreConflictError("busy")))
    assert not is_retryable(None, None, State(SourceError("bad")))
    assert not is_retryable(None, None, State(ValueError("defect")))


PREFECT_FILE = Path(__file__).resolve().parents[2] / "prefect.yaml"


def test_every_deployment_names_a_flow_that_takes_its_parameters() -> None:
    from prefect.flows import load_flow_from_entrypoint

    names = []
    for deployment in yaml.safe_load(PREFECT_FILE.read_text(encoding="utf-8"))["deployments"]:
        flow = load_flow_from_entrypoint(deployment["entrypoint"])  # type: ignore[var-annotated]
        flow.validate_parameters(deployment["parameters"])
        names.append(f"{flow.name}/{deployment['name']}")
    assert "export/main-export" in names


@pytest.mark.rare
@pytest.mark.prefect
@pytest.mark.neo4j
def test_an_export_flow_run_writes_what_a_direct_one_finds_done(
    polyhop: Run, write_corpus: WriteCorpus, prefect_server: dict[str, str], neo4j_server: Any
) -> None:
    done = polyhop("index", write_corpus(RECORDS[:6]), "--index", "lakes", "--set", "strategies=bm25")
    assert done.returncode == 0, done.stderr
    server = {"NEO4J_URI": neo4j_server.uri, "NEO4J_PASSWORD": neo4j_server.password}
    on_prefect = polyhop("export", "neo4j", "--index", "lakes", "--json", env=server | prefect_server)
    assert on_prefect.returncode == 0, on_prefect.stderr
    report = json.loads(on_prefect.stdout)
    assert report["created"] == sum(report["counts"].values()) > 0
    directly = json.loads(polyhop("export", "neo4j", "--index", "lakes", "--json", env=server).stdout)
    assert (directly["created"], directly["updated"], directly["deleted"]) == (0, 0, 0)
    assert directly["counts"] == report["counts"]
    runs = post(prefect_server, "/task_runs/filter", {"flow_runs": {"name": {"like_": "export lakes v1"}}})
    names = {task["name"].rsplit("-", 1)[0] for task in runs}
    steps = {f"export {kind}" for kind in GRAPH_KINDS if kind not in HUB_KINDS}
    assert steps | {"export schema", "export verification"} <= names
    assert not names & {f"export {kind}" for kind in HUB_KINDS}
    assert neo4j_server.password not in json.dumps(post(prefect_server, "/flow_runs/filter"))


@pytest.mark.prefect
def test_a_prefect_server_says_its_version_and_database(
    prefect_server: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in prefect_server.items():
        monkeypatch.setenv(name, value)
    url = prefect_server["PREFECT_API_URL"]
    assert check_prefect(Settings()) == f"server {version('prefect')} at {url} answers, database SQLite"
    monkeypatch.setattr("polyhop.doctor._OUR_FLOWS", "no flow has this in its entrypoint")
    assert check_deployments(Settings()) == "none of Polyhop's flows; make them with: polyhop deploy --index NAME"


@pytest.mark.rare
@pytest.mark.prefect
def test_the_dashboard_shows_runs_their_tasks_artifacts_with_their_history_and_events(
    polyhop: Run, write_corpus: WriteCorpus, prefect_server: dict[str, str], browser: Any
) -> None:
    for count in (3, 4):
        arguments = ("--index", "seen", "--set", "strategies=bm25")
        variables = prefect_server | {"PREFECT_LOGGING_LEVEL": "INFO"}
        done = polyhop("index", write_corpus(RECORDS[:count]), *arguments, env=variables)
        assert done.returncode == 0, done.stderr
    first, second = (runs_named(prefect_server, f"index seen v{number}")[0] for number in (1, 2))
    tasks = post(prefect_server, "/task_runs/filter", {"flow_runs": {"id": {"any_": [second["id"]]}}})
    events_of(prefect_server, "polyhop.index.published", "polyhop.index.seen")
    address = prefect_server["PREFECT_API_URL"].removesuffix("/api")

    def see(path: str, *words: str) -> None:
        """Opens a page and waits until a person can read all of these words on it."""
        folder = os.environ.get("POLYHOP_SCREENSHOTS")
        picture = Path(folder, f"{path.strip('/').replace('/', '-').partition('?')[0]}.png") if folder else None
        seen = browser.look(f"{address}{path}", evaluate={"text": _reads(words)}, screenshot=picture)
        assert [word for word in words if word not in seen.values["text"]] == [], (path, seen.values["text"])

    see("/runs", first["name"], second["name"])
    see(f"/runs/flow-run/{second['id']}", second["name"], "version 2 published")
    see(f"/runs/flow-run/{second['id']}?tab=TaskRuns", *(task["name"] for task in tasks[:5]))
    see("/artifacts", "index-seen-summary", "index-seen-changes", "Version 2: 1 added")
    see("/artifacts/key/index-seen-changes", "index-seen-changes", first["name"], second["name"])
    (changes,) = (
        artifact
        for artifact in post(prefect_server, "/artifacts/filter")
        if (artifact["key"], artifact["flow_run_id"]) == ("index-seen-changes", second["id"])
    )
    see(f"/artifacts/artifact/{changes['id']}", "Version 2 of seen: 1 added", "All of them:", "The run that wrote this")
    see("/events", "polyhop.index.published")


def _reads(words: tuple[str, ...]) -> str:
    """An expression that gives the page's text as soon as it holds these words, or after some seconds."""
    return f"""new Promise(done => {{
        const end = Date.now() + 20000
        const look = () => {{
            const text = document.body.innerText
            if ({json.dumps(words)}.every(word => text.includes(word)) || Date.now() > end) done(text)
            else setTimeout(look, 100)
        }}
        look()
    }})"""
