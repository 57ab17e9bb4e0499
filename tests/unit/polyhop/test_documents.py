"""Single documents of an index: put, replaced, deleted and switched off; what no change may do."""

import io
from functools import partial
from pathlib import Path

import pytest
from small_indexes import indexed, write_rows

import polyhop
from polyhop.documents import (
    add_files,
    delete_document,
    document_rows,
    put_document,
    retry_documents,
    switch_document,
)
from polyhop.inbox import add_records, run_inbox
from polyhop.schemas.errors import PolyhopError, QuarantineExceededError, SourceError, UnknownIdError
from polyhop.schemas.settings import Settings

OSLO = b"Oslo lies on a fjord."
BERN = b"Bern lies on the Aare."


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path / "root", strategies=("bm25",))


def put(settings: Settings, **files: bytes) -> None:
    """Uploads files, named without `.txt`, and indexes them."""
    named = [(f"{name}.txt", partial(io.BytesIO, content)) for name, content in files.items()]
    add_files(settings, "towns", named)
    run_inbox(settings, "towns")


def texts(settings: Settings) -> dict[str, str]:
    with polyhop.open_index("towns", settings=settings) as index:
        return {row["passage_id"]: row["text"] for row in index.sql("FROM passages").to_pylist()}


def states(settings: Settings) -> dict[str, str]:
    return {row["id"]: row["state"] for row in document_rows(settings, "towns")["documents"]}


def test_an_index_is_made_of_uploaded_files_and_one_is_replaced(settings: Settings) -> None:
    put(settings, oslo=OSLO, bern=BERN)
    put(settings, bern=b"Bern is the capital.")
    assert texts(settings) == {"oslo.txt": OSLO.decode(), "bern.txt": "Bern is the capital."}


def test_a_file_that_is_deleted_or_off_leaves_the_next_version(settings: Settings) -> None:
    put(settings, oslo=OSLO, bern=BERN, rome=b"Rome lies on the Tiber.")
    delete_document(settings, "towns", "oslo.txt")
    switch_document(settings, "towns", "bern.txt", is_on=False)
    run_inbox(settings, "towns")
    assert (list(texts(settings)), states(settings)) == (["rome.txt"], {"bern.txt": "off", "rome.txt": "read"})
    switch_document(settings, "towns", "bern.txt", is_on=True)
    run_inbox(settings, "towns")
    assert sorted(texts(settings)) == ["bern.txt", "rome.txt"]


def test_a_file_of_no_use_is_listed_with_the_reason_and_read_again(settings: Settings) -> None:
    put(settings, oslo=OSLO)
    add_files(settings, "towns", [("a.pdf", partial(io.BytesIO, b"no PDF")), ("b.png", partial(io.BytesIO, b"x"))])
    assert states(settings) == {"a.pdf": "new", "b.png": "unread", "oslo.txt": "read"}
    run_inbox(settings, "towns")
    (refused,) = (row for row in document_rows(settings, "towns")["documents"] if row["state"] == "refused")
    assert (refused["id"], refused["reason"][:20]) == ("a.pdf", "it is not a .pdf fil")
    retry_documents(settings, "towns")
    assert document_rows(settings, "towns")["waits"] is True


def test_a_run_that_can_use_no_file_fails_and_says_why(settings: Settings) -> None:
    add_files(settings, "towns", [("a.pdf", partial(io.BytesIO, b"no PDF"))])
    with pytest.raises(QuarantineExceededError, match=r"a.pdf: it is not a .pdf file"):
        run_inbox(settings, "towns")


def test_a_record_is_put_and_deleted_by_its_id(settings: Settings) -> None:
    put(settings, oslo=OSLO)
    put_document(settings, "towns", "b", {"title": "Bern", "text": "Bern lies on the Aare."})
    run_inbox(settings, "towns")
    assert sorted(texts(settings)) == ["b", "oslo.txt"]
    delete_document(settings, "towns", "b")
    run_inbox(settings, "towns")
    assert list(texts(settings)) == ["oslo.txt"]


