"""Access control: tokens with a role, and optionally with some indexes and a filter of records.

A request is let through by a rule that names its path and allows the token's kind. Whatever no rule names needs the
role admin without limits, so that a new route is closed to limited tokens until a rule opens it.
"""

import hmac
import json
import re
import secrets
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from enum import IntEnum
from hashlib import sha256
from pathlib import Path
from typing import cast
from urllib.parse import parse_qs

from polyhop.schemas.errors import ConfigurationError, PolyhopError
from polyhop.warehouse.files.disk import locked_file, make_folder, write_whole, writing
from polyhop.warehouse.files.layout import Layout

TOKEN_BYTES = 24  # of a new token; chosen: 192 random bits need no slow hash
Row = dict[str, object]
MAX_NAME = 60  # characters of a token's name; chosen: it is in lines of the log
_PROCESS_SECRET = secrets.token_bytes(32)  # cookies of tokens end with the process


class TokenRole(IntEnum):
    """Rights of a token; each role includes those before it."""

    READ = 1  # look at indexes, entities, documents and tables
    ASK = 2  # also ask questions
    CHANGE = 3  # also submit jobs and change documents, on a server with --allow-changes
    ADMIN = 4  # also see settings and whatever else there is


@dataclass(frozen=True, slots=True)
class Access:
    """Rights and limits of one token: `indexes` () are all, `where` "" is no filter of records."""

    name: str
    role: TokenRole
    indexes: tuple[str, ...] = ()
    where: str = ""

    def may_use(self, index: str) -> bool:
        """Returns whether an index is among those of the token."""
        return not self.indexes or index in self.indexes


