"""Documents by a call: what is acknowledged is indexed, whoever is killed and whoever calls at the same time."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from small_indexes import indexed, wait_for, write_rows

import polyhop
from polyhop.flows.index import known_request
from polyhop.inbox import InboxRuns, add_records, run_inbox
from polyhop.schemas.errors import SourceError, UnknownIndexError
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.inbox import taken_files, waiting_files

SUPPORT = Path(__file__).parents[1] / "support"
RHINE = {"id": "r", "title": "Rhine", "text": "The Rhine flows through Basel.", "metadata": {"year": 1980}}
ELBE = {"id": "e", "title": "Elbe", "text": "The Elbe flows through Dresden."}
ODER = {"title": "Oder", "text": "The Oder flows through Breslau."}
TRIPLE = {"subject": {"id": "a"}, "predicate": "knows", "object": {"id": "b"}}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path / "root", strategies=("bm25", "bridge-lexical"))


def folder_of(settings: Settings) -> IndexFolder:
    return Layout(settings.root).index("rivers")


def texts(settings: Settings) -> dict[str, str]:
    """Text by id of all records of the current version."""
    with polyhop.open_index("rivers", settings=settings) as index:
        return {row["passage_id"]: row["text"] for row in index.sql("FROM passages").to_pylist()}


def in_process(settings: Settings, program: str) -> list[Any]:
    """What a program prints, a JSON value a line; it begins with `settings`, and `fork(work)`, the exit code of `work`.

    Its children are forked from a process that has imported everything, and done nothing yet.
    """
    begin = f"""
import json, os, signal, sys
import lancedb, polyhop.flows.index
sys.path.insert(0, {str(SUPPORT)!r})
from kill_points import die_at
from polyhop.inbox import add_records, run_inbox
from polyhop.schemas.settings import Settings
settings = Settings.model_validate_json({settings.model_dump_json(exclude_unset=True)!r})
def begun(work):
    if pid := os.fork():
        return pid
    work()
    os._exit(0)
def fork(work):
    return os.waitpid(begun(work), 0)[1]
