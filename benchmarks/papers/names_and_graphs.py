"""SPRIG's tables on names and graphs: what questions' names reach, what pruning hubs costs, how large graphs are.

Source: algorithms.md 2.11 (NER proxy analysis, gold titles among the pruned hubs, graph size), 3.3 (3).
Run: uv run python benchmarks/papers/names_and_graphs.py ROOT INDEX [QUESTIONS [STRATEGIES [PARAMETER=VALUE …]]]
"""

import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import fsum
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from polyhop.api import Index, open_index
from polyhop.flows.evaluation.metrics import MRR_DEPTH, judged_ranking, recall_at, reciprocal_rank
from polyhop.output import rounded
from polyhop.schemas.errors import MissingArtefactError, PolyhopError, SourceError
from polyhop.schemas.graph import BipartiteGraph
from polyhop.schemas.propositions import CompressedRows, PropositionGraph
from polyhop.schemas.query import Question
from polyhop.schemas.records import BadRecord, QuestionRecord
from polyhop.schemas.requests import parse_variant
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import names_in
from polyhop.tasks.propositions.stage import PROPOSITIONS
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.propositions import STORED_PROPOSITIONS
from polyhop.worker.answer import Answerer
from polyhop.worker.ranking.pagerank import hubs
from polyhop.worker.strategies.registry import STRATEGIES, parse_parameters, spec_of
from polyhop.worker.strategies.sprig import GraphNodes, NodeParameters, TermParameters, entity_nodes, term_nodes

DEFAULT_STRATEGIES = ("graph", "graph-hybrid")
RECALL_DEPTH = 10  # passages; one of the depths of algorithms.md 6.2.
ALL = "all"
_TERMS = "lexical:plain"
Bucket = Literal["no_entity", "entity_no_gold", "entity_gold"]
BUCKETS: tuple[Bucket, ...] = get_args(Bucket)


