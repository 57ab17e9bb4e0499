"""Logging of Polyhop's modules on standard error, as text or JSON lines, and spans of OpenTelemetry.

Decides the form and the level only; the modules say what happened, in loggers `polyhop.…` with `extra={"fields": …}`.
Standard output is never touched. As a library Polyhop configures nothing.
"""

import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from polyhop.schemas.errors import ConfigurationError, redact, redacted_tree
from polyhop.schemas.text import escaped_json, printable_line

LEVELS = ("debug", "info", "warning", "error")
LEVEL_VARIABLE, JSON_VARIABLE = "POLYHOP_LOG_LEVEL", "POLYHOP_LOG_JSON"
ROOT = "polyhop"
_TRUE = frozenset(("1", "true", "yes", "on"))


def has_no_request_path(record: logging.LogRecord) -> bool:
    """Filters httpx's log records of requests to a server, whose addresses contain names from questions.

    Defined here and not in the client: LanceDB's package keeps loggers, and with them the globals of their filters'
    modules, until the process ends; DuckDB then reports its objects among those globals as leaked.
    """
    return "/api/v1/indexes/" not in record.getMessage()


class PlainFormatter(logging.Formatter):
    """A line for people: message and reason, or all there is, with time and logger, where a level was asked for."""

    def __init__(self, *, is_short: bool) -> None:
        super().__init__()
        self._is_short = is_short

    def format(self, record: logging.LogRecord) -> str:
        """One line, without secrets and control characters."""
        said = " ".join([record.getMessage(), *(f"{name}={value}" for name, value in _fields(record).items())])
        if record.exc_info:
            said += " " + self.formatException(record.exc_info)
        if self._is_short:
            reason = _fields(record).get("error")
            return printable_line(redact(record.getMessage() + (f": {reason}" if reason else "")))
        return printable_line(redact(f"{_time(record)} {record.levelname.lower()} {record.name}: {said}"))


class JsonFormatter(logging.Formatter):
    """One JSON object: time (UTC, ISO 8601), level, logger, message, process, and the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, without secrets; control characters are escaped."""
        row: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            **{name: value for name, value in _fields(record).items() if name not in _OWN},
        }
        if record.exc_info:
            row["trace"] = self.formatException(record.exc_info)
        return escaped_json(json.dumps(redacted_tree(row), ensure_ascii=False, default=str))


class _StandardError(logging.StreamHandler[Any]):
    """Writes to what standard error is when a record comes."""

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, value: Any) -> None:
        """Ignores what the base class sets."""


_OWN = frozenset(("time", "level", "logger", "message", "process"))


def configure_logs(level: str | None = None, *, as_json: bool | None = None) -> None:
    """Sends the records of all `polyhop` loggers to standard error.

    What is not given is read from POLYHOP_LOG_LEVEL and POLYHOP_LOG_JSON, which bring what is given to child processes.
    """
    chosen = (level if level is not None else os.environ.get(LEVEL_VARIABLE, "")).strip().lower()
    if chosen and chosen not in LEVELS:
        raise ConfigurationError(f"Unknown log level '{chosen}'; choose {', '.join(LEVELS)}.")
    lines_are_json = as_json if as_json is not None else os.environ.get(JSON_VARIABLE, "").strip().lower() in _TRUE
    if level is not None:
        os.environ[LEVEL_VARIABLE] = chosen
    if as_json:
        os.environ[JSON_VARIABLE] = "1"
    # one handler on standard error, the only one of ours
    handler = _StandardError()
    handler.setFormatter(JsonFormatter() if lines_are_json else PlainFormatter(is_short=not chosen))
    handler.set_name(ROOT)
    logger = logging.getLogger(ROOT)
    for earlier in [one for one in logger.handlers if one.name == ROOT]:
        logger.removeHandler(earlier)
    logger.addHandler(handler)
    logger.setLevel((chosen or "warning").upper())


def configure_logs_as_parent() -> None:
    """In a child process: as the command that started it, if that was configured."""
    if os.environ.get(LEVEL_VARIABLE) or os.environ.get(JSON_VARIABLE):
        configure_logs()


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    given = getattr(record, "fields", None)
    return given if isinstance(given, dict) else {}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Attribute = str | int | float | bool


@contextmanager
def span(name: str, attributes: Mapping[str, Attribute]) -> Iterator[None]:
    """A span around a block; what the block raises is recorded in it."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        yield
        return
    with trace.get_tracer("polyhop").start_as_current_span(name, attributes=dict(attributes)):
        yield
