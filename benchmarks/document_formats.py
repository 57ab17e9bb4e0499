"""What reads document files: time, what is kept and what is lost, of our readers and of others.

    uv run python benchmarks/document_formats.py

The others are no dependencies: install markitdown[pdf,docx,pptx,xlsx], pypdf, pdfminer.six, trafilatura,
readability-lxml and markdown-it-py beside Polyhop into an environment of its own.

Files are made here, so that all they hold is known: a PDF of 100 pages, a Word file of 1,000 paragraphs, 50 slides,
a sheet of 2,000 rows and another with one value in row 200,000, and four web pages with something around their text.
A package that is not installed is left out. Processor seconds, the best of three, without starting Python and
importing; nothing is measured for longer than a minute.
"""

import argparse
import json
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
import document_files as made

LONGEST = 60
PAGES, PARAGRAPHS, SLIDES, ROWS = 100, 1_000, 50, 2_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with TemporaryDirectory() as folder:
        for part in (markdown(), web_pages(), documents(Path(folder))):
            for row in part:
                print(json.dumps(row) if chosen.json else " | ".join(map(str, row.values())), flush=True)


def documents(folder: Path) -> Iterator[dict[str, object]]:
    """Seconds and kept marks of each reader on each kind of document."""
    files = {
        "pdf": made.pdf(
            folder / "a.pdf",
            [[f"Word{page}x{line} is a line of text about engines." for line in range(35)] for page in range(PAGES)],
        ),
        "docx": _word(folder / "a.docx"),
        "pptx": _slides(folder / "a.pptx"),
        "xlsx": made.sheets(folder / "a.xlsx", [("Name", "Born"), *((f"Word{n}", n) for n in range(ROWS))]),
    }
    marks = {
        "pdf": [f"Word{page}x{line} " for page in range(PAGES) for line in (0, 34)],
        "docx": [f"Word{n} " for n in range(PARAGRAPHS)],
        "pptx": [f"Word{n} " for n in range(SLIDES)],
        "xlsx": [f"Word{n}" for n in range(ROWS)],
    }
    for kind, path in files.items():
        for name, read in _readers(kind).items():
            seconds, text, places = _timed(read, path)
            kept = sum(mark in text for mark in marks[kind]) / len(marks[kind])
            yield {"file": kind, "reader": name, "s": seconds, "text kept": kept, "places": places}


def _word(path: Path) -> Path:
    import docx

    file = docx.Document()
    for number in range(PARAGRAPHS):
        if number % 20 == 0:
            file.add_heading(f"Heading {number}", 1 + number % 3)
        file.add_paragraph(f"Word{number} is a line of text about engines.")
    file.save(str(path))
    return path


def _slides(path: Path) -> Path:
    import pptx

    file = pptx.Presentation()
    for number in range(SLIDES):
        slide = file.slides.add_slide(file.slide_layouts[1])
        slide.shapes.title.text = f"Slide {number}"
        slide.placeholders[1].text = f"Word{number} is a line of text."
    file.save(str(path))
    return path


def _timed(read: Callable[[Path], tuple[str, str]], path: Path) -> tuple[float, str, str]:
    best, found = float("inf"), ("", "")
    signal.signal(signal.SIGALRM, _too_long)
    for _ in range(3):
        begin = time.process_time()
        signal.alarm(LONGEST)
        try:
            found = read(path)
        except TimeoutError:
            return float("inf"), "", f"gave up after {LONGEST} s"
        finally:
            signal.alarm(0)
        best = min(best, time.process_time() - begin)
    return round(best, 3), *found


def _too_long(_number: int, _frame: object) -> None:
    raise TimeoutError


def _readers(kind: str) -> dict[str, Callable[[Path], tuple[str, str]]]:
    """(text, what says where its parts stand) by reader."""
    found: dict[str, Callable[[Path], tuple[str, str]]] = {}
    _add(found, "Polyhop", lambda: _ours(kind))
    _add(found, "MarkItDown", _markitdown)
    if kind == "pdf":
        _add(found, "pypdf", _pypdf)
        _add(found, "pdfminer.six", _pdfminer)
    return found


def _add(found: dict[str, Any], name: str, make: Callable[[], Any]) -> None:
    try:
        found[name] = make()
    except ImportError:
        print(f"{name} is not installed", file=sys.stderr)


def _ours(kind: str) -> Callable[[Path], tuple[str, str]]:
    from pkgutil import resolve_name

    from polyhop.warehouse.documents.building import Reading
    from polyhop.warehouse.files.formats import DOCUMENTS

    read = resolve_name(f"polyhop.warehouse.documents.{DOCUMENTS[f'.{kind}'].reader}")

    def reader(path: Path) -> tuple[str, str]:
        with path.open("rb") as stream:
            document = read(stream, Reading())
        sections = document.sections
        pages = len({section.page for section in sections if section.page})
        slides = len({section.slide for section in sections if section.slide})
        sheets = len({section.sheet for section in sections if section.sheet})
        headings = len({section.headings for section in sections if section.headings})
        return document.text, f"{pages} pages, {slides} slides, {sheets} sheets, {headings} headings"

    return reader


