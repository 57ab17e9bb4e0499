"""A real browser for tests of pages: Debian's chromium, driven by playwright in a process of its own."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import axe_playwright_python
import httpx

DRIVER = Path(__file__).with_name("browser_driver.py")
PACKAGES = ("chromium", "fonts-dejavu-core")
INSTALL_SECONDS = 270
END_SECONDS = 20


@dataclass(frozen=True)
class Look:
    """What a page showed and did."""

    values: dict[str, Any]  # of the expressions, by name
    text: str  # what a person reads on it
    requests: list[str]  # every address that it asked for, its own first
    messages: list[str]  # what its console said, errors among it
    dialogs: list[str]  # what it asked with alert, confirm and prompt
    url: str  # after all steps
    downloads: list[str]  # texts of the files that steps downloaded


class Browser:
    """One chromium without a window; no look leaves a cookie or a script to the next."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> "Browser":
        """Starts it and waits until it answers."""
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        self._process = subprocess.Popen(
            [sys.executable, str(DRIVER), installed_chromium(), *sandbox],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reply()
        return self

    def look(
        self,
        page: Path | str,
        *,
        evaluate: Mapping[str, str] | None = None,  # JavaScript expressions by name
        width: int = 1200,
        height: int = 900,
        scheme: str = "light",
        screenshot: Path | None = None,  # where to put a picture of the whole page, as .png
        wait_milliseconds: int = 50,  # for what a page does after it is loaded
        steps: Sequence[Sequence[str]] = (),
        has_scripts: bool = True,
    ) -> Look:
        """Opens a file or an address, takes steps on it, and says what it showed.

        Steps are what a person does: an action (fill, choose, upload, press, wait, click, download), of what (a CSS
        selector), with what.
        """
        request = {
            "url": page.resolve().as_uri() if isinstance(page, Path) else page,
            "evaluate": dict(evaluate or {}),
            "width": width,
            "height": height,
            "scheme": scheme,
            "screenshot": str(screenshot) if screenshot else "",
            "wait_milliseconds": wait_milliseconds,
            "steps": [list(step) for step in steps],
            "has_scripts": has_scripts,
        }
        to_driver, _ = self._pipes()
        to_driver.write(json.dumps(request) + "\n")
        to_driver.flush()
        return Look(**self._reply())

    def close(self) -> None:
        """Ends it in order; kills it if it does not end."""
        if self._process is None:
            return
        to_driver, from_driver = self._pipes()
        with contextlib.suppress(BrokenPipeError):  # it ended before
            to_driver.close()
        try:
            self._process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        from_driver.close()
        self._process = None

    def _reply(self) -> dict[str, Any]:
        _, from_driver = self._pipes()
        line = from_driver.readline()
        if not line:
            raise RuntimeError("The browser ended; its last words are in the captured standard error.")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("The browser is not running.")
        return self._process.stdin, self._process.stdout


def installed_chromium() -> str:
    """Path of chromium, installed first if it is missing."""
    found = shutil.which("chromium")
    if found:
        return found
    apt = f"apt-get -qq -o DPkg::Lock::Timeout={INSTALL_SECONDS}"
    install = f"{apt} update && {apt} install -y --no-install-recommends {' '.join(PACKAGES)}"
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(install, shell=True, capture_output=True, text=True, env=environment, check=False)
    found = shutil.which("chromium")
    if not found:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
        raise RuntimeError(f"Tests of pages need chromium; install it as root with: {install}\n{last}")
    return found


def page_paths(url: str, first: Sequence[str], wrong: Sequence[str] = ()) -> Iterator[str]:
    """Paths of all pages of a window: the first ones, and one of each kind that links lead to.

    Those among `wrong` may answer with an error.
    """
    seen, kinds, waiting = set[str](), set[str](), list(first)
    with httpx.Client(base_url=url, timeout=60) as client:
        while waiting:
            path = waiting.pop(0)
            kind = re.sub(r"(?<=/)(\d+|p\d[^/?]*|q\d[^/?]*|[0-9a-f]{16,})(?=/|\?|$)", "ID", path.split("#")[0])
            kind = kind.partition("=")[0]
            if path in seen or (kind in kinds and path not in first) or path.startswith(("/api/", "/static/")):
                continue
            seen.add(path)
            reply = client.get(path, headers={"Accept": "text/html"})
            assert reply.status_code in {200, 303} or path in wrong, (path, reply.text[:2_000])
            if reply.is_redirect:
                waiting.append(reply.headers["location"])
            elif reply.headers["content-type"].startswith("text/html"):
                kinds.add(kind)
                yield path
                waiting += [link.replace("&amp;", "&") for link in re.findall(r'href="(/[^"#]*)', reply.text)]


AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
PAGE_FACTS = {
    "wide": "document.documentElement.scrollWidth - innerWidth",
    "scripts": "[...document.scripts].filter(s => !s.src).length",
    "foreign": "[...document.querySelectorAll('[src], link[href]')].map(e => e.src || e.href)"
    ".filter(a => !a.startsWith('data:') && new URL(a).origin !== location.origin)",
    "paper": "getComputedStyle(document.documentElement).backgroundColor",
    "headings": "document.querySelectorAll('h1').length",
    "axe": AXE + ";axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'best-practice']}).then(found => found.violations"
    ".filter(v => ['serious', 'critical'].includes(v.impact)).map(v => v.id + ': ' + v.nodes[0].html.slice(0, 200)"
    " + ' ' + v.nodes[0].failureSummary))",
}
"""Faults that any page may have, each of which a good one has none of."""
FITS = {
    # What leaves the window, unless it is inside a frame that scrolls.
    "beyond": """[...document.body.querySelectorAll('*')].filter(e => !e.parentElement.closest('.frame')
        && e.checkVisibility() && (e.getBoundingClientRect().right > innerWidth + 1
        || e.getBoundingClientRect().left < -1)).map(e => e.tagName + '.' + e.getAttribute('class'))""",
    "cut": """[...document.body.querySelectorAll('*')].filter(e => e.checkVisibility()
        && e.scrollWidth > e.clientWidth + 1 && ['hidden', 'clip'].includes(getComputedStyle(e).overflowX)
        && !(e instanceof SVGElement)).map(e => e.tagName + '.' + e.getAttribute('class'))""",
    # Frames that scroll and do not say so, cannot be selected, or cannot be named; and hints where nothing scrolls.
    "silent": """[...document.querySelectorAll('.frame')].filter(e => e.checkVisibility()).filter(e => {
        const scrolls = e.scrollWidth > e.clientWidth, hint = e.querySelector('.hint');
        e.focus();
        return document.activeElement !== e || !e.getAttribute('aria-label') || e.getAttribute('role') !== 'group'
            || hint.checkVisibility() !== scrolls || (scrolls && hint.getBoundingClientRect().right > innerWidth)
        }).map(e => e.getAttribute('aria-label'))""",
    "scrolling": "[...document.querySelectorAll('.frame')].filter(e => e.scrollWidth > e.clientWidth).length",
}
WIDTHS = (400, 800, 1280)


def assert_fits(values: dict[str, object]) -> None:
    """Fails with what does not fit."""
    wrong = {name: values[name] for name in ("beyond", "cut", "silent") if values[name]}
    assert not wrong, wrong
