"""Corpus formats, a small real file in and all records out: folders, links, other packages, existing extractions."""

import csv
import gzip
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import igraph
import networkx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from real_index import RealIndex

from polyhop import cli
from polyhop.schemas.errors import ConfigurationError, SourceError
from polyhop.schemas.records import BadRecord, SourceRecord, Unread
from polyhop.schemas.settings import ExtractionSettings, ResolutionSettings
from polyhop.schemas.text import record_id
from polyhop.warehouse.files import formats
from polyhop.warehouse.files.corpora import read_corpus
from polyhop.warehouse.files.formats import described_formats
from polyhop.warehouse.files.graph_files import described_graphs
from polyhop.warehouse.files.records import FaultError, Row, bad_record
from polyhop.warehouse.files.rows import read_extractions
from polyhop.warehouse.tables.version_rows import export_extractions, export_graphml, export_parquet

LINES = [
    json.dumps({"id": "a", "title": "Ada", "text": "Ada wrote.", "metadata": {"year": 1843}}),
    json.dumps({"_id": 7, "contents": "Bob read.", "lang": "en"}),
]
MAIN = "<p>The engine weaves patterns. " * 5
LINKS = "<ul><li><a href=1>Home</a><li><a href=2>News</a><li><a href=3>Imprint</a></ul>"
ADA_WROTE, BOB_READ, ANOTHER = ("Ada", ["Ada wrote.", " In 1843."]), ("Bob", ["Bob read."]), ("Bob", ["Another."])
ADA_LINE, BOB_LINE = ("Ada", "Ada wrote. In 1843.", 1), ("Bob", "Bob read.", 1)
GOOD = Row(3, {"id": "a", "title": "Ada", "text": "Ada wrote.", "year": 1843})
Install = Callable[..., None]
OPENIE = {"id": "a", "entities": ["Rome"], "triples": [["Rome", "is", "old"]]}
HIPPORAG = {"idx": 0, "passage": "Rome\nRome is old.", "extracted_entities": ["Rome"], "extracted_triples": []}
CONTENT = (
    "SELECT unit_id, key, tf, is_title, spans_json FROM mentions JOIN entities USING (entity_id) ORDER BY ALL",
    "SELECT source_id, norm_relation, target_id FROM relations ORDER BY ALL",
    "SELECT text FROM propositions ORDER BY ALL",
    "SELECT * FROM proposition_entities ORDER BY ALL",
)
NO_MERGING = ResolutionSettings(method="off")


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(source: Path) -> list[SourceRecord]:
    """The records of a source that holds nothing else."""
    return [record for record in read_corpus(source) if isinstance(record, SourceRecord) or pytest.fail(repr(record))]


def only(path: Path, content: str | bytes) -> SourceRecord:
    (record,) = read(write(path, content))
    return record


@pytest.mark.parametrize(
    ("name", "content", "second"),
    [
        ("c.jsonl", "\n".join(LINES), 2),
        ("c.jsonl", f"\ufeff{LINES[0]}\r\n\r\n{LINES[1]}", 3),
        ("c.jsonl.gz", gzip.compress("\n".join(LINES).encode()), 2),
        ("c.json", f"[\n{LINES[0]},\n{LINES[1]}]", 2),
        ("c.json", "\n".join(LINES), 2),
    ],
    ids=["lines", "byte order mark, Windows line ends and an empty line", "gzip", "list", "lines called .json"],
)
def test_json_is_read_as_lines_or_as_a_list(tmp_path: Path, name: str, content: str | bytes, second: int) -> None:
    assert read(write(tmp_path / name, content)) == [
        SourceRecord("a", "Ada", "Ada wrote.", name, 1, {"year": 1843}),
        SourceRecord("7", "", "Bob read.", name, second, {"lang": "en"}),
    ]


def test_a_json_list_is_read_across_the_borders_of_what_is_buffered(tmp_path: Path) -> None:
    texts = [("é" * 700_000) + str(number) for number in range(4)]
    path = write(tmp_path / "c.json", json.dumps([{"text": text} for text in texts], ensure_ascii=False))
    assert [record.text for record in read(path)] == texts


