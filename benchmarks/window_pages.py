"""Pictures of every page of the window, light and dark, for a phone and a desktop; and times of the first page.

Run: uv run python benchmarks/window_pages.py pictures FOLDER
     uv run python benchmarks/window_pages.py time ROOT

`pictures` indexes the demo's corpus twice in a temporary root, adds an uploaded folder, evaluations and jobs, follows
each kind of link once, and writes one PNG per page, width and scheme. `time` starts a server on ROOT and prints
milliseconds of the first page: that which the server answers first, and the median of the next twenty.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

PROJECT = Path(__file__).resolve().parents[1]
sys.path.append(str(PROJECT / "tests" / "support"))

from browser_process import Browser, page_paths  # noqa: E402 - a file beside the tests
from document_files import pdf  # noqa: E402

DEMO = PROJECT / "polyhop" / "demo"
VIEWS = [(width, scheme) for width in (390, 1280) for scheme in ("light", "dark")]
QUESTION = "Where+was+the+architect+of+the+Eiffel+Tower+born%3F"
FIRST = (
    "/", "/login", "/nothing", "/ask", f"/ask?index=demo&question={QUESTION}",
    f"/ask?index=demo&question={QUESTION}&other=bm25", "/indexes/demo/entities?name=Paris",
    "/indexes/demo/words?words=river", "/indexes/demo/graph", "/jobs/1", "/jobs/1/questions/q01", "/jobs/2",
    "/evaluations/1", "/evaluations/compare?a=1&b=2", "/indexes/demo/diff?before=1&after=2",
    "/indexes/reports/documents", "/sql?index=demo&query=SELECT+type,+count(*)+FROM+entities+GROUP+BY+ALL",
    "/sql?index=demo&table=passages", "/sql?index=demo&query=SELECT", "/indexes/demo/edits?kind=rename&name=Paris",
    "/ask?index=reports&question=Where+was+Ines+Calder+born%3F", "/indexes/demo/words?words=zeppelin",
)  # fmt: skip
WRONG = ("/nothing", "/sql?index=demo&query=SELECT")


def main(what, target):
    """Makes the pictures, or measures."""
    {"pictures": pictures, "time": first_page}[what](Path(target))


def pictures(folder):
    """Writes the pictures of all pages into a folder, with what their consoles said to standard output."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        empty, root = Path(temporary) / "empty", Path(temporary) / "root"
        fill(root, Path(temporary))
        browser = Browser().start()
        try:
            with window(empty, "--allow-changes") as url:
                take(browser, url, "/", folder, "empty")
                take(browser, url, "/jobs", folder, "empty-jobs")
                take(browser, url, "/evaluations", folder, "empty-evaluations")
            with window(root, "--allow-changes") as url:
                upload(url, Path(temporary))
                for number, path in enumerate(page_paths(url, FIRST, WRONG)):
                    take(browser, url, path, folder, f"{number:02d}")
        finally:
            browser.close()


def fill(root, folder):
    """An index of two versions, two evaluations, a job that ended, and one that has dead questions."""
    lines = (DEMO / "corpus.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    corpus, questions = folder / "corpus.jsonl", DEMO / "questions.jsonl"
    for written in ([*lines[:-20], '{"id": "bad"}\n'], lines):
        corpus.write_text("".join(written), encoding="utf-8")
        polyhop(root, "index", corpus, "--index", "demo", "--set", "corpus.max_quarantine_share=0.5")
        polyhop(root, "eval", questions, "--index", "demo", "--strategies", "bridge,bm25")
    polyhop(root, "submit", questions, "--index", "demo")
    polyhop(root, "worker", "--until-empty")
    polyhop(root, "submit", questions, "--index", "demo", "--deadline", "0.001", "--name", "late")
    polyhop(root, "worker", "--until-empty")
    polyhop(root, "submit", questions, "--index", "demo", "--name", "waiting", "--strategy", "bm25")


def upload(url, folder):
    """Puts documents of three kinds, one of them damaged, and waits until they are indexed."""
    lines = ["The lighthouse of Bellmere", "Ines Calder designed the lighthouse of Bellmere in 1871."]
    report = pdf(folder / "a.pdf", [lines, ["Ines Calder was born in Oldport.", "She studied the harbour."]])
    files = {"lighthouse.pdf": report.read_bytes(), "rivers.csv": b"river,km\nWend,80\nArle,120\n", "scan.pdf": b"%PDF"}
    for name, content in files.items():
        httpx.put(f"{url}/api/v1/indexes/reports/documents/{name}", content=content).raise_for_status()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        reply = httpx.get(f"{url}/api/v1/indexes/reports/documents")
        if reply.is_success and not reply.json()["waits"]:
            return
        time.sleep(0.5)
    raise TimeoutError("the uploaded documents were not indexed")


def take(browser, url, path, folder, name):
    """Pictures of one page."""
    words = "".join(one if one.isalnum() else "-" for one in path.partition("?")[0]).strip("-") or "first"
    for width, scheme in VIEWS:
        file = folder / f"{name}-{words[:60]}-{width}-{scheme}.png"
        look = browser.look(f"{url}{path}", width=width, scheme=scheme, screenshot=file, wait_milliseconds=300)
        print(json.dumps({"page": path, "file": file.name, "messages": look.messages}), flush=True)


def first_page(root):
    """Prints how long the first page takes."""
    start = time.perf_counter()
    with window(root) as url, httpx.Client(timeout=60) as client:
        print(f"server ready after {time.perf_counter() - start:.1f} s")
        print(f"first request of /: {milliseconds(client, url):.0f} ms")
        print(f"median of the next 20: {statistics.median(milliseconds(client, url) for _ in range(20)):.0f} ms")


def milliseconds(client, url):
    """Time of one request of the first page."""
    start = time.perf_counter()
    client.get(f"{url}/").raise_for_status()
    return 1000 * (time.perf_counter() - start)


@contextmanager
def window(root, *options):
    """The address of a server on a root."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "polyhop.cli", "ui", "--root", str(root), "--port", str(port), *options]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as server:
        url = f"http://127.0.0.1:{port}"
        try:
            while True:
                with suppress(httpx.TransportError):
                    httpx.get(f"{url}/healthz")
                    break
                if server.poll() is not None:
                    raise RuntimeError("the server ended; its message is above")
                time.sleep(0.05)
            yield url
        finally:
            server.terminate()


def polyhop(root, *words):
    """Runs a command on a root."""
    environment = os.environ | {"POLYHOP_ROOT": str(root)}
    command = [sys.executable, "-m", "polyhop.cli", *map(str, words)]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main(*sys.argv[1:])
