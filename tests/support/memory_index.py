"""An index in memory, for tests that need one: built from its passages the plain way, nothing stored."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate, chain
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas import hub_paths as of_hubs
from polyhop.schemas.evidence import Evidence, QuestionNames
from polyhop.schemas.graph import BipartiteGraph, Entity, LexicalIndex, Mention, NamedTriple, RelationGraph
from polyhop.schemas.hubs import HubGraph, HubPaths, HubRows
from polyhop.schemas.languages import ANALYSERS, ENGLISH
from polyhop.schemas.names import NameFinder, title_forms, title_keys
from polyhop.schemas.ports import Artefact, Services
from polyhop.schemas.propositions import PropositionGraph, StoredTexts
from polyhop.schemas.query import ContextPassage, Question, Retrieval
from polyhop.schemas.records import Location, PassageOrigin
from polyhop.schemas.settings import LOCAL, Space
from polyhop.schemas.settings import PASSAGES as PASSAGE_SPACE
from polyhop.schemas.text import entity_id, norm_ws
from polyhop.tasks.graph.stage import chunk_keys
from polyhop.warehouse import artefacts as handles
from polyhop.warehouse import propositions as of_propositions
from polyhop.worker.ranking.facets.units import Units, units_of
from polyhop.worker.strategies.registry import make

Written = tuple[str, str, str]


def written(text: str) -> list[Written]:
    """Triples of `A p B; B q C`."""
    return [tuple(triple.split()) for triple in text.split(";")]  # type: ignore[misc]


def texts_of(texts: Iterable[str]) -> StoredTexts:
    arrays = handles.text_arrays(texts)
    return StoredTexts(arrays["text-starts"], arrays["texts"])  # type: ignore[arg-type]


def starts_of(counts: Iterable[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array([0, *accumulate(counts)], dtype=np.int64)


def hubs_of(
    triples: Sequence[Written],
    hubs: Collection[str],
    labels: Mapping[str, str] | None = None,
    *,
    max_length: int = 10,
    not_indexed: Collection[str] = (),
    triple_passages: Sequence[tuple[Written, int]] = (),
    hub_passages: Sequence[tuple[str, int]] = (),
) -> tuple[of_hubs.StoredHubs, list[str]]:
    """What the stage would store, and the distinct texts of its rows (one row per path).

    Triples and hubs are of own ids, labels by those where they differ; no run has reached the hubs `not_indexed`.
    """
    nodes = sorted({t[0] for t in triples} | {t[2] for t in triples} | set(hubs))
    predicates = sorted({t[1] for t in triples})
    rows = sorted((nodes.index(s), predicates.index(p), nodes.index(o)) for s, p, o in set(triples))
    graph = HubGraph.from_triples(*np.array(rows).reshape(-1, 3).T, np.zeros(len(nodes), dtype=bool))  # type: ignore[call-arg]
    named = [(labels or {}).get(node, node) for node in nodes]
    is_hub = bytearray(node in hubs for node in nodes)
    indexed = [number for number, node in enumerate(nodes) if node in hubs and node not in not_indexed]
    found = [of_hubs.find_paths_in_hub(of_hubs.Adjacency(graph), is_hub, hub, max_length) for hub in indexed]

    def words(path: Sequence[int]) -> list[NamedTriple]:
        whole = [rows[triple] for triple in path]
        return [NamedTriple(nodes[s], named[s], predicates[p], nodes[o], named[o]) for s, p, o in whole]

    paths = [path for one in found for path in one.paths]
    texts = [of_hubs.path_text(words(path)) for path in paths]
    distinct = sorted(set(texts))
    candidates = [(node, *rest) for one in found for node, rest in one.candidates.items()]
    stored = HubPaths(
        np.array(indexed, dtype=np.int32),
        starts_of(len(one.paths) for one in found),
        starts_of(map(len, paths)),
        np.array([triple for path in paths for triple in path], dtype=np.int32),
        np.array([kind for one in found for kind in one.end_kinds], dtype=np.uint8),
        np.frombuffer(b"".join(of_hubs.path_hash(words(path)) for path in paths), dtype=np.uint8).reshape(-1, 32),
        np.array([distinct.index(text) for text in texts], dtype=np.int32),
        starts_of(len(one.candidates) for one in found),
        np.array([row[0] for row in candidates], dtype=np.int32),
        np.array([row[1] for row in candidates], dtype=np.uint8),
        starts_of(len(row[2]) for row in candidates),
        np.array([triple for row in candidates for triple in row[2]], dtype=np.int32),
    )
    count = len(paths)
    levels = np.zeros(count, dtype=np.uint8)
    search = HubRows(np.arange(count, dtype=np.int32), stored.path_texts, levels, np.full(count, -1, dtype=np.int32))
    number_of = {tuple(row): number for number, row in enumerate(rows)}
    stating = [
        (number_of[nodes.index(s), predicates.index(p), nodes.index(o)], passage)
        for (s, p, o), passage in triple_passages
    ]
    about = [(indexed.index(nodes.index(hub)), passage) for hub, passage in hub_passages if hub not in not_indexed]
    return of_hubs.StoredHubs(
        graph,
        stored,
        search,
        texts_of(distinct),
        np.arange(count, dtype=np.int32),
        texts_of(nodes),
        texts_of(named),
        tuple(predicates),
        texts_of(f"r{number}" for number in range(len(rows))),
        (),
        np.array(stating, dtype=np.int64).reshape(-1, 2),
        np.array(about, dtype=np.int64).reshape(-1, 2),
        np.array([number for number, node in enumerate(nodes) if node in not_indexed], dtype=np.int32),
    ), distinct


def value_texts_of(stored: of_hubs.StoredHubs) -> list[str]:
    """The text of each path for hub-facets: its signature's, then its value."""
    graph, paths = stored.graph, stored.paths
    signatures = [
        tuple(stored.predicates[graph.predicates[triple]] for triple in paths.triples_of(path).tolist())
        for path in range(paths.path_count)
    ]
    words = of_hubs.signature_texts(set(signatures))
    values = stored.labels.of(graph.objects[paths.last_triples()].tolist())
    return [f"{words[signature]} {value}".strip() for signature, value in zip(signatures, values, strict=True)]


