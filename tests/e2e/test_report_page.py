"""The report of an evaluation in a real browser: written by `polyhop eval`, complete in itself, readable."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from browser_process import FITS, WIDTHS, assert_fits

RECORDS = [
    {"id": "p1", "title": "Ada Lovelace", "text": "Ada Lovelace was born in London."},
    {"id": "p2", "title": "London", "text": "London lies on the River Thames."},
    {"id": "p3", "title": "River Thames", "text": "The River Thames rises at Thames Head in Gloucestershire."},
    {"id": "p4", "title": "Paris", "text": "Paris lies on the River Seine."},
]
QUESTIONS = [
    {"id": "q1", "question": "Which river flows through the birthplace of Ada Lovelace?", "supporting": ["p1", "p2"]},
    {"id": "q2", "question": "Where does the River Thames rise?", "supporting": ["p3"], "type": "<b>single</b>"},
]
ANSWERS = {"q1": ["River Thames"], "q2": ["Thames Head"]}
FACTS = {
    "title": "document.title",
    "drawn": "[...document.images].filter(i => i.complete && i.naturalWidth > 0 && i.clientWidth > 400).length",
    "images": "document.images.length",
    "strategies": "[...document.querySelector('#results tbody').rows].map(row => row.cells[0].textContent)",
    "active": "document.querySelectorAll('script, iframe, object, embed, link, form, b').length",
    "points": "[...document.querySelectorAll('#ranges tbody tr')].map(r => [...r.cells].map(c => c.innerText))",
    "width": "document.documentElement.scrollWidth",
    "cut": "[...document.querySelectorAll('#results .frame')].filter(box => box.scrollWidth > box.clientWidth).length",
    "fetched": "fetch('data:text/plain,x').then(() => 'reached', () => 'refused')",
}
LABEL = "bridge-lexical:restart=0.3"
RANGE = "bm25:b=0,.5,1:k1=1,2"


def _write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_report_that_eval_stores_is_a_readable_page(
    browser: Any, polyhop: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner
    from polyhop.schemas.requests import IndexRequest
    from polyhop.schemas.settings import Settings

    settings = Settings(root=tmp_path / "root", strategies=("bm25", "bridge-lexical"))
    run_index(settings, IndexRequest("tiny", _write(tmp_path / "corpus.jsonl", RECORDS)), DirectRunner())
    questions = _write(tmp_path / "questions.jsonl", [q | {"answers": ANSWERS[str(q["id"])]} for q in QUESTIONS])
    done = polyhop(
        *("eval", questions, "--index", "tiny", "--root", settings.root, "--strategies", f"bm25,{LABEL},{RANGE}"),
        *("--baseline", "bm25", "--baseline", LABEL),
    )
    assert done.returncode == 0, done.stderr
    report = settings.root / "evaluations" / "000001" / "report.html"
    looks = {
        width: browser.look(report, evaluate=FACTS, width=width, scheme=scheme)
        for width, scheme in ((1200, "light"), (700, "dark"))
    }
    for width in WIDTHS:
        fits = browser.look(report, evaluate=FITS, width=width).values
        assert_fits(fits)
        assert width > 400 or fits["scrolling"] >= len(looks[1200].requests) - 1  # every plot, and tables
    for width, looked in looks.items():
        assert looked.requests[0] == report.as_uri()
        assert all(address.startswith("data:image/png;base64,") for address in looked.requests[1:])
        values = looked.values
        assert values["title"] == "Evaluation of index tiny, version 1 – Polyhop"
        assert values["images"] == values["drawn"] == 3  # recall, two differences
        assert values["width"] <= width
        assert (values["active"], values["fetched"]) == (0, "refused")
    points = [[b, k1] for b in ("0", ".5", "1") for k1 in ("1", "2")]
    variants = [f"bm25:b={b}:k1={k1}" for b, k1 in points]
    assert sorted(looks[1200].values["strategies"]) == sorted(["bm25", LABEL, *variants])
    assert [row[:2] for row in looks[1200].values["points"]] == points
    assert looks[1200].values["cut"] == 0
    assert "<b>single</b> (n = 1)" in looks[1200].text
