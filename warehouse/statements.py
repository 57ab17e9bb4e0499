"""Named SQL and Cypher statements and prompts in files; log records of slow statements and of retries.

Statements of tables are found by file and name; the queue and the caches name their own files.
"""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from polyhop.schemas.chat import Prompt
from polyhop.schemas.errors import ConfigurationError

if TYPE_CHECKING:
    from tenacity import RetryCallState


_NAME = re.compile(r"^(?:--|//) name: (\w+)$", re.MULTILINE)
SQL_FOLDER = Path(__file__).parent / "tables" / "sql"  # where the statements of tables are


@cache
def read_statements(path: Path) -> dict[str, str]:
    """{name: statement} of a file of SQL or Cypher, in its order."""
    parts = _NAME.split(path.read_text(encoding="utf-8"))
    return {name: body.strip().rstrip(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def statements(file: str) -> dict[str, str]:
    """{name: SQL} of `tables/sql/<file>.sql`, in the file's order."""
    return read_statements(SQL_FOLDER / f"{file}.sql")


def statement(file: str, name: str) -> str:
    """One statement of tables by file and name."""
    return statements(file)[name]


def read_prompt(path: Path) -> Prompt:
    """The prompt in a file, named by the file: `kg.extract.md` is "kg.extract"."""
    return Prompt(path.name.removesuffix(".md"), path.read_text(encoding="utf-8"))


def read_prompts(built_in: Sequence[Path], folder: str) -> list[Prompt]:
    """Our prompts in these files, each replaced by the file of its name in a folder of people's own, if it has one.

    Raises:
        ConfigurationError: If the folder has none of them, or one is not UTF-8 or has other placeholders than ours.
    """
    made = {prompt.name: prompt for prompt in map(read_prompt, built_in)}
    theirs = {path.name: Path(folder).expanduser() / path.name for path in built_in} if folder else {}
    found = [path for path in theirs.values() if path.is_file()]
    if folder and not found:
        raise ConfigurationError(f"extraction.prompts is {folder}, which has none of the files {', '.join(theirs)}.")
    for path in found:
        try:
            prompt = read_prompt(path)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"Cannot read the prompt in {path}: {error}.") from error
        wanted = made[prompt.name].placeholders
        if prompt.placeholders != wanted:
            names = ", ".join(f"{{{{{name}}}}}" for name in sorted(wanted))
            raise ConfigurationError(f"The prompt in {path} must hold {names}, and no other name in double braces.")
        made[prompt.name] = prompt
    return list(made.values())


CYPHER_FOLDER = Path(__file__).parent / "graph" / "cypher"


def cypher_statements(file: str) -> dict[str, str]:
    """{name: Cypher} of `cypher/<file>.cypher`, in its order."""
    return read_statements(CYPHER_FOLDER / f"{file}.cypher")


def cypher(file: str, name: str) -> str:
    """One statement by file and name."""
    return cypher_statements(file)[name]


@cache
def activation_query(steps: int, max_length: int) -> str:
    """The whole retrieval as one query: the same step T times, the same extension of chains L_max times."""
    bounds = ["bound"] * (max_length - 1)
    pieces = ["seeds", *["step"] * steps, "rank", "prefixes", *bounds, *["extend"] * max_length, "chains"]
    return "\n".join(cypher("activation", piece) for piece in pieces)


SLOW_SECONDS = 1.0
"""Chosen, not tuned: a hundred times what a statement of a question takes, so that a sound installation logs none."""
_SHOWN_CHARACTERS = 80  # enough to recognise a statement; its values are parameters, which are never logged


@contextmanager
def slow_noted(log: logging.Logger, store: str, statement: str) -> Iterator[None]:
    """Logs `a slow statement` at info if the block takes longer than `SLOW_SECONDS`, however it ended."""
    begun = perf_counter()
    try:
        yield
    finally:
        seconds = perf_counter() - begun
        if seconds > SLOW_SECONDS:
            shown = " ".join(statement.split())[:_SHOWN_CHARACTERS]
            log.info(
                "a slow statement", extra={"fields": {"store": store, "statement": shown, "seconds": round(seconds, 3)}}
            )


def noted(log: logging.Logger, what: str) -> "Callable[[RetryCallState], None]":
    """For tenacity's `before_sleep`: a record with the attempt, the pause and the error, without its details.

    The level is info: what becomes of it in the end is said anyway.
    """

    def note(state: "RetryCallState") -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        pause = round(state.next_action.sleep, 3) if state.next_action is not None else 0.0
        fields = {"attempt": state.attempt_number, "pause": pause, "error": type(error).__name__}
        log.info("retrying %s", what, extra={"fields": fields})

    return note