T = TypeVar("T")
Passage = tuple[str, str, str]


def graph_from(
    mentions: Sequence[Mapping[str, float]], titles: Mapping[int, Iterable[str]] | None = None
) -> BipartiteGraph:
    """Passage by passage {entity key: tf}; `titles` names the title keys of a passage."""
    keys = tuple(sorted({key for row in mentions for key in row}))
    number_of = {key: number for number, key in enumerate(keys)}
    own = titles or {}
    edges = [(n, key, row[key]) for n, row in enumerate(mentions) for key in sorted(row)]
    return BipartiteGraph(
        indptr=starts_of(map(len, mentions)),
        indices=np.array([number_of[key] for _, key, _ in edges], dtype=np.int32),
        tf=np.array([tf for _, _, tf in edges], dtype=np.float64),
        is_title=np.array([key in own.get(passage, ()) for passage, key, _ in edges], dtype=np.bool_),
        keys=keys,
    )


def lexical_from(tokens: Sequence[Sequence[str]]) -> LexicalIndex:
    """Postings of tokenised passages."""
    counts = [Counter(row) for row in tokens]
    terms = sorted({term for row in counts for term in row})
    postings = [[(p, row[term]) for p, row in enumerate(counts) if term in row] for term in terms]
    flat = [posting for row in postings for posting in row]
    return LexicalIndex(
        terms={term: number for number, term in enumerate(terms)},
        indptr=starts_of(map(len, postings)),
        passages=np.array([p for p, _ in flat], dtype=np.int32),
        tf=np.array([tf for _, tf in flat], dtype=np.int32),
        lengths=np.array([len(row) for row in tokens], dtype=np.int32),
    )


def relations_from(keys: Sequence[str], triples: Iterable[tuple[str, str, str]]) -> RelationGraph:
    """Triples of entity keys and a label, found by looking at every pair."""
    stated = sorted(set(triples))
    names = tuple(sorted({label for _, label, _ in stated}))
    indptr, indices, label_indptr, labels = [0], [], [0], []
    for source in keys:
        for number, target in enumerate(keys):
            if any({a, b} == {source, target} and a != b for a, _, b in stated):
                indices.append(number)
                labels += [names.index(label) for a, label, b in stated if (a, b) == (source, target)]
                label_indptr.append(len(labels))
        indptr.append(len(indices))
    return RelationGraph(
        indptr=np.array(indptr, dtype=np.int64),
        indices=np.array(indices, dtype=np.int32),
        label_indptr=np.array(label_indptr, dtype=np.int64),
        labels=np.array(labels, dtype=np.int32),
        names=names,
    )


