"""The lexical stage: postings under each analyser that some strategy of this index needs.

One stage per analyser, so that adding one leaves the others as they are.
"""

from collections.abc import Iterator
from functools import partial

import duckdb

from polyhop.schemas.stems import analyser_of
from polyhop.schemas.text import passage_text
from polyhop.tasks.lexical.kept import changed_texts, kept_postings, tables_before
from polyhop.tasks.lexical.postings import build_postings, merged_postings
from polyhop.tasks.stage import Counts, Stage, language_setting
from polyhop.warehouse.artefact_arrays import save_lexical
from polyhop.warehouse.build import Build, chain_fingerprint
from polyhop.warehouse.statements import statement

_CHUNK = 1000  # passages fetched at once; chosen: bounds memory, and any number gives the same postings
_REVISION = 1  # raise it with every change of this code that changes postings (decision 0001)


def finish(analyser: str, build: Build) -> Counts:
    """Writes the postings; only texts that the version before has not are read."""
    tokens = analyser_of(analyser, build.settings.corpus.language)
    recipe = chain_fingerprint(_name(analyser), _REVISION, {}, dict(language_setting(build)))
    before = tables_before(build, analyser, recipe)
    kept = kept_postings(build, analyser, before) if before is not None else None
    if before is None or kept is None:
        index = build_postings(tokens(text) for text in _texts(build))
    else:
        with changed_texts(build, before) as found:
            changed = build_postings(tokens(text) for text in _fetched(found))
        index = merged_postings(kept.index, kept.numbers, changed)
    save_lexical(build.staging.arrays, analyser, index)
    return {"terms": len(index.terms), "postings": len(index.passages)}


def _name(analyser: str) -> str:
    return f"lexical-{analyser}"


def _texts(build: Build) -> Iterator[str]:
    """Read once from start to end: paging through would sort all texts for every page."""
    with build.tables(read_only=True) as connection:
        yield from _fetched(connection.execute(statement("graph", "all_passage_texts")))


def _fetched(found: duckdb.DuckDBPyConnection) -> Iterator[str]:
    while rows := found.fetchmany(_CHUNK):
        yield from (passage_text(title, text) for _, title, text in rows)


LEXICAL = tuple(
    Stage(
        _name(analyser),
        reads=("passages",),
        writes=(f"lexical:{analyser}",),
        finish=partial(finish, analyser),
        revision=_REVISION,
        settings=language_setting,
        arrays=_name(analyser),
    )
    for analyser in ("plain", "stems")
)
