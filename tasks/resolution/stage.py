"""The resolution stage: raw parts of any extractor to the tables of entities and of all that names them.

The statements are in warehouse/tables/sql/resolve.sql, the decisions in resolve.py; order of the parts does not matter.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from polyhop.schemas.chat import ChatModel, Role
from polyhop.schemas.columns import Table
from polyhop.schemas.ids import content_hash
from polyhop.schemas.settings import ReplySettings
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
)
from polyhop.tasks.extraction.rule_batches import raw_files
from polyhop.tasks.resolution.acceptance import accept
from polyhop.tasks.resolution.candidates import Name, Pair
from polyhop.tasks.resolution.links import Links
from polyhop.tasks.resolution.resolve import Resolution, resolve
from polyhop.tasks.resolution.titles import title_aliases
from polyhop.tasks.resolution.verdict import Judge, Verdict
from polyhop.tasks.resolution.verification import cluster_request, resolve_task, verdict_of
from polyhop.tasks.stage import Counts, Stage
from polyhop.warehouse.build import Build, part_file, write_part
from polyhop.warehouse.link_files import links_hash, read_links
from polyhop.warehouse.statements import statement, statements
from polyhop.warehouse.tables.connection import quoted

REVISION = 3

_COUNTED = ("entities", "mentions", "relations", "propositions", "triples", "merged_names")
_READ = (("key_map", ()), ("written_descriptions", ()), ("decisions", ()), ("keyed_mentions", ("mentions",)))
_DESCRIBE = (("names_of_keys", ()), ("types_of_keys", ()), ("descriptions_of_keys", ()))
_FILL = (
    ("phrases", ("propositions",)),
    ("fill_entities", ()),
    ("fill_mentions", ()),
    ("raw_relations", ("relations",)),
    ("fill_relations", ()),
    ("fill_relation_sources", ()),
    ("fill_title_aliases", ("title_aliases",)),
    ("fill_decided_aliases", ()),
)
_FILL_PROPOSITIONS = {
    "propositions": (PROPOSITIONS, PROPOSITION_PASSAGES, PROPOSITION_ENTITIES),
    "triples": (TRIPLES, TRIPLE_PASSAGES, TRIPLE_ENTITIES),
}
"""Parts and the tables that they fill: texts, passages, entities."""


def settings(build: Build) -> dict[str, object]:
    """Who decides about names, and how.

    Raises:
        ConfigurationError: If a file of name pairs cannot be read, or the model that shall decide is not named.
    """
    chosen = build.settings.resolution
    said: dict[str, object] = {
        "method": chosen.method,
        "must_link": links_hash(chosen.must_link),
        "cannot_link": links_hash(chosen.cannot_link),
    }
    if chosen.method != "off":
        said["max_cluster"] = chosen.max_cluster
    if chosen.method == "model":
        from polyhop.warehouse.open_models import model_name

        said["model"] = model_name(build.settings.models, Role.RESOLVE)
        said["prompt"] = resolve_task().prompt.hash
        longest = build.settings.models.longest_reply.kg_resolve
        if longest != ReplySettings().kg_resolve:
            said["longest_reply"] = longest
    return said


def finish(build: Build) -> Counts:
    """Fills the tables from the parts.

    Raises:
        ConfigurationError: If people's links contradict each other.
        BudgetExceededError: Before a call that would exceed the budget; replies so far are cached.
    """
    parts = {name: raw_files(build, name) for name in ("mentions", "relations", *_FILL_PROPOSITIONS)}
    with build.tables() as connection:
        titles = [row[0] for row in connection.execute(statement("ingest", "titles")).fetchall()]
        parts["title_aliases"] = [str(_write_aliases(build, titles))]
        _run(connection, _READ, parts)
        _run(connection, _DESCRIBE, parts)
        resolution = _resolve(build, connection)
        _write_resolution(connection, resolution)
        if resolution.canonical_of:
            connection.execute(statement("resolve", "rewrite_mentions"))
            _run(connection, _DESCRIBE, parts)
        _run(connection, _FILL, parts)
        for part, tables in _FILL_PROPOSITIONS.items():
            _fill_propositions(connection, parts[part], tables)
        row = connection.execute(statement("resolve", "count_entities")).fetchone() or (0,) * len(_COUNTED)
    counts = dict(zip(_COUNTED, row, strict=True))
    counts |= {"clusters": resolution.cluster_count, "failed_clusters": resolution.failed_clusters}
    if build.settings.resolution.method == "model":
        counts["prompt_tokens"] = resolution.usage.prompt_tokens
        counts["completion_tokens"] = resolution.usage.completion_tokens
    return counts


def outcome(build: Build) -> str:
    """Hash of what came out: a model's replies are not determined by the fingerprint."""
    if build.settings.resolution.method != "model":
        return build.fingerprint("resolve")
    with build.tables(read_only=True) as connection:
        row = connection.execute(statement("resolve", "content_of_tables")).fetchone() or ()
    return content_hash("resolve", *map(str, row))