def propositions_from(
    entities: Sequence[Sequence[int]],
    passages: Sequence[Iterable[int]],
    cosines: Mapping[Any, float],
    shape: tuple[int, int, int],
) -> PropositionGraph:
    """Entities and passages of each proposition, and cosines of pairs of synonyms."""
    rows = [[(n, value) for n, row in enumerate(table) for value in row] for table in (entities, passages)]
    named, held, pairs = (np.array(table, dtype=np.int64).reshape(-1, 2) for table in (*rows, [*cosines]))
    return of_propositions.proposition_graph(named, held, pairs, np.array([*cosines.values()], dtype=np.float64), shape)


def names_of(evidence: Evidence) -> QuestionNames:
    """The names of a question, of evidence that must have them."""
    assert evidence.names is not None
    return evidence.names


class MemoryIndex:
    """An IndexReader of a few passages (id, title and text). Its vectors count words: similarity is shared words.

    `given` are values in place of those that the passages would give, `artefacts` the names of what it is built with.
    """

    version = 1

    def __init__(
        self,
        passages: Iterable[Passage],
        given: Mapping[Artefact[Any], object] | None = None,
        artefacts: Collection[str] | None = None,
        name: str = "memory",
    ) -> None:
        self.name = name
        self._rows = sorted(passages)
        self.passage_ids: Sequence[str] = [row[0] for row in self._rows]
        self.passage_titles: Sequence[str] = [row[1] for row in self._rows]
        self.number_of_passage = {row[0]: number for number, row in enumerate(self._rows)}
        self._texts = [f"{title}\n{text}" for _, title, text in self._rows]
        self._makers: dict[Artefact[Any], Callable[[], object]] = {
            handles.GRAPH: self._graph,
            handles.CHUNK_GRAPH: self._chunk_graph,
            handles.SURFACES: self._surfaces,
            handles.RELATIONS: self._relations,
            handles.ENTITIES: lambda: self._entities,
            handles.ENTITY_IDS: lambda: [entity_id(key) for key in self._value(handles.GRAPH).keys],
            handles.EXACT_NAMES: self._exact_names,
            handles.ALIASES: dict,
            handles.LANGUAGE: lambda: ENGLISH,
            handles.NAMESAKES: dict,
            handles.NAMES: lambda: NameFinder(self.passage_titles),
            handles.ENTITY_NUMBERS: lambda: np.arange(self._value(handles.GRAPH).entity_count),
            handles.RELATION_PASSAGES: self._relation_passages,
            handles.NEAREST_PASSAGES: lambda: self._nearest,
            handles.IS_LARGE: lambda: False,
            **{handles.partitioned(kind): lambda: None for kind in ("passage", "entity")},
            handles.COSINE_SCALE: lambda: 1.0,
            handles.ENTITY_ENCODER: lambda: LOCAL,
            handles.vectors_of("passage"): lambda: self.encode(self._texts),
            handles.vectors_of("entity"): lambda: self.encode(self._value(handles.GRAPH).keys),
            **{handles.lexical_of(name): partial(self._lexical, name) for name in ANALYSERS},
            of_hubs.STORED_HUBS: lambda: self._hubs[0],
            handles.METADATA_OF_NODES: lambda: lambda _: [],
            handles.vectors_of("hubpath"): lambda: self.encode(self._hubs[1]),
            handles.vectors_of("hubvalue"): lambda: self.encode(value_texts_of(self._hubs[0])),
            of_propositions.STORED_PROPOSITIONS: self._propositions,
            of_propositions.STORED_TRIPLES: self._propositions,
            handles.passages_of_statements("propositions"): lambda: self._propositions().graph.passages,
            handles.passages_of_statements("triples"): lambda: self._propositions().graph.passages,
            handles.vectors_of("proposition"): lambda: self.encode([text for text, _, _ in self._sentences]),
            handles.vectors_of("triple"): lambda: self.encode([text for text, _, _ in self._sentences]),
        }
        self._values = dict(given or {})
        known = {handle.name for handle in (*self._makers, *self._values) if handle.is_optional}
        self.artefacts = frozenset(known if artefacts is None else artefacts)
        self._words = sorted({word for text in self._texts for word in ANALYSERS["plain"](text)})

    def passages(self, numbers: Sequence[int]) -> list[Passage]:
        return [self._rows[number] for number in numbers]

    def origins(self, numbers: Sequence[int]) -> list[PassageOrigin]:
        """As of a file whose records are passages, each a document of its own."""
        rows = [self._rows[number] for number in numbers]
        return [PassageOrigin(row[0], row[0], "memory", 0, len(row[2])) for row in rows]

    def locations(self, passage_ids: Collection[str]) -> Mapping[str, Location]:
        return {}

    def record_of(self, passage_id: str) -> str:
        return passage_id

    def artefact(self, handle: Artefact[T]) -> T:
        handle.require_in(self)
        return self._value(handle)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One dimension per word of the corpus, and one that all texts share."""
        number_of = {word: number for number, word in enumerate(self._words, start=1)}
        vectors = np.zeros((len(texts), len(self._words) + 1), dtype=np.float32)
        vectors[:, 0] = 1
        for row, text in enumerate(texts):
            for word in ANALYSERS["plain"](text):
                vectors[row, number_of.get(word, 0)] += 1
        given: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return given

    @cached_property
    def _mentions(self) -> list[list[Mention]]:
        return [self._value(handles.NAMES).find(text) for text in self._texts]

    def _value(self, handle: Artefact[T]) -> T:
        if handle not in self._values:
            self._values[handle] = self._makers[handle]()
        return cast("T", self._values[handle])

    def _graph(self) -> BipartiteGraph:
        keys = [Counter(mention.key for mention in found) for found in self._mentions]
        return _with_titles(keys, [title_keys(title) for title in self.passage_titles])

    def _chunk_graph(self) -> BipartiteGraph:
        """The graph with an edge to every name that is part of a passage's title, one passage after the other."""
        graph = self._value(handles.GRAPH)
        rows: list[dict[str, float]] = [{} for _ in self._rows]
        titles: dict[int, list[str]] = {}
        for row, entity, tf, is_title in zip(graph.rows, graph.indices, graph.tf, graph.is_title, strict=True):
            rows[row][graph.keys[entity]] = float(tf)
            if is_title:
                titles.setdefault(int(row), []).append(graph.keys[entity])
        for row, title in enumerate(self.passage_titles):
            for key in chunk_keys(title) & set(graph.keys) - rows[row].keys():
                rows[row][key] = 1.0
        return graph_from(rows, titles)

    def _surfaces(self) -> BipartiteGraph:
        """As written in the text; what is found in a title counts under the title's own form of that name."""
        rows, own = [], []
        for title, found in zip(self.passage_titles, self._mentions, strict=True):
            forms = dict(title_forms(title))
            names = [forms.get(m.key, m.surface) if m.start < len(title) else m.surface for m in found]
            rows.append(Counter(names))
            own.append({*forms.values(), *(n for n, m in zip(names, found, strict=True) if m.key in forms)})
        return _with_titles(rows, own)

    def _relations(self) -> RelationGraph:
        """What a passage's title mentions."""
        own = [title_keys(title)[:1] for title in self.passage_titles]
        pairs = zip(own, self._mentions, strict=True)
        return relations_from(
            self._value(handles.GRAPH).keys,
            ((title, "mentions", mention.key) for titles, found in pairs for title in titles for mention in found),
        )

    def _relation_passages(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Each relation with the passages whose title is its source and which mention its target."""
        number_of = self._value(handles.GRAPH).number_of
        stated: dict[tuple[int, int], set[int]] = {}
        for number, (title, found) in enumerate(zip(self.passage_titles, self._mentions, strict=True)):
            for key in title_keys(title)[:1]:
                for mention in found:
                    if mention.key != key:
                        stated.setdefault((number_of[key], number_of[mention.key]), set()).add(number)
        rows = [(place, number) for place, pair in enumerate(sorted(stated)) for number in sorted(stated[pair])]
        table = np.array(rows, dtype=np.int64).reshape(-1, 2)
        return table[:, 0], table[:, 1]

    def _exact_names(self) -> dict[str, list[int]]:
        """An entity is called as its title says, or as it is written first."""
        number_of = self._value(handles.GRAPH).number_of
        forms = dict(form for title in self.passage_titles for form in title_forms(title))
        for mention in chain.from_iterable(self._mentions):
            forms.setdefault(mention.key, mention.surface)
        numbers: dict[str, list[int]] = {}
        for key, form in sorted(forms.items()):
            if norm_ws(form) != key and key in number_of:
                numbers.setdefault(norm_ws(form), []).append(number_of[key])
        return numbers

    def _lexical(self, analyser: str) -> LexicalIndex:
        return lexical_from([ANALYSERS[analyser](text) for text in self._texts])

    def _entities(self, numbers: Sequence[int]) -> list[Entity]:
        keys = [self._value(handles.GRAPH).keys[number] for number in numbers]
        return [Entity(key, key.title(), "", f"All about {key}.") for key in keys]

    @cached_property
    def _sentences(self) -> list[tuple[str, list[str], int]]:
        """Text, keys of names and passage of every sentence with a name, in order of their texts."""
        found: dict[Any, Any] = {}
        for number, (_, _, text) in enumerate(self._rows):
            for sentence in filter(None, text.split(". ")):
                keys = [mention.key for mention in self._value(handles.NAMES).find(sentence)]
                if keys:
                    found.setdefault(sentence, (sentence, [*dict.fromkeys(keys)], number))
        return [found[text] for text in sorted(found)]

    def _propositions(self) -> of_propositions.StoredPropositions:
        """Sentences as propositions, and as triples; no two names are synonyms."""
        rows = self._sentences
        keys = tuple(sorted({key for _, named, _ in rows for key in named}))
        number_of = {key: number for number, key in enumerate(keys)}
        named = [[number_of[key] for key in row[1]] for row in rows]
        texts = handles.text_arrays(text for text, _, _ in rows)
        return of_propositions.StoredPropositions(
            propositions_from(named, [row[2:] for row in rows], {}, (len(rows), len(keys), len(self._rows))),
            StoredTexts(texts["text-starts"], texts["texts"]),  # type: ignore[arg-type]
            keys,
            tuple(key.title() for key in keys),
        )

    @cached_property
    def _hubs(self) -> tuple[of_hubs.StoredHubs, list[str]]:
        """What passages are named after: hubs that say texts and mention names; and the distinct texts of paths."""
        own = [title_keys(title)[:1] for title in self.passage_titles]
        said = {f"={passage_id}": text for passage_id, _, text in self._rows}
        stated = [
            ((title, predicate, value), passage)
            for passage, (titles, found, text) in enumerate(zip(own, self._mentions, said, strict=True))
            for title in titles
            for predicate, value in [("says", text), *(("mentions", mention.key) for mention in found)]
            if value != title
        ]
        return hubs_of(
            [triple for triple, _ in stated],
            {title for titles in own for title in titles},
            {**{key: key.title() for key in self._value(handles.GRAPH).keys}, **said},
            triple_passages=stated,
            hub_passages=sorted({(title, passage) for passage, titles in enumerate(own) for title in titles}),
        )

    def _nearest(self, vector: NDArray[np.float32], count: int, ef_search: int) -> list[int]:
        cosines = self._value(handles.vectors_of("passage")) @ vector
        return [int(number) for number in np.argsort(-cosines, kind="stable")[:count]]


def memory_services(index: MemoryIndex, calls: list[list[str]] | None = None) -> Services:
    """Services that encode as an index in memory does, and have nothing else; `calls` gets the texts of each call."""

    def encode(texts: Sequence[str], space: Space = PASSAGE_SPACE, *, is_repeated: bool = False) -> NDArray[np.float32]:
        del space, is_repeated
        if calls is not None:
            calls.append(list(texts))
        return index.encode(texts)

    return Services(encode)


def retrieved(index: MemoryIndex, strategy: str, asked: str | Question, limit: Any = 13, **given: Any) -> Retrieval:
    """What a strategy finds for a question, or for a text with its vector; `given` are its parameters."""
    question = Question(asked, vector=index.encode([asked])[0]) if isinstance(asked, str) else asked
    return make(strategy, index, given, memory_services(index)).retrieve([question], limit=limit)[0]


def ids_of(found: Retrieval) -> list[str]:
    return [passage.passage_id for passage in found.passages]


def scores_of(found: Retrieval) -> dict[str, float]:
    return {passage.passage_id: passage.score for passage in found.passages}


def _with_titles(mentions: Sequence[Mapping[str, int]], titles: Sequence[Collection[str]]) -> BipartiteGraph:
    """Names that passages mention and those of their titles; a title counts as one mention at least."""
    rows = [
        {name: float(max(1, row.get(name, 0))) for name in {*row, *own}}
        for row, own in zip(mentions, titles, strict=True)
    ]
    return graph_from(rows, dict(enumerate(titles)))


PASSAGES: tuple[Passage, ...] = (
    ("p00", "Ada Lovelace", "Ada Lovelace wrote the first program, for the Analytical Engine of Charles Babbage."),
    ("p01", "Charles Babbage", "Charles Babbage was born in London and designed the Analytical Engine."),
    ("p02", "London", "London is the capital of England, on the River Thames."),
    ("p03", "River Thames", "The River Thames flows through Oxford and London."),
    ("p04", "Oxford", "Oxford has the oldest university of England."),
    ("p05", "Marie Curie", "Marie Curie was born in Warsaw and worked in Paris."),
    ("p06", "Warsaw", "Warsaw is the capital of Poland, on the Vistula."),
    ("p07", "Vistula", "The Vistula is the longest river of Poland."),
    ("p08", "Paris", "Paris is the capital of France, on the Seine."),
    ("p09", "Paris (mythology)", "Paris carried off Helen, and Troy fell."),
    ("p10", "Troy", "Troy was besieged for ten years because of Helen."),
    ("p11", "", "nothing here has a name."),
    ("p12", "", "nothing here has a name."),
)


MUSIC = """
album1 performedBy artist1; album1 releaseYear 1969; album1 hasGenre Rock; album1 recordedAt studio1;
studio1 locatedIn London; album1 liveAlbum live; album2 performedBy artist1; album2 releaseYear 1970;
album2 hasGenre Folk; album2 liveAlbum studio; album3 performedBy artist2; album3 releaseYear 1973;
album3 hasGenre Rock; album3 recordedAt studio2; studio2 locatedIn Paris; album3 liveAlbum studio
"""
LABELS = {
    "album1": "Abbey Lane",
    "album2": "Morning Hills",
    "album3": "The Dark Engine",
    "artist1": "Anna Ångström",
    "artist2": "The Harbour Band",
    "studio1": "Olympic Studio",
    "studio2": "Studio Davout",
    "live": "Recorded live",
    "studio": "Not recorded live",
}
ALBUMS = ("album1", "album2", "album3")


def music_hubs() -> of_hubs.StoredHubs:
    """Three albums with five kinds of paths, one of them of two triples."""
    return hubs_of(written(MUSIC), set(ALBUMS), LABELS)[0]


def units_from(stored: of_hubs.StoredHubs) -> Units:
    """Prepared for ranking."""
    names = stored.labels.of(range(stored.graph.node_count))
    return units_of(stored.graph, stored.paths, stored.values, stored.predicates, names)


def make_units(text: str, hubs: tuple[str, ...], labels: Mapping[str, str] | None = None) -> Units:
    """From written triples."""
    return units_from(hubs_of(written(text), set(hubs), labels or {})[0])


def shown(units: Units, document: int) -> tuple[str, str]:
    """Signature and value of a document."""
    value = units.value_texts[int(units.document_values[document])]
    return units.signature_texts[int(units.document_signatures[document])], value


def paths_shown(units: Units, scores: NDArray[np.float64]) -> list[tuple[str, str, str]]:
    """Hub, signature and value of paths in descending order of score."""
    order = np.argsort(-np.round(scores, 12), kind="stable").tolist()
    hubs = [units.value_texts[value] for value in units.hub_values.tolist()]
    return [(hubs[int(units.path_hubs[path])], *shown(units, int(units.path_documents[path]))) for path in order]


Titled = tuple[str, str]


class ReadingIndex(MemoryIndex):
    """Titled texts, numbered in their order; with vectors if it is given some. Counts how often passages are read."""

    def __init__(self, passages: Sequence[Titled], vectors: NDArray[np.float32] | None = None) -> None:
        self.rows = [(f"p{place:03}", title, text) for place, (title, text) in enumerate(passages)]
        given = {} if vectors is None else {handles.vectors_of("passage"): vectors}
        super().__init__(self.rows, given, artefacts={"lexical:stems", *(handle.name for handle in given)})
        self.calls = 0

    def passages(self, numbers: Sequence[int]) -> list[Passage]:
        self.calls += 1
        return super().passages(numbers)

    def context(self) -> list[ContextPassage]:
        return [ContextPassage(*row, rank, 1 / rank) for rank, row in enumerate(self.rows, start=1)]
