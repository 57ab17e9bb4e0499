"""What people decide about entities of an index: renamed, merged, split, retyped, deleted (values only).

Applies nothing (tasks/resolution does), reads and writes no file (warehouse/edit_file.py does).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, get_args

Kind = Literal["rename", "merge", "split", "retype", "delete"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NO_TYPE = "NONE"
"""What a person writes for an entity that has no type."""


@dataclass(frozen=True, slots=True)
class EntityEdit:
    """One decision of a person.

    Attributes:
        kind: What is done.
        key: Key of the name that it is done to.
        other: Key of the other name for merge and split, the new name for rename, the type for retype, "" for delete.
        place: File and line, for messages and reasons.
    """

    kind: Kind
    key: str
    other: str = ""
    place: str = field(default="", compare=False)


def with_edit(edits: Iterable[EntityEdit], added: EntityEdit) -> list[EntityEdit]:
    """The edits with one more, without those that it takes the place of.

    A new name or type replaces the one before; merge and split of the same two names replace each other.
    """
    return [edit for edit in edits if _subject(edit) != _subject(added)] + [added]


def _subject(edit: EntityEdit) -> tuple[str, ...]:
    if edit.kind in ("merge", "split"):
        return ("pair", *sorted((edit.key, edit.other)))
    return (edit.kind, edit.key)
