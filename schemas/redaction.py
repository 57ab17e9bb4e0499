"""Text without secrets: what messages, logs, manifests, caches and Prefect's records go through before they are kept.

Finds secrets by their form (passwords in addresses, keys in query parameters, authorization headers) and by their
value, where this process was given them; opens nothing. What a corpus says is not a secret: forms are looked for in
diagnostics and settings alone, values wherever a server's words are kept.
"""

import base64
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

MASK = "***"

_SHORTEST_SECRET = 6
"""Characters; chosen: shorter values (like 'none') occur in ordinary words, and masking them would shred messages."""

_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|AUTH_STRING)$", re.IGNORECASE)
_ADDRESS = re.compile(r"^[a-z][a-z0-9+.-]*://(?P<user>[^:/@]*):(?P<password>.*)@", re.IGNORECASE | re.DOTALL)
_KEY_NAME = r"(?:api|access|auth|secret|private)?[-_]?(?:key|token|secret|password|passwd|pwd|signature|sig)"
_FORMS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        # scheme://user:password@host; the last @ before the path ends the password.
        (r"\b([a-z][a-z0-9+.-]{0,30}://[^\s/?#:@'\"<>]*):[^\s/?#'\"<>]+@", rf"\1:{MASK}@"),
        # https://token@host; user names of databases are no secret.
        (r"\b(https?://)[^\s/?#:@'\"<>]+@", rf"\1{MASK}@"),
        (rf"([?&]{_KEY_NAME}=)[^\s&#'\"<>]+", rf"\1{MASK}"),
        # A header, or the same as JSON or as Python shows it: 'Authorization': 'Bearer …'
        (
            r"\b((?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|digest)\s+)?)[^\s\"',;{}]+",
            rf"\1{MASK}",
        ),
        (r"\b((?:bearer|basic)\s+)[\w.~+/-]{12,}=*", rf"\1{MASK}"),
        (r"\b((?:[\w-]*[-_ ])?api[-_ ]?key(?: provided)?[\"']?\s*[:=]\s*[\"']?)[^\s\"',;{}]+", rf"\1{MASK}"),
        (r"\b(password[\"']?\s*[:=]\s*)(?:'[^']*'|\"[^\"]*\"|[^\s\"',;&{}]+)", rf"\1{MASK}"),
        (r"\bsk-[\w-]{8,}", MASK),
    )
)

_remembered: set[str] = set()
"""Secrets that came from files or flags; those of the environment are read where they stand."""


def redact(text: str) -> str:
    """A message without secrets, by form and by value; for errors, logs and settings."""
    text = without_values(text)
    for pattern, replacement in _FORMS:
        text = pattern.sub(replacement, text)
    return text


def without_values(text: str) -> str:
    """A text without the secrets that this process was given; for what must be kept as it is otherwise (replies)."""
    for secret in _known_secrets():
        text = text.replace(secret, MASK)
    return text


def redacted_tree(value: Any) -> Any:
    """A document of lists, mappings and strings with every string redacted; keys stay."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: redacted_tree(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_tree(inner) for inner in value]
    return value


def has_secret(value: object) -> bool:
    """Whether a value of a setting holds a secret, so that it must not be a parameter or an argument."""
    return isinstance(value, str) and redact(value) != value


def remember_secrets(secrets: Iterable[str]) -> None:
    """Notes values that no output of this process may hold: a password as it is, or an address that holds one."""
    for secret in secrets:
        _remembered.update(_long_enough(_in_address(secret) if "://" in secret else [secret]))


def secrets_of(environment: Mapping[str, str]) -> set[str]:
    """Secrets among variables: by their name (OPENAI_API_KEY, NEO4J_PASSWORD…), or in an address that holds one."""
    found: set[str] = set()
    for name, value in environment.items():
        if "://" in value:
            found.update(_in_address(value))
        elif _SECRET_NAME.search(name):
            found.add(value)
            found.update(value.partition(":")[2:])  # PREFECT_API_AUTH_STRING is user:password
    return set(_long_enough(found))


def _known_secrets() -> list[str]:
    """The longest first: one that contains another is masked as a whole."""
    return sorted(_remembered | secrets_of(os.environ), key=len, reverse=True)


def _in_address(address: str) -> Iterator[str]:
    """The password of an address as written and decoded, as a Basic header spells it, and keys in its query."""
    match = _ADDRESS.match(address)
    if match:
        user, password = unquote(match["user"]), unquote(match["password"])
        yield from (match["password"], password)
        yield base64.b64encode(f"{user}:{password}".encode()).decode()
    query = urlsplit(address).query
    yield from (unquote(value) for value in re.findall(rf"(?:^|&){_KEY_NAME}=([^&]+)", query, re.IGNORECASE))


def _long_enough(secrets: Iterable[str]) -> Collection[str]:
    return [secret for secret in secrets if len(secret) >= _SHORTEST_SECRET]
