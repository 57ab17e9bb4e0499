"""A stage with a table and an array in one file, and a strategy that reads them: which passages name which titles.

`polyhop index corpus.jsonl --index NAME --add-strategy linked-titles` runs the stage; `polyhop sql "FROM title_links"
--index NAME` shows its table, and `polyhop ask … --strategy linked-titles --explain` follows its links.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.evidence import Edge, Evidence, Node
from polyhop.schemas.ports import Artefact, IndexReader, Services, Stored
from polyhop.schemas.query import Question, RankedPassage, Retrieval
from polyhop.schemas.tables import Table, count
from polyhop.schemas.tables import text_column as text
from polyhop.tasks.stage import Counts, Stage
from polyhop.warehouse.artefacts import save_arrays
from polyhop.warehouse.build import Build
from polyhop.worker.strategies.base import Parameters, strategy

LINKS = Table(
    "title_links",
    "Passages whose text names the title of another one.",
    ("passage_id", "target_id"),
    (
        text("passage_id", "passage whose text names a title"),
        text("target_id", "passage of that title"),
        count("times", "how often"),
    ),
)
_FILL = """
INSERT INTO title_links
SELECT p.passage_id, t.passage_id, (len(p.text) - len(replace(p.text, t.title, ''))) // len(t.title)
FROM passages AS p JOIN passages AS t ON t.title <> '' AND p.title <> t.title AND contains(p.text, t.title)
ORDER BY ALL"""
_NUMBERED = """
WITH numbered AS (SELECT passage_id, row_number() OVER (ORDER BY passage_id) - 1 AS number FROM passages)
SELECT a.number AS source, b.number AS target
FROM title_links JOIN numbered AS a USING (passage_id) JOIN numbered AS b ON b.passage_id = target_id ORDER BY ALL"""


class TitleLinkStage(Stage):
    """Which passages name which titles: a table, and the same links as an array."""

    name = "title-links"
    reads = ("passages",)
    writes = ("title-links",)
    tables = (LINKS,)
    arrays = "title-links"
    invariants: Mapping[str, str] = {
        "link_to_no_passage": "SELECT count(*), min(target_id) FROM title_links "
        "WHERE target_id NOT IN (SELECT passage_id FROM passages)"
    }

    def finish(self, build: Build) -> Counts:
        """Fills the table and writes the same links as an array: shape (2, n), numbers of passages."""
        with build.tables() as connection:
            connection.execute(_FILL)
            columns = connection.execute(_NUMBERED).fetchnumpy()
        links = np.array([columns["source"], columns["target"]], dtype=np.int64)
        save_arrays(build.staging.arrays, "title-links", {"links": links})
        return {"links": links.shape[1]}


STAGE = TitleLinkStage()


def _open(stored: Stored) -> NDArray[np.int64]:
    return stored.array("title-links", "links")


TITLE_LINKS = Artefact("title-links", _open, strategy="linked-titles")
"""Links between passages, shape (2, n): numbers of the passages that name a title, and of those that have it."""


class LinkedTitles:
    """Ranks the passages whose titles the question names, then those that they link to."""

    def __init__(self, reader: IndexReader) -> None:
        self._ids, self._titles = reader.passage_ids, reader.passage_titles
        self._links = reader.artefact(TITLE_LINKS)

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `polyhop.schemas.ports.Strategy`."""
        return [self._retrieve(question, limit) for question in questions]

    def _retrieve(self, question: Question, limit: int) -> Retrieval:
        named = [number for number, title in enumerate(self._titles) if title and title in question.text]
        sources, targets = self._links[:, np.isin(self._links[0], named)]
        scores = {int(target): 0.5 for target in targets} | dict.fromkeys(named, 1.0)
        found = sorted(scores, key=lambda number: (-scores[number], number))[:limit]
        ranked = tuple(RankedPassage(self._ids[n], rank, scores[n]) for rank, n in enumerate(found, start=1))
        nodes = tuple(Node(self._ids[n], self._titles[n], scores[n], kind="passage") for n in found)
        edges = tuple(
            Edge(self._ids[source], self._ids[target], ("names",))
            for source, target in zip(sources.tolist(), targets.tolist(), strict=True)
            if target in found and source in found
        )
        return Retrieval(ranked, Evidence(nodes=nodes, edges=edges), {"seed": 0.0, "traversal": 0.0})


@strategy("linked-titles", "Passages whose titles the question names, and what they link to.", Parameters,
          needs={"title-links"})  # fmt: skip
def build_linked_titles(reader: IndexReader, _parameters: Parameters, _services: Services) -> LinkedTitles:
    """`linked-titles` on an open version; it has no parameters."""
    return LinkedTitles(reader)