def _markitdown() -> Callable[[Path], tuple[str, str]]:
    from markitdown import MarkItDown

    converter = MarkItDown()

    def reader(path: Path) -> tuple[str, str]:
        text = converter.convert(str(path)).text_content
        slides = len(re.findall(r"<!-- Slide number", text))
        headings = len(re.findall(r"^#+ ", text, re.MULTILINE))
        return text, f"{text.count(chr(12))} page breaks, {slides} slides as comments, {headings} headings as text"

    return reader


def _pypdf() -> Callable[[Path], tuple[str, str]]:
    from pypdf import PdfReader

    def reader(path: Path) -> tuple[str, str]:
        pages = [page.extract_text() for page in PdfReader(path).pages]
        return "\n".join(pages), f"{len(pages)} pages"

    return reader


def _pdfminer() -> Callable[[Path], tuple[str, str]]:
    from pdfminer.high_level import extract_text

    def reader(path: Path) -> tuple[str, str]:
        text = extract_text(str(path))
        return text, f"{text.count(chr(12))} pages"

    return reader


AROUND = ["Home", "Imprint", "Accept all cookies", "Related stories", "Subscribe now", "Copyright 2026"]
MAIN = [
    f"The {word} engine was built in {1800 + n} and weaves patterns of its own." for n, word in enumerate("abcdefgh")
]
PARAGRAPHS_OF_MAIN = "".join(f"<p>{text}</p>" for text in MAIN)
LINKS = "".join(f"<li><a href='/{n}'>{text}</a></li>" for n, text in enumerate(AROUND))
WEB_PAGES = {
    "semantic": f"<header>Home</header><nav><ul>{LINKS}</ul></nav><main><h1>Engines</h1>{PARAGRAPHS_OF_MAIN}</main>"
    f"<aside>Related stories</aside><footer>Imprint, Copyright 2026, Subscribe now, Accept all cookies</footer>",
    "divs": f"<div class='menu'><ul>{LINKS}</ul></div><div><h1>Engines</h1>{PARAGRAPHS_OF_MAIN}</div>"
    f"<div class='cookie-banner'>Accept all cookies</div><div id='footer'><ul>{LINKS}</ul></div>",
    "table": f"<table><tr><td><ul>{LINKS}</ul></td><td><h2>Engines</h2>{PARAGRAPHS_OF_MAIN}</td></tr></table>",
    "short": f"<p>{MAIN[0]}</p>",
}


def web_pages() -> Iterator[dict[str, object]]:
    """Share of the main sentences kept, and of what stands around them, on pages of known content."""
    readers: dict[str, Callable[[str], str]] = {}
    _add(readers, "Polyhop", _our_html)
    _add(readers, "trafilatura", _trafilatura)
    _add(readers, "readability", _readability)
    for name, read in readers.items():
        for page, body in WEB_PAGES.items():
            text = read(f"<html><head><title>T</title></head><body>{body}</body></html>")
            wanted = [sentence for sentence in MAIN if sentence in body]
            kept = sum(sentence in text for sentence in wanted) / len(wanted)
            around = [words for words in AROUND if words in body]
            left = sum(words in text for words in around) / max(1, len(around))
            yield {"file": f"page: {page}", "reader": name, "main text kept": kept, "rest kept": round(left, 2)}
        large = f"<html><body>{WEB_PAGES['divs'] * 40}</body></html>"
        begin = time.process_time()
        read(large)
        seconds = round(time.process_time() - begin, 3)
        yield {"file": f"page of {len(large):,} characters", "reader": name, "s": seconds}


def _our_html() -> Callable[[str], str]:
    from polyhop.warehouse.files.web_pages import read_html

    return lambda page: read_html(page.encode(), "stem").text


def _trafilatura() -> Callable[[str], str]:
    import trafilatura

    return lambda page: trafilatura.extract(page) or ""


def _readability() -> Callable[[str], str]:
    from lxml import html
    from readability import Document

    return lambda page: str(html.fromstring(Document(page).summary()).text_content())


MARKDOWN = "# Heading\n\nText with *emphasis* and a [link](x).\n\n| a | b |\n|-|-|\n| 1 | 2 |\n\n- item\n\n"


def markdown() -> Iterator[dict[str, object]]:
    """Seconds for a megabyte of Markdown."""
    parsers: dict[str, Callable[[str], object]] = {}
    _add(parsers, "pyromark", lambda: __import__("pyromark").html)
    _add(parsers, "markdown-it-py", lambda: __import__("markdown_it").MarkdownIt().enable("table").render)
    text = MARKDOWN * (1_000_000 // len(MARKDOWN))
    for name, parse in parsers.items():
        begin = time.process_time()
        parse(text)
        yield {"file": "Markdown, 1 MB", "reader": name, "s": round(time.process_time() - begin, 3)}


if __name__ == "__main__":
    main()