class RefusedError(PolyhopError):
    """A request that this server does not take, with its status."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


EVERYTHING = Access("", TokenRole.ADMIN)
CURRENT: ContextVar[Access] = ContextVar("polyhop_access", default=EVERYTHING)
"""The access of the request that is being answered."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Paths that tokens of a role and above may ask.

    Attributes:
        methods: "GET POST", say.
        path: Pattern of the whole path; its group `index` is an index.
        role: The least role.
        of_some: Also for tokens of some indexes: the path or the parameter `index` names one, or what is listed is
            limited to theirs.
        filtered: Also for tokens with a filter.
    """

    methods: str
    path: str
    role: TokenRole
    of_some: bool = True
    filtered: bool = False


RULES = (
    Rule("GET", r"/", TokenRole.READ, filtered=True),
    Rule("GET", r"/ask(/stream)?", TokenRole.ASK, filtered=True),
    Rule("POST", r"/api/v1/indexes/(?P<index>[^/]+)/(ask|search)", TokenRole.ASK, filtered=True),
    Rule("GET", r"/v1/models(/[^/]+)?", TokenRole.ASK, filtered=True),
    Rule("POST", r"/v1/chat/completions", TokenRole.ASK, filtered=True),
    Rule("POST", r"/api/v1/indexes/(?P<index>[^/]+)/(text|sql)", TokenRole.READ),
    Rule("GET", r"/api/v1/indexes|/indexes|/sql", TokenRole.READ),
    Rule("GET", r"(/api/v1)?/indexes/(?P<index>[^/]+)(/.*)?", TokenRole.READ),
    Rule("POST PUT DELETE", r"(/api/v1)?/indexes/(?P<index>[^/]+)(/.*)?", TokenRole.CHANGE),
    Rule("GET", r"/api/v1/openapi\.json", TokenRole.READ),
    Rule("GET", r"(/api/v1)?/(jobs|runs|evaluations)(/.*)?", TokenRole.READ, of_some=False),
    Rule("POST PUT DELETE", r"(/api/v1)?/(jobs|indexes|sql|workers)(/.*)?", TokenRole.CHANGE, of_some=False),
)


def require_access(access: Access, method: str, path: str, query: str) -> None:
    """Raises RefusedError unless a rule allows the request to the token."""
    found = next((rule for rule in RULES if method in rule.methods.split() and re.fullmatch(rule.path, path)), None)
    role, own = found.role if found else TokenRole.ADMIN, f"The token '{access.name}'"
    if access.role < role:
        raise RefusedError(403, f"{own} has the role {access.role.name.lower()}; this needs {role.name.lower()}.")
    if access.where and not (found and found.filtered):
        raise RefusedError(403, f"{own} has a filter of records; it may only ask questions.")
    if access.indexes and not (found and found.of_some):
        raise RefusedError(403, f"{own} is for some indexes; this concerns all of them.")
    match = re.fullmatch(found.path, path) if found else None
    named = [match.groupdict().get("index")] if match else []
    for index in [*named, *parse_qs(query).get("index", [])]:
        if index is not None:
            require_index(access, index)


def require_index(access: Access, index: str) -> None:
    """Raises RefusedError unless the token may use an index."""
    if not access.may_use(index):
        raise RefusedError(403, f"The token '{access.name}' is not for the index '{index[:60]}'.")


class Tokens:
    """The tokens of a root, kept hashed, and the one of the environment, which may do everything.

    The file is read again when it changes: a removed token ends at once.
    """

    def __init__(self, layout: Layout, of_environment: str = "") -> None:
        self._path, self._of_environment = layout.tokens, of_environment
        self._state: tuple[int, int] | None = None
        self._known: dict[str, Access] = {}

    def are_needed(self) -> bool:
        """Returns whether requests need a token."""
        return bool(self._of_environment or self._read())

    def access(self, token: str, session: str) -> Access | None:
        """Returns what a token, or the cookie of a login, may do; None if it is unknown."""
        own, known = self._of_environment, self._read()
        if own and (_equal(token, own) or _equal(session, session_of(own))):
            return EVERYTHING
        given, found = hashed(token), None
        for digest, access in known.items():  # all of them, so that the time says nothing
            if _equal(given, digest) or _equal(session, _session(digest)):
                found = access
        return found

    def login(self, token: str) -> str | None:
        """Returns the cookie for a token; None if it is unknown."""
        if self.access(token, "") is None:
            return None
        return session_of(token) if _equal(token, self._of_environment) else _session(hashed(token))

    def _read(self) -> dict[str, Access]:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            self._state, self._known = None, {}
            return self._known
        state = status.st_mtime_ns, status.st_ino
        if state != self._state:
            try:
                known = {str(row["sha256"]): _access(row) for row in _rows(self._path)}
            except ConfigurationError as error:
                raise RefusedError(503, str(error)) from error
            self._known, self._state = known, state
        return self._known


def add_token(layout: Layout, access: Access) -> str:
    """Makes a token and keeps its hash; returns the token, which is not stored.

    Raises:
        ConfigurationError: If the name is taken or empty.
    """
    if not access.name or len(access.name) > MAX_NAME or not access.name.isprintable():
        raise ConfigurationError(f"A token needs a name of at most {MAX_NAME} printable characters.")
    token = secrets.token_urlsafe(TOKEN_BYTES)

    def with_it(rows: list[Row]) -> list[Row]:
        if any(row["name"] == access.name for row in rows):
            raise ConfigurationError(
                f"There is a token '{access.name}' already; remove it first, or take another name."
            )
        return [*rows, {**asdict(access), "role": access.role.name.lower(), "sha256": hashed(token)}]

    _change(layout, with_it)
    return token


def remove_token(layout: Layout, name: str) -> None:
    """Removes a token; ConfigurationError if there is none of that name."""

    def without(rows: list[Row]) -> list[Row]:
        if all(row["name"] != name for row in rows):
            known = ", ".join(str(row["name"]) for row in rows) or "none"
            raise ConfigurationError(f"There is no token '{name}'; known are: {known}.")
        return [row for row in rows if row["name"] != name]

    _change(layout, without)


def listed_tokens(layout: Layout) -> list[Access]:
    """The tokens of a root, as they were added."""
    return [_access(row) for row in _rows(layout.tokens)]


def hashed(token: str) -> str:
    """The SHA-256 of a token, in hexadecimal digits."""
    return sha256(token.encode()).hexdigest()


def session_of(token: str) -> str:
    """Value of the login cookie, derived from the token without revealing it."""
    return hmac.new(token.encode(), b"polyhop session", sha256).hexdigest()


def _session(digest: str) -> str:
    return hmac.new(_PROCESS_SECRET, digest.encode(), sha256).hexdigest()


def _equal(one: str, other: str) -> bool:
    return bool(one and other) and hmac.compare_digest(one.encode(), other.encode())


def _rows(path: Path) -> list[Row]:
    """The rows of the file of tokens; none if there is no file."""
    try:
        rows: list[Row] = json.loads(path.read_text("utf-8") or "[]") if path.exists() else []
        for row in rows:
            _access(row)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        sentence = f"{path} is damaged, so no token is known; remove it, and add the tokens again."
        raise ConfigurationError(sentence) from error
    return rows


def _access(row: Row) -> Access:
    indexes = tuple(str(one) for one in cast("Iterable[object]", row["indexes"]))
    return Access(str(row["name"]), TokenRole[str(row["role"]).upper()], indexes, str(row["where"]))


def _change(layout: Layout, change: Callable[[list[Row]], list[Row]]) -> None:
    path = layout.tokens
    make_folder(path.parent, is_root=True)
    with writing("the tokens", path), locked_file(path):
        write_whole(path, json.dumps(change(_rows(path)), ensure_ascii=False, indent=1).encode())
        path.chmod(0o600)
