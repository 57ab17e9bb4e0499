"""The original file of a document: an uploaded one, or where a folder was indexed, if it still holds the same text."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from polyhop.schemas.records import SourceRecord, Unread
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import record_id
from polyhop.warehouse.build import kept_files
from polyhop.warehouse.documents.converter import ConversionLimits, Converter
from polyhop.warehouse.files.corpora import file_records
from polyhop.warehouse.files.formats import DOCUMENTS, TEXTS
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.files.versions import read_manifest
from polyhop.warehouse.uploads import UPLOADS

NO_FILE = "No file belongs to it; this is its text as it was read."
MISSING = "Its file is not where it was indexed from; this is its text as it was read."
CHANGED = "Its file has changed since it was indexed; this is its text as it was read."


@dataclass(frozen=True, slots=True)
class Original:
    """The file that a document was read from; None with the reason if it cannot be shown."""

    path: Path | None
    reason: str = ""


def find_original(settings: Settings, index: str, version: int, id_: str, source: str) -> Original:
    """The original file of a record, by its id and its file as the version has them.

    It lies in the folder of uploads, or at the location that a source of this version was read from, links resolved;
    reading it gives the text that was indexed.
    """
    layout = Layout(settings.root)
    folder = layout.index(index)
    home, text = _home(folder, version, id_)
    if home is None:
        return Original(None, NO_FILE)
    path = home if home.is_file() else home / source
    if path.suffix.lower() not in {*DOCUMENTS, *TEXTS}:
        return Original(None, NO_FILE)
    real = path.resolve()
    if not real.is_file() or not real.is_relative_to(home.resolve()):
        return Original(None, MISSING)
    limits = ConversionLimits(passage_characters=settings.corpus.max_passage_characters)
    with Converter(limits, layout.document_cache) as converter:
        for item in file_records(real, source, converter.convert, Unread()):
            is_it = isinstance(item, SourceRecord) and id_ == (item.id or record_id(item.title, item.text))
            if is_it and isinstance(item, SourceRecord) and item.text == text:
                return Original(real)
    return Original(None, CHANGED)


def _home(folder: IndexFolder, version: int, id_: str) -> tuple[Path | None, str]:
    """Location that the source of a record was read from, None if there is none or it is unknown; the record's text."""
    published = folder.version(version)
    for name, state in read_manifest(published).sources.items():
        kept = published.arrays / kept_files(name)[0]
        if not kept.is_file():
            continue
        texts = pq.read_table(kept, columns=["text"], filters=[("record_id", "==", id_)]).column("text").to_pylist()
        if texts and name == UPLOADS and folder.files.is_dir():
            return folder.files, texts[0]
        if texts:  # of a version that was pulled, locations may be other people's
            is_known = state.location and not folder.pull_marker.exists()
            return Path(state.location) if is_known else None, texts[0]
    return None, ""
