"""`hublink` and `hublink-topic`: hubs by the similarity of their paths, of the whole graph or by levels from a topic.

Source: algorithms.md 4.1, 4.8 to 4.12.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from polyhop.schemas.chat import Prompt
from polyhop.schemas.evidence import NO_HUBS, Edge, Evidence, Fallback, Node, Note, Path, Seed
from polyhop.schemas.hub_paths import STORED_HUBS, StoredHubs, path_text
from polyhop.schemas.ports import IndexReader, Reader, Services
from polyhop.schemas.query import Question, RankedPassage, Retrieval
from polyhop.schemas.settings import ENTITIES
from polyhop.warehouse.artefacts import ALIASES, ENTITY_IDS, GRAPH, LANGUAGE, NAMES, vectors_of
from polyhop.warehouse.statements import read_prompt
from polyhop.worker.questions.parts import COMPONENTS_TOKENS, ModelComponents, RuleComponents, components_task
from polyhop.worker.ranking.hubs import (
    ChoiceRule,
    HubChoice,
    Level,
    PathScores,
    PathSearch,
    ScoredHub,
    Scores,
    Topic,
    Topics,
    TopicWalk,
    UsedPath,
    diversified,
    in_context_order,
    linked,
    linked_passages,
    rank_passages,
    rank_triples,
    used_paths,
    words_of,
)
from polyhop.worker.reading.hubs import REPLY_TOKENS, HubModel, HubReader, HubReadingRule
from polyhop.worker.reading.models import estimate_tokens
from polyhop.worker.strategies.base import CallBound, Parameters, entity_vector, has_word, question_vector, strategy

_DIGITS = 6  # decimals shown; rankings keep twelve (algorithms.md 0.3).


def drawn_path(stored: StoredHubs, path: int, score: float, walked: Sequence[int] = ()) -> Path:
    """A path over the graph."""
    graph, own = stored.graph, stored.paths.triples_of(path).tolist()
    at = int(graph.subjects[own[0]])
    for triple in reversed(walked):  # the node from which a way over these triples ends at the hub
        subject, value = int(graph.subjects[triple]), int(graph.objects[triple])
        at = subject if value == at else value
    nodes, steps = [at], []
    for triple in (*walked, *own):
        subject, value = int(graph.subjects[triple]), int(graph.objects[triple])
        at, is_forward = (value, True) if subject == at else (subject, False)
        nodes.append(at)
        steps.append((triple, is_forward))
    keys, labels = stored.own_ids.of(nodes), stored.labels.of(nodes)
    names = [label or key for label, key in zip(labels, keys, strict=True)]
    edges = []
    for number, (triple, is_forward) in enumerate(steps):
        label = (stored.predicates[int(graph.predicates[triple])],)
        ends = keys[number], keys[number + 1]
        edges.append(Edge(*ends, forward=label) if is_forward else Edge(*ends, backward=label))
    (text,) = stored.path_texts.of([int(stored.paths.path_texts[path])])
    line = f"{text} From the topic: {path_text(words_of(stored, walked))}" if walked else text
    return Path(line, tuple(keys), tuple(names), tuple(edges), round(score, _DIGITS))


By = Literal["model", "rules"]


class HubLinkParameters(Parameters):
    """Parameters of `hublink`; defaults are the published code's, or the thesis' where that has none."""

    grid: ClassVar[Mapping[str, str]] = {"path_weight_alpha": "0,3,6,9", "diversity_penalty": "0,.01,.05,.1"}
    """The thesis' tuning grid: algorithms.md 4."""

    number_of_hubs: int = Field(
        5,
        ge=1,
        le=1000,
        description="gamma: hubs that a question is answered from, default 5 (published runs: 10, 30).",
    )
    top_paths_to_keep: int = Field(
        10, ge=1, le=1000, description="alpha_paths: paths that a hub is judged and read by, default 10."
    )
    path_weight_alpha: float = Field(
        5.0,
        ge=0,
        le=100,
        description="How much a hub's better paths count more: weight exp(alpha * score), default 5; the thesis: 0.",
    )
    diversity_penalty: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Penalty per repetition of a subject among rows of level triple in a hub's evidence, "
        "default 0.05; the thesis: 0.",
    )
    question_components: Literal["off", "rules", "model"] = Field(
        "off",
        description="Key terms of the question that are searched in addition to it: none (off, default), names and "
        "runs of "
        "words (rules), or those that a model lists (model).",
    )
    n_source_chunks: int = Field(
        10,
        ge=0,
        le=1000,
        description="Passages linked to a hub that join its evidence, with their metadata and the hub's, default 10; "
        "0 is no linking.",
    )
    min_path_score: float = Field(0.0, ge=0, le=1, description="Paths that score below this are ignored, default 0.")
    partial_answers: By = Field(
        "model", description="A partial answer for each hub by the configured model (default), or by rules."
    )
    final_answer: By = Field(
        "model", description="The answer from the partial ones by the configured model (default), or by rules."
    )
    output_filter: bool = Field(
        default=False, description="A model keeps the triples that support the answer, default 0 (no)."
    )

    @property
    def rule(self) -> ChoiceRule:
        """Number of hubs and paths to choose."""
        return ChoiceRule(self.number_of_hubs, self.top_paths_to_keep, self.path_weight_alpha)

    @property
    def reading(self) -> HubReadingRule:
        """Parameters of reading hubs."""
        return HubReadingRule(
            partial_by_model=self.partial_answers == "model",
            final_by_model=self.final_answer == "model",
            filters=self.output_filter,
            links=self.n_source_chunks > 0,
        )

    @property
    def most_levels(self) -> int:
        """Levels that may be read for one question."""
        return 1

    def call_bounds(self) -> tuple[CallBound, ...]:
        """At most: components once; per level a partial answer for each hub and a final one; the filter once.

        Prompts are counted with the rule on the language of the answer, which indexes of English texts leave out.
        Source: algorithms.md 4.10 (cost in calls).
        """
        levels, evidence = self.most_levels, self.reading.evidence_tokens
        counted = (
            ("hub.components", int(self.question_components == "model"), 0, COMPONENTS_TOKENS),
            ("hub.partial", levels * self.number_of_hubs * (self.partial_answers == "model"), evidence, REPLY_TOKENS),
            ("hub.final", levels * (self.final_answer == "model"), evidence, REPLY_TOKENS),
            ("hub.filter", int(self.output_filter), evidence + REPLY_TOKENS, REPLY_TOKENS),
        )
        return tuple(
            CallBound(task, calls, shown + estimate_tokens(prompt_of(task).in_language_of_question("any").text), reply)
            for task, calls, shown, reply in counted
            if calls
        )


