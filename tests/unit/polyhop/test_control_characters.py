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
)

QUESTION = f"Where did Charles Babbage {PLANTED} live?"
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


def test_no_command_prints_a_control_character_that_a_corpus_or_a_question_holds(run: Run, tmp_path: Path) -> None:
    asked = {"id": "q\u202e1", "question": QUESTION, "answer": "London\x1b[0m", "supporting": ["babbage"]}
    questions = write_lines(tmp_path / "questions.jsonl", [asked, {"id": f"q{PLANTED}", "question": QUESTION}])
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / f"notes{PLANTED}.txt").write_text(f"Charles Babbage {PLANTED} lived in London.")
    (pages / "plain.txt").write_text("Ada Lovelace wrote for Charles Babbage.")
    corpus = write_lines(tmp_path / "corpus.jsonl", PAGES)
    root = ("--root", tmp_path / "root")
    at = ("--index", "small", *root)
    built = ("--set", "strategies=graph,bm25", "--set", "corpus.max_quarantine_share=1")
    run("index", corpus, *at, *built)
    run("index", pages, "--index", "pages", *root, *built)
    asks = ("ask", QUESTION, *at, "--strategy")
    submitted = ("submit", questions, *at, "--strategy", "bm25", "--skip-bad", "--name", f"a job{PLANTED}")
    silent = []
    for shown in (
        (*asks, "bm25", "--explain"),
        (*asks, "graph", "--explain"),
        ("sql", "FROM passages", *at),
        ("sql", "FROM quarantine", *at),
        ("sql", "SELECT source FROM quarantine", "--index", "pages", *root),
        ("sql", f'SELECT 1 AS "{PLANTED}"', *at),
        ("sql", f"SELECT '{PLANTED}'::INT", *at),
        submitted,
        ("worker", "--until-empty", *root),
        ("jobs", *root),
        ("explain", "1", "q\u202e1", *root),
        ("replay", "1", "q\u202e1", *root),
        ("explain", "1", f"q{PLANTED}", *root),
        ("eval", questions, *at, "--strategies", "bm25", "--no-store"),
        ("entities", "explain", f"Ada{PLANTED}", f"London{PLANTED}", *at),
        ("index", tmp_path / f"missing{PLANTED}.jsonl", *at),
        ("index", tmp_path / "missing\udce9\x1b.jsonl", *at),
        (*asks, f"no{PLANTED}"),
        ("ask", QUESTION, *at, f"--no{PLANTED}"),
        ("cancel", PLANTED, *root),
        (f"no{PLANTED}",),
    ):
        printed = run(*shown)
        if "\\x1b" not in printed and "\\u202e" not in printed:
            silent.append(shown[0])
    assert silent == ["submit", "worker", "eval"], "all others print what was planted, escaped"
    assert json.loads(run(*asks, "bm25", "--json"))["question"] == QUESTION  # JSON escapes it
    (row,) = json.loads(run("sql", "SELECT text FROM passages WHERE passage_id = 'babbage'", *at, "--json"))
    assert row["text"] == PAGES[1]["text"]
    assert json.loads(run("jobs", *root, "--json"))[0]["name"] == f"a job{PLANTED}"
    assert json.loads(run("results", "1", *root).splitlines()[0])["question"] == QUESTION


def test_letters_of_any_script_stay_and_titles_errors_and_tables_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    text = "Zoë Ångström · Łódź · 東京 · עברית · العربية · می‌خواهم · 👩‍🔬 · “quoted” – … ½\tend"
    output.print_error(text)
    output.print_json([text])
    output.print_line(f"{text}\nAnswer    forged\r\n")
    output.print_table(["a\x1b", "b"], [["x\x1by", 1], ["z", 22]])
    output.print_block("Reasoning", "[1] About Tactics.\n\n[2] About\x1b Views.")
    printed = capsys.readouterr()
    assert printed.err == text + "\n"
    block = ["Reasoning [1] About Tactics.", "          [2] About\\x1b Views."]
    lines = [f"{text}\\nAnswer    forged\\x0d\\n", "a\\x1b    b", "x\\x1by   1", "z       22", *block]
    assert printed.out.splitlines() == [json.dumps([text], ensure_ascii=False), *lines]
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
