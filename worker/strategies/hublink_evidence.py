"""What of a search for hubs goes into the evidence: the topic, hubs by level, their paths, and what was left out.

Ranks nothing, save that a hub's rows stand in the order that diversity gives them. The whole of each level is in the
evidence's data, under "levels": a reader reads it from there, level by level. Source: algorithms.md 4.1, 4.8, 4.9.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from polyhop.schemas.evidence import Evidence, Node, Note, Path, Seed
from polyhop.tasks.hubs.artefact import StoredHubs
from polyhop.tasks.hubs.text import path_text
from polyhop.worker.ranking.hubs.choice import ScoredHub, diversified
from polyhop.worker.ranking.hubs.levels import Level
from polyhop.worker.ranking.hubs.ranking import UsedPath, in_context_order
from polyhop.worker.ranking.hubs.search import PathScores, PathSearch
from polyhop.worker.ranking.hubs.topic import Topic
from polyhop.worker.ranking.hubs.words import words_of
from polyhop.worker.strategies.drawn_paths import drawn_path

_DIGITS = 6  # decimals shown; rankings keep twelve (algorithms.md 0.3).
_SHOWN = 10
"""Paths, alternatives of a topic and hubs without paths that are listed; the data hold all paths."""


@dataclass(frozen=True, slots=True)
class FoundLevel:
    """A level with its kept paths, and the linked passages of each of its hubs with their cosines."""

    level: Level
    used: Sequence[UsedPath]
    linked: Sequence[Sequence[tuple[int, float]]]


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """The topic of a search: the name it was found by, and other names' nodes that were not chosen."""

    name: str
    topic: Topic
    others: Sequence[Topic] = ()


class HubEvidence:
    """Writes searches for hubs down for one open version."""

    def __init__(self, stored: StoredHubs, search: PathSearch, passage_ids: Sequence[str], penalty: float) -> None:
        """For an open version; `penalty` is that of the diversity re-ranking."""
        self._stored = stored
        self._search = search
        self._passage_ids = passage_ids
        self._penalty = penalty

    def of(
        self,
        levels: Sequence[FoundLevel],
        scores: PathScores,
        choice: TopicChoice | None,
        components: Sequence[str],
    ) -> Evidence:
        """The evidence of one question."""
        hubs = [self._hub_node(found.level, hub, choice) for found in levels for hub in found.level.hubs]
        rows = [self._level_row(found, scores) for found in levels]
        notes = [note for found in levels for note in self._level_notes(found.level)]
        if components:
            notes.insert(0, Note("Components", "; ".join(components)))
        if self._search.text_count:
            notes.append(Note("Search", f"exact over {self._search.text_count:,} texts"))
        return Evidence(
            seeds=(self._seed(choice),) if choice else (),
            nodes=tuple(hubs),
            paths=tuple(self._shown_paths(levels)),
            notes=(*(self._topic_notes(choice) if choice else ()), *notes),
            measure="hub score",
            node_count=sum(found.level.found for found in levels),
            data={"levels": rows} if rows else {},
        )

    def _seed(self, choice: TopicChoice) -> Seed:
        topic = choice.topic
        (own_id,), (name,) = self._stored.own_ids.of([topic.node]), self._stored.labels.of([topic.node])
        return Seed("topic", own_id, 1.0, name, topic.match, topic.similarity)

    def _topic_notes(self, choice: TopicChoice) -> list[Note]:
        """Which nodes might have been meant as well."""
        others = [*choice.topic.others, *(other.node for other in choice.others)]
        if not others:
            return []
        rest = f"; {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        return [Note("Other topics", self._named(others[:_SHOWN]) + rest)]

    def _hub_node(self, level: Level, hub: ScoredHub, choice: TopicChoice | None) -> Node:
        node = int(self._stored.paths.hubs[hub.hub])
        (own_id,), (name,) = self._stored.own_ids.of([node]), self._stored.labels.of([node])
        walked = len(level.paths_to_topic[level.hubs.index(hub)]) if choice else None
        return Node(own_id, name or own_id, round(hub.score, _DIGITS), kind="hub", distance=walked)

    def _level_notes(self, level: Level) -> list[Note]:
        notes = []
        if level.found > len(level.hubs):
            notes.append(Note(f"Level {level.number}", f"{level.found} hubs, the best {len(level.hubs)} kept"))
        if level.not_indexed:
            rest = len(level.not_indexed) - _SHOWN
            said = self._named(level.not_indexed[:_SHOWN]) + (f"; {rest} more" if rest > 0 else "")
            notes.append(Note("Hubs without an index", said))
        return notes

    def _named(self, nodes: Sequence[int]) -> str:
        pairs = zip(self._stored.own_ids.of(nodes), self._stored.labels.of(nodes), strict=True)
        return "; ".join(f"{name} [{own_id}]" for own_id, name in pairs)

    def _level_row(self, found: FoundLevel, scores: PathScores) -> dict[str, Any]:
        level = found.level
        hubs = zip(level.hubs, level.paths_to_topic, found.linked, strict=True)
        return {
            "level": level.number,
            "found": level.found,
            "not_indexed": self._stored.own_ids.of(level.not_indexed),
            "hubs": [self._hub_row(hub, walked, linked, scores) for hub, walked, linked in hubs],
        }

    def _hub_row(
        self, hub: ScoredHub, walked: Sequence[int], linked: Sequence[tuple[int, float]], scores: PathScores
    ) -> dict[str, Any]:
        node = int(self._stored.paths.hubs[hub.hub])
        (own_id,), (name,) = self._stored.own_ids.of([node]), self._stored.labels.of([node])
        paths = self._stored.paths
        ordered = self._diversified(hub, scores)
        texts = self._stored.path_texts.of(paths.path_texts[ordered].tolist()) if ordered else []
        return {
            "hub_id": own_id,
            "name": name,
            "score": round(hub.score, _DIGITS),
            "path_to_topic": path_text(words_of(self._stored, walked)) if walked else "",
            "paths": [
                {
                    "path": path,
                    "hash": paths.hashes[path].tobytes().hex(),
                    "text": text,
                    "score": round(float(scores.paths[path]), _DIGITS),
                }
                for path, text in zip(ordered, texts, strict=True)
            ],
            "passages": [self._passage_ids[passage] for passage, _ in linked],
        }

    def _diversified(self, hub: ScoredHub, scores: PathScores) -> list[int]:
        """The kept paths in the order of their best rows after the penalty for repeated subjects."""
        if not self._search.has_triple_rows or not self._penalty:
            return list(hub.paths)
        triples = [self._search.best_row_triple(scores, path) for path in hub.paths]
        subjects = [int(self._stored.graph.subjects[triple]) if triple >= 0 else -1 for triple in triples]
        order = diversified([float(scores.paths[path]) for path in hub.paths], subjects, self._penalty)
        return [hub.paths[place] for place in order]

    def _shown_paths(self, levels: Sequence[FoundLevel]) -> list[Path]:
        """The first paths of the ranking, each after the path that leads from the topic to its hub."""
        shown: list[Path] = []
        for found in levels:
            for used in in_context_order(found.used, self._stored.paths)[: _SHOWN - len(shown)]:
                walked = found.level.paths_to_topic[used.hub_rank]
                shown.append(drawn_path(self._stored, used.path, used.score, walked))
        return shown