def test_csv_takes_columns_by_name_and_the_rest_as_metadata(tmp_path: Path) -> None:
    long = "word " * 200_000
    with (tmp_path / "c.csv").open("w", encoding="utf-8-sig", newline="") as file:
        rows = [["Title", "TEXT", "Id", "lang"], ["Ada", 'two\nlines, "quoted"', "a", "en"], ["", long, "", ""]]
        csv.writer(file).writerows(rows)
    assert read(tmp_path / "c.csv") == [
        SourceRecord("a", "Ada", 'two\nlines, "quoted"', "c.csv", 2, {"lang": "en"}),
        SourceRecord("", "", long, "c.csv", 4, {}),
    ]


def test_parquet_of_many_batches(tmp_path: Path) -> None:
    numbers = list(range(1000))
    table = pa.table({"id": numbers, "text": [f"text {n}" for n in numbers], "score": [float("nan")] + [0.5] * 999})
    pq.write_table(table, tmp_path / "c.parquet")
    records = read(tmp_path / "c.parquet")
    assert records[0] == SourceRecord("0", "", "text 0", "c.parquet", 1, {"score": None})
    assert records[999] == SourceRecord("999", "", "text 999", "c.parquet", 1000, {"score": 0.5})


def test_a_folder_is_read_recursively_in_order_without_hidden_and_other_files(tmp_path: Path) -> None:
    for name in ("b.md", "a/z.txt", "a/b/c.HTM", ".git/x.txt", ".hidden.txt", "a/picture.png", "c.html"):
        write(tmp_path / name, f"text of {name}")
    assert read(tmp_path) == [
        SourceRecord(name, title, f"text of {name}", name, 0, {})
        for name, title in (("a/b/c.HTM", "c"), ("a/z.txt", "z"), ("b.md", "b"), ("c.html", "c"))
    ]


@pytest.mark.parametrize(
    ("content", "title", "text"),
    [
        ("Intro\n# Ada  Lovelace #\nText", "Ada Lovelace", "Intro\n\nAda Lovelace\n\nText"),
        ("# C#\nText", "C#", "C#\n\nText"),
        ("# ##\n# Second", "Second", "Second"),
        ("```\n# comment\n```\n# Real\n", "Real", "# comment\n\nReal"),
        ('---\ntitle: "Front"\n---\nText', "Front", "Text"),
        ("---\ntitle: Front\n---\n# Heading\nText", "Heading", "Heading\n\nText"),
        ("---\na rule, not front matter", "file", "a rule, not front matter"),
        ("Underlined\n===\nText", "Underlined", "Underlined\n\nText"),
        ("*bold* [link](http://x), `code` &amp;\n<b>more</b>", "file", "bold link, code & more"),
        ("- one\n  - inner\n- two", "file", "one\ninner\ntwo"),
        (
            "| Name | Born |\n|------|-----:|\n| Ada  | 1815 |",
            "file",
            "Name | Born\nAda | 1815\nName: Ada; Born: 1815.",
        ),
        ('```python\nif x:\n\n    return "a   b"\n```\n\n> quoted', "file", 'if x:\n\n    return "a   b"\n\nquoted'),
    ],
)
def test_markdown_has_a_title_and_text_without_markup(tmp_path: Path, content: str, title: str, text: str) -> None:
    record = only(tmp_path / "file.md", content)
    assert (record.id, record.title, record.text) == ("file.md", title, text)


def test_the_fields_of_front_matter_are_metadata_and_headings_are_paths(tmp_path: Path) -> None:
    record = only(tmp_path / "f.md", "---\ntitle: x\nauthor: 'Ada'\ntags: [a, b]\n  deep: 1\n---\nText")
    assert record.metadata == {"author": "Ada", "tags": "[a, b]"}
    record = only(tmp_path / "f.md", "Before\n# A\none\n### C\ntwo\n## B\nthree\n# D\n")
    found = [(record.text[s.start :].split("\n")[0], s.headings) for s in record.sections]
    assert found == [("Before", ()), ("A", ("A",)), ("C", ("A", "C")), ("B", ("A", "B")), ("D", ("D",))]


