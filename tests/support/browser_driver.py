"""Drives chromium in a process of its own: one JSON line in, one JSON line out, so that no event loop meets a test's.

Knows no test: it opens a page, watches what the page does, and evaluates what it is told.
"""

import json
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Error, Page, sync_playwright


def main(executable: str, *options: str) -> None:
    """Answers requests until standard input ends."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(options))
        _say({"version": browser.version})
        for line in sys.stdin:
            _say(_answer(browser, json.loads(line)))
        browser.close()


def _say(reply: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


def _answer(browser: Browser, request: dict[str, Any]) -> dict[str, Any]:
    size = {"width": request["width"], "height": request["height"]}
    scripts = request["has_scripts"]
    context = browser.new_context(viewport=size, color_scheme=request["scheme"], java_script_enabled=scripts)
    try:
        return _look(context.new_page(), request)
    except Error as error:  # the test raises it again
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        context.close()


def _look(page: Page, request: dict[str, Any]) -> dict[str, Any]:
    requests: list[str] = []
    messages: list[str] = []
    dialogs: list[str] = []

    def note_dialog(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    def note_message(message: ConsoleMessage) -> None:
        messages.append(message.text)

    page.on("request", lambda sent: requests.append(sent.url))
    page.on("console", note_message)
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("dialog", note_dialog)
    page.goto(request["url"], wait_until="load")
    page.wait_for_timeout(request["wait_milliseconds"])
    downloads = [text for step in request["steps"] for text in _take(page, *step)]
    values = {name: page.evaluate(expression) for name, expression in request["evaluate"].items()}
    if request["screenshot"]:
        page.screenshot(path=request["screenshot"], full_page=True)
    text = page.inner_text("body")
    did = {"requests": requests, "messages": messages, "dialogs": dialogs, "downloads": downloads}
    return {"values": values, "text": text, "url": page.url, **did}


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
