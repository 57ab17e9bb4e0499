"""Reading back what the question queue keeps as text and JSON, and words for what can no longer be read.

Opens nothing. Damage never raises: a row with a fault is listed with it, so that the rows beside it can be read.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

DAMAGED_ERROR = "DamagedRow"
ANSWER_KEYS = frozenset({"question", "answer", "strategy", "version", "passages", "evidence", "seconds"})
"""What every stored answer has, and `explain` and `replay` need (the JSON contract of `polyhop ask`)."""

_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("passages", "triples"), list),
    **dict.fromkeys(("evidence", "seconds", "reading", "tokens"), dict),
}


@dataclass(frozen=True, slots=True)
class DamagedRow:
    """A row of the queue that cannot be read: `fault` says what is wrong with it, `advice` what to do.

    `question_id` is None for a job's own row.
    """

    job_id: int
    question_id: str | None
    fault: str
    advice: str

    def sentence(self) -> str:
        """Both, with the row that they are about."""
        question = "" if self.question_id is None else f"question '{self.question_id}' of "
        row = f"{question}job {self.job_id}"
        return f"{row[0].upper()}{row[1:]} is damaged in the queue: {self.fault}; {self.advice}."


@dataclass(frozen=True, slots=True)
class Damage:
    """What of a question's row cannot be read; `is_of_answer` if a new answer would replace it."""

    fault: str
    is_of_answer: bool

    def row(self, job_id: int, question_id: str) -> DamagedRow:
        """The damage with its row and what to do."""
        again = f"polyhop retry {job_id} --question {shlex.quote(question_id)} asks it again"
        return DamagedRow(job_id, question_id, self.fault, again if self.is_of_answer else "submit it again")


@dataclass(slots=True)
class StoredRow:
    """Reads the columns of one row and collects what is wrong with them."""

    faults: list[str] = field(default_factory=list)

    @property
    def fault(self) -> str | None:
        """All that is wrong, None if nothing is."""
        return ", ".join(self.faults) or None

    def text(self, what: str, value: Any) -> str:
        """A text; bytes that are not text become U+FFFD."""
        if isinstance(value, str) and not _has_bad_bytes(value):
            return value
        self.faults.append(f"its {what} is not readable text")
        raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(value)

    def mapping(self, what: str, value: Any) -> dict[str, Any]:
        """A JSON object; {} if it cannot be read."""
        found = self._json(what, value, dict, "an object")
        return found if isinstance(found, dict) else {}

    def strings(self, what: str, value: Any) -> tuple[str, ...]:
        """A JSON list of strings; () if it cannot be read."""
        found = self._json(what, value, list, "a list")
        strings = found if isinstance(found, list) else []
        if not all(isinstance(each, str) for each in strings):
            self.faults.append(f"its {what} are not strings only")
            return ()
        return tuple(strings)

    def answer(self, value: Any) -> dict[str, Any]:
        """A stored answer with its evidence; {} if it cannot be read or cannot be one."""
        found = self.mapping("stored answer", value)
        wrong = sorted(key for key, kind in _KINDS.items() if key in found and not _is_of(kind, found[key]))
        if wrong:
            self.faults.append(f"its stored answer has '{wrong[0]}' of another kind")
            return {}
        return found

    def _json(self, what: str, value: Any, kind: type, noun: str) -> object:
        try:
            if isinstance(value, str) and _has_bad_bytes(value):
                raise ValueError("it holds bytes that are not text")
            found = json.loads(value)
        except (TypeError, ValueError, RecursionError) as error:
            self.faults.append(f"its {what} cannot be read ({error})")
            return None
        if not isinstance(found, kind):
            self.faults.append(f"its {what} is not {noun}")
        return found


def damage_of(asked: StoredRow, answered: StoredRow) -> Damage | None:
    """What is wrong with a question, as it was asked and as it was answered; None if nothing is."""
    faults = [*answered.faults, *asked.faults]
    return Damage(", ".join(faults), bool(answered.faults)) if faults else None


def incomplete(answer: Mapping[str, object]) -> str | None:
    """What a stored answer lacks, None if it has all that redrawing it takes."""
    missing = sorted(ANSWER_KEYS - answer.keys())
    return f"its stored answer lacks {_listed(missing)}" if missing else None


def _is_of(kind: type, value: object) -> bool:
    """Whether a part of an answer is of its kind; lists are of objects (ranked passages and triples)."""
    return isinstance(value, kind) and not (isinstance(value, list) and any(not isinstance(v, dict) for v in value))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _has_bad_bytes(value: str) -> bool:
    """Whether the database held bytes that are not valid UTF-8 (they are read as lone surrogates)."""
    return not value.isascii() and any("\udc80" <= character <= "\udcff" for character in value)
