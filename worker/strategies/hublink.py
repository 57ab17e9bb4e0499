"""`hublink` and `hublink-topic`: hubs by the similarity of their paths, of the whole graph or by levels from a topic.

Owns no formula (worker/ranking/hubs/ does) and reads no answer (worker/reading/hubs.py does).
Source: algorithms.md 4.8 to 4.12.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.evidence import NO_HUBS, Fallback
from polyhop.schemas.ports import IndexReader, Reader, Services
from polyhop.schemas.query import Question, Retrieval
from polyhop.tasks.hubs.artefact import STORED_HUBS
from polyhop.warehouse.artefacts import ALIASES, ENTITY_IDS, GRAPH, LANGUAGE, NAMES, vectors_of
from polyhop.worker.questions.components import ModelComponents, QuestionComponents, RuleComponents, components_task
from polyhop.worker.ranking.hubs.choice import ChoiceRule, HubChoice
from polyhop.worker.ranking.hubs.levels import Level, TopicWalk
from polyhop.worker.ranking.hubs.ranking import Linked, linked_passages, rank_passages, rank_triples, used_paths
from polyhop.worker.ranking.hubs.search import PathSearch, Scores
from polyhop.worker.ranking.hubs.topic import NamedEntities, Topics
from polyhop.worker.reading.hub_steps import hub_tasks
from polyhop.worker.reading.hubs import HubModel, HubReader
from polyhop.worker.strategies.base import entity_vector, question_vector, ranked_passages, retrieve_each, strategy
from polyhop.worker.strategies.hublink_evidence import FoundLevel, HubEvidence, TopicChoice
from polyhop.worker.strategies.hublink_parameters import HubLinkParameters, HubLinkTopicParameters, prompt_of

DIRECT, TRAVERSAL = "hublink", "hublink-topic"


@dataclass(frozen=True, slots=True)
class Found:
    """The levels of a search, and how its topic was found, if it had one."""

    levels: Sequence[Level]
    choice: TopicChoice | None = None
    fallback: Fallback | None = None


class Searching(Protocol):
    """Finds hubs for a question whose path scores are known."""

    def find(self, question: Question, scores: Scores) -> Found:
        """The hubs of each level."""
        ...


class DirectSearch:
    """The hubs of the best paths of the whole graph: one level without a topic."""

    def __init__(self, choice: HubChoice, rule: ChoiceRule) -> None:
        self._choice = choice
        self._rule = rule

    def find(self, question: Question, scores: Scores) -> Found:
        """The hubs of the candidate loop."""
        hubs = tuple(self._choice.by_candidates(scores, self._rule))
        return Found([Level(1, hubs, ((),) * len(hubs), len(hubs))] if hubs else [])


class TopicSearch:
    """Hubs level by level from a question's topic; without a topic in the graph, those of the direct search."""

    def __init__(
        self, topics: Topics, walk: TopicWalk, direct: DirectSearch, parameters: HubLinkTopicParameters
    ) -> None:
        self._topics = topics
        self._walk = walk
        self._direct = direct
        self._parameters = parameters

    def searched_hints(self, question: Question) -> list[str]:
        """Names of the question that no label of the graph has."""
        return [name for name in names_of(question) if self._topics.by_name(name) is None]

    def find(self, question: Question, scores: Scores) -> Found:
        """All levels, up to the last that may be searched."""
        names = names_of(question)
        topics = self._topics.find(names, question.hint_vectors)
        if not topics:
            return replace(self._direct.find(question, scores), fallback=_not_found(question, names))
        name, topic = next(iter(topics.items()))
        others = {found.node: found for found in topics.values() if found.node != topic.node}
        p = self._parameters
        walked = self._walk.levels(topic.node, scores, p.rule, most_levels=p.max_level, until_hub=p.search_until_hub)
        levels = list(walked)
        is_covered = any(level.hubs for level in levels)
        fallback = None if is_covered else Fallback("topic_not_covered", f"no indexed hub is reached from '{name}'")
        return Found(levels, TopicChoice(name, topic, [*others.values()]), fallback)


def names_of(question: Question) -> list[str]:
    """What may be the topic: the one given, else the names in the question."""
    return [question.topic] if question.topic else [name.key for name in question.names]


def _not_found(question: Question, names: Sequence[str]) -> Fallback:
    said = f"no node is called '{question.topic}'" if question.topic else "the question names no node of the graph"
    if not question.topic and not names:
        said = "the question has no topic and names nothing"
    return Fallback("topic_not_found", f"{said}, so all hubs were searched without a topic")