def test_a_record_that_waits_is_deleted_before_a_run_reads_it(settings: Settings) -> None:
    add_records(settings, "towns", [{"id": "b", "text": "Bern."}, {"id": "o", "text": "Oslo."}])
    delete_document(settings, "towns", "b")
    run_inbox(settings, "towns")
    assert list(texts(settings)) == ["o"]


def test_a_file_of_rows_adds_records_unless_it_is_in_a_folder(settings: Settings) -> None:
    rows = b'{"id": "r", "text": "Rome."}\n'
    add_files(settings, "towns", [("rows.jsonl", partial(io.BytesIO, rows)), ("a/x.json", partial(io.BytesIO, b"{}"))])
    run_inbox(settings, "towns")
    assert (list(texts(settings)), states(settings)) == (["r"], {"a/x.json": "unread"})


@pytest.mark.parametrize("names", [(), ("a.png",), (".DS_Store",)])
def test_an_index_is_not_made_of_files_that_cannot_be_read(settings: Settings, names: tuple[str, ...]) -> None:
    with pytest.raises(SourceError, match=r"No file of a known kind was chosen; use \.txt, "):
        add_files(settings, "towns", [(name, partial(io.BytesIO, b"x")) for name in names])
    assert states(settings) == {}


def test_the_last_uploaded_file_beside_another_source_is_deleted(settings: Settings, tmp_path: Path) -> None:
    indexed(settings, write_rows(tmp_path / "c.jsonl", [{"id": "w", "text": "Warsaw."}]), "towns")
    put(settings, oslo=OSLO)
    delete_document(settings, "towns", "oslo.txt")
    run_inbox(settings, "towns")
    assert list(texts(settings)) == ["w"]


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        (lambda s: delete_document(s, "towns", "oslo.txt"), SourceError, "is the only document of index 'towns'"),
        (lambda s: switch_document(s, "towns", "oslo.txt", is_on=False), SourceError, "is the only document"),
        (lambda s: delete_document(s, "towns", "none"), UnknownIdError, "has no document 'none'"),
        (lambda s: delete_document(s, "towns", "../oslo.txt"), UnknownIdError, "has no document"),
        (lambda s: delete_document(s, "nothing", "a.txt"), UnknownIdError, "Index 'nothing' has no document"),
        (lambda s: put_document(s, "towns", "../a.txt", b"x"), SourceError, "cannot be the path of an uploaded file"),
        (lambda s: put_document(s, "towns", "a.txt", {"text": "x"}), SourceError, "ends like a file"),
        (lambda s: put_document(s, "towns", "a", b"x"), SourceError, "does not end like a document"),
        (lambda s: retry_documents(s, "nothing"), SourceError, "has no uploaded files to read again"),
    ],
)
def test_a_change_that_cannot_be_is_one_sentence(
    settings: Settings, change: object, error: type[PolyhopError], sentence: str
) -> None:
    put(settings, oslo=OSLO)
    assert callable(change)
    with pytest.raises(error, match=sentence):
        change(settings)
    assert states(settings) == {"oslo.txt": "read"}


def test_a_document_of_another_source_is_changed_there(settings: Settings, tmp_path: Path) -> None:
    indexed(settings, write_rows(tmp_path / "c.jsonl", [{"id": "w.txt", "text": "Warsaw."}]), "towns")
    with pytest.raises(SourceError, match=r"Document 'w.txt' comes from source 'c' \(.*c.jsonl\); change it there"):
        delete_document(settings, "towns", "w.txt")
    with pytest.raises(SourceError, match=r"Source 'c' has a document 'w.txt'; change it there"):
        put_document(settings, "towns", "w.txt", b"Warsaw?")


def test_a_source_of_ones_own_that_is_called_uploads_is_not_replaced(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "uploads").mkdir()
    (tmp_path / "uploads" / "w.txt").write_text("Warsaw.")
    indexed(settings, tmp_path / "uploads", "towns")
    with pytest.raises(SourceError, match="reads its source 'uploads' from"):
        put_document(settings, "towns", "oslo.txt", OSLO)
