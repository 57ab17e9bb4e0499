"""The package litellm, kept from the network, from printing and from retrying by itself, and its errors in our words.

Calls no model (completion.py and embedding_calls.py do). litellm takes seconds to import, hence the first call imports
it.
"""

import logging
import os
import sys
import warnings
from functools import cache
from importlib.util import find_spec
from inspect import iscoroutinefunction
from threading import Lock
from typing import Any

from polyhop.schemas.errors import (
    ConfigurationError,
    ContextTooLongError,
    ModelKeyError,
    ModelRateLimitError,
    ModelRejectedError,
    ModelTimeoutError,
    ModelUnavailableError,
    ModelUnreachableError,
    PolyhopError,
    ReplyRefusedError,
)
from polyhop.warehouse.models.bounded_http import begin_deadline, bounded, drop_odd_usage
from polyhop.warehouse.models.failed_calls import UNANSWERED, Reach, reach_of, retry_after_seconds, said_by, status_of

MAX_IDLE_CONNECTIONS = 64  # chosen: httpx keeps 20, fewer than `models.concurrency` may be

_IMPORTING = Lock()


class CallFailedError(Exception):
    """A call that brought no reply.

    Attributes:
        error: Why, in our words: a ModelError, or a ModelKeyError.
        may_be_billed: The server may have written a whole reply that never arrived.
    """

    def __init__(self, error: PolyhopError, *, may_be_billed: bool) -> None:
        self.error = error
        self.may_be_billed = may_be_billed
        super().__init__(str(error))


def require_litellm() -> None:
    """Imports nothing.

    Raises:
        ConfigurationError: If the package litellm, which asks the models of providers, is not installed.
    """
    if find_spec("litellm") is None:
        raise ConfigurationError(
            "Models of providers and of servers need the package litellm. Install it with: pip install "
            "'polyhop[models]', or in a checkout: uv sync --extra models"
        )


def import_litellm() -> Any:
    """The package litellm without its price list from the network, its hints on the screen and its usage statistics."""
    with _IMPORTING:
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        return _quiet_litellm()


def close_connections() -> None:
    """Closes the connections that litellm keeps open between calls; a later call opens new ones."""
    if "litellm" not in sys.modules:
        return
    litellm = import_litellm()
    with _IMPORTING:
        clients = litellm.in_memory_llm_clients_cache
        for client in list(clients.cache_dict.values()):
            close = getattr(client, "close", None)
            if callable(close) and not iscoroutinefunction(close):
                close()
        clients.flush_cache()
        if litellm.client_session is not None:
            litellm.client_session.close()
            litellm.client_session = None


def open_connections(litellm: Any) -> None:
    """One pool of connections for all threads: left alone, each of the first calls would open and lose its own.

    The time limit of a call bounds its reply as a whole, and token counts that are no numbers are left out of it.

    Args:
        litellm: The package.
    """
    import httpx

    with _IMPORTING:
        if litellm.client_session is None:
            limits = httpx.Limits(max_keepalive_connections=MAX_IDLE_CONNECTIONS)
            litellm.client_session = bounded(
                httpx.Client(limits=limits, event_hooks={"request": [begin_deadline], "response": [drop_odd_usage]})
            )


@cache
def _quiet_litellm() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import litellm
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.DEFAULT_MAX_RETRIES = 0  # of embeddings, where max_retries=0 counts as unset
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with warnings.catch_warnings():  # its first reply builds pydantic models that warn; this one is made on the spot
        warnings.simplefilter("ignore")
        message = {"role": "user", "content": "-"}
        litellm.completion(model="openai/none", messages=[message], mock_response="-", api_key="none")
    return litellm


def address_of(model: str, api_base: str) -> dict[str, str]:
    """Where to call; a server of one's own often wants no key, but the protocol's client does."""
    if not api_base:
        return {}
    provider = model.partition("/")[0].upper().replace("-", "_")
    return {"api_base": api_base} | ({} if os.environ.get(f"{provider}_API_KEY") else {"api_key": "none"})


def named(model: str, api_base: str) -> str:
    """A model and its server, for sentences."""
    return f"{api_base} ({model})" if api_base else model


def translated(error: Exception, model: str, where: str) -> tuple[PolyhopError, bool]:
    """Our error for a vendor's, and whether the call may be billed.

    Args:
        error: As it was raised.
        model: Provider and model.
        where: The model and its server, for the sentence.
    """
    litellm = import_litellm()
    said = said_by(error)
    if isinstance(error, litellm.ContextWindowExceededError):
        return ContextTooLongError(f"The request is longer than {where} can read: {said}"), False
    if isinstance(error, litellm.ContentPolicyViolationError):
        return ReplyRefusedError(f"{where} declined to answer: {said}"), False
    reach, status = reach_of(error), status_of(error)
    if reach is Reach.UNREACHED:
        return ModelUnreachableError(f"{where}{UNANSWERED}{said}"), False
    if reach is Reach.UNSENT:
        return ModelKeyError(f"No key for {model}: set {_key_variables(model)}."), False
    if status == 401:
        return ModelKeyError(f"{where} refuses the key: {said}"), False
    if reach is Reach.TIMED_OUT or status in {408, 504}:
        return ModelTimeoutError(f"{where}{UNANSWERED}no reply within models.timeout_seconds."), (
            reach is Reach.TIMED_OUT
        )
    declined = _declined(error, where, said)
    if declined is not None:
        return declined, False
    is_answer = reach is Reach.ANSWERED and status is not None
    return ModelUnavailableError(f"{where}{UNANSWERED}{f'HTTP {status}, ' if is_answer else ''}{said}"), (
        reach is Reach.LOST
    )


def _key_variables(model: str) -> str:
    """The variables that litellm looks for a key of a model in."""
    missing: list[str] = sorted(import_litellm().validate_environment(model)["missing_keys"])
    if not missing:
        return f"{model.partition('/')[0].upper().replace('-', '_')}_API_KEY"
    return (" or " if all(name.endswith("_API_KEY") for name in missing) else " and ").join(missing)


def _declined(error: Exception, where: str, said: str) -> PolyhopError | None:
    """Our error for a status by which the server declines the call; None for any other."""
    status, retry_after = status_of(error), retry_after_seconds(error)
    if status == 429 or (status == 503 and retry_after is not None):
        return ModelRateLimitError(f"{where} rate-limits its callers: {said}", retry_after)
    if status is not None and 400 <= status < 500 and status not in {409, 425}:
        return ModelRejectedError(f"{where} does not accept the request ({status}): {said}")
    return None
