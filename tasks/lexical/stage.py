"""The lexical stage: postings under each analyser that some strategy of this index needs.

One stage per analyser, so that adding one leaves the others as they are.
"""

from collections.abc import Iterator

import duckdb
import numpy as np

from polyhop.schemas.languages import analyser_of
from polyhop.schemas.postings import build_postings, merged_postings
from polyhop.schemas.tables import PASSAGES
from polyhop.schemas.text import passage_text
from polyhop.tasks.stage import Counts, Stage, language_setting
from polyhop.warehouse.artefacts import LEXICAL_FILES, ArrayFolder, open_lexical, save_lexical
from polyhop.warehouse.build import Build
from polyhop.warehouse.files.layout import VersionFolder
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import attached

_CHUNK = 1000  # passages fetched at once; chosen: bounds memory, and any number gives the same postings


def _fetched(found: duckdb.DuckDBPyConnection) -> Iterator[str]:
    while rows := found.fetchmany(_CHUNK):
        yield from (passage_text(title, text) for _, title, text in rows)


class LexicalStage(Stage):
    """Postings under one analyser."""

    reads = ("passages",)
    revision = 3  # raise it with every change of this code that changes postings (decision 0001)

    def __init__(self, analyser: str) -> None:
        self.name = self.arrays = f"lexical-{analyser}"
        self.writes = (f"lexical:{analyser}",)
        self._analyser = analyser

    def settings(self, build: Build) -> dict[str, object]:
        """The language of the texts."""
        return language_setting(build)

    def finish(self, build: Build) -> Counts:
        """Writes the postings; only texts that the version before has not are read."""
        tokens = analyser_of(self._analyser, build.settings.corpus.language)
        # The tables of the version before, if its postings were made in the same way and both are undamaged.
        files = build.earlier_files(*(f"{self.name}_{name}" for name in LEXICAL_FILES))
        before = build.earlier_tables(self.name, self.recipe(build), [PASSAGES.name]) if files else None
        if before is None:
            # read once from start to end: paging through would sort all texts for every page
            with build.tables(read_only=True) as connection:
                found = connection.execute(statement("graph", "all_passage_texts"))
                index = build_postings(map(tokens, _fetched(found)))
        else:
            earlier = open_lexical(ArrayFolder(VersionFolder(before.parent).arrays, {}), self._analyser)
            with build.tables(read_only=True) as connection, attached(connection, before, "before"):
                # the number that each passage had, -1 where its text was not there
                numbers = connection.execute(statement("lexical", "numbers_before")).fetchnumpy()["number"]
                found = connection.execute(statement("lexical", "changed_texts"))
                changed = build_postings(map(tokens, _fetched(found)))
            index = merged_postings(earlier, numbers.astype(np.int64), changed)
        save_lexical(build.staging.arrays, self._analyser, index)
        return {"terms": len(index.terms), "postings": len(index.passages)}


LEXICAL = tuple(map(LexicalStage, ("plain", "stems")))
