"""Single documents of an index: put, deleted, switched off and on, and listed with what a run made of them.

A document is an uploaded file, whose id is its path, or a record that was added by a call. What other sources hold is
changed there.
"""

import io
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq

from polyhop.inbox import add_records, other_sources, taken_ids
from polyhop.schemas.errors import SourceError, UnknownIdError
from polyhop.schemas.settings import Settings
from polyhop.warehouse.build import kept_files
from polyhop.warehouse.files.formats import ROWS, folder_endings
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.files.records import missing_file, suffix_of
from polyhop.warehouse.files.versions import latest_version, read_manifest
from polyhop.warehouse.inbox import INBOX, deletion, keep_records, waiting_ids
from polyhop.warehouse.open import open_published
from polyhop.warehouse.statements import statement
from polyhop.warehouse.uploads import (
    UPLOADS,
    NamedFile,
    Upload,
    delete_upload,
    is_changed,
    is_hidden,
    is_read,
    keep_uploads,
    mark_changed,
    switch_upload,
    unpacked,
    upload_path,
    uploads,
)

Content = bytes | Path | Mapping[str, Any]
"""Content of a document: a file's, the path of one, or a record {title?, text, metadata?}."""


def add_files(settings: Settings, index: str, files: Iterable[NamedFile]) -> None:
    """Keeps uploaded files, and those in zip archives, for the next run of an index.

    A file of rows (.jsonl, .csv with texts, .parquet) that is in no folder holds records, which go to the inbox. What
    systems add to folders and archives is left out.

    Raises:
        SourceError: If the index takes no files, a file cannot be kept, or another source has its id; none is kept.
        StoreError: If the disk refuses them.
    """
    folder = Layout(settings.root).index(index)
    others = other_sources(folder, UPLOADS)
    with ExitStack() as opened:
        kept: list[NamedFile] = []
        rows: list[NamedFile] = []
        for name, open_content in files:
            ending = suffix_of(Path(name))
            if ending == ".zip":
                content = opened.enter_context(open_content())
                kept += opened.enter_context(unpacked(content, name))
            elif ending in ROWS and not is_read(name) and "/" not in name:
                rows.append((name, open_content))
            elif not is_hidden(name):
                kept.append((name, open_content))
        for id_, source in taken_ids(others, [name for name, _ in kept]):
            raise SourceError(f"Source '{source}' has a document '{id_}'; change it there. No file was kept.")
        if not rows and not _can_be_read(folder, [name for name, _ in kept]):
            raise SourceError(f"No file of a known kind was chosen; use {', '.join(folder_endings())} or .zip.")
        for name, open_content in rows:
            with open_content() as content:
                add_rows(settings, index, str(upload_path(name)), content.read())
        if kept or not rows:
            keep_uploads(folder, kept)


def _can_be_read(folder: IndexFolder, names: list[str]) -> bool:
    """Returns whether an index would have a document, with more files of these names."""
    return any(map(is_read, [*names, *(one.id for one in uploads(folder))])) or latest_version(folder) is not None


def add_rows(settings: Settings, index: str, name: str, content: bytes) -> None:
    """Adds the records of a file, given by its name and bytes, to the inbox of an index."""
    with TemporaryDirectory(prefix="polyhop-inbox-") as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            add_records(settings, index, [path])
        except SourceError as error:  # says which file; the folder is nothing to the caller
            raise SourceError(str(error).replace(f"{folder}/", "")) from error


def put_document(settings: Settings, index: str, id_: str, content: Content) -> None:
    """Keeps one document for the next run, new or instead of the one with its id.

    Args:
        settings: Of the root.
        index: Name of the index; a new one is made.
        id_: Path of a file, with the ending of its format, or any other id of a record.
        content: The file's bytes or path, or the record; a record's id may not end like a file.

    Raises:
        SourceError: If the document cannot be kept, or another source has its id.
    """
    if isinstance(content, Mapping):
        if is_read(id_):
            raise SourceError(f"'{id_}' ends like a file; send the file's content, or choose another id for a record.")
        add_records(settings, index, [{**content, "id": id_}])
        return
    if not is_read(id_):
        raise SourceError(f"'{id_}' does not end like a document (.pdf, .txt, …); send a record with a text instead.")
    if isinstance(content, Path) and not content.is_file():
        raise missing_file(content)
    data = content.read_bytes() if isinstance(content, Path) else content
    add_files(settings, index, [(id_, partial(io.BytesIO, data))])


def delete_document(settings: Settings, index: str, id_: str) -> None:
    """Deletes a document; its passages leave the next version.

    Raises:
        UnknownIdError: If the index has no such document.
        SourceError: If another source holds it, or the index would be empty.
    """
    folder = Layout(settings.root).index(index)
    if _upload(folder, id_) is not None:
        _require_others(folder, id_)
        delete_upload(folder, id_)
        return
    if not waiting_ids(folder).get(id_, id_ in _records_of(folder, INBOX)):
        raise _not_ours(folder, id_)
    _require_others(folder, id_)
    keep_records(folder, [deletion(id_)])


