"""The closed-book row of an evaluation: what a model answers without passages, beside the strategies.

Asks nothing itself (worker/closed_book.py does).
"""

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.requests import EvaluationRequest
from polyhop.schemas.settings import Settings
from polyhop.schemas.strategies import CLOSED_BOOK
from polyhop.worker.closed_book import ClosedBookAnswerer
from polyhop.worker.session import IndexSession


def closed_book_labels(request: EvaluationRequest) -> list[str]:
    """The row's label, if it is asked for."""
    return [CLOSED_BOOK] if request.closed_book else []


def check_closed_book(settings: Settings, request: EvaluationRequest) -> None:
    """Refuses a closed-book row without a model that reads.

    Raises:
        ConfigurationError: If rules read, or nobody does.
    """
    if request.closed_book and not (settings.reader.reads and settings.models.chat_reader):
        raise ConfigurationError(
            "--closed-book asks a chat model without passages, so it needs --reader model and models.read; rules, and "
            "models that mark answers, know nothing without passages."
        )


def closed_book_answerers(session: IndexSession, request: EvaluationRequest) -> dict[str, ClosedBookAnswerer]:
    """The answerer of the row by its label; empty if it is not asked for."""
    return {label: session.closed_book() for label in closed_book_labels(request)}
