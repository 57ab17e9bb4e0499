"""Drives chromium in a process of its own, so that no event loop meets a test's: a JSON line in, one out."""

import json
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Dialog, Error, Page, sync_playwright


def main(executable: str, *options: str) -> None:
    """Answers requests until standard input ends."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(options))
        _say({"version": browser.version})
        pages = [Watched(browser, has_scripts=has_scripts) for has_scripts in (False, True)]
        for line in sys.stdin:
            request = json.loads(line)
            _say(pages[request["has_scripts"]].answer(request))
        browser.close()


def _say(reply: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


class Watched:
    """A window that shows one page after the other, and what the present one did: a window each takes .6 s more."""

    def __init__(self, browser: Browser, *, has_scripts: bool) -> None:
        # colours that change slowly would be looked at half-way
        context = browser.new_context(java_script_enabled=has_scripts, reduced_motion="reduce")
        self.page = context.new_page()
        self.did: dict[str, list[str]] = {"requests": [], "messages": [], "dialogs": [], "downloads": []}
        self.page.on("request", lambda sent: self.did["requests"].append(sent.url))
        self.page.on("console", lambda message: self.did["messages"].append(message.text))
        self.page.on("pageerror", lambda error: self.did["messages"].append(str(error)))
        self.page.on("dialog", self._dismiss)

    def _dismiss(self, dialog: Dialog) -> None:
        self.did["dialogs"].append(dialog.message)
        dialog.dismiss()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """What a look found; the page before it leaves no cookie, no script and no message."""
        try:
            self.page.context.clear_cookies()
            self.page.set_viewport_size({"width": request["width"], "height": request["height"]})
            self.page.emulate_media(color_scheme=request["scheme"], reduced_motion="reduce")
            self.did = {"requests": [], "messages": [], "dialogs": [], "downloads": []}
            return self._look(request) | self.did
        except Error as error:  # the test raises it again
            return {"error": f"{type(error).__name__}: {error}"}

    def _look(self, request: dict[str, Any]) -> dict[str, Any]:
        page = self.page
        page.goto(request["url"], wait_until="load")
        page.wait_for_timeout(request["wait_milliseconds"])
        self.did["downloads"] = [text for step in request["steps"] for text in _take(page, *step)]
        values = {name: page.evaluate(expression) for name, expression in request["evaluate"].items()}
        if request["screenshot"]:
            page.screenshot(path=request["screenshot"], full_page=True)
        return {"values": values, "text": page.inner_text("body"), "url": page.url}


def _take(page: Page, action: str, selector: str, value: str = "") -> list[str]:
    """A step of a person on a page; the text of the file that it downloads, if any."""
    if action == "fill":
        page.fill(selector, value)
    elif action == "choose":
        page.select_option(selector, value)
    elif action == "upload":
        page.set_input_files(selector, value)
    elif action == "press":
        page.press(selector, value)
        page.wait_for_load_state("load")
    elif action == "wait":
        page.wait_for_selector(selector)
    elif action == "click":
        page.click(selector)
        page.wait_for_load_state("load")
    elif action == "download":
        with page.expect_download() as download:
            page.click(selector)
        return [Path(download.value.path()).read_text(encoding="utf-8")]
    else:
        raise ValueError(f"unknown step '{action}'")
    return []


if __name__ == "__main__":
    main(*sys.argv[1:])
