"""Errors as HTTP says them: a status for each of ours, and problem documents (RFC 9457) with our sentences."""

from http import HTTPStatus

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from polyhop.schemas import errors
from polyhop.server.service import BusyError, LateError, RefusedError

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
    """The problem document of an error; of what is not ours it says only that it is a defect."""
    status = status_of(error)
    again = {"retry-after": "5"} if status == 503 else {}
    if isinstance(error, HTTPException):
        return _problem_of_http(request, error)
    if isinstance(error, RequestValidationError):
        return problem(422, _sentence_of(error))
    if not isinstance(error, errors.PolyhopError):
        return problem(status, f"Unexpected {type(error).__name__}; the server's log has more. This is a defect.")
    return problem(status, str(error), type(error).__name__, again)


def _problem_of_http(request: Request, error: HTTPException) -> JSONResponse:
    """The problem document of what the framework refuses."""
    known = {404: f"There is nothing at {request.url.path}.", 405: f"{request.method} is not taken here."}
    return problem(error.status_code, known.get(error.status_code, error.detail), headers=dict(error.headers or {}))


def _sentence_of(error: RequestValidationError) -> str:
    """What is wrong with a request, in one sentence: the first fault and where it is."""
    fault = error.errors()[0]
    where = ".".join(str(part) for part in fault["loc"] if part not in {"body", "query", "path"})
    said = str(fault["msg"])
    return f"{where or 'The request'}: {said[:1].lower()}{said[1:]}."


def problem(status: int, detail: str, error: str = "", headers: dict[str, str] | None = None) -> JSONResponse:
    """A problem document (RFC 9457) with our sentence."""
    title = HTTPStatus(status).phrase
    body = {"type": "about:blank", "title": title, "status": status, "detail": errors.redact(detail), "error": error}
    return JSONResponse(body, status, headers, media_type="application/problem+json")