def test_html_keeps_visible_text_with_blocks_on_their_own_lines(tmp_path: Path) -> None:
    content = """<!DOCTYPE html><html><head><title> Ada
      Lovelace</title><style>p {}</style></head><body><nav>Home</nav><script>x()</script><!-- no -->
      <h1>Ada</h1><p>She <b>wrote</b>\n the first&nbsp;program.<p>In 1843.<ul><li>one<li>two</ul>
      <table><tr><td>a</td><td>b</td></tr></table>first<br>second<pre>a\n  b</pre></body></html>"""
    record = only(tmp_path / "x.html", content)
    blocks = ["Ada", "She wrote the first program.", "In 1843.", "one\ntwo", "a | b", "first\nsecond", "a\n  b"]
    assert (record.title, record.text) == ("Ada Lovelace", "\n\n".join(blocks))


@pytest.mark.parametrize(
    "around",
    [
        f"{LINKS}{{}}<nav>{LINKS}</nav>",
        "<header>Home</header><main>{}</main><aside>Imprint</aside><footer>News</footer>",
        "<div role=banner>Home</div><article>{}</article><p>News and more from elsewhere</p>",
        "<p style='DISPLAY: none'>Home News</p>{}<div role=navigation>Imprint</div>",
        "<p hidden>Home</p>{}<div aria-hidden=true>News</div><dialog>Imprint</dialog>",
    ],
)
def test_what_stands_around_the_text_of_a_page_is_left_out(tmp_path: Path, around: str) -> None:
    text = only(tmp_path / "x.html", around.format(MAIN)).text
    assert text.count("The engine weaves patterns.") == 5
    assert not any(word in text for word in ("Home", "News", "Imprint"))


@pytest.mark.parametrize(
    ("page", "title", "text"),
    [
        (LINKS, "x", "Home\nNews\nImprint"),
        ("<footer>all there is</footer>", "x", "all there is"),
        ("<article>Teaser</article>" + "<p>text of the page</p>" * 3, "x", "Teaser" + "\n\ntext of the page" * 3),
        ("<p>See <a href=1>one</a> link.", "x", "See one link."),
        ('<meta charset="latin-1"><p>Café</p>'.encode("latin-1"), "x", "Café"),
        ("<div>" * 5_000 + "deep", "x", "deep"),
        ("<h1>A <i>b</i></h1>c", "A b", "A b\n\nc"),
        ("https://a.b/c", "x", "https://a.b/c"),
    ],
    ids=["links", "footer", "teaser", "link in text", "another encoding", "deeply nested", "heading", "address"],
)
def test_a_page_is_never_left_without_text_and_title(tmp_path: Path, page: str | bytes, title: str, text: str) -> None:
    record = only(tmp_path / "x.html", page)
    assert (record.title, record.text) == (title, text)


def hotpot(*context: tuple[str, list[str]], **extra: Any) -> dict[str, Any]:
    return {"question": "Who?", "answer": "Ada", "supporting_facts": [["Ada", 0]], "context": context, **extra}