class HubStrategy:
    """Hubs, their paths, and the triples and passages that these rank."""

    def __init__(
        self,
        name: str,
        reader: IndexReader,
        parameters: HubLinkParameters,
        services: Services,
        searching: Callable[[HubChoice], Searching],
    ) -> None:
        self.name = name
        self._parameters = parameters
        self._services = services
        self._stored = stored = reader.artefact(STORED_HUBS)
        self._search = PathSearch(stored.paths, stored.rows, np.asarray(reader.artefact(vectors_of("hubpath"))))
        self._searching = searching(HubChoice(stored.paths))
        self._components = _components(reader, parameters, services)
        self._passage_ids = reader.passage_ids
        self._passages = PassageCosines(reader)
        self._stating = Linked(stored.triple_passages, len(stored.graph.subjects))
        self._about = Linked(stored.hub_passages, len(stored.paths.hubs))
        self._evidence = HubEvidence(stored, self._search, reader.passage_ids, parameters.diversity_penalty)

    def searched_hints(self, question: Question) -> Sequence[str]:
        """Names that are looked for by their vectors."""
        return self._searching.searched_hints(question) if isinstance(self._searching, TopicSearch) else []

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `polyhop.schemas.ports.Strategy`."""
        return retrieve_each(questions, limit, self._retrieve_one)

    def _retrieve_one(self, question: Question, limit: int) -> Retrieval:
        begun = time.perf_counter()
        vector, short = question_vector(question, self.name), entity_vector(question, self.name)
        components, use = self._components.of(question) if self._components else ((), None)
        queries = np.vstack([short, self._services.encode_entities(components)]) if components else short[np.newaxis]
        scores = self._search.scores(queries, self._parameters.min_path_score)
        scored = time.perf_counter()
        found = self._searching.find(question, scores.paths)
        levels = [self._with_passages(level, scores.paths, vector) for level in found.levels]
        passages = rank_passages(
            [(level.level.hubs, level.linked) for level in levels], scores.paths, self._stored.paths, self._stating
        )[: max(limit, 0)]
        triples = rank_triples([level.used for level in levels], self._stored.paths)[: max(limit, 0)]
        evidence = self._evidence.of(levels, scores, found.choice, components)
        retrieval = Retrieval(
            ranked_passages(self._passage_ids, _as_ranking(passages)),
            replace(evidence, fallback=found.fallback if len(self._stored.paths.hubs) else NO_HUBS),
            triples=tuple(
                self._stored.ranked_triple(t, rank, score) for rank, (t, score) in enumerate(triples, start=1)
            ),
            use=use,
        )
        seconds = {"seed": scored - begun, "traversal": time.perf_counter() - scored}
        return replace(retrieval, seconds=seconds)

    def _with_passages(self, level: Level, scores: Scores, vector: NDArray[np.float32]) -> FoundLevel:
        count = self._parameters.n_source_chunks
        linked = [
            linked_passages(self._about.of(hub.hub), lambda some: self._passages.of(some, vector), count)
            for hub in level.hubs
        ]
        return FoundLevel(level, used_paths(level.hubs, scores), linked)


class PassageCosines:
    """Similarity of some passages to a question; 1 for all in an index without their vectors."""

    def __init__(self, reader: IndexReader) -> None:
        has_vectors = "vectors:passage" in reader.artefacts and len(reader.passage_ids) > 0
        self._vectors = np.asarray(reader.artefact(vectors_of("passage"))) if has_vectors else None

    def of(self, passages: NDArray[np.int64], vector: NDArray[np.float32]) -> Scores:
        """Shape (n,): row by row, so that a passage's bits do not depend on the others."""
        if self._vectors is None:
            return np.ones(len(passages))
        found: Scores = np.sum(self._vectors[passages].astype(np.float64) * vector, axis=1)
        return found


def _as_ranking(rows: Sequence[tuple[int, float]]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    return np.array([row[0] for row in rows], dtype=np.intp), np.array([row[1] for row in rows], dtype=np.float64)


def _components(reader: IndexReader, parameters: HubLinkParameters, services: Services) -> QuestionComponents | None:
    """Who takes questions apart; None if nobody is to."""
    if parameters.question_components == "off":
        return None
    rules = RuleComponents(reader.artefact(NAMES))
    chat = services.chat() if parameters.question_components == "model" else None
    return ModelComponents(chat, components_task(prompt_of("hub.components")), rules) if chat else rules


def _reader(index: IndexReader, parameters: HubLinkParameters, services: Services, configured: Reader) -> HubReader:
    """The reader of both strategies."""
    chat = services.chat()
    language = index.artefact(LANGUAGE)
    partial, final = (prompt_of(name).in_language_of_question(language) for name in ("hub.partial", "hub.final"))
    tasks = hub_tasks(partial, final, prompt_of("hub.filter"))
    most_calls = sum(bound.calls for bound in parameters.call_bounds())
    model = HubModel(chat, tasks, most_calls) if chat else None
    return HubReader(index, parameters.reading, model, configured)


@strategy(
    DIRECT,
    "HubLink: the hubs whose paths are most similar to the question, with their triples and passages.",
    HubLinkParameters,
    needs={"hubs", "vectors:hubpath", "vectors:passage"},
    reader=_reader,
    ranks_triples=True,
)
def build_hublink(reader: IndexReader, parameters: HubLinkParameters, services: Services) -> HubStrategy:
    """`hublink` on an open version."""
    return HubStrategy(DIRECT, reader, parameters, services, lambda choice: DirectSearch(choice, parameters.rule))


@strategy(
    TRAVERSAL,
    "HubLink from a topic: hubs reached from it, level by level, with the paths that lead to them.",
    HubLinkTopicParameters,
    needs={"hubs", "graph", "vectors:hubpath", "vectors:entity", "vectors:passage"},
    needs_question_names=True,
    reader=_reader,
    ranks_triples=True,
)
def build_hublink_topic(reader: IndexReader, parameters: HubLinkTopicParameters, services: Services) -> HubStrategy:
    """`hublink-topic` on an open version."""
    stored = reader.artefact(STORED_HUBS)
    vectors = np.asarray(reader.artefact(vectors_of("entity")))
    entities = NamedEntities(reader.artefact(GRAPH).keys, reader.artefact(ENTITY_IDS), vectors)
    topics = Topics(stored, reader.artefact(ALIASES), entities)

    def search(choice: HubChoice) -> TopicSearch:
        return TopicSearch(
            topics,
            TopicWalk(stored.graph, stored.paths, stored.unreached),
            DirectSearch(choice, parameters.rule),
            parameters,
        )

    return HubStrategy(TRAVERSAL, reader, parameters, services, search)