@dataclass(frozen=True, slots=True)
class DiagnosisRequest:
    """What to diagnose.

    Attributes:
        index: Name of the index.
        questions: A file with supporting passages; None: the graphs are described, and nothing else.
        strategies: Names, or variants of them, whose rankings are judged by bucket.
        nodes: What makes names equal, as parameters of `graph` (entity_norm, title_aliases…); names to values.
        hub_top_percent: Share of the entities whose pruning is looked at, in %.
    """

    index: str
    questions: Path | None = None
    strategies: tuple[str, ...] = DEFAULT_STRATEGIES
    nodes: Mapping[str, object] = field(default_factory=dict)
    hub_top_percent: float = 1.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one strategy made of one question; `error` says why it failed, which counts 0."""

    recall: float
    reciprocal_rank: float
    error: str | None = None


def diagnose(settings: Settings, request: DiagnosisRequest) -> tuple[dict[str, Any], list[BadRecord]]:
    """The report, and the question records that were left out.

    Without questions it has index, version, graphs and propositions only, whatever the index was built with.

    Raises:
        SourceError: If no question names supporting passages that the index holds.
        UnknownStrategyError: For a strategy that does not exist.
        ConfigurationError: For a parameter that does not exist or is out of its range.
        MissingArtefactError: If the index was not built for one of the strategies, or has no graph.
    """
    records, bad = read_questions(request.questions) if request.questions else ([], [])
    with open_index(request.index, settings=settings) as index:
        head: dict[str, Any] = {"index": index.name, "version": index.version}
        if request.questions is None:
            return {**head, **_described_graphs(index, request.nodes)}, bad
        nodes = _nodes(index, request.nodes)
        answerers = {label: _answerer(index, label) for label in request.strategies}
        gold = _gold_titles(index, records)
        judged = [record for record in records if gold[record.id]]
        _require_some(judged, request)
        titles = [gold[record.id] for record in judged]
        buckets = coverage_buckets(nodes, zip((record.question for record in judged), titles, strict=True))
        outcomes = {label: _outcomes(answerer, judged, index) for label, answerer in answerers.items()}
        report = {
            **head,
            "n": len(judged),
            "excluded": len(records) - len(judged),
            "buckets": _by_bucket(buckets, outcomes),
            "failed": {label: _failed(judged, given) for label, given in outcomes.items()},
            "hub_pruning": _pruning(nodes, titles, request.hub_top_percent),
            "graphs": _graphs(index, nodes),
            "propositions": _propositions(index),
        }
    return report, bad


def _answerer(index: Index, label: str) -> Answerer:
    variant = parse_variant(label, {})
    return index.session.answerer(variant.strategy, variant.parameters)


def _require_some(judged: Sequence[QuestionRecord], request: DiagnosisRequest) -> None:
    if not judged:
        raise SourceError(
            f"No question in {request.questions} names supporting passages that index '{request.index}' holds; "
            "a diagnosis needs questions with 'supporting'."
        )


def _described_graphs(index: Index, nodes: Mapping[str, object]) -> dict[str, Any]:
    """What there is of graphs, whatever the index was built with."""
    has_graph = STRATEGIES["graph"].needs <= index.session.published.artefacts
    return {
        "graphs": _graphs(index, _nodes(index, nodes) if has_graph else None),
        "propositions": _propositions(index),
    }


def _nodes(index: Index, given: Mapping[str, object]) -> GraphNodes:
    """The entity graph as the strategies walk it under these parameters."""
    parsed = parse_parameters(spec_of("graph"), given)
    parameters = NodeParameters(**parsed.model_dump(include=set(NodeParameters.model_fields)))
    published = index.session.published
    for artefact in sorted(STRATEGIES["graph"].needs):
        if artefact not in published.artefacts:
            raise MissingArtefactError(artefact, index.name, "graph")
    return entity_nodes(published, parameters)


def _gold_titles(index: Index, records: Sequence[QuestionRecord]) -> dict[str, list[str]]:
    """Titles of the supporting passages by question id; records that the index does not hold give none."""
    published = index.session.published
    title_of: dict[str, str] = {}
    for passage_id, title in zip(published.passage_ids, published.passage_titles, strict=True):
        title_of.setdefault(published.record_of(passage_id), title)
        title_of[passage_id] = title
    return {record.id: [title_of[one] for one in record.supporting if one in title_of] for record in records}


def _outcomes(answerer: Answerer, records: Sequence[QuestionRecord], index: Index) -> list[Outcome]:
    return [_outcome(answerer, record, index.session.published.record_of) for record in records]


def _outcome(answerer: Answerer, record: QuestionRecord, record_of: Callable[[str], str]) -> Outcome:
    """Recall and reciprocal rank of one question; 0 and the reason if it fails (algorithms.md 6.1)."""
    try:
        found = answerer.retrieve([Question(record.question, record.id)], limit=MRR_DEPTH)[0]
    except PolyhopError as error:
        return Outcome(0.0, 0.0, str(error))
    ranking = judged_ranking([passage.passage_id for passage in found.passages], record.supporting, record_of)
    return Outcome(recall_at(ranking, record.supporting, RECALL_DEPTH), reciprocal_rank(ranking, record.supporting))


def _failed(records: Sequence[QuestionRecord], outcomes: Sequence[Outcome]) -> list[dict[str, str]]:
    pairs = zip(records, outcomes, strict=True)
    return [{"id": record.id, "error": outcome.error} for record, outcome in pairs if outcome.error is not None]


def _by_bucket(buckets: Sequence[str], outcomes: Mapping[str, Sequence[Outcome]]) -> dict[str, Any]:
    """Share and means of each bucket, then of all questions."""
    rows: dict[str, Any] = {}
    for bucket in (*BUCKETS, ALL):
        places = [place for place, own in enumerate(buckets) if bucket in {own, ALL}]
        rows[bucket] = {
            "n": len(places),
            "share": len(places) / len(buckets),
            "strategies": {label: _means([given[place] for place in places]) for label, given in outcomes.items()},
        }
    return rows


def _means(outcomes: Sequence[Outcome]) -> dict[str, float | None]:
    """Means of a bucket; None if no question is in it."""
    count = len(outcomes)
    return {
        f"recall@{RECALL_DEPTH}": fsum(outcome.recall for outcome in outcomes) / count if count else None,
        "mrr": fsum(outcome.reciprocal_rank for outcome in outcomes) / count if count else None,
    }


def _pruning(nodes: GraphNodes, titles: Sequence[Sequence[str]], percent: float) -> dict[str, Any]:
    coverage = hub_coverage(nodes.graph, [{nodes.label(title) for title in some} for some in titles], percent)
    return {
        "hub_top_percent": percent,
        **asdict(coverage),
        "touched": len(coverage.touched),
        "title_share": coverage.title_share,
        "question_share": coverage.question_share,
    }


def _graphs(index: Index, nodes: GraphNodes | None) -> dict[str, dict[str, int]]:
    """Statistics of the entity graph, if there is one, and of the term graph where the index holds its words."""
    graphs = {} if nodes is None else {"entity": graph_statistics(nodes.graph)}
    published = index.session.published
    if _TERMS in published.artefacts:
        graphs["term"] = graph_statistics(term_nodes(published, TermParameters()).graph)
    return graphs


def _propositions(index: Index) -> dict[str, Any] | None:
    """Statistics of the graph over propositions, None if the index has none.

    `synonym_recall` is the share of the exact nearest names that the search found, as the manifest states it.
    """
    published = index.session.published
    if STORED_PROPOSITIONS.name not in published.artefacts:
        return None
    stated = published.manifest.stages[PROPOSITIONS.name].counts.get("synonym_recall_per_mille")
    recall = None if stated is None else stated / 1000
    return {**proposition_statistics(published.artefact(STORED_PROPOSITIONS).graph), "synonym_recall": recall}


def coverage_bucket(nodes: GraphNodes, question: str, gold_titles: Collection[str]) -> Bucket:
    """Where a question's names lead.

    Args:
        nodes: The graph's, see `entity_nodes`.
        question: Its text.
        gold_titles: Titles, as written, of the passages that answer it.

    Returns:
        no_entity if no name is a node with an edge; entity_gold if a name equals a gold title, both under the graph's
        norm and aliases; entity_no_gold otherwise.
    """
    matched = nodes.match(question).matched
    if not matched:
        return "no_entity"
    gold = {nodes.label(title) for title in gold_titles}
    return "entity_no_gold" if gold.isdisjoint(matched) else "entity_gold"


def coverage_buckets(nodes: GraphNodes, questions: Iterable[tuple[str, Collection[str]]]) -> list[Bucket]:
    """The bucket of each (question, gold titles), in order; see `coverage_bucket`."""
    return [coverage_bucket(nodes, question, titles) for question, titles in questions]


def graph_statistics(graph: BipartiteGraph) -> dict[str, int]:
    """Sizes and degrees of a graph.

    Args:
        graph: Passages and the entities (or terms) they mention.

    Returns:
        nodes, edges, entities, passages, isolated_passages (without entity), and of the number of edges of an entity
        (`…_entity_degree`) and of a passage (`…_passage_degree`) the 95th percentile (`p95_`, nearest rank) and the
        largest (`max_`). Entities that no passage mentions are not nodes; degrees are 0 where there is no node.
    Source: algorithms.md 2.11.
    """
    of_entities = graph.df[graph.df > 0]
    of_passages = np.diff(graph.indptr)
    return {
        "nodes": len(of_entities) + graph.passage_count,
        "edges": len(graph.indices),
        "entities": len(of_entities),
        "passages": graph.passage_count,
        "isolated_passages": int(np.count_nonzero(of_passages == 0)),
        "p95_entity_degree": _p95(of_entities),
        "max_entity_degree": int(of_entities.max(initial=0)),
        "p95_passage_degree": _p95(of_passages),
        "max_passage_degree": int(of_passages.max(initial=0)),
    }


def proposition_statistics(graph: PropositionGraph) -> dict[str, int]:
    """Sizes of the graph over propositions.

    Args:
        graph: Propositions with their entities and passages.

    Returns:
        propositions, propositions_without_entity (found by their text alone), passages, passages_without_proposition,
        entities (that a proposition names), and edges by kind, each pair once: clique_edges (two entities that share a
        proposition), containment_edges (an entity and a passage), synonym_edges (two entities with similar names).
    Source: algorithms.md 3.3 (3).
    """
    propositions, _, passages = graph.shape
    return {
        "propositions": propositions,
        "propositions_without_entity": _empty_rows(graph.entities),
        "passages": passages,
        "passages_without_proposition": _empty_rows(graph.passage_propositions),
        "entities": graph.entity_propositions.count - _empty_rows(graph.entity_propositions),
        "clique_edges": len(graph.cliques.indices) // 2,
        "containment_edges": len(graph.passage_entities.indices),
        "synonym_edges": len(graph.synonyms.indices) // 2,
    }


def _empty_rows(rows: CompressedRows) -> int:
    return int(np.count_nonzero(np.diff(rows.indptr) == 0))


@dataclass(frozen=True, slots=True)
class HubCoverage:
    """Gold titles among the hubs that pruning removes.

    Attributes:
        hubs: Number of entities removed.
        titles: Distinct gold titles.
        removed: Those of them that are removed, ascending.
        questions: Number of questions.
        touched: Places of the questions that lose at least one gold title, ascending.
    """

    hubs: int
    titles: int
    removed: tuple[str, ...]
    questions: int
    touched: tuple[int, ...]

    @property
    def title_share(self) -> float:
        """Share of the distinct gold titles that are removed, 0 to 1."""
        return len(self.removed) / self.titles if self.titles else 0.0

    @property
    def question_share(self) -> float:
        """Share of the questions that lose a gold title, 0 to 1."""
        return len(self.touched) / self.questions if self.questions else 0.0


def hub_coverage(graph: BipartiteGraph, gold_titles: Sequence[Collection[str]], hub_top_percent: float) -> HubCoverage:
    """What removing the top hubs takes from the questions.

    Args:
        graph: Passages and the entities they mention.
        gold_titles: For each question the labels of its gold titles, in the form of the graph's keys.
        hub_top_percent: Share of the entities that is removed, 0 to 100; see `pruning.hubs`.
    Source: algorithms.md 2.11.
    """
    pruned = {graph.keys[number] for number in hubs(graph.df, hub_top_percent).tolist()}
    distinct = {title for titles in gold_titles for title in titles}
    touched = tuple(place for place, titles in enumerate(gold_titles) if not pruned.isdisjoint(titles))
    return HubCoverage(len(pruned), len(distinct), tuple(sorted(pruned & distinct)), len(gold_titles), touched)


def _p95(degrees: NDArray[np.int64]) -> int:
    return int(np.percentile(degrees, 95, method="inverted_cdf")) if len(degrees) else 0


def main() -> None:
    """Prints the report of what the command line names."""
    root, index, *others = sys.argv[1:]
    questions, strategies, *nodes = (*others, *(None, None)[len(others) :])
    request = DiagnosisRequest(
        index=index,
        questions=Path(questions) if questions else None,
        strategies=tuple(names_in(strategies)) if strategies else DEFAULT_STRATEGIES,
        nodes=dict(one.split("=", 1) for one in nodes),
    )
    report, bad = diagnose(Settings(root=root), request)
    print(json.dumps(rounded(report), indent=1))
    for record in bad:
        print(f"{record.source} line {record.line} was left out: {record.reason}", file=sys.stderr)


if __name__ == "__main__":
    main()
