"""The pages: rendered here, readable without JavaScript; text of a corpus is text wherever it is shown."""

import hmac
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from polyhop.schemas.chat import cost_words
from polyhop.schemas.text import duration, printable
from polyhop.schemas.version import VERSION
from polyhop.server.access import RefusedError
from polyhop.server.guard import csrf_token
from polyhop.server.service import Service

FOLDER = Path(__file__).parent


class Pages:
    """Renders templates for one service.

    Every template gets `service`, `request`, `csrf`, `index_names` and the version of Polyhop and its own variables;
    text is escaped by Jinja, and the filter `shown` makes control characters and direction marks visible.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        loader = FileSystemLoader([FOLDER / "templates", FOLDER.parent / "pages"])
        self._environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
        self._environment.trim_blocks = self._environment.lstrip_blocks = True
        self._environment.globals["part"] = lambda name, context: Markup(  # noqa: S704 - rendered with escapes
            self._environment.get_template(name).render(context)
        )
        self._environment.filters |= {
            "shown": printable,
            "cost_words": cost_words,
            "duration": duration,
            "thousands": lambda number: f"{number:,}",
            "short": short,
            "time": time_element,
        }

    def page(self, request: Request, template: str, status_code: int = 200, /, **context: Any) -> HTMLResponse:
        """A template as a page."""
        shared = {"request": request, "service": self.service, "csrf": csrf_token(), "polyhop_version": VERSION}
        shared |= {"index_names": self.service.index_names()}
        html = self._environment.get_template(template).render(shared | context)
        return HTMLResponse(html.encode("utf-8", "replace"), status_code)

    def error(self, request: Request, status: int, sentence: str) -> HTMLResponse:
        """The page of an error: our sentence, and the way home."""
        return self.page(request, "error.html.jinja", status, status=status, sentence=sentence)


def index_link(index: str, version: int | None) -> Callable[..., str]:
    """Returns a function that builds addresses below /indexes/NAME, of one version (None: the current one)."""

    def link(*parts: str, **query: object) -> str:
        path = "/".join(quote(part, safe="") for part in ("indexes", index, *parts))
        query |= {"version": version} if version else {}
        return f"/{path}?{urlencode(query)}" if query else f"/{path}"

    return link


def short(text: object, characters: int = 300) -> str:
    """The beginning of a text that may be of any length, fit to be shown."""
    said = str(text)
    return printable(said[:characters]) + ("…" if len(said) > characters else "")


def time_element(text: object) -> Markup:
    """An ISO time as an element that polyhop.js shows in the reader's time zone; in UTC without JavaScript."""
    try:
        at = datetime.fromisoformat(str(text)).astimezone(UTC)
    except ValueError:  # of a file that was edited
        return escape(printable(str(text)))
    return Markup('<time datetime="{}">{}</time>').format(f"{at:%Y-%m-%dT%H:%M:%SZ}", f"{at:%Y-%m-%d %H:%M:%S} UTC")


def require_form(service: Service, form: Mapping[str, Any]) -> None:
    """Raises RefusedError unless changes are allowed and a form carries this process's token."""
    if not service.allows_changes:
        raise RefusedError(403, "This server is read-only; start it with --allow-changes.")
    if not hmac.compare_digest(str(form.get("csrf", "")).encode(), csrf_token().encode()):
        raise RefusedError(403, "The form is from an earlier run of this server; load its page again.")
