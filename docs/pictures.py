"""Makes the pictures of README.md: pages of `polyhop ask --html` and `polyhop ui`, and a run on a Prefect dashboard.

Run: uv run python docs/pictures.py   (about a minute; chromium is installed as
tests/support/browser_process.py does it)

Both are of the demo's corpus: the run indexes it twice, the second time with a record less, so that the dashboard shows
what changed.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image

PROJECT = Path(__file__).resolve().parent.parent
sys.path.append(str(PROJECT / "tests" / "support"))
IMAGES = PROJECT / "docs" / "images"
DEMO = PROJECT / "polyhop" / "demo"
WIDTH = 1280
"""Of the window, in pixels: the drawing of the evidence fits in."""
ANSWER_HEIGHT = 610
RUN_HEIGHT = 860
WINDOW_HEIGHT = 900
"""Where the pictures are cut: below the drawing of the evidence, below the run's log, and below two answers."""
ASKED = urlencode(
    {"index": "demo", "question": "Where was the decipherer of Egyptian hieroglyphs born?", "other": "bm25"}
)
WRITTEN = "version 2 published"
"""What the run's log ends with: then the dashboard has drawn everything."""
IS_DRAWN = f"""new Promise(done => {{
    const end = Date.now() + 30000
    const look = () => document.body.innerText.includes("{WRITTEN}") ? setTimeout(() => done(true), 2000)
        : Date.now() > end ? done(false) : setTimeout(look, 100)
    look()
}})"""
COLOURS = 128
"""Chosen: the pages' colours are flat, no step between two is seen."""


def main() -> None:
    """Writes answer.png, window.png and prefect.png into docs/images."""
    from browser_process import Browser

    IMAGES.mkdir(exist_ok=True)
    browser = Browser().start()
    try:
        with tempfile.TemporaryDirectory(prefix="polyhop-pictures-") as name:
            folder = Path(name)
            page = answer_page(folder)
            browser.look(page, width=WIDTH, screenshot=folder / "answer.png")
            save(folder / "answer.png", IMAGES / "answer.png", ANSWER_HEIGHT)
            with window(folder) as url:
                browser.look(f"{url}/ask?{ASKED}", width=WIDTH, screenshot=folder / "window.png")
            save(folder / "window.png", IMAGES / "window.png", WINDOW_HEIGHT)
            with prefect_server(folder) as url:
                run = run_twice(folder, url)
                address = f"{url.removesuffix('/api')}/runs/flow-run/{run}"
                seen = browser.look(
                    address,
                    evaluate={"drawn": IS_DRAWN},
                    width=WIDTH,
                    height=RUN_HEIGHT,
                    screenshot=folder / "run.png",
                )
                if not seen.values["drawn"]:
                    raise SystemExit(f"The dashboard did not show '{WRITTEN}': {seen.text}")
            save(folder / "run.png", IMAGES / "prefect.png", RUN_HEIGHT)
    finally:
        browser.close()


@contextmanager
def window(folder: Path) -> Iterator[str]:
    """The address of `polyhop ui` on the demo's index in `folder`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "polyhop.cli", "ui", "--port", str(port)]
    with subprocess.Popen(command, cwd=folder, env=clean({}), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # its address: it listens
        yield f"http://127.0.0.1:{port}"
        process.terminate()


def answer_page(folder: Path) -> Path:
    """The page of the demo's question, with its index in `folder`."""
    question = json.loads((DEMO / "questions.jsonl").read_text(encoding="utf-8").splitlines()[0])["question"]
    polyhop(folder, {}, "index", str(DEMO / "corpus.jsonl"), "--index", "demo")
    polyhop(folder, {}, "ask", question, "--index", "demo", "--html", "answer.html")
    return folder / "answer.html"


def run_twice(folder: Path, url: str) -> str:
    """Id of the flow run that publishes the second version on the server of this address."""
    lines = (DEMO / "corpus.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    for records in (lines[:-1], lines):
        (folder / "corpus.jsonl").write_text("".join(records), encoding="utf-8")
        variables = {"PREFECT_API_URL": url, "PREFECT_LOGGING_LEVEL": "INFO"}
        polyhop(folder, variables, "index", "corpus.jsonl", "--index", "mine")
    request = urllib.request.Request(
        f"{url}/flow_runs/filter",
        data=json.dumps({"sort": "START_TIME_DESC", "limit": 1}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as reply:
        return str(json.load(reply)[0]["id"])


def polyhop(folder: Path, variables: Mapping[str, str], *arguments: str) -> None:
    """A command in `folder`, with its root there."""
    subprocess.run([sys.executable, "-m", "polyhop.cli", *arguments], cwd=folder, env=clean(variables), check=True)


def save(picture: Path, path: Path, height: int) -> None:
    """The upper part of a picture, with few colours."""
    with Image.open(picture) as whole:
        part = whole.convert("RGB").crop((0, 0, whole.width, min(height, whole.height)))
    part.quantize(COLOURS).save(path, optimize=True)


@contextmanager
def prefect_server(folder: Path) -> Iterator[str]:
    """A server on a free port with a throwaway database: the address of its API."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}/api"
    variables = {
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": url,  # which the dashboard asks
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }
    command = [str(Path(sys.executable).parent / "prefect"), "server", "start", "--host", "127.0.0.1"]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen([*command, "--port", str(port)], env=clean(variables), stdout=log, stderr=log)
    try:
        while not is_healthy(url):
            if server.poll() is not None:
                raise SystemExit((folder / "server.log").read_text())
            time.sleep(0.5)
        yield url
    finally:
        server.terminate()
        server.wait()


def is_healthy(url: str) -> bool:
    """Whether the server answers."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2):
            return True
    except OSError:
        return False


def clean(more: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without settings of Polyhop and Prefect, and these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("POLYHOP_", "PREFECT_"))}
    return kept | dict(more)


if __name__ == "__main__":
    main()
