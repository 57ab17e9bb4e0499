"""Files that people write or decide in: settings, schemas, entity edits, pairs of names, saved queries, feedback.

It lies beside the versions, because every later run applies it.
"""

import csv
import json
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from polyhop.schemas.errors import ConfigurationError, StoreError, install_words, remember_secrets
from polyhop.schemas.extraction_schema import ExtractionSchema, parse_schema, parse_types
from polyhop.schemas.records import KINDS, EntityEdit, NamePair
from polyhop.schemas.settings import Settings, environment_settings, flatten, parse_settings
from polyhop.schemas.text import content_hash
from polyhop.warehouse.files.disk import locked_file, write_whole, writing
from polyhop.warehouse.files.layout import IndexFolder, Layout

CONFIG_VARIABLE = "POLYHOP_CONFIG"
DEFAULT_FILE = "polyhop.toml"
MAX_SAVED_QUERIES = 200  # chosen: a list that people still read


def load_settings(flags: Mapping[str, object] | None = None) -> Settings:
    """Settings from ./polyhop.toml (or the file that POLYHOP_CONFIG names), POLYHOP_… variables and flags."""
    sources: dict[str, Mapping[str, object]] = {}
    path = Path(os.environ.get(CONFIG_VARIABLE, DEFAULT_FILE))
    if path.exists():
        try:
            sources[str(path)] = flatten(tomllib.loads(path.read_text(encoding="utf-8")))
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"Cannot read settings from {path}: {error}.") from error
    elif CONFIG_VARIABLE in os.environ:
        raise ConfigurationError(f"{CONFIG_VARIABLE} names {path}, which does not exist.")
    sources["the environment (POLYHOP_…)"] = environment_settings(os.environ)
    sources["the command line"] = flags or {}
    values = [value for source in sources.values() for value in source.values()]
    remember_secrets(value for value in values if isinstance(value, str) and "://" in value)
    settings = parse_settings(sources)
    if settings.root.is_file():
        raise StoreError(
            f"Cannot use {settings.root}: a file is where a folder is needed; choose another folder (--root)."
        )
    return settings


def read_edits(folder: IndexFolder) -> tuple[EntityEdit, ...]:
    """The edits of an index in the order of the file; none if there is no file."""
    path, edits = folder.edits, []
    lines = _text(path, "edits of entities", of_no_file="").splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        location = f"{path} line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"{location}: not JSON. Correct the line or remove it.") from error
        has_fields = isinstance(row, dict) and row.keys() == {"edit", "key", "other"}
        if not has_fields or not all(isinstance(value, str) for value in row.values()):
            raise ConfigurationError(f'{location}: an edit has the texts "edit", "key" and "other", no others.')
        if row["edit"] not in KINDS or not row["key"] or bool(row["other"]) == (row["edit"] == "delete"):
            message = f"{location}: an edit is one of {', '.join(KINDS)}, with a key and, but for delete, another text."
            raise ConfigurationError(message)
        edits.append(EntityEdit(row["edit"], row["key"], row["other"], f"{path.name} line {number}"))
    return tuple(edits)


def _text(path: Path, what: str, encoding: str = "utf-8", of_no_file: str | None = None) -> str:
    try:
        return path.read_text(encoding=encoding)
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, FileNotFoundError) and of_no_file is not None:
            return of_no_file
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"Cannot read the {what} in {path}: {reason}.") from error


def edits_hash(folder: IndexFolder) -> str:
    """Hash of what the edits say, "" for none: other edits are other entities."""
    edits = read_edits(folder)
    parts = [part for edit in edits for part in (edit.kind, edit.key, edit.other, edit.location)]
    return content_hash(*parts) if edits else ""


def change_edits(
    folder: IndexFolder, change: Callable[[tuple[EntityEdit, ...]], Iterable[EntityEdit]]
) -> tuple[EntityEdit, ...]:
    """Replaces the edits of an index by the result of `change`, in one atomic rename.

    Of two processes that change them the second gets what the first wrote.

    Returns:
        The edits before.
    """
    with writing("the edits", folder.edits), locked_file(folder.edits):
        before = read_edits(folder)
        rows = [{"edit": edit.kind, "key": edit.key, "other": edit.other} for edit in change(before)]
        text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        write_whole(folder.edits, text.encode())
    return before


def read_saved_queries(layout: Layout) -> dict[str, str]:
    """The SQL queries that people saved, by name; none if there is no file."""
    path = layout.saved_queries
    try:
        found = json.loads(_text(path, "saved queries", of_no_file="") or "{}")
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}: not JSON. Correct the file or remove it.") from error
    if not isinstance(found, dict) or not all(isinstance(query, str) for query in found.values()):
        raise ConfigurationError(f"{path}: not an object of names and queries. Correct the file or remove it.")
    return found


