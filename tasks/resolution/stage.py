"""The resolution stage: raw parts of any extractor to the entity, mention, relation and proposition tables.

The statements are in warehouse/tables/sql/resolve.sql; order of the parts does not matter.
"""

from pathlib import Path

import pyarrow as pa

from tasks.resolution.titles import title_aliases
from tasks.stage import Counts, Stage, no_batches, nothing_to_run
from warehouse.build import Build, chain_fingerprint, part_file, part_files, write_part
from warehouse.tables.statements import statement

REVISION = 1

_STEPS = (
    ("names_of_keys", ("mentions",)),
    ("types_of_keys", ("mentions",)),
    ("descriptions_of_keys", ("mentions",)),
    ("phrases", ("propositions",)),
    ("fill_entities", ("mentions",)),
    ("fill_mentions", ("mentions",)),
    ("raw_relations", ("relations",)),
    ("fill_relations", ()),
    ("fill_relation_sources", ()),
    ("fill_propositions", ("propositions",)),
    ("fill_proposition_passages", ("propositions",)),
    ("fill_proposition_entities", ("propositions",)),
    ("fill_title_aliases", ("title_aliases",)),
)


def fingerprint(build: Build) -> str:
    """Depends on what was extracted and on which passages form a document."""
    inputs = {"extract": build.fingerprint("extract"), "passages": build.fingerprint("passages")}
    return chain_fingerprint("resolve", REVISION, inputs, {})


def finish(build: Build) -> Counts:
    """Fills the tables from the parts."""
    extracted = build.parts("extract")
    parts = {name: part_files(extracted, name) for name in ("mentions", "relations", "propositions")}
    with build.tables() as connection:
        titles = [row[0] for row in connection.execute(statement("ingest", "titles")).fetchall()]
        parts["title_aliases"] = [str(_write_aliases(build, titles))]
        for name, needed in _STEPS:
            connection.execute(statement("resolve", name), {part: parts[part] for part in needed})
        row = connection.execute(statement("resolve", "count_entities")).fetchone() or (0, 0, 0, 0)
    return dict(zip(("entities", "mentions", "relations", "propositions"), row, strict=True))


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
    fingerprint,
    no_batches,
    nothing_to_run,
    finish,
    (
        "entities",
        "mentions",
        "relations",
        "relation_sources",
        "propositions",
        "proposition_passages",
        "proposition_entities",
        "aliases",
    ),
)
