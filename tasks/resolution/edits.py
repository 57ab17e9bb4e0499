"""What people's edits mean for resolution: pairs of names to link or keep apart, new names and types (pure).

Reads no file (warehouse/edit_file.py does). Later edits come before earlier ones about the same entity.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from polyhop.schemas.entity_edits import NO_TYPE, EntityEdit
from polyhop.schemas.resolution import NamePair
from polyhop.tasks.resolution.links import Links, link_key


class EditedEntity(NamedTuple):
    """What edits say of one entity.

    Attributes:
        key: Its key, after names were merged.
        name: Its new name, None to keep it.
        is_retyped: Whether `type` counts.
        type: Its new type, None for none.
        is_deleted: Whether nothing mentions it any more.
    """

    key: str
    name: str | None = None
    is_retyped: bool = False
    type: str | None = None
    is_deleted: bool = False


def edited_links(links: Links, edits: Iterable[EntityEdit], mentioned: Collection[str]) -> Links:
    """The links of files, and those that edits add.

    Args:
        links: What files say.
        edits: What people decided with `polyhop entities edit`.
        mentioned: Keys of all names that passages mention: a new name that is one of them leads to its own entity.
    """
    must, cannot = list(links.must), list(links.cannot)
    for edit in edits:
        pair = NamePair(edit.key, edit.other, place=edit.place)
        is_alias = edit.kind == "rename" and link_key(edit.other) not in {edit.key, ""}
        if edit.kind == "split":
            cannot.append(pair)
        elif edit.kind == "merge" or (is_alias and link_key(edit.other) not in mentioned):
            must.append(pair)
    return Links(tuple(must), tuple(cannot))


def edited_entities(edits: Iterable[EntityEdit], canonical_of: Mapping[str, str]) -> list[EditedEntity]:
    """What is said of each entity, in order of their keys.

    Args:
        edits: In the order in which they were made.
        canonical_of: Key of a merged-away name to the key of its entity.
    """
    found: dict[str, EditedEntity] = {}
    for edit in edits:
        key = canonical_of.get(edit.key, edit.key)
        entity = found.get(key, EditedEntity(key))
        if edit.kind == "rename":
            found[key] = entity._replace(name=edit.other)
        elif edit.kind == "retype":
            found[key] = entity._replace(is_retyped=True, type=None if edit.other == NO_TYPE else edit.other)
        elif edit.kind == "delete":
            found[key] = entity._replace(is_deleted=True)
    return [found[key] for key in sorted(found)]
