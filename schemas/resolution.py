"""What entity resolution reads and what it decides: link pairs of people, and decisions with their reasons.

Decides nothing itself (tasks/resolution does), reads no file (warehouse/link_files.py does).
"""

from dataclasses import dataclass


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
