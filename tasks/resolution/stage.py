"""The resolution stage: raw parts of any extractor to the tables of entities and of all that names them.

The statements are in warehouse/tables/sql/resolve.sql, the decisions in resolve.py; order of the parts does not matter.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa

from polyhop.schemas.chat import ChatModel, Role
from polyhop.schemas.entity_edits import EntityEdit
from polyhop.schemas.ids import content_hash
from polyhop.schemas.model_settings import ReplySettings
from polyhop.schemas.tables import ALIASES
from polyhop.tasks.cycles import no_search_for_cycles
from polyhop.tasks.raw_rows import RAW, raw_rows, raw_rows_before, read_changed
from polyhop.tasks.resolution.acceptance import accept
from polyhop.tasks.resolution.candidates import Name, Pair
from polyhop.tasks.resolution.edits import EditedEntity, edited_entities, edited_links
from polyhop.tasks.resolution.filling import FILLED, describe_names, fill_all, fill_changed
from polyhop.tasks.resolution.kept import Before, are_names_kept, keep_decisions, showing
from polyhop.tasks.resolution.links import Links
from polyhop.tasks.resolution.namesake_rows import tell_apart
from polyhop.tasks.resolution.namesakes import Senses, with_senses
from polyhop.tasks.resolution.resolve import Resolution, resolve
from polyhop.tasks.resolution.titles import title_aliases
from polyhop.tasks.resolution.verdict import Judge, Verdict
from polyhop.tasks.resolution.verification import cluster_request, resolve_task, verdict_of
from polyhop.tasks.stage import Counts, Stage
from polyhop.warehouse.build import Build, part_file, write_part
from polyhop.warehouse.edit_file import edits_hash, read_edits
from polyhop.warehouse.link_files import links_hash, read_links
from polyhop.warehouse.statements import statement, statements
from polyhop.warehouse.tables.connection import quoted
from polyhop.warehouse.updated_tables import begin_updates, clear_tables

REVISION = 5  # raise it with every change of resolution's code that changes its tables (decision 0001)

_COUNTED = ("entities", "mentions", "relations", "propositions", "triples", "merged_names")
_DECIDED = ("clusters", "failed_clusters")
_MOST_CHANGED = 0.2
"""Share of passages above which deriving everything is no slower than looking for what changed."""


def settings(build: Build) -> dict[str, object]:
    """Who decides about names, and how.

    Raises:
        ConfigurationError: If a file of pairs or edits cannot be read, or the model that shall decide is not named.
    """
    chosen = build.settings.resolution
    said: dict[str, object] = {
        "method": chosen.method,
        "must_link": links_hash(chosen.must_link),
        "cannot_link": links_hash(chosen.cannot_link),
    }
    edits = edits_hash(build.folder)
    if edits:
        said["edits"] = edits
    if chosen.identity != "name":
        said["identity"] = chosen.identity
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
    """Fills the tables from what was extracted; where little changed, with the rows of the version before.

    Raises:
        ConfigurationError: If people's links contradict each other.
        BudgetExceededError: Before a call that would exceed the budget; replies so far are cached.
    """
    raw = {name: raw_rows(build, name) for name in RAW}
    before = _before(build)
    if before is not None:
        begin_updates(build, before.tables, FILLED)
    with build.tables() as connection, showing(connection, raw, before):
        titles = [row[0] for row in connection.execute(statement("ingest", "titles")).fetchall()]
        for name in ("key_map", "written_descriptions", "decisions", "edited_keys"):
            connection.execute(statement("resolve", name))
        is_decided = before is not None and not _has_links(build) and are_names_kept(connection)
        if before is not None and is_decided:
            keep_decisions(connection)
            decided = {name: before.counts[name] for name in _DECIDED}
        else:
            decided = _decide(build, connection, _senses(build, connection))
        if before is None:
            fill_all(build, connection)
        else:
            fill_changed(build, connection)
        _fill_aliases(build, connection, titles)
        row = connection.execute(statement("resolve", "count_entities")).fetchone() or (0,) * len(_COUNTED)
    return dict(zip(_COUNTED, row, strict=True)) | decided


def _fill_aliases(build: Build, connection: duckdb.DuckDBPyConnection, titles: list[str]) -> None:
    """Fills the table of aliases anew: those that titles give, and those that were decided."""
    clear_tables(build, connection, [ALIASES])
    aliases = {"title_aliases": [str(_write_aliases(build, titles))]}
    connection.execute(statement("resolve", "fill_title_aliases"), aliases)
    connection.execute(statement("resolve", "fill_decided_aliases"))


def _has_links(build: Build) -> bool:
    chosen = build.settings.resolution
    return bool(chosen.must_link or chosen.cannot_link or read_edits(build.folder))


def _senses(build: Build, connection: duckdb.DuckDBPyConnection) -> Senses:
    """Puts raw rows under the keys of the bearers of shared names, if namesakes are told apart."""
    identity = build.settings.resolution.identity
    return Senses([], []) if identity == "name" else tell_apart(connection, identity)


def _decide(build: Build, connection: duckdb.DuckDBPyConnection, senses: Senses) -> dict[str, int]:
    """Decides about all names; counts what was decided."""
    describe_names(connection)
    edits = read_edits(build.folder)
    with no_search_for_cycles():
        resolution = _resolve(build, connection, edits, senses)
    _write_resolution(connection, resolution)
    _insert(connection, "edited_keys", EditedEntity._fields, edited_entities(edits, resolution.canonical_of))
    counts = dict(zip(_DECIDED, (resolution.cluster_count, resolution.failed_clusters), strict=True))
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


def _before(build: Build) -> Before | None:
    """The version before, if this one can be made of it: same code and settings, no model, most passages the same."""
    chosen = build.settings.resolution
    if chosen.method == "model" or chosen.identity != "name":
        return None  # neither what a model said of names nor who bears them is part of a version
    recipe = RESOLVE.recipe(build)
    tables = build.earlier_tables("resolve", recipe, [*RESOLVE.table_names, "passages"])
    passages = read_changed(build) if tables is not None else None
    if tables is None or passages is None:
        return None
    if len(passages) > _MOST_CHANGED * build.counts["ingest"]["passages"]:
        return None
    raw = {name: raw_rows_before(build, name) for name in RAW}
    counts = build.earlier.counts["resolve"] if build.earlier is not None else {}
    return Before(tables, raw, passages, counts)


def _resolve(
    build: Build, connection: duckdb.DuckDBPyConnection, edits: Sequence[EntityEdit], senses: Senses
) -> Resolution:
    """Names out of the tables, decisions about them."""
    chosen = build.settings.resolution
    rows = connection.execute(statement("resolve", "names_to_resolve")).fetchall()
    names = [Name(key, name, kind, count, is_guess=guess) for key, name, kind, count, guess in rows]
    links = Links(read_links(chosen.must_link), read_links(chosen.cannot_link))
    links = edited_links(links, edits, {name.key for name in names} if edits else ())
    judge = _judge(build, connection)
    resolution = resolve(names, links, judge and _apart(judge, senses), chosen.max_cluster)
    return with_senses(resolution, senses)


def _judge(build: Build, connection: duckdb.DuckDBPyConnection) -> Judge | None:
    """Who decides: nobody, the rules, or the configured model."""
    makers: dict[str, Callable[[], Judge | None]] = {
        "off": lambda: None,
        "rules": lambda: _by_rules,
        "model": lambda: _by_model(build, connection),
    }
    return makers[build.settings.resolution.method]()


def _apart(judge: Judge, senses: Senses) -> Judge:
    """The same judge, which does not see bearers of one name as candidates: that was decided before."""
    families = senses.families
    if not families:
        return judge
    nothing = frozenset[str]()

    def judge_others(names: Sequence[Name], pairs: Sequence[Pair], clusters: Sequence[list[int]]) -> Verdict:
        own = [families.get(name.key, nothing) for name in names]
        return judge(names, [(a, b) for a, b in pairs if not own[a] & own[b]], clusters)

    return judge_others


def _by_rules(names: Sequence[Name], pairs: Sequence[Pair], _: Sequence[list[int]]) -> Verdict:
    return accept(names, pairs)


def _by_model(build: Build, connection: duckdb.DuckDBPyConnection) -> Judge:
    from polyhop.warehouse.open_models import open_chat

    model: ChatModel = open_chat(build.settings, Role.RESOLVE)

    def judge(names: Sequence[Name], _: Sequence[Pair], clusters: Sequence[list[int]]) -> Verdict:
        keys = [names[number].key for cluster in clusters for number in cluster]
        rows = connection.execute(statement("resolve", "sentences_of_keys"), {"keys": keys}).fetchall()
        sentences = {key: tuple(texts) for key, texts in rows}
        told = [replace(name, descriptions=sentences.get(name.key, ())) for name in names]
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
    tables=(*FILLED, ALIASES),
    outcome=outcome,
    reads_parts_of=("extract",),
    invariants=statements("entity_invariants") | statements("text_invariants"),
    sources=("corpus",),
)
