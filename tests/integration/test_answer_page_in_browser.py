"""Pages of answers in a real browser: texts stay texts, nothing runs, no network is asked, everything fits."""

import itertools
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path as FilePath
from typing import Any

import pytest
from browser_process import FITS, WIDTHS, assert_fits
from typer.testing import CliRunner

from polyhop.cli import app
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.pages.answer_page import PageMaterial, answer_page, write_stored_page
from polyhop.schemas.evidence import (
    ENTITIES_ONLY,
    PASSAGES_ONLY,
    Edge,
    Evidence,
    Node,
    Path,
    QuestionNames,
    Seed,
    as_row,
)
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.warehouse.open import open_questions
from polyhop.worker.loop import Worker, WorkerOptions
from polyhop.worker.session import IndexPool

HOSTILE = (
    "<script>document.title='x'</script><img src=http://example.org/x onerror=\"alert('x')\">"
    "</title></style></svg><svg onload=alert(1)>\"'`{{ 7*7 }}{% raw %}&lt;b&gt;<!-- ]]> javascript:alert(1)"
)
NAMED = ("question", "answer", "title", "name", "description", "type", "text", "relation", "via", "strategy", "quote")
READABLE = """[...document.querySelectorAll('#graph svg text, #graph li')].filter(e => e.checkVisibility())
    .map(e => e.textContent).join('').replace(/\\s/g, '')"""
LONG = "Donaudampfschifffahrtsgesellschaftskapitän" * 8
FACTS = {
    "title": "document.title",
    "nodes": "document.querySelectorAll('#graph g.node').length",
    "active": "document.querySelectorAll('script, img, iframe, object, embed, link, form').length",
    "width": "document.documentElement.scrollWidth",
    "outside": "[...document.querySelectorAll('section')].filter(s => s.getBoundingClientRect().right > innerWidth)"
    ".length",
    "fetched": "fetch('data:text/plain,x').then(() => 'reached', () => 'refused')",
    "paper": "getComputedStyle(document.body).backgroundColor",
    "overlaps": """(() => {
        const boxes = [...document.querySelectorAll('#graph rect.box')].filter(b => b.closest('g.node'))
            .map(b => b.getBoundingClientRect());
        return boxes.filter((a, i) => boxes.some((b, j) => j < i && a.left < b.right && b.left < a.right
            && a.top < b.bottom && b.top < a.bottom)).length })()""",
    "spilled": """[...document.querySelectorAll('#graph g.node')].filter(g => {
        const box = g.querySelector('rect.box').getBoundingClientRect();
        return g.querySelector('text').getBoundingClientRect().right > box.right }).length""",
}


