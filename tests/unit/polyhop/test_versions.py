"""Versions that differ or cannot be read, sentences for what an index lacks; evaluations in words, `polyhop score`."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from real_index import RealIndex, write_lines
from small_indexes import write_rows

import polyhop
from polyhop.api import SHOWN_CHARACTERS, Answer
from polyhop.api import html_text as text
from polyhop.api import table_html as table
from polyhop.commands.ask import print_answer
from polyhop.commands.evaluate import print_comparison, print_stored, score
from polyhop.commands.operate import doctor
from polyhop.commands.stores import versions
from polyhop.doctor import Check
from polyhop.schemas import errors
from polyhop.schemas.records import EntityEdit, with_edit
from polyhop.versions import diff_versions
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.user_files import change_edits

PAGES = (
    {"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace wrote for Charles Babbage."},
    {"id": "babbage", "title": "Charles Babbage", "text": "Charles Babbage lived in London."},
    {"id": "london", "title": "London", "text": "London lies on the River Thames."},
)

Capture = pytest.CaptureFixture[str]


QUESTION = "Where did Charles Babbage live?"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with an index of two versions: words and names, then also relations."""
    strategies = ("bm25-2step", "bm25-rm3", "bm25-ce", "graph", "tfidf-graph")
    small = RealIndex(tmp_path_factory.mktemp("sentences"), "small", strategies=strategies)
    small.read(PAGES)
    small.run(None, add_strategies=("graph-search",))
    return small.root


@pytest.fixture
def index(root: Path) -> Iterator[polyhop.Index]:
    with polyhop.open_index("small", root=root) as opened:
        yield opened


def test_a_version_names_its_source_or_why_it_cannot_be_read(root: Path, capsys: Capture) -> None:
    versions("small", root=root, json=True)
    rows = json.loads(capsys.readouterr().out)
    assert [row["source"] for row in rows] == [str(root.parent / "corpus.jsonl")] * 2
    manifest = root / "indexes" / "small" / "versions" / "000001" / "manifest.json"
    kept = manifest.read_bytes()
    manifest.write_text(json.dumps({**json.loads(kept), "from_the_future": 1}))  # as another Polyhop writes it
    versions("small", root=root, json=True)
    printed = capsys.readouterr()
    assert [(row["version"], row.get("passages")) for row in json.loads(printed.out)] == [(1, None), (2, 3)]
    assert f"Version 1 cannot be used: {manifest}" in printed.err
    with pytest.raises(errors.ManifestMismatchError, match=str(manifest)):
        versions("small", use="1", root=root)
    assert (root / "indexes" / "small" / "CURRENT").read_text() == "2\n"
    manifest.write_bytes(kept)


def test_what_an_index_does_not_hold_is_said_in_a_few_words(index: polyhop.Index, root: Path) -> None:
    with pytest.raises(errors.ConfigurationError, match="limit is 0; ask for at least 1"):
        index.ask("Where did Charles Babbage live?", strategy="graph", limit=0)
    with pytest.raises(errors.UnknownIdError, match=r"no entity '東京'; no name is similar\.$"):
        index.graph.connect("東京", "London")
    with (
        polyhop.open_index("small", root=root, version=1) as opened,
        pytest.raises(errors.MissingArtefactError, match=r"^The graph of entities needs 'graph:relations'"),
    ):
        opened.graph.connect("London", "Ada Lovelace")


@pytest.mark.parametrize(
    ("strategy", "question", "line"),
    [
        ("bm25-2step", QUESTION, "Entities suggested by the top 2 passages  "),
        ("bm25-rm3", QUESTION, "Terms suggested by the top 2 passages  "),
        ("bm25-ce", QUESTION, "Re-ranked  the top 2 passages, by shared words (no cross-encoder is set)"),
        ("tfidf-graph", QUESTION, "Question terms  unmatched: babbage, "),
        ("graph", "what is this?", "Question names  none found\nFallback  the walk"),
        ("graph-search", "what is this?", "Fallback  nothing was searched"),
    ],
)
def test_the_explanation_says_what_led_the_ranking(
    index: polyhop.Index, capsys: Capture, strategy: str, question: str, line: str
) -> None:
    print_answer(index.ask(question, strategy=strategy), {}, explain=True)
    assert line in capsys.readouterr().out