def save_query(layout: Layout, name: str, query: str) -> None:
    """Saves a query under a name, replacing one of that name; an empty query deletes it.

    Raises:
        ConfigurationError: If there are MAX_SAVED_QUERIES already, or the file is damaged.
    """
    path = layout.saved_queries
    with writing("the saved queries", path), locked_file(path):
        kept = {**read_saved_queries(layout), name: query}
        saved = {each: text for each, text in sorted(kept.items()) if text}
        if len(saved) > MAX_SAVED_QUERIES:
            raise ConfigurationError(f"There are already {MAX_SAVED_QUERIES} saved queries; delete one first.")
        write_whole(path, json.dumps(saved, ensure_ascii=False, indent=1).encode("utf-8", "replace"))


def save_feedback(
    folder: IndexFolder, question: str, *, right: Sequence[str], wrong: Sequence[str], supporting: Sequence[str]
) -> None:
    """Adds what a person said of an answer to the labelled questions of an index, one row for each question.

    Answers called right are `answers`, those called wrong `rejected`; the last word on an answer counts.
    """
    path = folder.feedback
    with writing("the feedback", path), locked_file(path):
        text = _text(path, "feedback", of_no_file="")
        try:
            rows = {row["question"]: row for row in map(json.loads, filter(str.strip, text.splitlines()))}
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"{path} is damaged. Correct the file or remove it.") from error
        old = rows.get(question, {"answers": [], "rejected": [], "supporting": []})
        answers = [one for one in dict.fromkeys([*old["answers"], *right]) if one not in wrong]
        rejected = [one for one in dict.fromkeys([*old["rejected"], *wrong]) if one not in right]
        named = {"id": content_hash(question)[:16], "question": question, "answers": answers, "rejected": rejected}
        rows[question] = named | {"supporting": list(dict.fromkeys([*old["supporting"], *supporting]))}
        lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows.values())
        write_whole(path, lines.encode("utf-8", "replace"))


def read_links(file: str) -> tuple[NamePair, ...]:
    """The pairs of a file, in its order; none for ""."""
    if not file:
        return ()
    reader = csv.reader(_text(Path(file), "name pairs", "utf-8-sig").splitlines(keepends=True), strict=True)
    pairs = []
    try:
        header = [cell.strip().lower() for cell in next(reader, [])]
        if header[:2] != ["a", "b"] or sorted(header[2:]) not in ([], ["same"], ["type"], ["same", "type"]):
            message = f"{file} line 1: the header must be a,b, with type or same after them, not '{','.join(header)}'."
            raise ConfigurationError(message)
        for row in reader:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            location = f"{file} line {reader.line_num}"
            if len(cells) != len(header):
                raise ConfigurationError(f"{location}: {len(cells)} columns instead of {len(header)}.")
            for name in cells[:2]:
                if not any(map(str.isalnum, name)):
                    message = f"{location}: '{name}' is not a name; write two names with letters or digits."
                    raise ConfigurationError(message)
            said = dict(zip(header, cells, strict=True))
            same = said.get("same", "").lower() or "yes"
            if same not in ("yes", "no"):
                raise ConfigurationError(f"{location}: same must be yes or no, not '{same}'.")
            where = f"{Path(file).name} line {reader.line_num}"
            pairs.append(NamePair(cells[0], cells[1], said.get("type", "").upper(), where, are_same=same == "yes"))
    except csv.Error as error:
        raise ConfigurationError(f"{file} line {reader.line_num}: {error}.") from error
    return tuple(pairs)


def links_hash(file: str) -> str:
    """sha256 of a file of pairs, "" for no file: other pairs are other entities."""
    return content_hash(_text(Path(file), "name pairs", "utf-8-sig")) if file else ""


_ONTOLOGIES = (".ttl", ".nt", ".rdf", ".owl", ".jsonld")  # what ontologies.py reads


def read_schema(types: str, file: str) -> ExtractionSchema:
    """The schema of the settings `extraction.types` and `extraction.schema_file`; the types of the first come first."""
    own = parse_types(types)
    if not file:
        return ExtractionSchema(own)
    path = Path(file).expanduser()
    text = _text(path, "schema")
    if path.suffix.lower() in _ONTOLOGIES:
        known = _ontology(path)
    else:
        try:
            known = parse_schema(tomllib.loads(text), str(path))
        except tomllib.TOMLDecodeError as error:
            raise ConfigurationError(f"Cannot read the schema {path}: {error}.") from error
    return ExtractionSchema((*own, *known.types), known.relations)


def _ontology(path: Path) -> ExtractionSchema:
    try:
        from polyhop.warehouse.files.ontologies import read_ontology
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyoxigraph":
            raise
        message = f"{path} can only be read with the package pyoxigraph; {install_words('rdf')}."
        raise ConfigurationError(message) from error
    return read_ontology(path)


def schema_hash(file: str) -> str:
    """sha256 of a schema's file, "" for no file."""
    return content_hash(_text(Path(file).expanduser(), "schema")) if file else ""