def _spoiled(value: Any, name: str = "") -> Any:
    """The same document with markup and script at the end of everything that comes from a corpus or a person."""
    if isinstance(value, dict):
        return {key: _spoiled(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_spoiled(item, name) for item in value]
    return f"{value}{HOSTILE}" if name in NAMED else value


def _path(keys: Sequence[str], names: Sequence[str], text: str, labels: Sequence[Edge]) -> dict[str, Any]:
    (row,) = as_row(Evidence(paths=(Path(text, tuple(keys), tuple(names), tuple(labels), 0.5),)))["paths"]
    return dict(row)


def _spreading() -> dict[str, Any]:
    keys = ["ada", "london", "thames"]
    edges = [Edge("ada", "london", ("leads to",)), Edge("london", "thames", (), ("comes from",))]
    evidence = Evidence(
        names=QuestionNames(("ada" + HOSTILE,), ()),
        seeds=(Seed("entity", "ada", 1.0, "Ada", "exact", 1.0),),
        nodes=tuple(
            Node(key, key.title(), 1 / rank, type="T", description="About it.")
            for rank, key in enumerate(keys, start=1)
        ),
        measure="activation",
        node_count=3,
        data={"unknown_part": [HOSTILE]},
    )
    return {
        "question": "Which river?",
        "answer": "Thames",
        "strategy": "qasa",
        "version": 1,
        "passages": [{"id": "p1", "title": "Ada", "score": 1.0, "rank": 1}],
        "evidence": as_row(evidence)
        | {
            "paths": [_path(keys, [key.title() for key in keys], "Ada - Thames", edges)],
            "links": [],
            "sentences": [{"passage_id": "p1", "text": "Ada saw the Thames.", "start": 0, "end": 19}],
        },
        "reading": {"kind": "extracted", "confidence": 0.5, "values": []},
        "seconds": {"seed": 0.001},
    }


def _written(folder: FilePath, document: dict[str, Any], text: str) -> FilePath:
    path = folder / "page.html"
    material = PageMaterial(f"tiny{HOSTILE}", HOSTILE, {"steps": HOSTILE}, {"p1": text}, {"p1": ["ada", "thames"]})
    path.write_text(answer_page(document, material), encoding="utf-8")
    return path


def test_markup_in_texts_names_and_questions_shows_as_text_and_runs_nothing(browser: Any, tmp_path: FilePath) -> None:
    document = _spoiled(_spreading())
    path = _written(tmp_path, document, f"Ada saw the Thames.{HOSTILE} And more.")
    looked = browser.look(path, evaluate=FACTS, wait_milliseconds=200)
    assert looked.requests == [path.as_uri()]
    assert looked.dialogs == []
    assert looked.values["title"] == f"Which river?{HOSTILE} – Polyhop"
    assert looked.values["active"] == 0
    assert looked.values["fetched"] == "refused"
    assert looked.values["nodes"] == 4
    plain = " ".join(looked.text.split())
    for words in ("Which river?", "Thames", "Ada saw the Thames.", "Ada - Thames", "About it.", "ada", "tiny"):
        assert words + " ".join(HOSTILE.split()) in plain, words


def test_long_words_do_not_widen_the_page_in_light_and_dark(browser: Any, tmp_path: FilePath) -> None:
    document = _spoiled(_spreading())
    document["question"] = document["passages"][0]["title"] = document["evidence"]["paths"][0]["text"] = LONG
    for entity in document["evidence"]["nodes"]:
        entity["name"] = entity["description"] = "W" * 40 + LONG
    path = _written(tmp_path, document, LONG)
    papers = set()
    for scheme, width in (("light", 1200), ("dark", 1200), ("light", 420)):
        values = browser.look(path, evaluate=FACTS, scheme=scheme, width=width).values
        assert values["width"] == width
        assert (values["outside"], values["overlaps"], values["spilled"]) == (0, 0, 0)
        papers.add(values["paper"])
    assert len(papers) == 2


def _shown(*, scale: int) -> dict[str, Any]:
    """An answer with long names: a chain of entities, several of them beside each other, ten passages."""
    document = _spreading()
    names = [
        f"The {n}th International Commission for the Navigation of Tributaries of the River Thames" for n in range(9)
    ]
    keys = ["ada", *names[:scale]]
    labels = ("is a member organisation of",)
    edges = [Edge(source, target, labels) for source, target in itertools.pairwise(keys)]
    nodes = [
        asdict(Node(key, key, 0.5, type="ORGANISATION", description=f"What is known of {key}. " * 4))
        for key in [*keys, LONG]
    ]
    passages = [{"id": f"p{n}", "title": f"Minutes of {names[n - 1]}", "score": 1 / n, "rank": n} for n in range(1, 9)]
    document |= {"passages": passages, "question": f"Which river does {names[0]} look after?"}
    path = _path(keys, ["Ada", *names[:scale]], " – ".join(keys), edges)
    document["evidence"] |= {"nodes": nodes, "paths": [path], "node_count": len(nodes)}
    return document


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scale", [2, 6])
def test_nothing_is_cut_at_any_width_and_every_name_can_be_read(
    browser: Any, tmp_path: FilePath, scale: int, width: int
) -> None:
    document = _shown(scale=scale)
    mentions = {row["id"]: [entity["key"] for entity in document["evidence"]["nodes"]] for row in document["passages"]}
    material = PageMaterial("tiny", "MiniLM", {"steps": 3, "a" * 40: "b" * 60}, {"p1": "Ada " * 90}, mentions)
    path = tmp_path / "page.html"
    path.write_text(answer_page(document, material), encoding="utf-8")
    values = browser.look(path, evaluate={"graph": READABLE} | FACTS | FITS, width=width).values
    assert_fits(values)
    assert (values["overlaps"], values["spilled"]) == (0, 0)
    assert values["scrolling"] >= (1 if width == 400 else 0)
    for name in (entity["name"] for entity in document["evidence"]["nodes"]):
        assert "".join(name.split()) in values["graph"]


def test_a_fallback_is_told_in_a_sentence(browser: Any, tmp_path: FilePath) -> None:
    document = _spreading()
    for fallback, words in (
        (PASSAGES_ONLY, "Fallback: the walk began at passages only."),
        (ENTITIES_ONLY, "Fallback: the walk began at entities only."),
    ):
        document["evidence"]["fallback"] = asdict(fallback)
        text = browser.look(_written(tmp_path, document, "x")).text
        assert words in text
        assert fallback.code not in text


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> FilePath:
    """A root with the index `tiny`, for qasa and bridge; a title in it is a script."""
    folder = tmp_path_factory.mktemp("pages")
    records = [
        {"id": "p1", "title": "Ada Lovelace", "text": "Ada Lovelace was born in London. <b>She wrote</b> notes."},
        {"id": "p2", "title": "London", "text": "London lies on the River Thames.<script>document.title='x'</script>"},
        {"id": "p3", "title": "River Thames", "text": "The River Thames rises at Thames Head in Gloucestershire."},
        {"id": "p4", "title": "<script>alert(1)</script>", "text": "Ada Lovelace is not in London."},
    ]
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    settings = Settings(root=folder / "root", strategies=("qasa", "bridge"))
    run_index(settings, IndexRequest("tiny", corpus), DirectRunner())
    return folder / "root"


QUESTION = "Which river flows through the birthplace of Ada Lovelace?"


def test_ask_writes_the_page_that_the_browser_shows(
    browser: Any, published: FilePath, polyhop: Callable[..., subprocess.CompletedProcess[str]], tmp_path: FilePath
) -> None:
    page = tmp_path / "page.html"
    done = polyhop(
        *("ask", QUESTION, "--index", "tiny", "--root", published, "--strategy", "qasa", "--param", "steps=2"),
        *("--explain", "--html", page),
    )
    assert done.returncode == 0, done.stderr
    assert f"Page written to {page}" in done.stderr
    assert "The search began at\n  1.000  Ada Lovelace  (exact)" in done.stdout
    assert "Paths\n" in done.stdout
    names = "[...document.querySelectorAll('#graph g.node title')].map(t => t.textContent)"
    looked = browser.look(page, evaluate=FACTS | {"names": names})
    assert looked.requests == [page.as_uri()]
    assert looked.values["title"] == f"{QUESTION} – Polyhop"
    assert looked.values["active"] == 0
    assert "London lies on the River Thames.<script>document.title='x'</script>" in looked.text
    assert "<b>She wrote</b> notes." in looked.text
    assert "steps\t2" in looked.text
    named = looked.values["names"]
    assert any(name.startswith("Ada Lovelace") and name.endswith(": 1.000") for name in named)
    assert any(name.startswith("<script>alert(1)</script> (p4)") for name in named)


def test_a_stored_answer_becomes_the_same_page_and_survives_its_version(
    browser: Any, published: FilePath, tmp_path: FilePath
) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text(json.dumps({"id": "q1", "question": QUESTION}), encoding="utf-8")
    submitted = CliRunner().invoke(app, ["submit", str(questions), "--index", "tiny", "--root", str(published)])
    assert submitted.exit_code == 0, submitted.output
    settings = Settings(root=published)
    with open_questions(settings) as queue:
        Worker(queue, IndexPool(settings), WorkerOptions(("default",), until_empty=True)).run()
        stored = dict(queue.result(1, "q1").result)  # type: ignore[union-attr]
    page = tmp_path / "page.html"
    told = CliRunner().invoke(app, ["explain", "1", "q1", "--html", str(page), "--root", str(published)])
    assert told.exit_code == 0, told.output
    looked = browser.look(page, evaluate=FACTS)
    assert (looked.values["nodes"], looked.values["width"], looked.values["outside"]) == (5, 1200, 0)
    assert "Ada Lovelace was born in London. <b>She wrote</b> notes." in looked.text
    write_stored_page(tmp_path / "again.html", stored, settings)
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()
    write_stored_page(tmp_path / "gone.html", {**stored, "version": 99}, settings)
    gone = browser.look(tmp_path / "gone.html", evaluate=FACTS)
    assert "Their texts are gone with version 99 of index tiny." in gone.text
    assert gone.values["nodes"] == 5
