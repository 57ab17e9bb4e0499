"""What entity resolution reads and decides: link pairs and edits of people, and decisions with their reasons."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, get_args


@dataclass(frozen=True, slots=True)
class NamePair:
    """Two names that a person says are one entity, or are not.

    Attributes:
        a: A name as written in the file.
        b: The other one.
        type: Type that both must have for the pair to count, "" for any.
        place: File and line, for messages.
    """

    a: str
    b: str
    type: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a name is another entity's, and why: one row of the table `aliases`.

    Attributes:
        key: Key of the name decided on.
        kind: "er", "manual" for link pairs, or "identity" for one of several bearers of a name.
        scope: Type within which it holds, key of the bearer of a shared name, or "".
        canonical: Key of the entity meant; None if it leads nowhere.
        reason: One sentence or several, joined by semicolons.
        is_ambiguous: Several entities could be meant.
    """

    key: str
    kind: str
    scope: str
    canonical: str | None
    reason: str
    is_ambiguous: bool = False


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