def musique(*paragraphs: tuple[str, str]) -> dict[str, Any]:
    return {"question": "Who?", "paragraphs": [{"title": title, "paragraph_text": text} for title, text in paragraphs]}


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([hotpot(ADA_WROTE, BOB_READ), hotpot(BOB_READ, ANOTHER)], [ADA_LINE, BOB_LINE, ("Bob", "Another.", 2)]),
        ([hotpot(("Ada", ["Ada wrote.", "In 1843."]), evidences=[])], [ADA_LINE]),
        ([musique(ADA_LINE[:2], BOB_LINE[:2]), musique(BOB_LINE[:2])], [ADA_LINE, BOB_LINE]),
    ],
    ids=["HotpotQA joins sentences by nothing", "2Wiki with a blank", "MuSiQue"],
)
def test_a_question_set_is_its_paragraphs(tmp_path: Path, items: list[Any], expected: list[Any]) -> None:
    assert read(write(tmp_path / "c.json", json.dumps(items))) == [
        SourceRecord(record_id(title, text), title, text, "c.json", line, {}) for title, text, line in expected
    ]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with one page of its own; beside it, a secret and another folder."""
    (tmp_path / "corpus" / "below").mkdir(parents=True)
    write(tmp_path / "corpus" / "own.txt", "Ada Lovelace wrote for Charles Babbage.")
    write(tmp_path / "corpus" / ".hidden" / "kept.txt", "Charles Babbage lived in London.")
    write(tmp_path / "passwd", "root:x:0:0")
    write(tmp_path / "outside" / "deep" / "secret.txt", "hunter2")
    return tmp_path / "corpus"


def ids_of(folder: Path, *, follow_links: bool = False) -> tuple[list[str], dict[str, int]]:
    """Ids of what is read, and what is not by kind."""
    unread = Unread()
    records = list(read_corpus(folder, follow_links=follow_links, unread=unread))
    return [record.id for record in records if isinstance(record, SourceRecord)], dict(unread)


def test_links_out_of_the_folder_are_counted_and_read_only_if_asked(corpus: Path) -> None:
    (corpus / "passwd.txt").symlink_to(corpus.parent / "passwd")
    (corpus / "relative.md").symlink_to("../outside/deep/secret.txt")
    (corpus / "below" / "outside").symlink_to(corpus.parent / "outside")
    assert ids_of(corpus) == (["own.txt"], {"link out of the folder": 3})
    followed = ["below/outside/deep/secret.txt", "own.txt", "passwd.txt"]  # the relative link leads to the first
    assert ids_of(corpus, follow_links=True) == (followed, {})


@pytest.mark.parametrize("follow_links", [False, True])
def test_a_link_that_stays_inside_is_read_once(corpus: Path, follow_links: bool) -> None:
    (corpus / "a.txt").symlink_to(corpus / "own.txt")
    (corpus / "below" / "b.txt").symlink_to("../own.txt")
    (corpus / "hidden.txt").symlink_to(corpus / ".hidden" / "kept.txt")
    (corpus / "later.txt").symlink_to(corpus / ".hidden" / "kept.txt")
    (corpus / "again").symlink_to(corpus / "below")
    (corpus.parent / "link").symlink_to(corpus)
    for folder in (corpus, corpus.parent / "link"):
        assert ids_of(folder, follow_links=follow_links) == (["hidden.txt", "own.txt"], {})


@pytest.mark.parametrize("follow_links", [False, True])
def test_circles_of_links_end(corpus: Path, follow_links: bool) -> None:
    (corpus / "below" / "up").symlink_to(corpus)
    (corpus / "self.txt").symlink_to("self.txt")
    (corpus.parent / "outside" / "back").symlink_to(corpus)
    (corpus.parent / "outside" / "round").symlink_to(corpus.parent / "outside")
    (corpus / "out").symlink_to(corpus.parent / "outside")
    assert ids_of(corpus, follow_links=follow_links) == (
        (["out/deep/secret.txt", "own.txt"], {"broken link": 1})
        if follow_links
        else (["own.txt"], {"broken link": 1, "link out of the folder": 1})
    )


def test_an_index_run_says_what_it_did_not_read_also_if_nothing_has_changed(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (corpus / "passwd.txt").symlink_to(corpus.parent / "passwd")
    for name in ("a.zip", "B.ZIP", "below/c.png", "LICENSE"):
        write(corpus / name, b"%PDF-1.7")
    command = ["polyhop", "index", corpus, "--index", "linked", "--set", "strategies=bm25", "--json"]
    monkeypatch.setattr(sys, "argv", [*map(str, command), "--root", str(corpus.parent / "root")])
    for _ in range(2):
        with suppress(SystemExit):
            cli.main()
        printed = capsys.readouterr()
        assert printed.err.strip() == (
            "5 files were not read: 2 .zip, 1 .png, 1 link out of the folder (--set corpus.follow_links=true reads it),"
            " 1 no suffix: B.ZIP, LICENSE, a.zip, below/c.png, passwd.txt."
        )
        told = json.loads(printed.out)
        assert told["counts"]["passages"] == 1
        assert told["unread"] == {".png": 1, ".zip": 2, "link out of the folder": 1, "no suffix": 1}


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "count"),
    [("musique100/corpus.jsonl", 1890), ("wiki2/corpus.jsonl", 6119), ("wiki20k/corpus.jsonl.gz", 20_519)],
)
def test_a_shared_corpus_is_read_whole(shared_data: Path, name: str, count: int) -> None:
    assert len({record.id for record in read(shared_data / name)}) == count


def two_rows(_path: Path) -> Iterator[Row | BadRecord]:
    yield GOOD
    yield Row(4, {"id": "b", "text": 7})
    yield bad_record("elsewhere", 5, "odd", "raw")


def failing(_path: Path) -> Iterator[Row | BadRecord]:
    yield GOOD
    raise KeyError("w:p")


def faulty(_path: Path) -> Iterator[Row | BadRecord]:
    yield GOOD
    raise FaultError("the rest is encrypted")


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes an entry point known as if its package were installed."""

    def known(value: str, ending: str = ".odd") -> None:
        point = EntryPoint(ending, value if ":" in value else f"{__name__}:{value}", formats.GROUP)
        monkeypatch.setattr(formats, "extensions", lambda group: {ending: point} if group == formats.GROUP else {})

    return known


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "corpus" / "deep" / "Some.ODD"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"PK\x03\x04\0\0\0\0\0\0\0\0")  # binary: that is for its reader to judge
    return path