def switch_document(settings: Settings, index: str, id_: str, *, is_on: bool) -> None:
    """Switches an uploaded file off without deleting it, so that its passages leave the next version, or on again.

    Raises:
        UnknownIdError: If the index has no such document.
        SourceError: If it is no uploaded file, or the index would be empty.
    """
    folder = Layout(settings.root).index(index)
    if _upload(folder, id_) is None:
        if id_ in _records_of(folder, INBOX):
            raise SourceError(f"'{id_}' is a record without a file, and cannot be switched off; delete it instead.")
        raise _not_ours(folder, id_)
    if not is_on:
        _require_others(folder, id_)
    switch_upload(folder, id_, is_on=is_on)


def retry_documents(settings: Settings, index: str) -> None:
    """Makes the next run read the uploaded files again, those that could not be used among them.

    Raises:
        SourceError: If there are no uploaded files, and nothing waits.
    """
    folder = Layout(settings.root).index(index)
    if uploads(folder):
        mark_changed(folder)
    elif not waiting_ids(folder):
        raise SourceError(f"Index '{index}' has no uploaded files to read again; upload some.")


def _upload(folder: IndexFolder, id_: str) -> Upload | None:
    return next((one for one in uploads(folder) if one.id == id_), None)


def _records_of(folder: IndexFolder, source: str) -> list[str]:
    """Ids of the records that the newest version has of a source."""
    number = latest_version(folder)
    path = folder.version(number).arrays / kept_files(source)[0] if number is not None else None
    if path is None or not path.is_file():
        return []
    return list(pq.read_table(path, columns=["record_id"]).column("record_id").to_pylist())


def _not_ours(folder: IndexFolder, id_: str) -> Exception:
    number = latest_version(folder)
    sources = read_manifest(folder.version(number)).sources if number is not None else {}
    for name, state in sources.items():
        if name not in {UPLOADS, INBOX} and id_ in _records_of(folder, name):
            return SourceError(
                f"Document '{id_}' comes from source '{name}' ({state.location}); change it there, and index it again."
            )
    return UnknownIdError(f"Index '{folder.name}' has no document '{id_[:200]}' that was uploaded or added.")


def _require_others(folder: IndexFolder, id_: str) -> None:
    """Raises SourceError if an index would have nothing left without a document."""
    number = latest_version(folder)
    sources = read_manifest(folder.version(number)).sources if number is not None else {}
    files = [one.id for one in uploads(folder) if one.is_on and is_read(one.id)]
    records = {**dict.fromkeys(_records_of(folder, INBOX), True), **waiting_ids(folder)}
    left = {*files, *(one for one, is_added in records.items() if is_added)} - {id_}
    if id_ in {*files, *records} and not left and not sources.keys() - {UPLOADS, INBOX}:
        raise SourceError(f"'{id_}' is the only document of index '{folder.name}'; add another one first.")


def document_rows(settings: Settings, index: str) -> dict[str, Any]:
    """The uploaded files of an index: {index, version, waits, documents[{id, bytes, state, reason, documents}]}.

    `state` is read, refused (with the reason), unread (of a kind that is not read), new (no run has read it) or off;
    `waits` says whether a change waits for a run; `documents` are the ids of pages that show it.
    """
    folder = Layout(settings.root).index(index)
    files = uploads(folder)
    shown, refused, version = _made_of(settings, index, [one.id for one in files])
    rows = []
    for one in files:
        reason = refused.get(one.id, "")
        state = "read" if one.id in shown else "refused" if reason else "new" if is_read(one.id) else "unread"
        row = {"id": one.id, "bytes": one.size_bytes, "state": state if one.is_on else "off", "reason": reason}
        rows.append({**row, "documents": shown.get(one.id, [])})
    waits = is_changed(folder) or bool(waiting_ids(folder))
    return {"index": index, "version": version, "waits": waits, "documents": rows}


def _made_of(settings: Settings, index: str, ids: list[str]) -> tuple[dict[str, list[str]], dict[str, str], int | None]:
    """Documents of the current version by file, reasons of refused files, and the version; nothing without one."""
    if index not in Layout(settings.root).index_names():
        return {}, {}, None
    with closing(open_published(settings.root, index)) as published:
        shown: dict[str, list[str]] = {}
        for row in published.documents(statement("pages", "documents_of_files"), {"files": ids}):
            shown.setdefault(row["source"], []).append(row["document_id"])
        refused = published.documents(statement("pages", "refused_files"), {"files": ids})
        return shown, {row["source"]: row["reason"] for row in refused}, published.manifest.version