"""
    command = [sys.executable, "-c", begin + program]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    return [json.loads(line) for line in done.stdout.splitlines()]


def add(settings: Settings, *records: Any, **more: Any) -> Any:
    """The run that took these records into the index."""
    return polyhop.add(records, index="rivers", settings=settings, **more)


def test_an_index_is_made_of_what_is_added_and_a_known_id_is_replaced(tmp_path: Path, settings: Settings) -> None:
    note = tmp_path / "note.md"
    note.write_text("# The Main\n\nThe Main flows through Frankfurt.", encoding="utf-8")
    first = add(settings, RHINE, note)
    assert (first.version, first.report.changes["added"]) == (1, 2)
    second = add(settings, RHINE | {"text": "The Rhine ends at Rotterdam."}, ELBE)
    assert (second.version, second.report.changes["added"], second.report.changes["changed"]) == (2, 1, 1)
    assert texts(settings)["r"] == "The Rhine ends at Rotterdam."
    with polyhop.open_index("rivers", settings=settings) as index:
        (main,) = index.ask("Which river flows through Frankfurt?", strategy="bm25", limit=1).passages
        assert (main["id"], main["location"]["headings"]) == ("note.md", ("The Main",))
        rows = index.sql("SELECT record_id FROM records WHERE metadata_json LIKE '%1980%'").to_pylist()
        assert rows == [{"record_id": "r"}]
    assert waiting_files(folder_of(settings)) == []


def test_other_sources_are_kept_unread_and_tables_are_those_of_one_corpus(tmp_path: Path, settings: Settings) -> None:
    corpus = write_rows(tmp_path / "corpus.jsonl", [ELBE])
    indexed(settings, corpus, "rivers")
    kept = corpus.rename(tmp_path / "elsewhere.jsonl")
    add_records(settings, "rivers", [RHINE | {"text": "Nothing yet."}])
    add_records(settings, "rivers", [RHINE])
    run = add(settings, ODER)
    assert (run.version, run.report.changes["added"], run.report.computed["extract"]) == (2, 2, 2)
    whole = settings.model_copy(update={"root": tmp_path / "whole"})
    rows: list[Mapping[str, object]] = [ELBE, RHINE, ODER]
    indexed(whole, write_rows(tmp_path / "whole.jsonl", rows), "rivers")
    tables = []
    for chosen in (settings, whole):
        with polyhop.open_index("rivers", settings=chosen) as index:
            names = ("passages", "entities", "mentions", "relations")
            tables.append([index.sql(f"FROM {name} ORDER BY ALL").to_pylist() for name in names])
    assert tables[0] == tables[1]
    kept.rename(corpus)
    assert getattr(known_request(settings, "rivers"), "source", None) == corpus  # `polyhop index` without a source


BAD: list[tuple[list[object], str]] = [
    ([RHINE, {"id": "x"}], r"Record 2 \(x\) cannot be added, so no record of this call was added: missing text"),
    ([RHINE, 7], "Record 2 cannot be added.* not an object or a path but a number"),
    ([RHINE, RHINE | {"text": "Other."}], r"Record 2 \(r\) .*Record 1 \(r\) has the same id 'r' and another text"),
    ([RHINE, ELBE], r"Record 2 \(e\) .* source 'corpus' has a record with its id 'e'"),
    ([{"id": "r", "deleted": True}], r"Record 1 \(r\) .* --partial --source-name inbox --index rivers"),
    ([RHINE, "bad.jsonl"], "bad.jsonl line 2 cannot be added"),
    ([RHINE, "none.jsonl"], "There is no file or folder none.jsonl"),
    ([RHINE, "."], "it is a folder"),
    ([], "There is no record to add"),
]


def test_a_bad_record_keeps_the_call_out(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "bad.jsonl", [{"text": "Good."}, {"text": 3}])
    indexed(settings, write_rows(tmp_path / "corpus.jsonl", [ELBE]), "rivers")
    for records, sentence in BAD:
        with pytest.raises(SourceError, match=sentence):
            add(settings, *records)
    assert waiting_files(folder_of(settings)) == []
    assert texts(settings) == {"e": ELBE["text"]}


def test_an_index_that_takes_no_records_says_so(tmp_path: Path, settings: Settings) -> None:
    indexed(settings, write_rows(tmp_path / "graph.jsonl", [TRIPLE]), "graph", kind="graph")
    with pytest.raises(SourceError, match="Index 'graph' was made from a knowledge graph"):
        polyhop.add([RHINE], index="graph", settings=settings)
    indexed(settings, write_rows(tmp_path / "inbox.jsonl", [ELBE]), "rivers")
    with pytest.raises(SourceError, match=r"Index 'rivers' reads its source 'inbox' from .*inbox.jsonl; add .*there"):
        add(settings, RHINE)
    with pytest.raises(UnknownIndexError):
        run_inbox(settings, "none")
    assert not (settings.root / "indexes" / "none").exists()


@pytest.mark.rare
def test_a_call_that_is_killed_keeps_all_or_nothing_and_stops_no_later_one(settings: Settings) -> None:
    """The call dies before each change that it makes to a file, in turn, until one lives."""
    tried = in_process(
        settings,
        """
for number in range(1, 100):
    def add():
        die_at(str(settings.root), number, "/dev/null")
        add_records(settings, "rivers", [{"id": f"{number}-{k}", "text": f"Call {number}, {k}."} for k in (1, 2)])
    code = fork(add)
    print(json.dumps([number, code == 0]))
    if code == 0:
        break
