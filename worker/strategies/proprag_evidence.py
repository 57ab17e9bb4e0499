"""What of a search for proposition paths goes into the evidence: seeds, paths with their connections, every beam.

Ranks nothing. Source: algorithms.md 3.1, 3.6, 3.7.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from polyhop.schemas.evidence import BY_VECTOR, Edge, Evidence, Fallback, Node, Note, Path, Seed
from polyhop.tasks.propositions.artefact import StoredPropositions
from polyhop.worker.ranking.beam import Connection, FoundPaths, PropositionPath
from polyhop.worker.ranking.proposition_ranking import PathSeed, PropositionRanking

_DIGITS = 6  # decimals shown; rankings keep twelve (algorithms.md 0.3).
_SHOWN = 10
"""Paths, and seeds of the first walk, that are listed; the beams hold the other paths."""
_SIGNS = {"exact": "→", "synonym": "≈", "jump": "⇢"}
_SIGNS_IN_WORDS = "→ by an entity that both name, ≈ by entities with similar names, ⇢ by a jump"

FIRST_WALK = Fallback("stage1", "no path was found to start the second walk from, so the first one ranks")


@dataclass(frozen=True, slots=True)
class _Named:
    """A proposition in an evidence: its key there, its text, and the score of the best path over it."""

    key: str
    text: str
    score: float


class PathEvidence:
    """Writes rankings by proposition paths down for one open version."""

    def __init__(self, stored: StoredPropositions, passage_ids: Sequence[str]) -> None:
        self._stored = stored
        self._passage_ids = passage_ids

    def of(self, ranking: PropositionRanking) -> Evidence:
        """The evidence of one question: the seeds of the walks, the best paths, the beam after every depth."""
        fallback = {"": None, "dense": BY_VECTOR, "stage1": FIRST_WALK}[ranking.fallback]
        if ranking.found is None:
            return Evidence(seeds=self._first_seeds(ranking), fallback=fallback)
        named = self._named(ranking.found)
        paths = ranking.found.paths[:_SHOWN]
        shown = dict.fromkeys(number for path in paths for number in path.propositions)
        return Evidence(
            seeds=tuple(self._seed(seed) for seed in ranking.seeds),
            nodes=tuple(
                Node(one.key, f"{one.key}: {one.text}", round(one.score, _DIGITS), kind="proposition")
                for one in named.values()
            ),
            paths=tuple(self._path(path, named) for path in paths),
            notes=(
                Note("Explored", "entities of the most similar propositions", self._weights(ranking, "explore")),
                Note("Exploited", "entities of the best paths", self._weights(ranking, "exploit")),
                *_beam_notes(ranking.found.beams, named),
            ),
            fallback=fallback,
            measure="path score",
            node_count=len(named),
            stated=self._stated(named),
            context="\n".join(named[number].text for number in shown),
            data={"beams": [[self._row(path, named) for path in beam] for beam in ranking.found.beams]},
        )

    def _named(self, found: FoundPaths) -> dict[int, _Named]:
        """All propositions of a search by number, in the order in which paths mention them, best paths first."""
        scores: dict[int, float] = {}
        for path in found.paths:
            for number in path.propositions:
                scores.setdefault(number, path.score)
        texts = self._stored.texts.of([*scores])
        rows = zip(scores.items(), texts, strict=True)
        return {number: _Named(f"p{n}", text, score) for n, ((number, score), text) in enumerate(rows, start=1)}

    def _stated(self, named: Mapping[int, _Named]) -> dict[str, tuple[str, ...]]:
        """Keys of the propositions that passages state, by passage id."""
        passages = self._stored.graph.passages
        owners, offsets = passages.gathered(np.array([*named], dtype=np.int64))
        keys = [one.key for one in named.values()]
        found: dict[str, tuple[str, ...]] = {}
        for owner, passage in zip(owners.tolist(), passages.indices[offsets].tolist(), strict=True):
            passage_id = self._passage_ids[passage]
            found[passage_id] = (*found.get(passage_id, ()), keys[owner])
        return found

    def _seed(self, seed: PathSeed) -> Seed:
        keys, names = self._stored.keys, self._stored.names
        return Seed("entity", keys[seed.entity], round(seed.weight, _DIGITS), names[seed.entity])

    def _first_seeds(self, ranking: PropositionRanking) -> tuple[Seed, ...]:
        if ranking.focus is None:
            return ()
        pairs = zip(ranking.focus.entities.tolist(), ranking.focus.weights.tolist(), strict=True)
        keys, names = self._stored.keys, self._stored.names
        return tuple(Seed("entity", keys[n], round(weight, _DIGITS), names[n]) for n, weight in pairs)[:_SHOWN]

    def _weights(self, ranking: PropositionRanking, part: str) -> tuple[tuple[str, float], ...]:
        """Names and weights of the entities that one of the two sets chose, in descending order of weight."""
        weights = [(self._stored.names[seed.entity], getattr(seed, part)) for seed in ranking.seeds]
        chosen = [(name, round(weight, _DIGITS)) for name, weight in weights if weight > 0]
        return tuple(sorted(chosen, key=lambda pair: -pair[1]))

    def _path(self, path: PropositionPath, named: Mapping[int, _Named]) -> Path:
        keys = tuple(named[number].key for number in path.propositions)
        names = tuple(named[number].text for number in path.propositions)
        labels = [self._label(connection) for connection in path.connections]
        edges = tuple(Edge(*pair, (label,)) for pair, label in zip(pairwise(keys), labels, strict=True))
        line = names[0] + "".join(f" —{label}→ {name}" for label, name in zip(labels, names[1:], strict=True))
        return Path(line, keys, names, edges, round(path.score, _DIGITS))

    def _label(self, connection: Connection) -> str:
        """How a path goes on, as people read it."""
        if connection.source is None or connection.target is None:
            return "jump"
        names = self._stored.names
        if connection.kind == "exact":
            return names[connection.source]
        return f"{names[connection.source]} ≈ {names[connection.target]}"

    def _row(self, path: PropositionPath, named: Mapping[int, _Named]) -> dict[str, Any]:
        """A path of a beam for programs. Source: algorithms.md 3.1 (connections)."""
        keys = self._stored.keys
        return {
            "nodes": [named[number].key for number in path.propositions],
            "connections": [
                {
                    "type": connection.kind,
                    "e1": None if connection.source is None else keys[connection.source],
                    "e2": None if connection.target is None else keys[connection.target],
                }
                for connection in path.connections
            ],
            "score": round(path.score, _DIGITS),
        }


def _beam_notes(beams: Sequence[Sequence[PropositionPath]], named: Mapping[int, _Named]) -> list[Note]:
    """The beam after every depth, and what the signs between its propositions mean."""
    notes = [
        Note(f"Beam of length {length}", " · ".join(_line(path, named) for path in beam))
        for length, beam in enumerate(beams, start=1)
    ]
    return [*notes, Note("Signs", _SIGNS_IN_WORDS)] if len(beams) > 1 else notes


def _line(path: PropositionPath, named: Mapping[int, _Named]) -> str:
    first, *others = (named[number].key for number in path.propositions)
    steps = zip(path.connections, others, strict=True)
    return first + "".join(f"{_SIGNS[connection.kind]}{key}" for connection, key in steps) + f" {path.score:.4f}"
