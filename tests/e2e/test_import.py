"""An index from an imported extraction, as a person makes one."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., subprocess.CompletedProcess[str]]

RECORDS: list[dict[str, object]] = [
    {"id": "p1", "title": "Ann Roe", "text": "Ann Roe was born in Rome in 1950."},
    {"id": "p2", "title": "Rome", "text": "Rome lies on the Tiber."},
    {"id": "p3", "title": "Oslo", "text": "Oslo lies on a fjord. Bo Lee lives there."},
]
ROWS: list[object] = [
    {
        "id": "p1",
        "entities": ["Ann Roe", "Rome", "'); DROP TABLE entities; --"],
        "triples": [["Ann Roe", "was born in", "Rome"], ["Ann Roe", "1950"]],
    },
    {"id": "p2", "entities": ["Rome", "Tiber"], "triples": [["Rome", "lies on", "Tiber"]]},
    {"id": "gone", "entities": [], "triples": []},
    [1, 2],
]


def test_an_imported_extraction_is_indexed_reported_and_asked(
    polyhop: Run, write_corpus: Callable[..., Path], tmp_path: Path
) -> None:
    corpus = write_corpus(RECORDS)
    openie = tmp_path / "openie.jsonl"
    openie.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    extractor = ("--set", f"extraction.extractor=import:{openie}")
    small = ("--set", "strategies=bridge-lexical", "--set", "batch_size=2")
    done = polyhop("index", corpus, "--index", "one", *extractor, *small, "--json")
    assert (done.returncode, json.loads(done.stdout)["version"]) == (0, 1), done.stderr

    def sql(query: str) -> list[dict[str, object]]:
        answer = polyhop("sql", query, "--index", "one", "--json")
        assert answer.returncode == 0, answer.stderr
        rows: list[dict[str, object]] = json.loads(answer.stdout)
        return rows

    (counts,) = sql("SELECT counts_json FROM version_stages WHERE stage = 'extract'")
    stated = json.loads(str(counts["counts_json"]))
    found = {name: stated[name] for name in stated if name not in {"mentions", "relations", "propositions", "triples"}}
    assert found == {
        "extracted_units": 2,
        "malformed_rows": 1,
        "malformed_triples": 1,
        "malformed_triples_not_three_parts": 1,
        "unknown_ids": 1,
        "without_row": 1,
    }
    ledger = sql("SELECT step, unit_id, state, stand_in FROM extraction_ledger ORDER BY ALL")
    assert [tuple(row.values()) for row in ledger] == [
        ("import", "p1", "done", ""),
        ("import", "p3", "failed", "rules"),
        ("import.row", "line 3", "failed", ""),
        ("import.row", "line 4", "failed", ""),
    ]
    extractors = sql("SELECT DISTINCT unit_id, extractor FROM mentions ORDER BY ALL")
    assert [tuple(row.values()) for row in extractors] == [("p1", "import"), ("p2", "import"), ("p3", "rules")]
    named = sql("SELECT name FROM entities WHERE key = 'drop table entities'")
    assert named == [{"name": "'); DROP TABLE entities; --"}]

    asked = polyhop(
        "ask",
        "Which river lies in the town where Ann Roe was born?",
        "--index",
        "one",
        "--strategy",
        "bridge-lexical",
        "--json",
    )
    assert {p["id"] for p in json.loads(asked.stdout)["passages"][:2]} == {"p1", "p2"}

    again = polyhop("index", corpus, "--index", "one", *extractor, *small, "--json")
    assert json.loads(again.stdout)["changed"] is False
    openie.write_text("".join(json.dumps(row) + "\n" for row in ROWS[1:]))
    changed = polyhop("index", corpus, "--index", "one", *extractor, *small, "--json")
    assert json.loads(changed.stdout)["version"] == 2


def test_a_missing_import_file_is_named(polyhop: Run, write_corpus: Callable[..., Path]) -> None:
    done = polyhop("index", write_corpus(RECORDS), "--index", "one", "--set", "extraction.extractor=import:none.jsonl")
    assert done.returncode == 1
    assert "none.jsonl" in done.stderr
    assert "Traceback" not in done.stderr
