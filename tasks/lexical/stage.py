"""The lexical stage: postings under each analyser that some strategy of this index needs.

One stage per analyser, so that adding one leaves the others as they are.
"""

from collections.abc import Iterator
from functools import partial

from schemas.stems import ANALYSERS
from schemas.text import passage_text
from tasks.lexical.postings import build_postings
from tasks.stage import Counts, Stage, no_batches, nothing_to_run
from warehouse.build import Build, chain_fingerprint
from warehouse.graph.arrays import save_lexical
from warehouse.tables.statements import statement

REVISION = 1
_CHUNK = 1000


def fingerprint(analyser: str, build: Build) -> str:
    """Depends on the passages only."""
    return chain_fingerprint(f"lexical-{analyser}", REVISION, {"passages": build.fingerprint("passages")}, {})


def finish(analyser: str, build: Build) -> Counts:
    """Writes the postings."""
    tokens = ANALYSERS[analyser]
    index = build_postings(tokens(text) for text in _texts(build))
    save_lexical(build.staging.arrays, analyser, index)
    return {"terms": len(index.terms), "postings": len(index.passages)}


def _texts(build: Build) -> Iterator[str]:
    """Read once from start to end: paging through would sort all texts for every page."""
    with build.tables(read_only=True) as connection:
        found = connection.execute(statement("graph", "all_passage_texts"))
        while rows := found.fetchmany(_CHUNK):
            yield from (passage_text(title, text) for _, title, text in rows)


LEXICAL = {
    analyser: Stage(
        f"lexical-{analyser}",
        partial(fingerprint, analyser),
        no_batches,
        nothing_to_run,
        partial(finish, analyser),
        arrays=f"lexical-{analyser}",
    )
    for analyser in ("plain", "stems")
}
