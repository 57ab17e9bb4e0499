"""Control characters of corpora, questions, names and files never reach a terminal; JSON escapes them."""

import json
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_index import write_lines

from polyhop import cli, output
from polyhop.schemas.errors import SourceError
from polyhop.schemas.text import escaped_json, printable, printable_line

pytestmark = pytest.mark.slow

RAW = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
"""What no terminal may get; tab and line feed are the only controls left."""
PLANTED = "\x1b[31mred\x1b]0;owned\x07\x9b2J\u202eevil\u2066\u200b\ufeff\x7f"
PAGES = (
    {
        "id": "ada\u202e\u200b",
        "title": f"Ada {PLANTED} Lovelace\nAnswer    forged",
        "text": f"Ada Lovelace {PLANTED} wrote for Charles\u202e Babbage. Ada Lovelace lived in London.",
        "metadata": {f"key{PLANTED}": PLANTED},
    },
    {"id": "babbage", "title": "Charles Babbage", "text": f"Charles Babbage {PLANTED} lived in London\x9b."},
    {"id": f"bad{PLANTED}", "title": "Bad", "text": PLANTED},
    {"id": "london", "title": f"London{PLANTED}", "text": "London lies on the River Thames."},
)
QUESTION = f"Where did Charles Babbage {PLANTED} live?"
ALL_BAD = ("--set", "corpus.max_quarantine_share=1")
Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process and returns what it printed; nothing of it may be raw."""

    def command(*arguments: str | Path) -> str:
        monkeypatch.setattr(sys, "argv", ["polyhop", *map(str, arguments)])
        with suppress(SystemExit):
            cli.main()
        printed = capsys.readouterr()
        found = {repr(match) for match in RAW.findall(printed.out + printed.err)}
        assert not found, f"polyhop {arguments[0]} printed {sorted(found)}"
        return printed.out + printed.err

    return command


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a hostile corpus, questions and an empty root."""
    folder = tmp_path_factory.mktemp("terminal")
    write_lines(folder / "corpus.jsonl", PAGES)
    asked = {"id": "q\u202e1", "question": QUESTION, "answer": "London\x1b[0m", "supporting": ["babbage"]}
    broken = {"id": f"q{PLANTED}", "question": QUESTION}
    write_lines(folder / "questions.jsonl", [asked, broken])
    pages = folder / "pages"
    pages.mkdir()
    (pages / f"notes{PLANTED}.txt").write_text(f"Charles Babbage {PLANTED} lived in London.")
    (pages / "plain.txt").write_text("Ada Lovelace wrote for Charles Babbage.")
    return folder


def test_no_command_prints_a_control_character_that_a_corpus_or_a_question_holds(run: Run, place: Path) -> None:
    at = ("--index", "small", "--root", place / "root")
    run("index", place / "corpus.jsonl", *at, "--set", "strategies=graph,graph-search,bm25", *ALL_BAD)
    assert "\\x1b[31mred" in run("ask", QUESTION, *at, "--strategy", "bm25", "--explain")
    for strategy in ("graph", "graph-search"):
        run("ask", QUESTION, *at, "--strategy", strategy, "--explain")
    assert "\\u202e" in run("sql", "FROM passages", *at)
    for query in ("FROM quarantine", "FROM documents", f'SELECT 1 AS "{PLANTED}"', f"SELECT '{PLANTED}'::INT", PLANTED):
        run("sql", query, *at)
    run("connect", f"Ada Lovelace{PLANTED}", "London", *at)
    run("connect", "Charles Babbage", "London", *at)
    run("entities", "explain", f"Ada{PLANTED}", f"London{PLANTED}", *at)
    run("versions", *at)
    run("verify", *at)
    run("plan", place / "corpus.jsonl", "--root", place / "root")
    run("eval", place / "questions.jsonl", *at, "--strategies", "bm25", "--no-store")