class HubLinkTopicParameters(HubLinkParameters):
    """Parameters of `hublink-topic`."""

    max_level: int = Field(
        5, ge=1, le=100, description="beta: levels that are searched, default 5 (published runs: 1)."
    )
    search_until_hub: bool = Field(
        default=True,
        description="eta: a level goes on until it meets hubs, or is one step (0); default 1 (until hubs).",
    )

    @property
    def most_levels(self) -> int:
        """Levels that may be read for one question."""
        return self.max_level


def prompt_of(task: str) -> Prompt:
    """The prompt of one of HubLink's tasks at question time."""
    folder = "questions" if task == "hub.components" else "reading"
    return read_prompt(FilePath(__file__).parents[1] / folder / "prompts" / f"{task}.md")


_SHOWN = 10  # Paths, alternatives of a topic and hubs without paths that are listed; the data hold all paths.


@dataclass(frozen=True, slots=True)
class FoundLevel:
    """A level with its kept paths, and the linked passages of each of its hubs with their cosines."""

    level: Level
    used: Sequence[UsedPath]
    linked: Sequence[Sequence[tuple[int, float]]]


class HubStrategy:
    """Hubs, their paths, and the triples and passages that these rank."""

    def __init__(
        self, reader: IndexReader, parameters: HubLinkParameters, services: Services, topics: Topics | None = None
    ) -> None:
        self._parameters = parameters
        self._services = services
        self._stored = stored = reader.artefact(STORED_HUBS)
        self._search = PathSearch(stored.paths, stored.rows, np.asarray(reader.artefact(vectors_of("hubpath"))))
        self._choice = HubChoice(stored.paths)
        self._topics = topics
        self._walk = TopicWalk(stored.graph, stored.paths, stored.unreached)
        # Splits questions; None if disabled.
        self._components: RuleComponents | ModelComponents | None = None
        if parameters.question_components != "off":
            self._components = rules = RuleComponents(reader.artefact(NAMES))
            chat = services.chat() if parameters.question_components == "model" else None
            if chat:
                self._components = ModelComponents(chat, components_task(prompt_of("hub.components")), rules)
        self._passage_ids = reader.passage_ids
        has_vectors = "vectors:passage" in reader.artefacts and len(reader.passage_ids) > 0
        self._passages = np.asarray(reader.artefact(vectors_of("passage"))) if has_vectors else None
        self._stating = linked(stored.triple_passages, len(stored.graph.subjects))
        self._about = linked(stored.hub_passages, len(stored.paths.hubs))

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        """One Retrieval per question; see `polyhop.schemas.ports.Strategy`."""
        return [self._retrieve_one(q, limit) if has_word(q) else Retrieval(()) for q in questions]

    def _retrieve_one(self, question: Question, limit: int) -> Retrieval:
        begun = time.perf_counter()
        vector, short = question_vector(question), entity_vector(question)
        components, use = self._components.of(question) if self._components else ((), None)
        queries = np.vstack([short, self._services.encode(components, ENTITIES)]) if components else short[np.newaxis]
        scores = self._search.scores(queries, self._parameters.min_path_score)
        scored = time.perf_counter()
        searched, topics, fallback = self._searched(question, scores.paths)
        levels = [self._with_passages(level, scores.paths, vector) for level in searched]
        stored, ids, near = self._stored, self._passage_ids, [(level.level.hubs, level.linked) for level in levels]
        passages = rank_passages(near, scores.paths, stored.paths, self._stating)[: max(limit, 0)]
        triples = rank_triples([level.used for level in levels], stored.paths)[: max(limit, 0)]
        evidence = self._evidence(levels, scores, topics, components)
        return Retrieval(
            tuple(RankedPassage(ids[n], rank, float(score)) for rank, (n, score) in enumerate(passages, start=1)),
            replace(evidence, fallback=fallback if len(stored.paths.hubs) else NO_HUBS),
            triples=tuple(stored.ranked_triple(t, rank, score) for rank, (t, score) in enumerate(triples, start=1)),
            seconds={"seed": scored - begun, "traversal": time.perf_counter() - scored},
            use=use,
        )

    def _searched(self, question: Question, scores: Scores) -> tuple[list[Level], list[Topic], Fallback | None]:
        """The levels of a search, the topics found, of which it began at the first, and what it fell back to."""
        p, fallback = self._parameters, None
        if self._topics is not None and isinstance(p, HubLinkTopicParameters):
            # What may be the topic: the one given, else the names in the question.
            names = [question.topic] if question.topic else [name.key for name in question.names]
            unknown = [name for name in dict.fromkeys(names) if self._topics.by_name(name) is None]
            vectors = dict(zip(unknown, self._services.encode(unknown, ENTITIES), strict=True)) if unknown else {}
            found = self._topics.find(names, vectors)
            if found:
                name, topic = next(iter(found.items()))
                others = {other.node: other for other in found.values() if other.node != topic.node}
                node, most, until = topic.node, p.max_level, p.search_until_hub
                levels = list(self._walk.levels(node, scores, p.rule, most_levels=most, until_hub=until))
                if not any(level.hubs for level in levels):
                    fallback = Fallback("topic_not_covered", f"no indexed hub is reached from '{name}'")
                return levels, [topic, *others.values()], fallback
            said = "the question names no node of the graph" if names else "the question has no topic and names nothing"
            said = f"no node is called '{question.topic}'" if question.topic else said
            fallback = Fallback("topic_not_found", f"{said}, so all hubs were searched without a topic")
        # The hubs of the best paths of the whole graph: one level without a topic.
        hubs = tuple(self._choice.by_candidates(scores, p.rule))
        return [Level(1, hubs, ((),) * len(hubs), len(hubs))] if hubs else [], [], fallback

    def _with_passages(self, level: Level, scores: Scores, vector: NDArray[np.float32]) -> FoundLevel:
        count, found = self._parameters.n_source_chunks, []
        for hub in level.hubs:
            passages = self._about.row(hub.hub) if count else np.empty(0, dtype=np.int32)
            values = np.ones(len(passages))  # in an index without vectors of passages
            if self._passages is not None:  # row by row, so that a passage's bits do not depend on the others
                values = np.sum(self._passages[passages].astype(np.float64) * vector, axis=1)
            found.append(linked_passages(passages, values, count))
        return FoundLevel(level, used_paths(level.hubs, scores), found)

    def _evidence(
        self, levels: Sequence[FoundLevel], scores: PathScores, topics: Sequence[Topic], components: Sequence[str]
    ) -> Evidence:
        """Evidence of one question; it was searched from the first of its topics, if there are some."""
        stored, seeds, notes = self._stored, [], []
        for topic in topics[:1]:
            (own_id,), (name,) = stored.own_ids.of([topic.node]), stored.labels.of([topic.node])
            seeds.append(Seed("topic", own_id, 1.0, name, topic.match, topic.similarity))
        others = [node for topic in topics[:1] for node in topic.others] + [topic.node for topic in topics[1:]]
        if others:
            notes.append(Note("Other topics", self._named(others)))
        if components:
            notes.append(Note("Components", "; ".join(components)))
        nodes, rows = [], []
        shown: list[Path] = []
        for found in levels:
            level = found.level
            row = self._level_row(found, scores)
            rows.append(row)
            for hub, walked in zip(row["hubs"], level.paths_to_topic, strict=True):
                own_id, distance = hub["hub_id"], len(walked) if topics else None
                nodes.append(Node(own_id, hub["name"] or own_id, hub["score"], kind="hub", distance=distance))
            if level.found > len(level.hubs):
                notes.append(Note(f"Level {level.number}", f"{level.found} hubs, the best {len(level.hubs)} kept"))
            if level.not_indexed:
                notes.append(Note("Hubs without an index", self._named(level.not_indexed)))
            # The first paths of the ranking, each after the path that leads from the topic to its hub.
            first = in_context_order(found.used, stored.paths)[: _SHOWN - len(shown)]
            shown += [drawn_path(stored, one.path, one.score, level.paths_to_topic[one.hub_rank]) for one in first]
        if self._search.text_count:
            notes.append(Note("Search", f"exact over {self._search.text_count:,} texts"))
        return Evidence(
            seeds=tuple(seeds),
            nodes=tuple(nodes),
            paths=tuple(shown),
            notes=tuple(notes),
            measure="hub score",
            node_count=sum(found.level.found for found in levels),
            data={"levels": rows} if rows else {},
        )

    def _named(self, nodes: Sequence[int]) -> str:
        """The first nodes with their ids, and how many more there are."""
        shown, rest = nodes[:_SHOWN], len(nodes) - _SHOWN
        pairs = zip(self._stored.own_ids.of(shown), self._stored.labels.of(shown), strict=True)
        return "; ".join(f"{name} [{own_id}]" for own_id, name in pairs) + (f"; {rest} more" if rest > 0 else "")

    def _level_row(self, found: FoundLevel, scores: PathScores) -> dict[str, Any]:
        level, stored, hubs = found.level, self._stored, []
        for hub, walked, passages in zip(level.hubs, level.paths_to_topic, found.linked, strict=True):
            node = int(stored.paths.hubs[hub.hub])
            (own_id,), (name,) = stored.own_ids.of([node]), stored.labels.of([node])
            ordered = self._diversified(hub, scores)
            texts = stored.path_texts.of(stored.paths.path_texts[ordered].tolist()) if ordered else []
            paths = []
            for path, text in zip(ordered, texts, strict=True):
                code, path_score = stored.paths.hashes[path].tobytes().hex(), round(float(scores.paths[path]), _DIGITS)
                paths.append({"path": path, "hash": code, "text": text, "score": path_score})
            row = {"hub_id": own_id, "name": name, "score": round(hub.score, _DIGITS)}
            row["path_to_topic"] = path_text(words_of(stored, walked)) if walked else ""
            row["paths"], row["passages"] = paths, [self._passage_ids[passage] for passage, _ in passages]
            hubs.append(row)
        not_indexed = stored.own_ids.of(level.not_indexed)
        return {"level": level.number, "found": level.found, "not_indexed": not_indexed, "hubs": hubs}

    def _diversified(self, hub: ScoredHub, scores: PathScores) -> list[int]:
        """The kept paths in the order of their best rows after the penalty for repeated subjects."""
        if not self._search.has_triple_rows or not self._parameters.diversity_penalty:
            return list(hub.paths)
        triples = [self._search.best_row_triple(scores, path) for path in hub.paths]
        subjects = [int(self._stored.graph.subjects[triple]) if triple >= 0 else -1 for triple in triples]
        scored = [float(scores.paths[path]) for path in hub.paths]
        order = diversified(scored, subjects, self._parameters.diversity_penalty)
        return [hub.paths[index] for index in order]


