"""Drives chromium in a process of its own: one JSON line in, one JSON line out, so that no event loop meets a test's.

Knows no test: it opens a page, watches what the page does, and evaluates what it is told.
"""

import json
import sys
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
    context = browser.new_context(viewport=size, color_scheme=request["scheme"])  # type: ignore[arg-type]
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
    values = {name: page.evaluate(expression) for name, expression in request["evaluate"].items()}
    if request["screenshot"]:
        page.screenshot(path=request["screenshot"], full_page=True)
    text = page.inner_text("body")
    return {"values": values, "text": text, "requests": requests, "messages": messages, "dialogs": dialogs}


if __name__ == "__main__":
    main(*sys.argv[1:])
