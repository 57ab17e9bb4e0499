"""The registry of file formats: which endings are read, and the function that reads each.

Imports a reader when a file of its ending is read. Other packages add corpus formats through entry points, which are
looked at only when an ending is not ours.
"""

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import cast

from polyhop.schemas.errors import (
    PolyhopError,
    SourceError,
    described,
    extensions,
    install_words,
    load_extension,
    unusable_extension,
)
from polyhop.schemas.records import BadRecord, Document, SourceRecord
from polyhop.warehouse.files.records import FaultError, Row, bad_record, to_record

GROUP = "polyhop.formats"
"""Entry points of other packages: an ending like `.xml`, and a function from a path to its `Row`s and `BadRecord`s."""

NOUN = "format"

RowReader = Callable[[Path, Collection[str]], Iterator[Row | BadRecord]]
TextReader = Callable[[bytes, str], Document]
OtherReader = Callable[[Path], Iterable[Row | BadRecord]]

ROWS: Mapping[str, str] = {
    ".jsonl": "rows:json_lines",
    ".jsonl.gz": "rows:json_lines",
    ".json": "rows:json_document",
    ".json.gz": "rows:json_document",
    ".csv": "rows:csv_rows",
    ".csv.gz": "rows:csv_rows",
    ".parquet": "rows:parquet_rows",
}
"""Formats of rows: a reader of (file, names of fields of which a table must have one as a column)."""

TEXTS: Mapping[str, str] = {
    ".txt": "web_pages:read_text",
    ".md": "web_pages:read_markdown",
    ".markdown": "web_pages:read_markdown",
    ".html": "web_pages:read_html",
    ".htm": "web_pages:read_html",
    ".xhtml": "web_pages:read_html",
}
"""Formats of one text, which folders are searched for: how to get a Document from a file's bytes and stem."""


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """A format of files that are not text, read in a separate process."""

    reader: str  # The function, in polyhop.warehouse.documents.
    has_signature: bool = True  # Whether every such file is known by its first bytes.
    package: str = ""  # What it needs besides Polyhop, as packages are called; "" if nothing.
    module: str = ""  # As it is imported.
    revision: int = 1  # To be raised with every change of the reader that changes what it gives.

    def require(self) -> None:
        """Raises NotInstalledError if the package is not installed."""
        if self.module and find_spec(self.module) is None:
            raise NotInstalledError(f"reading it needs {self.package}; {INSTALL_OFFICE}")


INSTALL_OFFICE = install_words("office")
"""Ends the reason of each file that was not read because its package is missing; statements look for it."""

DOCUMENTS: Mapping[str, DocumentFormat] = {
    ".pdf": DocumentFormat("office:read_pdf", package="pypdfium2", module="pypdfium2", revision=2),
    ".docx": DocumentFormat("office:read_word", package="python-docx", module="docx", revision=3),
    ".pptx": DocumentFormat("office:read_slides", package="python-pptx", module="pptx", revision=3),
    ".xlsx": DocumentFormat("office:read_sheets", package="openpyxl", module="openpyxl", revision=4),
    ".epub": DocumentFormat("epub_mail:read_epub", revision=3),
    ".eml": DocumentFormat("epub_mail:read_mail", has_signature=False, revision=4),
    ".csv": DocumentFormat("office:read_csv", has_signature=False, revision=3),
}
"""Formats of documents, which folders are searched for: each file is one record, and so is each attached to it.

A CSV file is one only if none of its columns holds texts: else its rows are records.
"""

ATTACHED = frozenset((*TEXTS, *DOCUMENTS))  # endings of files that are read where they are attached to a message

OURS = frozenset((*ROWS, *TEXTS, *DOCUMENTS))  # endings that are ours


class NotInstalledError(FaultError):
    """The package that reads a file is not installed."""


def row_reader(ending: str) -> RowReader:
    """The reader of one of `ROWS`."""
    return cast("RowReader", resolve_name(f"polyhop.warehouse.files.{ROWS[ending]}"))


def text_reader(ending: str) -> TextReader:
    """The reader of one of `TEXTS`."""
    return cast("TextReader", resolve_name(f"polyhop.warehouse.files.{TEXTS[ending]}"))


def formats_of_others() -> Mapping[str, EntryPoint]:
    """Corpus formats that installed packages bring, by ending; ours keep their endings."""
    theirs = {name.lower(): point for name, point in extensions(GROUP).items()}
    return {ending: point for ending, point in theirs.items() if ending not in OURS}


def is_of_others(ending: str) -> bool:
    """Returns whether an installed package reads this ending; searches the packages only if Polyhop does not."""
    return ending not in OURS and ending in formats_of_others()


def folder_endings() -> list[str]:
    """Endings of the files that a folder is searched for."""
    return [*TEXTS, *DOCUMENTS, *formats_of_others()]


def described_formats() -> str:
    """The corpus formats in words: `.csv(.gz), .parquet, or a folder of .md, .txt files`."""
    packed = {ending.removesuffix(".gz") for ending in ROWS if ending.endswith(".gz")}
    rows = [f"{ending}(.gz)" if ending in packed else ending for ending in ROWS if not ending.endswith(".gz")]
    return f"{', '.join([*rows, *formats_of_others()])}, or a folder of {', '.join(folder_endings())} files"


def records_of_others(path: Path, ending: str, name: str) -> Iterator[SourceRecord | BadRecord]:
    """The records of a file in another package's format, checked like ours."""
    point = formats_of_others()[ending]
    read = load_extension(point, NOUN)
    if not callable(read):
        raise unusable_extension(point, NOUN, f"is {point.value}, which is not a function")
    return _records(cast("OtherReader", read), point, path, name)


def _records(read: OtherReader, point: EntryPoint, path: Path, name: str) -> Iterator[SourceRecord | BadRecord]:
    count = 0
    try:
        for row in read(path):
            count += 1
            if isinstance(row, BadRecord):
                yield bad_record(name, row.line, row.reason, row.excerpt)
            elif isinstance(row, Row):
                yield to_record(row, name)
            else:
                fault = f"yields {type(row).__name__} where a Row or a BadRecord is needed"
                raise unusable_extension(point, NOUN, fault)
    except FaultError as fault:  # says that the rest of the file is of no use, as our readers of texts do
        yield bad_record(name, count + 1, str(fault))
    except (PolyhopError, OSError, EOFError, zlib.error):
        raise  # these already have a sentence
    except Exception as error:  # another package's reader may fail in any way
        after = f" after record {count}" if count else ""
        raise SourceError(
            f"{path} cannot be read{after}: the {described(point, NOUN)} failed "
            f"with {type(error).__name__}: {error}. Fix the file, or update that package."
        ) from error