def test_records_of_another_format_are_checked_like_ours(source: Path, install: Install) -> None:
    install("two_rows")
    for given, name in ((source, "Some.ODD"), (source.parents[1], "deep/Some.ODD")):
        assert list(read_corpus(given)) == [
            SourceRecord("a", "Ada", "Ada wrote.", name, 3, {"year": 1843}),
            BadRecord(name, 4, "the text is not a string but a number", '{"id": "b", "text": 7}'),
            BadRecord(name, 5, "odd", "raw"),
        ]


def test_no_package_is_asked_about_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Install) -> None:
    (tmp_path / "a.txt").write_text("Ada wrote.", encoding="utf-8")
    install("failing", ".TXT")
    assert [record.source for record in read_corpus(tmp_path / "a.txt")] == ["a.txt"]
    monkeypatch.setattr(formats, "extensions", pytest.fail)
    assert len(list(read_corpus(tmp_path / "a.txt"))) == len(list(read_corpus(tmp_path))) == 1


def test_an_unknown_ending_and_the_help_name_all_formats(tmp_path: Path, install: Install) -> None:
    install("two_rows")
    path = tmp_path / "corpus.docs"
    path.write_text("text", encoding="utf-8")
    with pytest.raises(SourceError, match=r"known formats are \.csv, .*\.odd, \.parquet, \.pdf, .*\.txt, .*\.xlsx\."):
        read_corpus(path)
    assert described_graphs() == ".jsonl(.gz), .nt(.gz), .ttl(.gz)"
    assert described_formats() == (
        ".jsonl(.gz), .json(.gz), .csv(.gz), .parquet, .odd, or a folder of .txt, .md, .markdown, .html, .htm, "
        ".xhtml, .pdf, .docx, .pptx, .xlsx, .epub, .eml, .csv, .odd files"
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("polyhop_nowhere:records", "does not load: ModuleNotFoundError: No module named 'polyhop_nowhere'"),
        ("GOOD", "which is not a function"),
        ("posixpath:basename", "yields str where a Row or a BadRecord is needed"),
    ],
)
def test_a_package_that_does_not_work_is_named(source: Path, install: Install, value: str, words: str) -> None:
    install(value)
    package = value.partition(":")[0] if ":" in value else __name__
    for given in (source, source.parents[1]):
        with pytest.raises(ConfigurationError, match=f"ormat '.odd' of the package '{package}'.*{words}"):
            list(read_corpus(given))


def test_a_reader_that_fails_ends_the_run_for_a_file_and_not_for_a_folder(source: Path, install: Install) -> None:
    install("faulty")
    assert list(read_corpus(source))[1] == BadRecord("Some.ODD", 2, "the rest is encrypted")
    install("failing")
    reason = f"cannot be read after record 1: the format '.odd' of the package '{__name__}' failed with KeyError"
    with pytest.raises(SourceError, match=f"^{source} {reason}"):
        list(read_corpus(source))
    _, bad = read_corpus(source.parents[1])
    assert isinstance(bad, BadRecord)
    assert (bad.source, reason in bad.reason) == ("deep/Some.ODD", True)


def test_lines_packed_or_not(tmp_path: Path) -> None:
    text = "\n".join(['{"id": 7}', "", "[1]", '{"entities": []}', json.dumps(OPENIE), "[" * 100_000])
    (tmp_path / "a.jsonl").write_text(text)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    rows = list(read_extractions(tmp_path / "a.jsonl"))
    assert [(row.line, row.id, row.fault) for row in rows] == [
        (1, "7", ""),
        (3, "", "not a JSON object but a list"),
        (4, "", "neither an id nor a passage"),
        (5, "a", ""),
        (6, "", "JSON that cannot be read: it is nested too deeply"),
    ]
    assert (rows[3].fields, list(read_extractions(tmp_path / "a.jsonl.gz"))) == (OPENIE, rows)