def _reader(index: IndexReader, parameters: HubLinkParameters, services: Services, configured: Reader) -> HubReader:
    chat = services.chat()
    language = index.artefact(LANGUAGE)
    partial, final = (prompt_of(name).in_language_of_question(language) for name in ("hub.partial", "hub.final"))
    most_calls = sum(bound.calls for bound in parameters.call_bounds())
    model = HubModel(chat, (partial, final, prompt_of("hub.filter")), most_calls) if chat else None
    return HubReader(index, parameters.reading, model, configured)


@strategy(
    "hublink",
    "HubLink: the hubs whose paths are most similar to the question, with their triples and passages.",
    HubLinkParameters,
    needs={"hubs", "vectors:hubpath", "vectors:passage"},
    reader=_reader,
    ranks_triples=True,
)
def build_hublink(reader: IndexReader, parameters: HubLinkParameters, services: Services) -> HubStrategy:
    """`hublink` on an open version."""
    return HubStrategy(reader, parameters, services)


@strategy(
    "hublink-topic",
    "HubLink from a topic: hubs reached from it, level by level, with the paths that lead to them.",
    HubLinkTopicParameters,
    needs={"hubs", "graph", "vectors:hubpath", "vectors:entity", "vectors:passage"},
    needs_question_names=True,
    reader=_reader,
    ranks_triples=True,
)
def build_hublink_topic(reader: IndexReader, parameters: HubLinkTopicParameters, services: Services) -> HubStrategy:
    """`hublink-topic` on an open version."""
    entities = reader.artefact(GRAPH).keys, reader.artefact(ENTITY_IDS)
    vectors = np.asarray(reader.artefact(vectors_of("entity")))
    topics = Topics(reader.artefact(STORED_HUBS), reader.artefact(ALIASES), entities, vectors)
    return HubStrategy(reader, parameters, services, topics)
