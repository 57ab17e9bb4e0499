"""Edits of entities: checked against the current version, saved in edits.jsonl, and applied by every later run."""

from collections.abc import Sequence

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.records import NO_TYPE, EntityEdit, Kind, with_edit
from polyhop.schemas.text import plural
from polyhop.schemas.types import HEADS
from polyhop.tasks.resolution.resolve import entity_of, keys_of, known_key, link_key
from polyhop.warehouse.files.layout import IndexFolder, Layout
from polyhop.warehouse.tables.version_rows import NameRecords, read_name_records, read_types
from polyhop.warehouse.user_files import change_edits


def checked_edit(layout: Layout, index: str, kind: Kind, given: Sequence[str]) -> EntityEdit:
    """The edit that these names make, checked against the current version and not saved.

    `given` is a name; then for merge and split the other name, for rename the new name, for retype a type.

    Raises:
        ConfigurationError: If no entity or several have a name, or the edit would change nothing.
    """
    names = given if kind in ("merge", "split") else given[:1]
    word = given[1].strip() if len(given) > 1 else ""
    other = word if kind == "rename" else word.upper() if kind == "retype" else ""
    records = read_name_records(layout, index, keys_of(names[0], other if kind == "rename" else names[-1]))
    keys = [_known_key(name, records, index, as_written=kind == "split") for name in names]
    if kind in ("merge", "split"):
        other = keys[1]
        if keys[0] == keys[1]:
            wanted = "are one entity already" if kind == "merge" else "have the same key and cannot be separated"
            raise ConfigurationError(f"'{names[0]}' and '{names[1]}' {wanted} ('{keys[0]}').")
    elif kind == "rename" and link_key(other) in records.entities and link_key(other) != keys[0]:
        raise ConfigurationError(
            f"'{other}' is the name of another entity. Merge the two: polyhop entities edit merge."
        )
    elif kind == "retype":
        types = known_types(layout, index)
        if other not in types:
            raise ConfigurationError(f"'{other}' is not a type; choose one of {', '.join(types)}.")
    return EntityEdit(kind, keys[0], other)


def known_types(layout: Layout, index: str) -> list[str]:
    """The types that an entity may get, and the word for none."""
    return sorted({*read_types(layout, index), *HEADS.values(), NO_TYPE})


def add_edit(layout: Layout, index: str, kind: Kind, given: Sequence[str]) -> EntityEdit:
    """Saves an edit; see `checked_edit`."""
    edit = checked_edit(layout, index, kind, given)
    change_edits(layout.index(index), lambda edits: with_edit(edits, edit))
    return edit


def undo_edit(folder: IndexFolder, number: str) -> EntityEdit:
    """Removes an edit by its number from 1, in the order of the file, and returns it.

    Raises:
        ConfigurationError: If there is no edit of that number.
    """
    if not (number.isascii() and number.isdigit() and int(number)):
        raise ConfigurationError(
            f"'undo' takes the number of an edit from `polyhop entities edit list`, not '{number}'."
        )
    ordinal = int(number)

    def without_it(edits: Sequence[EntityEdit]) -> list[EntityEdit]:
        if ordinal > len(edits):
            raise ConfigurationError(
                f"Index '{folder.name}' has no edit {number}; it has {plural(len(edits), 'edit')}."
            )
        return [*edits[: ordinal - 1], *edits[ordinal:]]

    return change_edits(folder, without_it)[ordinal - 1]


def edit_words(edit: EntityEdit) -> str:
    """An edit as people read it."""
    join = {"rename": "to", "merge": "with", "split": "from", "retype": "to"}.get(edit.kind, "")
    return f"{edit.kind} '{edit.key}'" + (f" {join} '{edit.other}'" if join else "")


def _known_key(name: str, records: NameRecords, index: str, *, as_written: bool) -> str:
    """Key of the entity that a name means, or of the name itself where a merge may be undone."""
    if not records.is_resolved:
        raise ConfigurationError(f"The entities of '{index}' are nodes of a knowledge graph; edit the graph instead.")
    key = entity_of(name, records)
    if key is None:
        near = ", ".join(f"'{other}'" for others in records.nearest.values() for other in others[:3])
        raise ConfigurationError(
            f"No passage of '{index}' mentions '{name}', or several entities have that name. Names like it: {near}."
        )
    return known_key(name, records) if as_written else key
