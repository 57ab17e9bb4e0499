"""Strategies made ready on an open version; of `all`, those that it can serve.

Answers nothing.
"""

from collections.abc import Sequence
from typing import Protocol

from polyhop.schemas.errors import ConfigurationError, PolyhopError
from polyhop.schemas.query import Question
from polyhop.schemas.variants import Variant
from polyhop.worker.answer import AnsweredQuestion
from polyhop.worker.session import IndexSession


class Answering(Protocol):
    """Answers questions: a strategy with a reader, one without, or a model without passages."""

    @property
    def ranks(self) -> bool:
        """Whether it ranks passages."""
        ...

    @property
    def ranks_triples(self) -> bool:
        """Whether it ranks triples."""
        ...

    @property
    def reads(self) -> bool:
        """Whether it reads answers."""
        ...

    def answer(self, questions: Sequence[Question], *, limit: int) -> list[AnsweredQuestion]:
        """One answer per question, in order."""
        ...


def served(
    session: IndexSession, variants: Sequence[Variant], asked: Sequence[str]
) -> tuple[dict[str, Answering], dict[str, str]]:
    """Answerers by label, and the strategies that came with `all` and cannot be served, with the reason.

    Args:
        session: The open version.
        variants: All that are to be evaluated.
        asked: Labels of those that did not only come with `all`.

    Raises:
        PolyhopError: If a strategy cannot be served that was asked for by name.
        ConfigurationError: If none is left.
    """
    ready: dict[str, Answering] = {}
    left_out: dict[str, str] = {}
    for variant in variants:
        try:
            ready[variant.label] = session.answerer(variant.strategy, variant.parameters)
        except PolyhopError as error:
            if variant.label in asked:
                raise
            left_out[variant.label] = str(error)
    if not ready:
        raise ConfigurationError("There is no strategy to evaluate; name some with --strategies a,b or use 'all'.")
    return ready, left_out