def test_doctor_keeps_long_names_apart(root: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = [Check("disk", True, "free"), Check("index of a long name", True, "intact")]
    monkeypatch.setattr("polyhop.doctor.run_checks", lambda settings: checks)
    doctor(root=root)
    lines = ["ok    disk                  free", "ok    index of a long name  intact"]
    assert capsys.readouterr().out.splitlines()[:2] == lines


def test_what_differs_is_said_as_json_and_in_words(tmp_path: Path, capsys: Capture) -> None:
    edited = RealIndex(tmp_path, "small")
    texts = {"ada": "Ada Lovelace wrote for Charles Babbage.", "oslo": "Oslo lies in Norway."}
    for edition in (texts, {**texts, "oslo": "Oslo lies in Sweden.", "fjord": "Oslo lies on a fjord."}):
        edited.read({"id": name, "title": name.title(), "text": text} for name, text in edition.items())
    questions = {"0": "In which country does Oslo lie?", "1": "Who wrote for Charles Babbage?"}
    rows = [{"id": name, "question": text} for name, text in questions.items()]
    asked = write_lines(edited.folder / "questions.jsonl", rows)
    versions("small", diff=(1, 2), questions=asked, strategy="bm25", root=edited.root, json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["records"]["counts"] == {"added": 1, "changed": 1, "deleted": 0, "renamed": 0}
    assert [one["name"] for one in document["entities"]["first"] if one["kind"] == "removed"] == ["Norway"]
    (changed,) = document["questions"].pop("changed")
    counts = {"other_answers": 1, "other_guesses": 1, "other_sentences": 1, "other_passages": 1}
    assert document["questions"] == {"asked": 2, **counts}
    assert (changed["question"], changed["answer"]) == (
        "In which country does Oslo lie?",
        {"before": "Norway", "after": "Sweden"},
    )
    assert changed["passages_added"] == ["fjord"]
    versions("small", diff=(1, 2), questions=asked, strategy="bm25", root=edited.root)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Index 'small', version 2 compared with version 1", "records: 1 added, 1 changed"]
    assert lines[2:4] == ["  added    fjord [corpus]", "  changed  oslo [corpus]"]
    assert lines[-6:] == [
        "questions: 2 asked; other answers: 1, guesses: 1, sentences: 1, passages: 1",
        "  In which country does Oslo lie?",
        "    Norway -> Sweden",
        "    + [oslo] Oslo lies in Sweden.",
        "    - [oslo] Oslo lies in Norway.",
        "    + fjord",
    ]
    versions("small", diff=(2, 2), root=edited.root)
    said = [f"{what}: none changed" for what in ("records", "entities", "relations")]
    assert capsys.readouterr().out.splitlines()[1:] == said
    with pytest.raises(errors.UnknownIdError, match="no version 9"):
        versions("small", diff=(1, 9), root=edited.root)
    with pytest.raises(typer.BadParameter, match="--questions needs --diff A B"):
        versions("small", questions=asked, root=edited.root)
    bad = write_lines(edited.folder / "bad.jsonl", [{"id": 1}])
    with pytest.raises(errors.SourceError, match="no usable question"):
        versions("small", diff=(1, 2), questions=bad, root=edited.root)


SPELLED = {
    "danube": "The Danube flows through Ulm. Ulm lies in Germany.",
    "donau": "The Donau flows through Vienna.",
}


@pytest.fixture
def edited(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Indexes, edits entities, indexes again, and compares both versions."""

    def compared(*edits: EntityEdit) -> dict[str, Any]:
        index = RealIndex(tmp_path, "small")
        records = [{"id": name, "title": "", "text": text} for name, text in SPELLED.items()]
        index.read(records)
        for each in edits:
            change_edits(Layout(index.root).index("small"), partial(with_edit, added=each))
        index.read(records)
        return diff_versions(index.settings, "small", (1, 2), None, None)

    return compared


@pytest.mark.parametrize(
    ("edit", "row"),
    [
        (
            EntityEdit("retype", "vienna", "PERSON"),
            {"kind": "retyped", "name": "Vienna", "other": "no type -> PERSON"},
        ),
        (EntityEdit("rename", "vienna", "Wien"), {"kind": "renamed", "name": "Wien", "other": "Vienna"}),
        (EntityEdit("merge", "danube", "donau"), {"kind": "merged", "name": "Donau", "other": "Danube"}),
        (EntityEdit("delete", "vienna"), {"kind": "removed", "name": "Vienna", "other": None}),
    ],
    ids=["retype", "rename", "merge", "delete"],
)
def test_an_edit_of_an_entity_is_the_only_change_of_entities(
    edited: Callable[..., dict[str, Any]], edit: EntityEdit, row: dict[str, Any]
) -> None:
    assert edited(edit)["entities"]["first"] == [row]


def test_a_merge_adds_and_removes_no_relation(edited: Callable[..., dict[str, Any]]) -> None:
    found = edited(EntityEdit("merge", "danube", "donau"))
    assert (found["entities"]["counts"]["merged"], found["relations"]["first"]) == (1, [])


CHANGES: dict[str, Any] = {"first": 1, "second": 2, "changed": {}, "only_first": ["bm25"], "only_second": ["dense"]}
CHANGES |= {"questions": {"common": 3, "only_first": 0, "only_second": 0}}
CHANGES |= {"latency_ms": {}, "strategies": {}, "most_changed": []}


def test_evaluations_without_a_common_strategy_are_not_said_to_be_unchanged(capsys: Capture) -> None:
    print_comparison(CHANGES)
    printed = capsys.readouterr().out
    assert printed.endswith("  only in 1: bm25\n  only in 2: dense\n  no strategy is in both\n")
    assert "in both: " not in printed
    print_comparison({**CHANGES, "questions": {"common": 0, "only_first": 100, "only_second": 2}})
    assert "  in both: 0 questions; 100 only in 1, 2 only in 2;" in capsys.readouterr().out


def test_a_stored_evaluation_that_cannot_be_read_hides_no_other(capsys: Capture) -> None:
    readable = {"run": 2, "started": "2026-11-21T10:00:00+00:00", "index": "mine", "version": 1, "questions": "q.jsonl"}
    found = {"n": 3, "strategies": {"bm25": {"recall@5": 0.5, "em": None}}}
    print_stored([{"run": 1, "error": "run.json cannot be read: it is cut off"}, {**readable, **found}])
    printed = capsys.readouterr()
    assert "mine" in printed.out
    assert "evaluation 1 is left out: run.json cannot be read: it is cut off" in printed.err


EVIL = '<script>alert(1)</script> & "x" \x1b[2J'


def answer(question: str, short: str, passages: list[dict[str, Any]]) -> str:
    return Answer(question, short, "bm25", 1, passages, {}, {})._repr_html_()


def test_every_text_is_escaped_and_cells_are_rounded() -> None:
    shown = table([EVIL], [[EVIL]]) + answer(EVIL, EVIL, [{"title": EVIL, "text": EVIL}])
    assert ("<script>" in shown, "\x1b" in shown, shown.count("&lt;script&gt;")) == (False, False, 6)
    assert text(EVIL) in shown
    head, row = "<th>a</th><th>b</th><th>c</th>", "<td>0.123</td><td></td><td>7</td>"
    whole = f"<table><thead><tr>{head}</tr></thead><tbody><tr>{row}</tr></tbody></table>"
    assert table(["a", "b", "c"], [[0.12345, None, 7]]) == whole
    assert table([], []).endswith("<tbody></tbody></table>")


def test_no_answer_says_what_to_do_and_long_passages_are_cut() -> None:
    shown = answer("Who?", "", [{"rank": 1, "score": 0.5, "text": "x" * (SHOWN_CHARACTERS + 50)}])
    assert "no answer; see the passages" in shown
    assert shown.count("x") == SHOWN_CHARACTERS + "text".count("x")


def _file(folder: Path, *rows: object) -> Path:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    return write_rows(folder / "predictions.jsonl", (), *lines)


def _scored(capsys: Capture, path: Path, **options: Any) -> dict[str, Any]:
    score(path, json=True, **options)
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_rows_are_scored_one_by_one_and_together(tmp_path: Path, capsys: Capture) -> None:
    """G-EVAL's table is proved where the metrics are."""
    predicted = {"g0": "Paris, France", "g1": "paris"}
    rows = [{"id": name, "prediction": said, "answers": ["Paris"]} for name, said in predicted.items()]
    found = _scored(capsys, _file(tmp_path, *rows), out=tmp_path / "rows.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines == [rows[0] | {"em": 0.0, "f1": pytest.approx(2 / 3)}, rows[1] | {"em": 1.0, "f1": 1.0}]
    assert found == {"n": 2, "em": 0.5, "f1": 0.833333}


def test_an_answer_may_be_one_string_a_number_or_nothing(tmp_path: Path, capsys: Capture) -> None:
    rows: list[Any] = [{"prediction": "Paris", "answer": "Paris"}, {"prediction": None, "answers": ["Paris"]}]
    rows += [{"prediction": 1952, "answers": 1952}, {"prediction": "whatever", "answers": []}]
    path = _file(tmp_path, *rows)
    assert _scored(capsys, path) == {"n": 4, "em": 0.666667, "f1": 0.666667}
    path = _file(tmp_path, {"prediction": "yes it is", "answers": ["yes"]}, {"prediction": "no", "answers": ["no"]})
    assert [_scored(capsys, path, hotpot_yes_no=is_hotpot)["f1"] for is_hotpot in (False, True)] == [0.75, 0.5]


def test_csv_and_parquet_hold_the_same_predictions(tmp_path: Path, capsys: Capture) -> None:
    table = tmp_path / "predictions.csv"
    table.write_text('id,prediction,answers\na,Paris,"Paris|Paris, France"\nb,,Rome\nc,Bonn,Bonn am Rhein\n')
    parquet = tmp_path / "predictions.parquet"
    columns = {"prediction": ["Paris", None, "Bonn"], "answers": [["Paris"], ["Rome"], ["Bonn am Rhein"]]}
    pq.write_table(pa.table(columns), parquet)
    expected = {"n": 3, "em": 0.333333, "f1": 0.5}
    assert _scored(capsys, table) == _scored(capsys, parquet) == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{broken", "not JSON"),
        ({"answers": ["x"]}, "missing prediction"),
        ({"prediction": "x"}, "missing gold answers"),
        ({"prediction": "x", "answers": [{"text": "x"}]}, "the answers is neither a string nor a number but an object"),
        ({"id": "1", "prediction": "x", "answers": ["x"]}, "the id '1' was already used in line 1"),
    ],
    ids=["broken", "no prediction", "no answers", "object", "used"],
)
def test_a_bad_line_is_named_and_left_out_on_demand(tmp_path: Path, capsys: Capture, line: object, reason: str) -> None:
    path = _file(tmp_path, {"id": "1", "prediction": "x", "answers": ["x"]}, line)
    with pytest.raises(errors.SourceError, match=f"the first is line 2: {reason}"):
        score(path)
    score(path, skip_bad=True)
    said = capsys.readouterr()
    assert said.out == "1 prediction, 1 judged: exact match 1.000, F1 1.000\n"
    assert said.err.startswith(f"predictions.jsonl line 2 was left out: {reason}")


def test_nothing_to_score_is_an_error_and_no_gold_is_not(tmp_path: Path, capsys: Capture) -> None:
    with pytest.raises(errors.SourceError, match="no usable prediction"):
        score(_file(tmp_path, "{broken"), skip_bad=True)
    score(_file(tmp_path, {"prediction": "x", "answers": []}))
    assert capsys.readouterr().out == "1 prediction, none with a gold answer to judge it by\n"
    assert _scored(capsys, tmp_path / "predictions.jsonl") == {"n": 1, "em": None, "f1": None}
