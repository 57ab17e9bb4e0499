"""Errors over HTTP: a status for each of ours, and documents with our sentences.

Below /v1 they have OpenAI's form, elsewhere that of RFC 9457. Each mistake in a request has one sentence.
"""

import json
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException

from polyhop.schemas import errors
from polyhop.schemas.settings import broken_value
from polyhop.schemas.text import printable
from polyhop.server.access import RefusedError
from polyhop.server.service import BusyError, LateError

_STATUSES: tuple[tuple[type[Exception], int], ...] = (  # the first class that fits counts
    (BusyError, 503),
    (errors.UnknownIndexError, 404),
    (errors.UnknownIdError, 404),
    (errors.UnknownJobError, 404),
    (errors.QueueFullError, 503),
    (errors.StoreUnavailableError, 503),
    (errors.ModelUnavailableError, 503),
    (errors.StoreConflictError, 409),
    (errors.LossRefusedError, 409),
    (errors.QueueError, 409),
    (errors.MissingArtefactError, 409),
    (errors.BudgetExceededError, 409),
    (LateError, 504),
    (errors.QuestionTimeoutError, 504),
    (errors.ModelError, 502),
    (errors.ConfigurationError, 422),
    (errors.QuestionError, 422),
    (errors.SourceError, 422),
    (errors.StatementRejectedError, 422),
    (errors.AlgorithmError, 422),
)


def status_of(error: Exception) -> int:
    """The HTTP status of an error of ours; 500 for what is a fault of the store or of the program."""
    if isinstance(error, RefusedError):
        return error.status
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def problem_of(request: Request, error: Exception) -> JSONResponse:
    """The document of an error; of what is not ours it says only that it is a defect."""
    status, path = status_of(error), request.url.path
    again = {"retry-after": "5"} if status == 503 else {}
    if isinstance(error, HTTPException):
        known = {400: "The form in the body cannot be read.", 404: f"There is nothing at {path}."}
        known[405] = f"{request.method} is not allowed at {path}."
        phrase = f"{HTTPStatus(error.status_code).phrase}."
        return problem(path, error.status_code, known.get(error.status_code, phrase), headers=dict(error.headers or {}))
    if isinstance(error, RequestValidationError):
        return problem(path, 422, _sentence_of(request, error))
    if not isinstance(error, errors.PolyhopError):
        return problem(path, status, f"Unexpected {type(error).__name__}; see the server's log. This is a bug.")
    return problem(path, status, str(error), type(error).__name__, again)


def _sentence_of(request: Request, error: RequestValidationError) -> str:
    """The first fault of a request, where it is, and which fields are known if it is an unknown one."""
    location, rule = broken_value(error.errors())
    where = ".".join(str(part) for part in location if part not in {"body", "query", "path", "header"})
    field = getattr(request.scope.get("route"), "body_field", None)
    kind = field.field_info.annotation if field is not None else None
    if rule == "is unknown" and isinstance(kind, type) and issubclass(kind, BaseModel):
        nearest = errors.nearest_name(where, kind.model_fields)
        hint = f"did you mean '{nearest}'? Known" if nearest else "known"
        return printable(f"Unknown field '{where}'; {hint}: {', '.join(kind.model_fields)}.")
    return printable(f"{where or 'The request'} {rule}.")


def problem(
    path: str, status: int, detail: str, error: str = "", headers: dict[str, str] | None = None
) -> JSONResponse:
    """The document of an error at a path: OpenAI's form below /v1, else a problem document (RFC 9457)."""
    sentence = errors.redact(detail)
    if path == "/v1" or path.startswith("/v1/"):
        status = 400 if status == 422 else status
        known = {401: "invalid_api_key", 404: "model_not_found"} if error else {}
        code = known.get(status, "invalid_request" if error in {"", "RefusedError"} else error)
        kind = "invalid_request_error" if status < 500 else "server_error"
        body = {"message": sentence, "type": kind, "param": None, "code": code}
        return JSONResponse({"error": body}, status, headers)
    title = HTTPStatus(status).phrase
    document = {"type": "about:blank", "title": title, "status": status, "detail": sentence, "error": error}
    return JSONResponse(document, status, headers, media_type="application/problem+json")


class JsonRoute(APIRoute):
    """A route that reads a body as JSON, whatever content type a client names."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, which gets a JSON object or is not called."""
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle

        async def handle_json(request: Request) -> Response:
            MutableHeaders(scope=request.scope)["content-type"] = "application/json"
            _require_object(await request.body())
            return await handle(request)

        return handle_json


def _require_object(body: bytes) -> None:
    """Raises RefusedError unless a body is a JSON object."""
    if not body.strip():
        raise RefusedError(422, "The request has no body; send a JSON object.")
    try:
        document = json.loads(body)
    except UnicodeDecodeError as error:
        raise RefusedError(422, "The body is not JSON: it holds bytes that are not UTF-8.") from error
    except json.JSONDecodeError as error:
        at = max(1, min(error.pos + 1, len(error.doc)))
        raise RefusedError(422, f"The body is invalid JSON at character {at}.") from error
    except (RecursionError, ValueError) as error:  # a number of too many digits
        raise RefusedError(422, "The body is JSON that is nested too deeply, or has too long a number.") from error
    if not isinstance(document, dict):
        raise RefusedError(422, 'The body is JSON, but no object; send one such as {"name": "value"}.')
