"""Documents in the browser, over HTTP and from Python: an index from nothing, its sources, and what may not change."""

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest
from browser_process import PAGE_FACTS, Browser, Look
from document_files import pdf
from small_indexes import Call, wait_for

import polyhop
from polyhop.schemas.errors import SourceError, UnknownIdError

HTTP = httpx.Client(timeout=60)
SETTINGS = ("--set", "strategies=bm25", "--set", "corpus.language=en")
OSLO = b"Oslo lies on a fjord. The fjord is 100 km long."


@pytest.fixture(scope="module")
def url(serve: Call, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A server that may change an empty root."""
    return str(serve(tmp_path_factory.mktemp("empty") / "root", "--allow-changes", *SETTINGS).url)


def packed(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, b"Text.")
    return stream.getvalue()


def sent(url: str, path: str, files: list[tuple[str, Any]], **fields: str) -> httpx.Response:
    """A form as a browser sends it, with the token of the page that has it."""
    page = HTTP.get(f"{url}/").text
    token = re.search(r'name="csrf" value="(\w+)"', page)
    data = {"csrf": token[1] if token else "", **fields}
    return HTTP.post(f"{url}{path}", data=data, files=files, headers={"Accept": "text/html"})


def test_documents_are_put_switched_and_deleted_from_another_machine(url: str) -> None:
    reply = HTTP.put(f"{url}/api/v1/indexes/towns/documents/a/oslo.txt", content=OSLO)
    assert (reply.status_code, reply.json()["index"]) == (202, "towns")
    wait_for(lambda: "towns" in [row["index"] for row in HTTP.get(f"{url}/api/v1/indexes").json()])
    with polyhop.connect(url, "towns") as index:
        index.put("bern.txt", b"Bern lies on the Aare.", wait=False)
        index.put("r", {"title": "Rome", "text": "Rome lies on the Tiber."}, wait=False)
        index.switch("bern.txt", is_on=False)
        assert index.sql("SELECT record_id FROM passages ORDER BY ALL").to_pydict() == {
            "record_id": ["a/oslo.txt", "r"]
        }
        index.delete("r")
        assert index.sql("SELECT record_id FROM passages").to_pydict() == {"record_id": ["a/oslo.txt"]}
        with pytest.raises(SourceError, match=r"'a/oslo.txt' is the only document"):
            index.delete("a/oslo.txt")
        with pytest.raises(UnknownIdError, match="has no document 'none'"):
            index.delete("none")
    rows = HTTP.get(f"{url}/api/v1/indexes/towns/documents").json()["documents"]
    assert [(row["id"], row["state"]) for row in rows] == [("a/oslo.txt", "read"), ("bern.txt", "off")]


@pytest.mark.parametrize("path", ["%2e%2e%2fevil.txt", "a/%2e%2e/%2e%2e/evil.txt", "%2Fevil.txt"])
def test_no_document_is_put_outside_of_the_folder(url: str, path: str) -> None:
    reply = HTTP.put(f"{url}/api/v1/indexes/attacked/documents/{path}", content=b"Evil.")
    assert (reply.status_code, "cannot be the path of an uploaded file" in reply.text) == (422, True)


def test_no_document_is_put_among_those_that_are_switched_off(url: str) -> None:
    reply = HTTP.put(f"{url}/api/v1/indexes/attacked/documents/.off/evil.txt", content=b"Evil.")
    assert (reply.status_code, "No file of a known kind" in reply.text) == (422, True)


@pytest.mark.parametrize("name", ["../evil.txt", "/tmp/evil.txt", "a/../../evil.txt"])
def test_an_uploaded_archive_that_leads_elsewhere_is_refused_on_the_page(url: str, name: str) -> None:
    reply = sent(url, "/indexes", [("files", ("all.zip", packed("good.txt", name)))], name="attacked")
    assert (reply.status_code, "cannot be the path of an uploaded file" in reply.text) == (422, True)
    assert HTTP.get(f"{url}/indexes/attacked/documents").status_code == 404  # nothing of it was kept


@pytest.mark.parametrize(
    ("fields", "files", "status", "sentence"),
    [
        ({"name": "../x"}, [("files", ("a.txt", OSLO))], 422, "is not a name for an index"),
        ({"name": "x"}, [("files", ("a.png", b"x"))], 422, "No file of a known kind was chosen"),
        ({"name": "x"}, [("files", ("a.zip", b"no archive"))], 422, "is damaged or of an unknown kind"),
        ({"name": "x", "csrf": "0"}, [("files", ("a.txt", OSLO))], 403, "from an earlier run of this server"),
    ],
)
def test_an_index_that_cannot_be_made_is_one_sentence(
    url: str, fields: dict[str, str], files: list[tuple[str, Any]], status: int, sentence: str
) -> None:
    reply = sent(url, "/indexes", files, **fields)
    assert (reply.status_code, sentence in reply.text.replace("&#39;", "'")) == (status, True)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/api/v1/indexes/demo/documents/a.txt"),
        ("DELETE", "/api/v1/indexes/demo/documents/a.txt"),
        ("PATCH", "/api/v1/indexes/demo/documents/a.txt"),
        ("POST", "/api/v1/indexes/demo/runs"),
        ("POST", "/indexes"),
        ("POST", "/indexes/demo/documents"),
        ("POST", "/indexes/demo/documents/delete"),
    ],
)
def test_a_server_that_reads_only_changes_no_document(window: str, method: str, path: str) -> None:
    reply = HTTP.request(method, f"{window}{path}", json={"on": False})
    assert (reply.status_code, "--allow-changes" in reply.text) == (403, True)


LINES = ["The lighthouse of Bellmere", "Ines Calder designed the lighthouse of Bellmere in 1871."]
BORN = ["Ines Calder was born in Oldport.", "She studied the harbour for nine years before the tower was built."]
PDF_PAGES = """[document.querySelector('#source img').alt, ...[...document.querySelectorAll(
    'nav[aria-label="Pages of the file"] a')].map(e => e.textContent)]"""
GOOD = {"wide": 0, "scripts": 0, "foreign": [], "headings": 1, "axe": []}


def test_a_stranger_goes_from_an_empty_root_to_a_sentence_in_a_pdf(
    serve: Call, browser: Browser, tmp_path: Path
) -> None:
    """And compares two strategies on the way: with a browser alone, and on pages without a fault."""
    url = serve(tmp_path / "root", "--allow-changes", "--set", "strategies=bm25,rrf").url
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as packing:
        packing.write(pdf(tmp_path / "a.pdf", [LINES, BORN]), "reports/lighthouse.pdf")
        packing.writestr("rivers.txt", "Oldport lies on the River Wend. The River Wend flows through Marsh County.")
        packing.writestr("scan.pdf", b"%PDF-1.4 nothing")
    faults: list[object] = []

    def look(path: str, *steps: tuple[str, ...], evaluate: str = "0") -> tuple[Look, Any]:
        values = {**PAGE_FACTS, "asked": evaluate}
        seen = browser.look(f"{url}{path}", steps=steps, evaluate=values, width=390)
        asked, _ = seen.values.pop("asked"), seen.values.pop("paper")
        faults.extend([path, seen.values, seen.messages] if seen.values != GOOD or seen.messages else [])
        return seen, asked

    form = ("form[action='/indexes']", "input[name=name]", "input[name=files][multiple]")
    made = [("fill", form[1], "towers"), ("upload", form[2], str(archive)), ("click", f"{form[0]} button")]
    begun, is_live = look("/", *made, evaluate="document.querySelector('#run').hasAttribute('hx-get')")
    assert (begun.url, is_live) == (f"{url}/indexes/towers/documents", True)
    wait_for(lambda: HTTP.get(f"{url}/api/v1/indexes").json())
    documents, _ = look("/indexes/towers/documents", ("wait", "text=is published"))
    assert [part for part in ("not read: it is damaged", "scan.pdf", "2 read") if part not in documents.text] == []
    ask = "/ask?index=towers&question=How+long+did+Ines+Calder+study+the+harbour%3F&strategy=rrf&other=bm25"
    answers, link = look(ask, evaluate="document.querySelector('blockquote a').getAttribute('href')")
    assert all(name in answers.text for name in ("rrf", "bm25"))
    shown = "[document.querySelector('mark').textContent, document.querySelector('#source img').naturalWidth]"
    source, (sentence, width) = look(str(link), evaluate=shown)
    assert "studied the harbour for nine years" in sentence
    turned, pages = look(str(link), ("click", "nav[aria-label='Pages of the file'] a"), evaluate=PDF_PAGES)
    assert ("&pdf_page=1" in turned.url, pages) == (
        True,
        ["Page 1 of reports/lighthouse.pdf", "page 2", "the sentence"],
    )
    assert (width > 1_000, "#source" in source.url, faults) == (True, True, [])


def test_one_document_is_changed_without_javascript(serve: Call, browser: Browser, tmp_path: Path) -> None:
    url = serve(tmp_path / "root", "--allow-changes", *SETTINGS).url
    for name in ("oslo.txt", "bern.txt"):
        HTTP.put(f"{url}/api/v1/indexes/towns/documents/{name}", content=OSLO)
    wait_for(lambda: not HTTP.get(f"{url}/api/v1/indexes/towns/documents").json()["waits"])
    row = "tr:has-text('oslo.txt')"
    steps = [("click", f"{row} summary"), ("click", f"{row} form[action$='/off'] button")]
    page = browser.look(f"{url}/indexes/towns/documents", steps=steps, has_scripts=False)
    assert "1 switched off" in page.text
    wait_for(lambda: not HTTP.get(f"{url}/api/v1/indexes/towns/documents").json()["waits"])
    sql = {"query": "SELECT record_id FROM passages"}
    assert HTTP.post(f"{url}/api/v1/indexes/towns/sql", json=sql).json()["rows"] == [{"record_id": "bern.txt"}]
    steps = [("click", "tr:has-text('bern.txt') summary"), ("click", "form[action$='/delete'] button.contrast")]
    assert "is the only document of index 'towns'" in browser.look(page.url, steps=steps, has_scripts=False).text


@pytest.mark.parametrize("document", ["..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd", "oslo.txt", ""])
def test_no_file_is_served_that_is_no_document_of_the_index(url: str, document: str) -> None:
    HTTP.put(f"{url}/api/v1/indexes/files/documents/oslo.txt", content=OSLO)
    wait_for(lambda: "files" in {row["index"] for row in HTTP.get(f"{url}/api/v1/indexes").json()})
    reply = HTTP.get(f"{url}/indexes/files/original?document={document}")
    assert (reply.status_code, "has no document" in reply.text) == (404, True)


def test_a_link_in_the_folder_of_uploads_is_not_served(serve: Call, tmp_path: Path) -> None:
    url = serve(tmp_path / "root", "--allow-changes", *SETTINGS).url
    HTTP.put(f"{url}/api/v1/indexes/towns/documents/oslo.txt", content=OSLO)
    wait_for(lambda: HTTP.get(f"{url}/api/v1/indexes").json())
    (row,) = HTTP.get(f"{url}/api/v1/indexes/towns/documents").json()["documents"]
    address = f"{url}/indexes/towns/original?document={row['documents'][0]}"
    served = HTTP.get(address)
    assert (served.content, served.headers["content-disposition"][:10]) == (OSLO, "attachment")
    kept = tmp_path / "root" / "indexes" / "towns" / "files" / "oslo.txt"
    secret = kept.rename(tmp_path / "secret.txt")  # the same text, elsewhere
    kept.symlink_to(secret)
    assert HTTP.get(address).status_code == 404