def _run(
    connection: duckdb.DuckDBPyConnection,
    steps: Iterable[tuple[str, tuple[str, ...]]],
    parts: dict[str, list[str]],
) -> None:
    for name, needed in steps:
        connection.execute(statement("resolve", name), {part: parts[part] for part in needed})


def _fill_propositions(connection: duckdb.DuckDBPyConnection, parts: list[str], tables: Sequence[Table]) -> None:
    """Fills the tables of texts, passages and entities."""
    rows = ("distinct_propositions", "passages_of_propositions", "entities_of_propositions")
    for table, name in zip(tables, rows, strict=True):
        connection.execute(f"INSERT INTO {quoted(table.name)} {statement('resolve', name)}", {"propositions": parts})


def _resolve(build: Build, connection: duckdb.DuckDBPyConnection) -> Resolution:
    """Names out of the tables, decisions about them."""
    chosen = build.settings.resolution
    rows = connection.execute(statement("resolve", "names_to_resolve")).fetchall()
    names = [Name(key, name, kind, count) for key, name, kind, count in rows]
    links = Links(read_links(chosen.must_link), read_links(chosen.cannot_link))
    return resolve(names, links, _judge(build, connection), chosen.max_cluster)


def _judge(build: Build, connection: duckdb.DuckDBPyConnection) -> Judge | None:
    """Who decides: nobody, the rules, or the configured model."""
    makers: dict[str, Callable[[], Judge | None]] = {
        "off": lambda: None,
        "rules": lambda: _by_rules,
        "model": lambda: _by_model(build, connection),
    }
    return makers[build.settings.resolution.method]()


def _by_rules(names: Sequence[Name], pairs: Sequence[Pair], _: Sequence[list[int]]) -> Verdict:
    return accept(names, pairs)


def _by_model(build: Build, connection: duckdb.DuckDBPyConnection) -> Judge:
    from polyhop.warehouse.open_models import open_chat

    model: ChatModel = open_chat(build.settings, Role.RESOLVE)

    def judge(names: Sequence[Name], _: Sequence[Pair], clusters: Sequence[list[int]]) -> Verdict:
        keys = [names[number].key for cluster in clusters for number in cluster]
        rows = connection.execute(statement("resolve", "sentences_of_keys"), {"keys": keys}).fetchall()
        sentences = {key: tuple(texts) for key, texts in rows}
        told = [Name(name.key, name.name, name.type, name.mention_count, sentences.get(name.key, ())) for name in names]
        return verdict_of(told, clusters, model.ask([cluster_request(told, cluster) for cluster in clusters]))

    return judge


def _write_resolution(connection: duckdb.DuckDBPyConnection, resolution: Resolution) -> None:
    """Key map, written descriptions and decisions into their temporary tables."""
    moved = sorted(resolution.canonical_of.items())
    own = [(key, key) for key in sorted(set(resolution.canonical_of.values()))]
    _insert(connection, "key_map", ("key", "canonical"), [*moved, *own])
    _insert(connection, "written_descriptions", ("key", "description"), sorted(resolution.descriptions.items()))
    _insert(
        connection,
        "decisions",
        ("alias_key", "kind", "scope", "canonical", "ambiguous", "reason"),
        [(d.key, d.kind, d.scope, d.canonical, d.is_ambiguous, d.reason) for d in resolution.decisions],
    )


def _insert(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str], rows: Sequence[tuple[object, ...]]
) -> None:
    if not rows:
        return
    arrays = [pa.array(column) for column in zip(*rows, strict=True)]
    connection.register("incoming", pa.Table.from_arrays(arrays, names=list(columns)))
    connection.execute(f"INSERT INTO {quoted(table)} FROM incoming")
    connection.unregister("incoming")


def _write_aliases(build: Build, titles: list[str]) -> Path:
    pairs = title_aliases(titles)
    table = pa.table(
        {
            "alias_key": pa.array([alias for alias, _ in pairs], pa.string()),
            "canonical": pa.array([key for _, key in pairs], pa.string()),
        }
    )
    folder = build.parts("resolve")
    write_part(folder, 0, {"title_aliases": table})
    return part_file(folder, "title_aliases", 0)


RESOLVE = Stage(
    "resolve",
    reads=("extraction", "passages"),
    writes=("entities",),
    finish=finish,
    revision=REVISION,
    settings=settings,
    tables=(
        ENTITIES,
        MENTIONS,
        RELATIONS,
        RELATION_SOURCES,
        PROPOSITIONS,
        PROPOSITION_PASSAGES,
        PROPOSITION_ENTITIES,
        TRIPLES,
        TRIPLE_PASSAGES,
        TRIPLE_ENTITIES,
        ALIASES,
    ),
    outcome=outcome,
    reads_parts_of=("extract",),
    invariants=statements("entity_invariants") | statements("text_invariants"),
    sources=("corpus",),
)