def test_parquet_and_rows_of_hipporag_that_are_known_by_their_text_not_by_their_number(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"docs": [HIPPORAG, HIPPORAG | {"idx": "chunk-1"}], "avg": 1}))
    rows = list(read_extractions(tmp_path / "a.json"))
    assert [(row.id, row.text) for row in rows] == [("", "Rome\nRome is old."), ("chunk-1", "Rome\nRome is old.")]
    pq.write_table(pa.Table.from_pylist([OPENIE]), tmp_path / "a.parquet")
    (row,) = read_extractions(tmp_path / "a.parquet")
    assert (row.line, row.id, row.fields) == (1, "a", OPENIE)


@pytest.mark.parametrize("content", [b"{", b'{"x": 1}', None])
def test_an_unusable_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(SourceError, match=r"a\.json"):
        list(read_extractions(tmp_path / "a.json"))


def test_our_own_export_comes_back(tmp_path: Path) -> None:
    text = "Ann Roe was born in Rome on 2 May 1990. She met Bo Lee."
    rows = [{"id": "a", "title": "Ann Roe", "text": text}, {"id": "b", "title": "", "text": "Rome."}]
    first, target = RealIndex(tmp_path / "first", resolution=NO_MERGING), tmp_path / "export.jsonl.gz"
    first.read(rows)
    assert export_extractions(first.version.tables, target) == 2
    imported = ExtractionSettings(extractor=f"import:{target}")
    second = RealIndex(tmp_path / "second", resolution=NO_MERGING, extraction=imported)
    second.read(rows)
    assert [second.rows(query) for query in CONTENT] == [first.rows(query) for query in CONTENT]


def test_the_graph_as_files_is_the_one_that_networkx_igraph_and_arrow_read(tmp_path: Path) -> None:
    text = "Ann \x01Roe was born in Rome & <Bonn>. Ann Roe was born in Rome. Ann Roe died in Rome."
    index = RealIndex(tmp_path / "index", resolution=NO_MERGING)
    index.read([{"id": "a 1", "title": "Ann Roe", "text": text}])
    tables = index.version.tables
    nodes = index.rows("SELECT entity_id, name, type, description, df FROM entities")
    query = "SELECT source_id, target_id, relation, count, confidence, '[\"a 1\"]' FROM relations ORDER BY ALL"
    edges = index.rows(query)
    assert any("\x01" in row[3] and "<Bonn>" in row[3] for row in nodes)
    assert len({edge[:2] for edge in edges}) < len(edges)  # two relations join the same entities
    file, folder = tmp_path / "graph.xml", tmp_path / "graph"
    assert export_graphml(tables, file) == export_parquet(tables, folder) == (len(nodes), len(edges))
    read = networkx.read_graphml(file)
    names = ("name", "type", "description", "df")
    expected = {
        id_: dict(zip(names, (*rest, shown.replace("\x01", "\ufffd"), df), strict=True))
        for id_, *rest, shown, df in nodes
    }
    assert {id_: {name: said.get(name) for name in names} for id_, said in read.nodes(data=True)} == expected
    said = ("label", "weight", "confidence", "passages")
    found = [(a, b, *(data.get(name) for name in said)) for a, b, data in read.edges(data=True)]
    assert sorted(found, key=str) == sorted(edges, key=str)
    same = igraph.Graph.Read_GraphML(str(file))
    assert (same.is_directed(), same.vcount(), same.ecount()) == (True, len(nodes), len(edges))
    assert sorted(same.vs["description"]) == sorted(row["description"] for row in expected.values())
    assert sorted(same.es["label"]) == sorted(edge[2] for edge in edges)
    stored = [tuple(row.values()) for row in pq.read_table(folder / "nodes.parquet").to_pylist()]
    assert sorted(stored) == sorted(nodes)
    stored = [tuple(row.values()) for row in pq.read_table(folder / "edges.parquet").to_pylist()]
    assert sorted(stored, key=str) == sorted([(*edge[:5], ["a 1"]) for edge in edges], key=str)
