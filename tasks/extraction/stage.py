"""The extraction stage: passages, batch by batch, to raw mentions, relations and propositions in part files.

Decides no name itself: rules.py does.
"""

from functools import lru_cache

import pyarrow as pa

from schemas.corpus import Passage
from schemas.ids import proposition_id
from schemas.ports import NameFinding
from schemas.text import norm_ws
from tasks.extraction.rules import extract
from tasks.stage import BatchResult, Counts, Stage
from warehouse.build import Build, chain_fingerprint, is_part_done, part_files, write_part
from warehouse.names import open_finder
from warehouse.tables.connection import connect
from warehouse.tables.statements import statement

REVISION = 1
"""Raise it with every change of the extraction code that changes what is extracted."""


def fingerprint(build: Build) -> str:
    """Depends on ids, titles and texts of the passages and on how names are found."""
    settings = build.settings.extraction.model_dump(mode="json")
    if settings["ner"] != "spacy":
        del settings["spacy_model"]
    return chain_fingerprint("extract", REVISION, {"passages": build.fingerprint("passages")}, settings)


def batches(build: Build) -> list[int]:
    """Batches without a finished part."""
    with build.tables(read_only=True) as connection:
        row = connection.execute(statement("ingest", "passage_count")).fetchone()
    count = row[0] if row else 0
    folder = build.parts("extract")
    size = build.settings.batch_size
    return [n for n in range((count + size - 1) // size) if not is_part_done(folder, n)]


def run_batch(build: Build, batch: int) -> BatchResult:
    """Extracts one batch and writes its part."""
    size = build.settings.batch_size
    with build.tables(read_only=True) as connection:
        rows = connection.execute(
            statement("ingest", "passage_range"), {"limit": size, "offset": batch * size}
        ).fetchall()
    finder = _finder(
        str(build.staging.tables),
        build.fingerprint("extract"),
        build.settings.extraction.ner,
        build.settings.extraction.spacy_model,
    )
    bundle = extract([Passage(*row) for row in rows], finder, build.settings.extraction.ner)
    write_part(
        build.parts("extract"),
        batch,
        {
            "mentions": bundle.mentions,
            "relations": _with_norm_relation(bundle.relations),
            "propositions": _with_ids(bundle.propositions),
        },
    )
    return BatchResult(len(rows), len(rows))


@lru_cache(maxsize=1)
def _finder(tables: str, _fingerprint: str, ner: str, spacy_model: str) -> NameFinding:
    """The name finder of this corpus; kept between the batches of one process."""
    from pathlib import Path

    with connect(Path(tables), read_only=True) as connection:
        titles = [row[0] for row in connection.execute(statement("ingest", "titles")).fetchall()]
    return open_finder(ner, titles, spacy_model)


def _with_norm_relation(relations: pa.Table) -> pa.Table:
    labels = [norm_ws(label) for label in relations.column("relation").to_pylist()]
    return relations.append_column("norm_relation", pa.array(labels, pa.string()))


def _with_ids(propositions: pa.Table) -> pa.Table:
    ids = [proposition_id(norm_ws(text)) for text in propositions.column("text").to_pylist()]
    return propositions.append_column("proposition_id", pa.array(ids, pa.string()))


def finish(build: Build) -> Counts:
    """Counts raw rows; the tables are resolution's work."""
    import pyarrow.parquet as pq

    folder = build.parts("extract")
    return {
        name: sum(pq.read_metadata(path).num_rows for path in part_files(folder, name))
        for name in ("mentions", "relations", "propositions")
    }


EXTRACT = Stage("extract", fingerprint, batches, run_batch, finish)
