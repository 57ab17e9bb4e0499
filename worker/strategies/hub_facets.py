"""`hub-facets`: triples of a graph by the conditions that a question sets on hubs. Source: algorithms.md 4B."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyhop.schemas.evidence import NO_HUBS, Evidence, Fallback, Node, Note, QuestionNames
from polyhop.schemas.hub_paths import STORED_HUBS, StoredHubs, humanised
from polyhop.schemas.ports import IndexReader, Reader, Services
from polyhop.schemas.query import Question, Retrieval
from polyhop.schemas.settings import ENTITIES
from polyhop.warehouse.artefacts import vectors_of
from polyhop.worker.ranking.facets.answers import FacetAnswer, answer_of
from polyhop.worker.ranking.facets.conditions import HUB, Facet, ReadQuestion
from polyhop.worker.ranking.facets.ranking import FacetRanking, FacetRule, FacetScores, LinkedPassages, best_paths
from polyhop.worker.ranking.facets.units import units_of
from polyhop.worker.ranking.fusion import best_positive
from polyhop.worker.ranking.hubs import words_of
from polyhop.worker.reading.models import ModelReader
from polyhop.worker.reading.reader import FacetReader
from polyhop.worker.strategies.base import Parameters, entity_vector, has_word, ranked_passages, strategy
from polyhop.worker.strategies.hublink import drawn_path

_DIGITS = 6  # decimals shown; rankings keep twelve (algorithms.md 0.3).
_SHOWN = 10  # hubs and paths that are listed
_SHOWN_VALUES = 5  # linked values of a condition; chosen: a line, which says how many more there are

NO_CONDITION = Fallback(
    "similarity", "no word of the question names a value or a hub, so hubs are ranked by similarity"
)

FACET_ANSWER = "facet_answer"  # Key of the short answer among an evidence's data.


class HubFacetsParameters(Parameters):
    """Parameters of `hub-facets`."""

    grid: ClassVar[Mapping[str, str]] = {
        "least_coverage": ".4,.6,.8",
        "floor": ".05,.15,.3",
        "soft_weight": ".35,.7,1.4",
    }
    """Chosen around the defaults: what a question names, and what naming it is worth."""

    least_coverage: float = Field(
        0.6, gt=0, le=1, description="Least share of a label's words that a question must name, by rarity, default 0.6."
    )
    floor: float = Field(
        0.15, gt=0, le=1, description="Factor applied to a hub's score for each condition that it fails, default 0.15."
    )
    signature_similarity: float = Field(
        0.3,
        ge=0,
        le=1,
        description="Weight of vector similarity when matching predicates to the rest of the question, the remainder "
        "being words, "
        "default 0.3; 0: words alone, and one text less is encoded.",
    )
    soft_weight: float = Field(
        0.7, ge=0, le=100, description="Weight of words and vectors relative to the conditions, default 0.7."
    )
    similarity_share: float = Field(
        0.2,
        ge=0,
        le=1,
        description="Share of vectors in the similarity of paths, the remainder being words, default 0.2.",
    )


def _reader(_index: IndexReader, _parameters: HubFacetsParameters, _services: Services, configured: Reader) -> Reader:
    """Reader of its retrievals: a model if the user chose one, else the facets themselves."""
    return configured if isinstance(configured, ModelReader) else FacetReader(FACET_ANSWER, configured)


@strategy(
    "hub-facets",
    "Triples of a graph by the conditions that a question sets on its hubs, and by words; makes no model call.",
    HubFacetsParameters,
    needs={"hubs", "vectors:hubvalue"},
    batches=True,
    reader=_reader,
    ranks_triples=True,
)
class HubFacetsStrategy:
    """Triples and passages by conditions on hubs."""

    def __init__(self, reader: IndexReader, parameters: HubFacetsParameters, services: Services) -> None:
        """A strategy on an open version."""
        stored = reader.artefact(STORED_HUBS)
        names = names_of(stored)
        units = units_of(stored.graph, stored.paths, stored.values, stored.predicates, names)
        vectors = reader.artefact(vectors_of("hubvalue"))
        # The types of hubs in words; of `predicate=label` its label.
        types = [humanised(name.rpartition("=")[2] if "://" not in name else name) for name in stored.hub_types]
        self._ranking = FacetRanking(units, vectors, types, FacetRule(**parameters.model_dump()))
        self._stored = stored
        self._units = units
        self._last_triples = stored.paths.last_triples()
        self._passages = LinkedPassages(stored.paths, stored.triple_passages, stored.hub_passages)
        self._passage_ids = reader.passage_ids
        self._services = services
        self._names = names

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `polyhop.schemas.ports.Strategy`."""
        begun = time.perf_counter()
        asked = [number for number, question in enumerate(questions) if has_word(question)]
        read = [self._ranking.read(questions[number].text) for number in asked]
        rest: list[NDArray[np.float32] | None] = [None] * len(asked)
        before = time.perf_counter()
        if asked and self._ranking.compares_signatures:
            rest = list(self._services.encode([question.rest for question in read], ENTITIES))
        share = 1 / max(1, len(asked))
        seconds = {"seed": (before - begun) * share, "encoding": (time.perf_counter() - before) * share}
        found = [Retrieval(())] * len(questions)
        for number, question, vector in zip(asked, read, rest, strict=True):
            begun = time.perf_counter()
            scores = self._ranking.score(question, entity_vector(questions[number]), vector)
            paths = best_paths(scores.paths, self._last_triples, max(limit, _SHOWN))
            triples = tuple(
                self._stored.ranked_triple(int(self._last_triples[path]), rank, float(scores.paths[path]))
                for rank, path in enumerate(paths[:limit].tolist(), start=1)
            )
            passages = ranked_passages(self._passage_ids, self._passages.rank(scores.paths, limit))
            answer = answer_of(self._units, question, scores, self._ranking.fields.kinds)
            evidence = self._evidence(question, scores, paths[:_SHOWN], answer)
            taken = {**seconds, "traversal": time.perf_counter() - begun}
            found[number] = Retrieval(passages, evidence, taken, triples)
        return found

    def _evidence(
        self, read: ReadQuestion, scores: FacetScores, paths: NDArray[np.intp], answer: FacetAnswer | None
    ) -> Evidence:
        """The evidence of one question; `paths` are the best of its triples, `answer` the short one, if any."""
        facets = read.facets
        hubs = np.array(list(dict.fromkeys(self._units.path_hubs[paths].tolist())), dtype=np.int32)
        hubs = hubs[np.argsort(-scores.hubs[hubs], kind="stable")]
        numbers = [int(self._stored.paths.hubs[hub]) for hub in hubs.tolist()]
        rows = zip(numbers, self._stored.own_ids.of(numbers), scores.hubs[hubs].tolist(), strict=True)
        nodes = tuple(Node(own_id, self._names[n], round(met, _DIGITS), kind="hub") for n, own_id, met in rows)
        found = tuple(drawn_path(self._stored, path, float(scores.paths[path])) for path in paths.tolist())
        linked = dict.fromkeys(label for facet in facets for label, _ in self._linked(facet))
        return Evidence(
            names=QuestionNames(tuple(linked), (), "values"),
            nodes=nodes,
            paths=found,
            notes=tuple(self._note(facet, met, read) for facet, met in zip(facets, scores.met, strict=True)),
            fallback=NO_HUBS if not len(scores.hubs) else None if facets else NO_CONDITION,
            measure="conditions met",
            node_count=int(np.count_nonzero(scores.hubs > 0)),
            context="\n".join(path.text for path in found),
            data={} if answer is None else {FACET_ANSWER: self._short_answer(answer)},
        )

    def _short_answer(self, answer: FacetAnswer) -> dict[str, Any]:
        """A short answer in plain data, with the first hubs and triples that it rests on."""
        stored, last = self._stored, self._stored.paths.last_triples()
        hubs = [int(stored.paths.hubs[hub]) for hub in answer.hubs[:_SHOWN].tolist()]
        own_ids = stored.own_ids.of(hubs)
        shown = []
        for path in answer.paths[:_SHOWN].tolist():
            hub = int(stored.paths.hubs[self._units.path_hubs[path]])
            one = stored.ranked_triple(int(last[path]), 0, 0.0)
            named = {"subject": one.subject, "predicate": one.predicate, "object": one.object}
            way = words_of(stored, stored.paths.triples_of(path).tolist())
            hops = [[step.subject_words, step.predicate, step.object_words] for step in way]
            shown.append({"id": one.relation_id, "hub": self._names[hub], **named, "hops": hops})
        return {
            "texts": list(answer.texts),
            "kind": answer.kind,
            "confidence": round(answer.confidence, _DIGITS),
            "hub_count": len(answer.hubs),
            "hubs": [{"id": own_id, "name": self._names[hub]} for hub, own_id in zip(hubs, own_ids, strict=True)],
            "triples": shown,
        }

    def _linked(self, facet: Facet) -> list[tuple[str, float]]:
        """Labels that a condition is met by, with their strengths, the strongest first."""
        units = self._units
        values = [(int(units.document_values[number]), strength) for number, strength in facet.documents.items()]
        values += [(int(units.hub_values[hub]), strength) for hub, strength in facet.hubs.items()]
        strengths: dict[str, float] = {}
        for value, strength in values:
            label = units.value_texts[value]
            strengths[label] = max(strength, strengths.get(label, 0.0))
        return sorted(strengths.items(), key=lambda pair: (-pair[1], pair[0]))

    def _note(self, facet: Facet, met: NDArray[np.float64], read: ReadQuestion) -> Note:
        """A condition: what the question says, what it means, and the hubs that meet it."""
        said = ", ".join(" ".join(word.text for word in read.words[start:end]) for start, end in facet.mentions)
        texts = self._units.signature_texts
        fields = ["name of the hub" if number == HUB else texts[number] for number in facet.signatures]
        linked = self._linked(facet)
        values = "; ".join(f"{label} {strength:.2f}" for label, strength in linked[:_SHOWN_VALUES])
        more = f"; {len(linked) - _SHOWN_VALUES} more" if len(linked) > _SHOWN_VALUES else ""
        hubs = best_positive(met, _SHOWN).tolist()
        items = tuple((self._names[int(self._stored.paths.hubs[hub])], round(float(met[hub]), _DIGITS)) for hub in hubs)
        count = int(np.count_nonzero(met > 0))
        text = f"{said} as {' or '.join(fields)}: {values}{more}; met by {count} {'hub' if count == 1 else 'hubs'}:"
        return Note("Condition", text, items)


def names_of(stored: StoredHubs) -> list[str]:
    """Name of each node: its label, or its own id without one."""
    labels = stored.labels.of(range(stored.graph.node_count))
    nameless = [node for node, label in enumerate(labels) if not label]
    for node, own_id in zip(nameless, stored.own_ids.of(nameless), strict=True):
        labels[node] = humanised(own_id) if "://" in own_id else own_id
    return labels