""",
    )
    assert len(tried) > 5
    assert [lived for _, lived in tried] == [False] * (len(tried) - 1) + [True]
    report = run_inbox(settings, "rivers")
    found = {number: [id_ for id_ in texts(settings) if id_.startswith(f"{number}-")] for number, _ in tried}
    assert {len(ids) for ids in found.values()} <= {0, 2}
    assert len(found[len(tried)]) == 2
    assert report.counts["passages"] == sum(map(len, found.values()))
    assert [path.name for path in folder_of(settings).inbox.iterdir() if path.suffix == ".tmp"] == []


BEFORE_READING = "event == 'shutil.rmtree'"  # of the parts of an earlier run
BEFORE_REMOVAL = "event == 'os.remove' and 'inbox' in str(arguments[0])"


@pytest.mark.rare
@pytest.mark.parametrize(("moment", "versions"), [(BEFORE_READING, 0), (BEFORE_REMOVAL, 1)])
def test_a_run_that_is_killed_leaves_its_records_to_the_next(settings: Settings, moment: str, versions: int) -> None:
    (code,) = in_process(
        settings,
        f"""
def add():
    add_records(settings, "rivers", [{RHINE!r}])
    sys.addaudithook(lambda event, arguments: os.kill(os.getpid(), signal.SIGKILL) if {moment} else None)
    run_inbox(settings, "rivers")
print(fork(add))
""",
    )
    assert code == 9
    assert len(waiting_files(folder_of(settings))) == 1
    assert len(list(folder_of(settings).versions.glob("*"))) == versions
    assert add(settings, ELBE).version == versions + 1
    assert texts(settings) == {"r": RHINE["text"], "e": ELBE["text"]}
    assert waiting_files(folder_of(settings)) == []


@pytest.mark.rare
def test_two_processes_that_add_while_runs_go_on_lose_nothing(settings: Settings) -> None:
    codes = in_process(
        settings,
        """
def adds(name):
    for number in range(10):
        own = {"id": f"{name}{number}", "text": f"Text {name} {number}."}
        add_records(settings, "rivers", [own, {"id": "same", "text": name}])
        if number in (2, 6):
            run_inbox(settings, "rivers")
for pid in [begun(lambda: adds("a")), begun(lambda: adds("b"))]:
    print(os.waitpid(pid, 0)[1])
""",
    )
    assert codes == [0, 0]
    run_inbox(settings, "rivers")
    found = texts(settings)
    assert found.keys() == {"same", *(f"{name}{number}" for name in "ab" for number in range(10))}
    assert found["same"] in {"a", "b"}


@pytest.mark.rare
def test_calls_during_a_run_become_one_run_known_by_its_id(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = InboxRuns(settings)
    add_records(settings, "rivers", [RHINE])
    with taken_files(folder_of(settings)) as files:  # as a run of another process does
        files.clear()  # and fails
        first = runs.start("rivers")
        add_records(settings, "rivers", [ELBE])
        wait_for(lambda: runs.start("rivers") is not first)
        second = runs.start("rivers")
        assert runs.start("rivers") is second
        assert (first.state, second.state, second.wait(0)) == ("running", "running", False)
    assert (first.wait(90), second.wait(90)) == (True, True)
    said = {"state": "done", "index": "rivers", "version": 1, "error": None}
    for run in (first, second):
        assert run.to_json() == {"run": run.run, **said, "stages": run.stages}
    assert texts(settings).keys() == {"r", "e"}
    assert runs.get(first.run) is first
    monkeypatch.setattr("polyhop.inbox.KEPT_RUNS", 2)
    failed = runs.start("none")
    runs.close()
    assert (failed.state, failed.version, str(failed.error)[:20]) == ("failed", None, "Unknown index 'none'")
    assert [runs.get(run.run) for run in (first, second, failed)] == [None, second, failed]


def test_a_run_of_prefect_that_fails_loses_nothing(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    run = add(settings, RHINE, wait=False)
    assert (run.wait(120), run.state, "127.0.0.1:9" in str(run.error)) == (True, "failed", True)
    monkeypatch.delenv("PREFECT_API_URL")
    assert add(settings, ELBE).report.changes["added"] == 2
