"""The lexical stage: postings under each analyser that some strategy of this index needs.

One stage per analyser, so that adding one leaves the others as they are.
"""

from collections.abc import Iterator
from functools import partial

from polyhop.schemas.stems import ANALYSERS
from polyhop.schemas.text import passage_text
from polyhop.tasks.lexical.postings import build_postings
from polyhop.tasks.stage import Counts, Stage
from polyhop.warehouse.artefacts import save_lexical
from polyhop.warehouse.build import Build
from polyhop.warehouse.statements import statement

_CHUNK = 1000


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


LEXICAL = tuple(
    Stage(
        f"lexical-{analyser}",
        reads=("passages",),
        writes=(f"lexical:{analyser}",),
        finish=partial(finish, analyser),
        arrays=f"lexical-{analyser}",
    )
    for analyser in ("plain", "stems")
)
