"""The resolution stage: raw parts and people's edits to the tables of entities, all or what changed.

The statements are in warehouse/tables/sql/resolve.sql, the decisions in resolve.py; order of the parts does not matter.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, product
from pathlib import Path
from typing import NamedTuple

import duckdb

from polyhop.schemas.chat import ChatModel, Role
from polyhop.schemas.names import title_keys
from polyhop.schemas.records import NO_TYPE, EntityEdit, NamePair
from polyhop.schemas.tables import (
    ALIASES,
    ENTITIES,
    MENTIONS,
    PROPOSITION_ENTITIES,
    PROPOSITION_PASSAGES,
    PROPOSITIONS,
    RELATION_SOURCES,
    RELATIONS,
    TRIPLE_ENTITIES,
    TRIPLE_PASSAGES,
    TRIPLES,
    Table,
)
from polyhop.schemas.text import content_hash, norm_simple, without_last_parenthesis
from polyhop.tasks.raw_rows import RAW, RawRows, raw_rows, raw_rows_before, read_changed
from polyhop.tasks.resolution.candidates import (
    Judge,
    Name,
    Pair,
    Verdict,
    cluster_request,
    resolve_task,
    verdict_of,
    words_of_names,
)
from polyhop.tasks.resolution.kept import FILE, PREFIX, KeptNames, changed_names, name_table
from polyhop.tasks.resolution.namesakes import Senses, insert_tuples, tell_apart, with_senses
from polyhop.tasks.resolution.resolve import (
    MAX_CLUSTER,
    Links,
    Resolution,
    accept,
    groups_of,
    in_order,
    link_key,
    resolve,
)
from polyhop.tasks.stage import Counts, Stage
from polyhop.warehouse.build import (
    Build,
    are_as_before,
    clear_tables,
    insert_sorted,
    replace_rows,
)
from polyhop.warehouse.files.disk import link_or_copy
from polyhop.warehouse.machine import gc_paused
from polyhop.warehouse.statements import statement, statements
from polyhop.warehouse.tables.connection import attached
from polyhop.warehouse.user_files import edits_hash, links_hash, read_edits, read_links

# Source: algorithms.md 2.7 (EL).


def title_aliases(titles: Iterable[str]) -> list[tuple[str, str]]:
    """(alias, key of the title it may mean) pairs, distinct and sorted; an alias with several keys is ambiguous."""
    pairs = set()
    for title in set(titles):
        keys = title_keys(title)
        if not keys:
            continue
        for form in (title, without_last_parenthesis(title)):
            alias = norm_simple(form)
            if alias:
                pairs.add((alias, keys[0]))
    return sorted(pairs)


class EditedEntity(NamedTuple):
    """Edits of one entity, after names were merged; `type` counts if `is_retyped`, no name keeps it."""

    key: str
    name: str | None = None
    is_retyped: bool = False
    type: str | None = None
    is_deleted: bool = False


def edited_links(links: Links, edits: Iterable[EntityEdit], mentioned: Collection[str]) -> Links:
    """The links of files, and those that edits add."""
    must, cannot = list(links.must), list(links.cannot)
    for edit in edits:
        pair = NamePair(edit.key, edit.other, location=edit.location)
        is_alias = edit.kind == "rename" and link_key(edit.other) not in {edit.key, ""}
        if edit.kind == "split":
            cannot.append(pair)
        elif edit.kind == "merge" or (is_alias and link_key(edit.other) not in mentioned):
            must.append(pair)
    return Links(tuple(must), tuple(cannot))


def edited_entities(edits: Iterable[EntityEdit], canonical_of: Mapping[str, str]) -> list[EditedEntity]:
    """Collects the edits of each entity, in order of their keys."""
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


@dataclass(frozen=True, slots=True)
class Before:
    """The version before: its tables, its raw rows, passages with other raw rows now (or gone), and its counts."""

    tables: Path
    raw: Mapping[str, RawRows]
    passages: Sequence[str]
    counts: Mapping[str, int]


_READ_AGAIN = {"moved": "mentioning_passages", "adjacent": "adjacent_passages"}
"""Raw rows that are read again, by the tables of their passages."""


@contextmanager
def showing(connection: duckdb.DuckDBPyConnection, raw: Mapping[str, RawRows], before: Before | None) -> Iterator[None]:
    """For the block: raw rows as `all_mentions` and so on, and what is known of the version before.

    That is its tables as `published`, which passages changed since, which of their raw rows differ as
    `differing_mentions` and so on, keys of the names in these, and rows to read again as `moved_relations` and so on.
    """
    for name, rows in raw.items():
        _view(connection, f"all_{name}", f"({rows.query()})")
    if before is None:
        yield
        return
    with attached(connection, before.tables, "published"):
        passages = {"passages": list(before.passages)}
        connection.execute(statement("resolve_update", "changed_passages"), passages)
        _run(connection, "resolve_update", "moved_passages")
        for name, rows in raw.items():
            _view(connection, "rows_now", f"({rows.query('changed_passages')})")
            _view(connection, "rows_before", f"({before.raw[name].query('changed_passages')})")
            _keep(connection, f"differing_{name}", "rows_that_differ")
        _run(connection, "resolve_update", "named_keys", "key_map_before", "entities_of", "passages_to_read")
        for (rows_of, passages_of), (name, rows) in product(_READ_AGAIN.items(), raw.items()):
            _view(connection, f"{rows_of}_{name}", f"({rows.query(passages_of)})")
        yield


_STATED = {
    "propositions": (PROPOSITIONS, PROPOSITION_PASSAGES, PROPOSITION_ENTITIES),
    "triples": (TRIPLES, TRIPLE_PASSAGES, TRIPLE_ENTITIES),
}
"""Raw rows and the tables that they fill: texts, passages, entities."""

FILLED = (
    *(ENTITIES, MENTIONS, RELATIONS, RELATION_SOURCES, ALIASES),
    *(table for tables in _STATED.values() for table in tables),
)
"""The tables that resolution fills."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Names and passages that a run derives rows of: those that changed since the version `before`, or without it all.

    resolve_all.sql and resolve_update.sql define tables and views of the same names, which resolve.sql reads.
    """

    build: Build
    connection: duckdb.DuckDBPyConnection
    before: Before | None

    @property
    def file(self) -> str:
        """The file of statements that select these rows."""
        return "resolve_all" if self.before is None else "resolve_update"

    def select(self, *names: str) -> None:
        """Creates the tables and views that a statement of resolve.sql reads."""
        _run(self.connection, self.file, *names)

    def show_statements(self, name: str, passages: Table) -> None:
        """Shows raw propositions, or triples, under the names that statements for both read."""
        sources = {"all_statements": f"all_{name}", "passages_before": passages.name}
        if self.before is not None:
            sources |= {f"{rows}_statements": f"{rows}_{name}" for rows in ("differing", *_READ_AGAIN)}
        for view, source in sources.items():
            _view(self.connection, view, source)

    def write(self, table: Table, rows: str, outdated: str) -> None:
        """Writes derived rows of a table: all, or instead of those that the condition `outdated` is true of."""
        if self.before is None:
            insert_sorted(self.connection, table, statement("resolve", rows))
        else:
            replace_rows(self.build, self.connection, table, statement("resolve", rows), outdated)


def fill(scope: Scope) -> None:
    """Derives the rows of the names and passages in scope, and writes them.

    Without a version before the tables begin empty, otherwise as its tables.

    Cost: O(rows) to scan, O(rows in scope) to derive and to write.
    """
    connection = scope.connection
    if scope.before is None:
        clear_tables(scope.build, connection, FILLED)
    scope.select("keyed_mentions", "phrases")
    _run(connection, "resolve", "drop_deleted_mentions", "drop_what_is_no_name")
    _view(connection, "resolved_mentions", "keyed_mentions")
    _describe(connection)
    touched, moved = (f"entity_id IN (SELECT entity_id FROM {name}_entities)" for name in ("touched", "moved"))
    scope.write(ENTITIES, "entities", touched)
    scope.select("placed_mentions")
    scope.write(MENTIONS, "mentions", f"unit_id IN (FROM changed_passages) AND {touched} OR {moved}")
    scope.select("stated_relations")
    _run(connection, "resolve", "raw_relations")
    scope.select("derived_relations")
    for table in (RELATIONS, RELATION_SOURCES):
        scope.write(table, table.name, "relation_id IN (FROM touched_relations)")
    for name, (texts, passages, entities) in _STATED.items():
        scope.show_statements(name, passages)
        scope.select("stated")
        scope.write(texts, "distinct_propositions", "proposition_id IN (FROM touched_texts)")
        scope.write(passages, "passages_of_propositions", "proposition_id IN (FROM touched_texts)")
        scope.write(entities, "entities_of_propositions", "proposition_id IN (FROM touched_names)")
    if (connection.execute(statement(scope.file, "have_titles_changed")).fetchone() or (True,))[0]:
        _read_titles(connection)
        scope.write(ALIASES, "aliases_of_titles", "kind = 'title'")
    scope.write(ALIASES, "decided_aliases", "kind <> 'title'")


def _read_titles(connection: duckdb.DuckDBPyConnection) -> None:
    """Lists the aliases that titles may give."""
    _run(connection, "resolve", "title_aliases")
    titles = connection.execute(statement("ingest", "titles")).fetchall()
    insert_tuples(connection, "title_aliases", title_aliases(row[0] for row in titles))


def _describe(connection: duckdb.DuckDBPyConnection) -> None:
    """Name, type, description and counts of the entities that are derived."""
    _run(connection, "resolve", "names_of_keys", "types_of_keys", "descriptions_of_keys", "counts_of_keys")
    _run(connection, "resolve", "rename_keys", "drop_retyped_keys", "retype_keys")


def _run(connection: duckdb.DuckDBPyConnection, file: str, *names: str) -> None:
    for name in names:
        connection.execute(statement(file, name))


def _keep(connection: duckdb.DuckDBPyConnection, table: str, rows: str) -> None:
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {statement('resolve_update', rows)}")


def _view(connection: duckdb.DuckDBPyConnection, name: str, source: str) -> None:
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS FROM {source}")


_COUNTED = ("entities", "mentions", "relations", "propositions", "triples", "merged_names")
_DECIDED = ("clusters", "failed_clusters")
_ROWS_AT_ONCE = 10_000  # chosen: tuples of a million names take a quarter of a gigabyte

_MOST_CHANGED = 0.2  # share of passages above which deriving everything is no slower than looking for what changed


@gc_paused()
def _decide(build: Build, connection: duckdb.DuckDBPyConnection, senses: Senses) -> dict[str, int]:
    """Decides about all names; counts what was decided."""
    # Name and type of each key of all mentions, while nothing is decided.
    _run(connection, "resolve", "own_mentions")
    _view(connection, "resolved_mentions", "own_mentions")
    edits = read_edits(build.folder)
    resolution = with_senses(_resolved(build, connection, edits, senses), senses)
    _insert_decisions(connection, resolution)
    insert_tuples(connection, "edited_keys", edited_entities(edits, resolution.canonical_of))
    counts = dict(zip(_DECIDED, (resolution.cluster_count, resolution.failed_clusters), strict=True))
    if build.settings.resolution.method == "model":
        counts["prompt_tokens"] = resolution.usage.prompt_tokens
        counts["completion_tokens"] = resolution.usage.completion_tokens
    return counts


def _insert_decisions(connection: duckdb.DuckDBPyConnection, resolution: Resolution) -> None:
    """Key map, written descriptions and decisions into their temporary tables."""
    moved = sorted(resolution.canonical_of.items())
    own = [(key, key) for key in sorted(set(resolution.canonical_of.values()))]
    insert_tuples(connection, "key_map", [*moved, *own])
    insert_tuples(connection, "written_descriptions", sorted(resolution.descriptions.items()))
    decided = [(d.key, d.kind, d.scope, d.canonical, d.is_ambiguous, d.reason) for d in resolution.decisions]
    insert_tuples(connection, "decisions", decided)


@gc_paused()
def _decide_again(build: Build, connection: duckdb.DuckDBPyConnection, kept: Path, before: Before) -> dict[str, int]:
    """Decides about names in clusters that changed, and keeps what was decided about all others; counts of all."""
    _run(connection, "resolve_update", "named_now")
    named: dict[str, Name | None] = dict.fromkeys(key for (key,) in connection.execute("FROM named_keys").fetchall())
    named |= {name.key: name for name in _names_of(connection)}
    connection.execute("DROP TABLE resolved_mentions")
    changed = changed_names(KeptNames.read(kept), named, MAX_CLUSTER)
    keys = {"keys": changed.keys if changed else []}
    connection.execute(statement("resolve_update", "keep_key_map"), keys)
    connection.execute(statement("resolve_update", "keep_decisions"), keys)
    counts = {name: before.counts[name] for name in _DECIDED}
    if changed is None:
        link_or_copy(kept, build.staging.arrays / FILE)
        return counts
    changed.kept.write(build.staging.arrays / FILE)
    _insert_decisions(connection, resolve(changed.names, Links(), changed.groups, _judge(build, connection, {})))
    return {**counts, "clusters": changed.cluster_count}


def _resolved(
    build: Build, connection: duckdb.DuckDBPyConnection, edits: Sequence[EntityEdit], senses: Senses
) -> Resolution:
    """Resolves all names and frees them afterwards."""
    names = _names_of(connection)
    pairs = read_links(build.settings.resolution.links)
    links = Links(*(tuple(pair for pair in pairs if pair.are_same is same) for same in (True, False)))
    links = edited_links(links, edits, {name.key for name in names} if edits else ())
    names, judge = in_order(names, links), _judge(build, connection, senses.families)
    groups = groups_of(words_of_names(names), max_cluster=MAX_CLUSTER) if judge else None
    if groups and _keeps_names(build):
        KeptNames.of(name_table(names), groups).write(build.staging.arrays / FILE)
    return resolve(names, links, groups, judge)


def _names_of(connection: duckdb.DuckDBPyConnection) -> list[Name]:
    """The names in `resolved_mentions`."""
    _run(connection, "resolve", "names_of_keys", "types_of_keys")
    connection.execute(statement("resolve", "names_to_resolve"))
    rows = chain.from_iterable(iter(lambda: connection.fetchmany(_ROWS_AT_ONCE), []))
    return [Name(key, name, kind, count, is_guess=guess) for key, name, kind, count, guess in rows]


def _keeps_names(build: Build) -> bool:
    """Returns whether decisions depend on names only; verdicts of a model, and bearers, are part of no version."""
    chosen = build.settings.resolution
    return not (chosen.method == "model" or chosen.identity != "name" or chosen.links or read_edits(build.folder))


def _judge(build: Build, connection: duckdb.DuckDBPyConnection, families: Mapping[str, frozenset[str]]) -> Judge | None:
    """Chooses the judge: none, the rules, or the configured model; bearers of one name were decided before."""
    method, nothing = build.settings.resolution.method, frozenset[str]()
    if method == "off":
        return None
    model: ChatModel | None = None
    if method == "model":
        from polyhop.warehouse.open_models import open_chat

        model = open_chat(build.settings, Role.RESOLVE)

    def judge(names: Sequence[Name], pairs: Sequence[Pair], clusters: Sequence[list[int]]) -> Verdict:
        if model is None:
            own = [families.get(name.key, nothing) for name in names]
            return accept(names, [(a, b) for a, b in pairs if not own[a] & own[b]])
        keys = [names[number].key for cluster in clusters for number in cluster]
        rows = connection.execute(statement("resolve", "sentences_of_keys"), {"keys": keys}).fetchall()
        sentences = {key: tuple(texts) for key, texts in rows}
        described = [replace(name, descriptions=sentences.get(name.key, ())) for name in names]
        return verdict_of(described, clusters, model.ask([cluster_request(described, cluster) for cluster in clusters]))

    return judge


class Resolve(Stage):
    """Raw rows and people's edits to entities."""

    name = "resolve"
    reads = ("extraction", "passages")
    writes = ("entities",)
    revision = 6  # raise it with every change of resolution's code that changes its tables (decision 0001)
    tables = updated = FILLED
    arrays = PREFIX
    reads_parts_of = ("extract",)
    invariants = statements("entity_invariants") | statements("text_invariants")
    sources = ("corpus",)

    def settings(self, build: Build) -> dict[str, object]:
        """Settings that determine the decisions about names."""
        chosen = build.settings.resolution
        # two names of links: as before there was one file, so that an index without links is not derived again
        said: dict[str, object] = {"method": chosen.method, "must_link": links_hash(chosen.links), "cannot_link": ""}
        edits = edits_hash(build.folder)
        if edits:
            said["edits"] = edits
        if chosen.identity != "name":
            said["identity"] = chosen.identity
        if chosen.method != "off":
            said["max_cluster"] = MAX_CLUSTER
        if chosen.method == "model":
            from polyhop.warehouse.open_models import model_name

            said["model"] = model_name(build.settings.models, Role.RESOLVE)
            said["prompt"] = resolve_task().prompt.hash
            if build.settings.models.max_reply_tokens:
                said["max_reply_tokens"] = build.settings.models.max_reply_tokens
        return said

    def finish(self, build: Build) -> Counts:
        """Fills the tables from what was extracted; where little changed, with the rows of the version before."""
        raw = {name: raw_rows(build, name) for name in RAW}
        before = self._before(build)
        (build.staging.arrays / FILE).unlink(missing_ok=True)  # may be the published file, under a second name
        with build.tables() as connection, showing(connection, raw, before):
            _run(connection, "resolve", "key_map", "written_descriptions", "decisions", "edited_keys")
            files = build.earlier_files(FILE) if _keeps_names(build) else []
            if before is not None and files:
                decided = _decide_again(build, connection, files[0], before)
            else:
                # Puts raw rows under the keys of the bearers of shared names, if namesakes are separated.
                identity = build.settings.resolution.identity
                senses = Senses([], []) if identity == "name" else tell_apart(connection, identity)
                decided = _decide(build, connection, senses)
            fill(Scope(build, connection, before))
            row = connection.execute(statement("resolve", "count_entities")).fetchone() or (0,) * len(_COUNTED)
        return dict(zip(_COUNTED, row, strict=True)) | decided

    def outcome(self, build: Build) -> str:
        """Hash of what came out: a model's replies are not determined by the fingerprint."""
        if build.settings.resolution.method != "model":
            return build.fingerprint("resolve")
        with build.tables(read_only=True) as connection:
            row = connection.execute(statement("resolve", "content_of_tables")).fetchone() or ()
        return content_hash("resolve", *map(str, row))

    def _before(self, build: Build) -> Before | None:
        """The version before, if this one can be made of it: same code and settings, no model, most passages kept."""
        chosen = build.settings.resolution
        if chosen.method == "model" or chosen.identity != "name":
            return None  # neither what a model said of names nor who bears them is part of a version
        tables = build.earlier_tables("resolve", self.recipe(build), [*self.table_names, "passages"])
        passages = read_changed(build) if tables is not None else None
        is_little = (
            are_as_before(build, FILLED)
            and passages is not None
            and len(passages) <= _MOST_CHANGED * build.counts["ingest"]["passages"]
        )
        if tables is None or passages is None or not is_little:
            return None
        raw = {name: raw_rows_before(build, name) for name in RAW}
        counts = build.earlier.counts["resolve"] if build.earlier is not None else {}
        return Before(tables, raw, passages, counts)


RESOLVE = Resolve()
