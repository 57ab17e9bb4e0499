"""Pages of answers in a real browser: texts stay texts, nothing runs, no network is asked, everything fits."""

import itertools
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path as FilePath
from typing import Any

import pytest
from browser_process import FITS, WIDTHS, assert_fits
from small_indexes import publish, write_rows
from typer.testing import CliRunner

from polyhop.cli import app
from polyhop.pages.answer_page import PageMaterial, answer_page, write_stored_page
from polyhop.schemas.evidence import Edge, Evidence, Node, Path, QuestionNames, Seed, as_row
from polyhop.schemas.settings import Settings
from polyhop.warehouse.open import open_questions

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


def _path(keys: Sequence[str], names: Sequence[str], edges: Sequence[Edge]) -> dict[str, Any]:
    path = Path(f"{names[0]} - {names[-1]}", tuple(keys), tuple(names), tuple(edges), 0.5)
    (row,) = as_row(Evidence(paths=(path,)))["paths"]
    return dict(row)


def _spreading() -> dict[str, Any]:
    keys = ["ada", "london", "thames"]
    edges = [Edge("ada", "london", ("leads to",)), Edge("london", "thames", (), ("comes from",))]
    evidence = Evidence(
        names=QuestionNames(("ada" + HOSTILE,), ()),
        seeds=(Seed("entity", "ada", 1.0, "Ada", "exact", 1.0),),
        nodes=tuple(Node(key, key.title(), 0.5, type="T", description="About it.") for key in keys),
        measure="activation",
        node_count=3,
        data={"unknown_part": [HOSTILE]},
    )
    sentences = [{"passage_id": "p1", "text": "Ada saw the Thames.", "start": 0, "end": 19}]
    return {
        "question": "Which river?",
        "answer": "Thames",
        "strategy": "qasa",
        "version": 1,
        "passages": [{"id": "p1", "title": "Ada", "score": 1.0, "rank": 1}],
        "evidence": as_row(evidence)
        | {"paths": [_path(keys, [*map(str.title, keys)], edges)], "links": [], "sentences": sentences},
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
    assert (looked.requests, looked.dialogs) == ([path.as_uri()], [])
    assert looked.values["title"] == f"Which river?{HOSTILE} – Polyhop"
    assert (looked.values["active"], looked.values["fetched"], looked.values["nodes"]) == (0, "refused", 4)
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


def _shown(scale: int) -> dict[str, Any]:
    """An answer with long names: a chain of entities, several of them beside each other, ten passages."""
    document = _spreading()
    names = [f"The {n}th International Commission for the Navigation of Tributaries of the Thames" for n in range(9)]
    keys = ["ada", *names[:scale]]
    edges = [Edge(source, target, ("is a member organisation of",)) for source, target in itertools.pairwise(keys)]
    nodes = [
        asdict(Node(key, key, 0.5, type="ORGANISATION", description=f"What is known of {key}. " * 4))
        for key in [*keys, LONG]
    ]
    passages = [{"id": f"p{n}", "title": f"Minutes of {names[n - 1]}", "score": 1 / n, "rank": n} for n in range(1, 9)]
    document |= {"passages": passages, "question": f"Which river does {names[0]} look after?"}
    document["evidence"] |= {"nodes": nodes, "paths": [_path(keys, keys, edges)], "node_count": len(nodes)}
    return document


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scale", [2, 6])
def test_nothing_is_cut_and_every_name_can_be_read(browser: Any, tmp_path: FilePath, scale: int, width: int) -> None:
    document = _shown(scale)
    names = [entity["key"] for entity in document["evidence"]["nodes"]]
    mentions = {row["id"]: names for row in document["passages"]}
    material = PageMaterial("tiny", "MiniLM", {"steps": 3, "a" * 40: "b" * 60}, {"p1": "Ada " * 90}, mentions)
    path = tmp_path / "page.html"
    path.write_text(answer_page(document, material), encoding="utf-8")
    values = browser.look(path, evaluate={"graph": READABLE} | FACTS | FITS, width=width).values
    assert_fits(values)
    assert (values["overlaps"], values["spilled"]) == (0, 0)
    assert values["scrolling"] >= (1 if width == 400 else 0)
    assert [name for name in names if "".join(name.split()) not in values["graph"]] == []


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> FilePath:
    """A root with the index `tiny`, for qasa and bridge; a title in it is a script."""
    texts = {
        "Ada Lovelace": "Ada Lovelace was born in London. <b>She wrote</b> notes.",
        "London": "London lies on the River Thames.<script>document.title='x'</script>",
        "River Thames": "The River Thames rises at Thames Head in Gloucestershire.",
        "<script>alert(1)</script>": "Ada Lovelace is not in London.",
    }
    records = [{"id": f"p{n}", "title": title, "text": text} for n, (title, text) in enumerate(texts.items(), start=1)]
    return publish(tmp_path_factory.mktemp("pages"), records, "tiny", "qasa,bridge")


QUESTION = "Which river flows through the birthplace of Ada Lovelace?"


def test_ask_writes_the_page_that_the_browser_shows(
    browser: Any, published: FilePath, polyhop: Callable[..., subprocess.CompletedProcess[str]], tmp_path: FilePath
) -> None:
    page = tmp_path / "page.html"
    asked = ("ask", QUESTION, "--index", "tiny", "--root", published, "--strategy", "qasa", "--param", "steps=2")
    done = polyhop(*asked, "--explain", "--html", page)
    assert done.returncode == 0, done.stderr
    assert f"Page written to {page}" in done.stderr
    assert "The search began at\n  1.000  Ada Lovelace  (exact)" in done.stdout
    assert "Paths\n" in done.stdout
    names = "[...document.querySelectorAll('#graph g.node title')].map(t => t.textContent)"
    looked = browser.look(page, evaluate=FACTS | {"names": names})
    assert looked.requests == [page.as_uri()]
    assert (looked.values["title"], looked.values["active"]) == (f"{QUESTION} – Polyhop", 0)
    assert "London lies on the River Thames.<script>document.title='x'</script>" in looked.text
    assert ("<b>She wrote</b> notes." in looked.text, "steps\t2" in looked.text) == (True, True)
    named = looked.values["names"]
    assert any(name.startswith("Ada Lovelace") and name.endswith(": 1.000") for name in named)
    assert any(name.startswith("<script>alert(1)</script> (p4)") for name in named)


def test_a_stored_answer_becomes_the_same_page(browser: Any, published: FilePath, tmp_path: FilePath) -> None:
    questions, page = write_rows(tmp_path / "q.jsonl", [{"id": "q1", "question": QUESTION}]), tmp_path / "page.html"
    for command in (
        ("submit", questions, "--index", "tiny"),
        ("worker", "--until-empty"),
        ("explain", "1", "q1", "--html", page),
    ):
        done = CliRunner().invoke(app, [*map(str, command), "--root", str(published)])
        assert done.exit_code == 0, done.output
    settings = Settings(root=published)
    with open_questions(settings) as queue:
        stored = dict(queue.result(1, "q1").result)  # type: ignore[union-attr]
    looked = browser.look(page, evaluate=FACTS)
    assert (looked.values["nodes"], looked.values["width"], looked.values["outside"]) == (5, 1200, 0)
    assert "Ada Lovelace was born in London. <b>She wrote</b> notes." in looked.text
    write_stored_page(tmp_path / "again.html", stored, settings)
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()
    write_stored_page(tmp_path / "gone.html", {**stored, "version": 99}, settings)
    gone = browser.look(tmp_path / "gone.html", evaluate=FACTS)
    assert "Their texts are unavailable: version 99 of index tiny was deleted." in gone.text
    assert gone.values["nodes"] == 5
