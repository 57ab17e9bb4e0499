"""Each corpus format: a small real file in, all records out."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polyhop.schemas.records import SourceRecord
from polyhop.schemas.text import record_id
from polyhop.warehouse.files.corpora import read_corpus

ADA = {"id": "a", "title": "Ada", "text": "Ada wrote.", "metadata": {"year": 1843}}
BOB = {"_id": 7, "contents": "Bob read.", "lang": "en"}
RECORDS = [
    SourceRecord("a", "Ada", "Ada wrote.", "corpus", 1, {"year": 1843}),
    SourceRecord("7", "", "Bob read.", "corpus", 2, {"lang": "en"}),
]


def read(source: Path) -> list[Any]:
    return list(read_corpus(source))


def expected(name: str) -> list[SourceRecord]:
    return [SourceRecord(r.id, r.title, r.text, name, r.line, r.metadata) for r in RECORDS]


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8", newline="")
    return path


def test_json_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "corpus.jsonl", f"{json.dumps(ADA)}\n{json.dumps(BOB)}\n")
    assert read(path) == expected("corpus.jsonl")


def test_json_lines_may_have_a_byte_order_mark_blank_lines_and_windows_line_ends(tmp_path: Path) -> None:
    path = write(tmp_path / "corpus.jsonl", f"\ufeff{json.dumps(ADA)}\r\n\r\n{json.dumps(BOB)}")
    assert [(r.line, r.id) for r in read(path) if isinstance(r, SourceRecord)] == [(1, "a"), (3, "7")]


def test_gzipped_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl.gz"
    path.write_bytes(gzip.compress(f"{json.dumps(ADA)}\n{json.dumps(BOB)}\n".encode()))
    assert read(path) == expected("corpus.jsonl.gz")


def test_a_json_list(tmp_path: Path) -> None:
    assert read(write(tmp_path / "corpus.json", json.dumps([ADA, BOB], indent=2))) == expected("corpus.json")


def test_a_json_file_may_hold_json_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "corpus.json", f"{json.dumps(ADA)}\n{json.dumps(BOB)}\n")
    assert read(path) == expected("corpus.json")


def test_a_json_list_is_read_across_the_borders_of_what_is_buffered(tmp_path: Path) -> None:
    texts = [("é" * 700_000) + str(number) for number in range(4)]
    path = write(tmp_path / "corpus.json", json.dumps([{"text": text} for text in texts], ensure_ascii=False))
    assert [record.text for record in read(path) if isinstance(record, SourceRecord)] == texts


def test_a_hipporag_corpus_gets_ids_from_title_and_text_so_that_gold_of_its_question_file_is_found(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "corpus.json", json.dumps([{"title": "Ada", "text": "Ada wrote.", "idx": 0}]))
    assert read(path) == [SourceRecord("", "Ada", "Ada wrote.", "corpus.json", 1, {"idx": 0})]


def test_csv_takes_columns_by_name_and_the_rest_as_metadata(tmp_path: Path) -> None:
    path = tmp_path / "corpus.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows(
            [["Title", "TEXT", "Id", "lang"], ["Ada", 'two\nlines, "quoted"', "a", "en"], ["", "Bob.", "", ""]]
        )
    assert read(path) == [
        SourceRecord("a", "Ada", 'two\nlines, "quoted"', "corpus.csv", 2, {"lang": "en"}),
        SourceRecord("", "", "Bob.", "corpus.csv", 4, {}),
    ]


def test_csv_fields_may_be_huge(tmp_path: Path) -> None:
    text = "word " * 200_000
    (record,) = read(write(tmp_path / "corpus.csv", f"text\n{text}\n"))
    assert isinstance(record, SourceRecord)
    assert record.text == text


def test_parquet_of_many_batches(tmp_path: Path) -> None:
    path = tmp_path / "corpus.parquet"
    numbers = list(range(1000))
    table = pa.table({"id": numbers, "text": [f"text {n}" for n in numbers], "score": [float("nan")] + [0.5] * 999})
    pq.write_table(table, path)
    records = read(path)
    assert records[0] == SourceRecord("0", "", "text 0", "corpus.parquet", 1, {"score": None})
    assert records[999] == SourceRecord("999", "", "text 999", "corpus.parquet", 1000, {"score": 0.5})


def test_a_text_file_is_one_record(tmp_path: Path) -> None:
    path = write(tmp_path / "Ada.txt", "One.\n\nTwo.\n")
    assert read(path) == [SourceRecord("Ada.txt", "Ada", "One.\n\nTwo.\n", "Ada.txt", 0, {})]


def test_a_folder_is_read_recursively_in_order_without_hidden_and_other_files(tmp_path: Path) -> None:
    for name in ("b.md", "a/z.txt", "a/b/c.HTM", ".git/x.txt", ".hidden.txt", "a/picture.png", "c.html"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name, f"text of {name}")
    assert read(tmp_path) == [
        SourceRecord("a/b/c.HTM", "c", "text of a/b/c.HTM", "a/b/c.HTM", 0, {}),
        SourceRecord("a/z.txt", "z", "text of a/z.txt", "a/z.txt", 0, {}),
        SourceRecord("b.md", "b", "text of b.md", "b.md", 0, {}),
        SourceRecord("c.html", "c", "text of c.html", "c.html", 0, {}),
    ]


@pytest.mark.parametrize(
    ("content", "title", "text"),
    [
        ("Intro\n# Ada  Lovelace #\nText", "Ada Lovelace", "Intro\n\nAda Lovelace\n\nText"),
        ("# C#\nText", "C#", "C#\n\nText"),
        ("# ##\n# Second", "Second", "Second"),
        ("```\n# comment\n```\n# Real\n", "Real", "# comment\n\nReal"),
        ('---\ntitle: "Front"\n---\nText', "Front", "Text"),
        ("---\r\ntitle: Front\r\n---\r\nText\r\n", "Front", "Text"),
        ("---\ntitle: Front\n---\n# Heading\nText", "Heading", "Heading\n\nText"),
        ("---\na rule, not front matter", "file", "a rule, not front matter"),
        ("## only a second level", "file", "only a second level"),
        ("Underlined\n===\nText", "Underlined", "Underlined\n\nText"),
    ],
)
def test_markdown_title_and_front_matter(tmp_path: Path, content: str, title: str, text: str) -> None:
    (record,) = read(write(tmp_path / "file.md", content))
    assert isinstance(record, SourceRecord)
    assert (record.id, record.title, record.text) == ("file.md", title, text)


def test_the_fields_of_front_matter_are_metadata(tmp_path: Path) -> None:
    (record,) = read(write(tmp_path / "f.md", "---\ntitle: x\nauthor: 'Ada'\ntags: [a, b]\n  deep: 1\n---\nText"))
    assert isinstance(record, SourceRecord)
    assert record.metadata == {"author": "Ada", "tags": "[a, b]"}


def test_markup_of_markdown_is_gone_and_its_lists_tables_and_code_can_be_read(tmp_path: Path) -> None:
    content = """Some *bold* [link](http://x) and `code` &amp; <b>more</b>
over two lines.

- one
  - inner
- two

| Name | Born |
|------|-----:|
| Ada  | 1815 |

```python
if x:

    return "a   b"
```

> quoted
"""
    (record,) = read(write(tmp_path / "f.md", content))
    assert isinstance(record, SourceRecord)
    assert record.text == (
        "Some bold link and code & more over two lines.\n\none\ninner\ntwo\n\nName | Born\nAda | 1815\n\n"
        'if x:\n\n    return "a   b"\n\nquoted'
    )


def test_headings_of_markdown_are_paths(tmp_path: Path) -> None:
    (record,) = read(write(tmp_path / "f.md", "Before\n# A\none\n### C\ntwo\n## B\nthree\n# D\n"))
    assert isinstance(record, SourceRecord)
    assert [(record.text[s.start :].split("\n")[0], s.headings) for s in record.sections] == [
        ("Before", ()),
        ("A", ("A",)),
        ("C", ("A", "C")),
        ("B", ("A", "B")),
        ("D", ("D",)),
    ]


def test_html_keeps_visible_text_with_blocks_on_their_own_lines(tmp_path: Path) -> None:
    content = """<!DOCTYPE html><html><head><title> Ada
      Lovelace</title><style>p {}</style></head><body><nav>Home</nav><script>x()</script><!-- no -->
      <h1>Ada</h1><p>She <b>wrote</b>\n the first&nbsp;program.<p>In 1843.<ul><li>one<li>two</ul>
      <table><tr><td>a</td><td>b</td></tr></table>first<br>second<pre>a\n  b</pre></body></html>"""
    (record,) = read(write(tmp_path / "x.html", content))
    text = "Ada\n\nShe wrote the first program.\n\nIn 1843.\n\none\ntwo\n\na | b\n\nfirst\nsecond\n\na\n  b"
    assert isinstance(record, SourceRecord)
    assert record.title == "Ada Lovelace"
    assert record.text == text


MAIN = "<p>The engine weaves patterns. " * 5
LINKS = "<ul><li><a href=1>Home</a><li><a href=2>News</a><li><a href=3>Imprint</a></ul>"


@pytest.mark.parametrize(
    "around",
    [
        f"{LINKS}{{}}<div>{LINKS}</div>",
        "<header>Home</header><main>{}</main><aside>Imprint</aside><footer>News</footer>",
        "<div role=banner>Home</div><article>{}</article><p>News and more from elsewhere</p>",
        "<div class='cookie-banner big'>Home News</div>{}<div id=sidebar>Imprint</div>",
        "<p hidden>Home</p>{}<div aria-hidden=true>News</div>",
        "{}<dialog>Home</dialog><select><option>News</select><button>Imprint</button>",
    ],
)
def test_what_stands_around_the_text_of_a_page_is_left_out(tmp_path: Path, around: str) -> None:
    (record,) = read(write(tmp_path / "x.html", around.format(MAIN)))
    assert isinstance(record, SourceRecord)
    assert record.text.count("The engine weaves patterns.") == 5
    assert not any(word in record.text for word in ("Home", "News", "Imprint"))


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (LINKS, "Home\nNews\nImprint"),
        ("<footer>all there is</footer>", "all there is"),
        (
            "<article>Teaser</article>" + "<p>long text of the page</p>" * 3,
            "Teaser\n\n" + "\n\n".join(["long text of the page"] * 3),
        ),
        ("<body class='sidebar'><p>text</body>", "text"),
        ("<p>See <a href=1>one</a> link.", "See one link."),
    ],
)
def test_a_page_is_never_left_without_its_text(tmp_path: Path, page: str, text: str) -> None:
    (record,) = read(write(tmp_path / "x.html", page))
    assert isinstance(record, SourceRecord)
    assert record.text == text


@pytest.mark.parametrize(("content", "title"), [("<h1>A <i>b</i></h1>c", "A b"), ("<p>c", "x"), ("https://a.b/c", "x")])
def test_html_without_title_is_called_after_its_heading_or_its_file(tmp_path: Path, content: str, title: str) -> None:
    (record,) = read(write(tmp_path / "x.html", content))
    assert isinstance(record, SourceRecord)
    assert record.title == title


def test_html_may_declare_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    path.write_bytes('<meta charset="latin-1"><p>Café</p>'.encode("latin-1"))
    (record,) = read(path)
    assert isinstance(record, SourceRecord)
    assert record.text == "Café"


def test_deeply_nested_html_is_read(tmp_path: Path) -> None:
    (record,) = read(write(tmp_path / "x.html", "<div>" * 5_000 + "deep"))
    assert isinstance(record, SourceRecord)
    assert record.text == "deep"


HOTPOT = {
    "_id": "q1",
    "question": "Who?",
    "answer": "Ada",
    "supporting_facts": [["Ada", 0]],
    "context": [["Ada", ["Ada wrote.", " In 1843."]], ["Bob", ["Bob read."]]],
}


def question_set_records(name: str, texts: list[tuple[str, str, int]]) -> list[SourceRecord]:
    return [SourceRecord(record_id(title, text), title, text, name, line, {}) for title, text, line in texts]


def test_hotpotqa_is_the_union_of_its_paragraphs_with_sentences_joined_by_nothing(tmp_path: Path) -> None:
    other = {**HOTPOT, "_id": "q2", "context": [["Bob", ["Bob read."]], ["Bob", ["Another Bob."]]]}
    path = write(tmp_path / "hotpot.json", json.dumps([HOTPOT, other]))
    texts = [("Ada", "Ada wrote. In 1843.", 1), ("Bob", "Bob read.", 1), ("Bob", "Another Bob.", 2)]
    assert read(path) == question_set_records("hotpot.json", texts)


def test_2wiki_joins_sentences_with_a_blank(tmp_path: Path) -> None:
    item = {**HOTPOT, "evidences": [], "context": [["Ada", ["Ada wrote.", "In 1843."]]]}
    path = write(tmp_path / "dev.json", json.dumps([item]))
    assert read(path) == question_set_records("dev.json", [("Ada", "Ada wrote. In 1843.", 1)])


def test_musique_json_lines(tmp_path: Path) -> None:
    paragraphs = [
        {"idx": 0, "title": "Ada", "paragraph_text": "Ada wrote.", "is_supporting": True},
        {"idx": 1, "title": "Bob", "paragraph_text": "Bob read.", "is_supporting": False},
    ]
    item = {"id": "2hop__1_2", "question": "Who?", "paragraphs": paragraphs}
    again = {"id": "2hop__3_4", "question": "What?", "paragraphs": paragraphs[:1]}
    path = write(tmp_path / "musique.jsonl", f"{json.dumps(item)}\n{json.dumps(again)}\n")
    assert read(path) == question_set_records("musique.jsonl", [("Ada", "Ada wrote.", 1), ("Bob", "Bob read.", 1)])


def test_hotpotqa_in_parquet_has_its_context_in_columns(tmp_path: Path) -> None:
    context = {"title": ["Ada"], "sentences": [["Ada wrote.", " In 1843."]]}
    pq.write_table(pa.table({"id": ["q1"], "question": ["Who?"], "context": [context]}), tmp_path / "h.parquet")
    assert read(tmp_path / "h.parquet") == question_set_records("h.parquet", [("Ada", "Ada wrote. In 1843.", 1)])