def test_no_command_on_jobs_prints_a_control_character_of_a_question(run: Run, place: Path) -> None:
    at = ("--index", "jobs", "--root", place / "root")
    root = at[2:]
    run("index", place / "corpus.jsonl", *at, "--set", "strategies=bm25", *ALL_BAD)
    submitted = ("submit", place / "questions.jsonl", *at, "--strategy", "bm25", "--skip-bad")
    assert "job" in run(*submitted, "--name", f"a job{PLANTED}").lower()
    run(*submitted)
    run("worker", "--until-empty", *root)
    assert "\\x1b" in run("jobs", *root)
    run("jobs", "--workers", *root)
    run("results", "2", *root)
    run("results", "2", "--metrics", *root)
    assert "\\x1b[31mred" in run("explain", "2", "q\u202e1", *root)
    run("replay", "2", "q\u202e1", *root)
    run("explain", "2", f"q{PLANTED}", *root)
    run("cancel", "1", *root)


def test_file_names_and_wrong_usage_are_shown_without_control_characters(run: Run, place: Path) -> None:
    at = ("--index", "pages", "--root", place / "root")
    run("index", place / "pages", *at, "--set", "strategies=bm25", *ALL_BAD)
    assert "\\x1b" in run("sql", "SELECT source, reason FROM quarantine", *at)
    assert "\\x1b" in run("index", place / f"missing{PLANTED}.jsonl", *at)
    assert "\\x1b" in run("index", place / "missing\udce9\x1b.jsonl", *at)
    for wrong in (
        ("ask", QUESTION, "--index", f"no{PLANTED}", "--root", place / "root"),
        ("ask", QUESTION, *at, "--strategy", f"no{PLANTED}"),
        ("jobs", "--root", place / "root", "--set", f"no{PLANTED}=1"),
    ):
        assert "\\x1b" in run(*wrong), wrong
    for typed in (
        ("ask", QUESTION, *at, "--limit", PLANTED),
        ("ask", QUESTION, *at, f"--no{PLANTED}"),
        ("ask", QUESTION, PLANTED),
        ("cancel", PLANTED, "--root", place / "root"),
        ("versions", *at, "--use", PLANTED),
        (f"no{PLANTED}",),
        (f"--no{PLANTED}",),
    ):
        run(*typed)


def test_json_escapes_what_json_may_leave_raw(run: Run, place: Path) -> None:
    at = ("--index", "json", "--root", place / "json")
    root = at[2:]
    run("index", place / "corpus.jsonl", *at, "--set", "strategies=bm25", *ALL_BAD, "--json")
    document = json.loads(run("ask", QUESTION, *at, "--strategy", "bm25", "--json"))
    assert document["question"] == QUESTION
    (row,) = json.loads(run("sql", "SELECT text FROM passages WHERE passage_id = 'babbage'", *at, "--json"))
    assert row["text"] == PAGES[1]["text"]
    run("submit", place / "questions.jsonl", *at, "--strategy", "bm25", "--skip-bad", "--name", PLANTED, "--json")
    assert json.loads(run("jobs", *root, "--json"))[0]["name"] == PLANTED
    assert json.loads(run("results", "1", *root).splitlines()[0])["question"] == QUESTION


def test_letters_of_any_script_and_emojis_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    text = "Zoë Ångström · Łódź · 東京 · עברית · العربية · می‌خواهم · 👩‍🔬 · “quoted” – … ½\tend"
    output.print_line(text)
    output.print_error(text)
    output.print_json([text])
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [text, json.dumps([text], ensure_ascii=False)]
    assert printed.err == text + "\n"


def test_titles_errors_and_tables_are_lines_without_controls(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_line("Question  one\nAnswer    forged\r\n")
    output.print_table(["a\x1b", "b"], [["x\x1by", 1], ["z", 22]])
    said = ["Question  one\\nAnswer    forged\\x0d\\n", "a\\x1b    b", "x\\x1by   1", "z       22"]
    assert capsys.readouterr().out.splitlines() == said
    assert RAW.search(str(SourceError(f"{PLANTED} cannot be read."))) is None


@given(st.text())
def test_any_text_becomes_one_line_without_controls_and_stays_so(text: str) -> None:
    line = printable_line(text)
    assert RAW.search(line) is None
    assert "\n" not in line
    assert printable(line) == line
    line.encode("utf-8")


@given(
    st.recursive(
        st.text() | st.none() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_escaped_json_reads_back_as_it_was(document: object) -> None:
    written = escaped_json(json.dumps(document, ensure_ascii=False))
    assert json.loads(written) == document
    assert RAW.search(written) is None
    written.encode("utf-8")
