"""One published version, open for reading: implements schemas.ports.IndexReader.

Opens arrays and name finder when first asked for them; holds the version until closed; writes nothing.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from schemas.errors import MissingArtefactError
from schemas.graph import BipartiteGraph, Entity, EntityTexts, LexicalIndex, RelationGraph
from schemas.ports import NameFinding, Reranker, SpreadingDatabase
from schemas.settings import ExtractionSettings
from warehouse.files.layout import Layout
from warehouse.files.lease import SharedHold
from warehouse.files.versions import read_manifest, require_version
from warehouse.graph.arrays import open_array, open_bipartite, open_entity_texts, open_lexical, open_relations
from warehouse.graph.surfaces import read_surfaces
from warehouse.names import open_finder
from warehouse.tables.connection import translated
from warehouse.tables.statements import statement
from warehouse.vectors.approximate import open_table, search_hnsw


class PublishedIndex:
    """A version of an index. Passages are numbered by ascending passage id. `rerank` is settings.models.rerank."""

    def __init__(self, layout: Layout, name: str, version: int | None = None, rerank: str = "") -> None:
        self.layout = layout
        self.name = name
        self.version, self._folder = require_version(layout, name, version)
        self._hold = SharedHold(self._folder.manifest)
        self.manifest = read_manifest(self._folder)
        self.artefacts = frozenset(self.manifest.artefacts)
        self._rerank = rerank
        self._lexical: dict[str, LexicalIndex] = {}
        self._closing = ExitStack()
        self._database: SpreadingDatabase | None = None
        self._vectors: dict[str, NDArray[np.float32]] = {}
        with translated(self._folder.tables):
            self._connection = duckdb.connect(str(self._folder.tables), read_only=True)
            rows = self._connection.execute(statement("read", "passage_ids")).fetchall()
        self.passage_ids: Sequence[str] = [row[0] for row in rows]
        self.passage_titles: Sequence[str] = [row[1] for row in rows]
        self._record_of: dict[str, str] = {row[0]: row[2] for row in rows if row[0] != row[2]}

    def close(self) -> None:
        """Gives the version free."""
        self._closing.close()
        self._connection.close()
        self._hold.close()

    @property
    def tables_file(self) -> Path:
        """The version's DuckDB file."""
        return self._folder.tables

    def record_of(self, passage_id: str) -> str:
        """Id of the source record that a passage is, or is a piece of."""
        return self._record_of.get(passage_id, passage_id)

    @cached_property
    def number_of_passage(self) -> dict[str, int]:
        """Passage number by id."""
        return {passage_id: number for number, passage_id in enumerate(self.passage_ids)}

    @cached_property
    def graph(self) -> BipartiteGraph:
        """Passages and the entities they mention."""
        keys = self._column("entity_keys")
        return open_bipartite(self._folder.arrays, tuple(keys))

    @cached_property
    def surfaces(self) -> BipartiteGraph:
        """Passages and the spellings of names in them, before resolution."""
        with translated(self._folder.tables):
            return read_surfaces(self._connection.cursor(), len(self.passage_ids))

    @cached_property
    def relations(self) -> RelationGraph:
        """Entities and their labelled relations."""
        self._require("graph:relations")
        labels = tuple(self._column("relation_labels"))
        return open_relations(self._folder.arrays, labels, self.graph.entity_count)

    def spreading_database(self) -> SpreadingDatabase:
        """The Neo4j database that this version was exported to, opened once."""
        if self._database is None:
            from warehouse.graph.neo4j_graph import Neo4jGraph
            from warehouse.graph.neo4j_server import Neo4jConnection, find_address

            connection = Neo4jConnection(find_address(None, None, None))
            self._closing.callback(connection.close)
            database = Neo4jGraph(connection, self.name, self.graph.keys)
            database.require(self.version)
            self._database = database
        return self._database

    def reranker(self) -> Reranker | None:
        """The configured cross-encoder, opened once per process; None if none is configured."""
        if not self._rerank:
            return None
        from warehouse.models.reranker import open_reranker

        return open_reranker(self._rerank, self.layout.model_cache)

    @cached_property
    def exact_names(self) -> dict[str, list[int]]:
        """Entity numbers by `norm_ws` name, where that is not the entity's key."""
        with translated(self._folder.tables):
            rows = self._connection.cursor().execute(statement("read", "exact_names")).fetchall()
        numbers: dict[str, list[int]] = {}
        for name, key in rows:
            numbers.setdefault(name, []).append(self.graph.number_of[key])
        return numbers

    @cached_property
    def aliases(self) -> dict[str, str]:
        """Key of its entity by the key of a name that resolution, or a person, made another form of it."""
        with translated(self._folder.tables):
            return dict(self._connection.cursor().execute(statement("read", "merged_names")).fetchall())

    @cached_property
    def names(self) -> NameFinding:
        """The same name finder that built the graph."""
        settings = self.manifest.settings["extraction"]
        parsed = ExtractionSettings.model_validate(settings)
        return open_finder(
            parsed.ner,
            self._column("distinct_titles"),
            parsed.spacy_model,
            regex_drop_stopwords=parsed.regex_drop_stopwords,
        )

    def lexical(self, analyser: str) -> LexicalIndex:
        """Term statistics under one analyser."""
        self._require(f"lexical:{analyser}")
        if analyser not in self._lexical:
            self._lexical[analyser] = open_lexical(self._folder.arrays, analyser)
        return self._lexical[analyser]

    def vectors(self, owner: str) -> NDArray[np.float32]:
        """Vectors of shape (n, d), memory-mapped, in number order."""
        self._require(f"vectors:{owner}")
        if owner not in self._vectors:
            matrix = open_array(self._folder.arrays, f"vectors-{owner}_matrix")
            self._vectors[owner] = matrix.astype(np.float32, copy=False)
        return self._vectors[owner]

    def nearest_passages(self, vector: NDArray[np.float32], count: int, ef_search: int) -> list[int]:
        """Numbers of about the `count` passages nearest to a vector, by LanceDB's HNSW graph."""
        self._require("ann:passage")
        found = search_hnsw(self._passage_table, vector, count, ef_search)
        return [self.number_of_passage[passage_id] for passage_id in found]

    @cached_property
    def _passage_table(self) -> Any:
        record = self.manifest.vectors["passage"]
        return open_table(self.layout.index(self.name).vectors, record.table, record.lance_version)

    def passages(self, numbers: Sequence[int]) -> list[tuple[str, str, str]]:
        """(passage id, title, text) by number, in the order asked."""
        ids = [self.passage_ids[number] for number in numbers]
        with translated(self._folder.tables):
            rows = self._connection.cursor().execute(statement("read", "passages_by_id"), {"ids": ids}).fetchall()
        by_id = {row[0]: row for row in rows}
        return [by_id[passage_id] for passage_id in ids]

    def entities(self, numbers: Sequence[int]) -> list[Entity]:
        """Entities by number, in the order asked."""
        keys, texts = self.graph.keys, self._entity_texts
        return [Entity(keys[number], *texts.fields(number)) for number in numbers]

    @cached_property
    def _entity_texts(self) -> EntityTexts:
        self._require("graph:relations")
        return open_entity_texts(self._folder.arrays, self.graph.entity_count)

    def _column(self, name: str) -> list[str]:
        with translated(self._folder.tables):
            return [row[0] for row in self._connection.cursor().execute(statement("read", name)).fetchall()]

    def _require(self, artefact: str) -> None:
        if artefact not in self.artefacts:
            raise MissingArtefactError(artefact, self.name)
