"""What of a search for proposition paths goes into the evidence: seeds, paths with their connections, every beam.

Ranks nothing. Source: algorithms.md 3.1, 3.6, 3.7.
"""

from itertools import pairwise

from polyhop.schemas.evidence import BY_VECTOR, Edge, Evidence, Fallback, Node, Note, Path, Seed
from polyhop.tasks.propositions.artefact import StoredPropositions
from polyhop.worker.ranking.beam import Connection, PropositionPath
from polyhop.worker.ranking.proposition_ranking import PathSeed, PropositionRanking

_DIGITS = 6
_SHOWN = 10
"""Paths and seeds of the first walk that are kept; the beams hold the rest."""

FIRST_WALK = Fallback("stage1", "no path was found to start the second walk from, so the first one ranks")


class PathEvidence:
    """Writes rankings by proposition paths down for one open version."""

    def __init__(self, stored: StoredPropositions) -> None:
        self._stored = stored

    def of(self, ranking: PropositionRanking) -> Evidence:
        """The evidence of one question: the seeds of the walks, the best paths, the beam after every depth."""
        fallback = {"": None, "dense": BY_VECTOR, "stage1": FIRST_WALK}[ranking.fallback]
        if ranking.found is None:
            return Evidence(seeds=self._first_seeds(ranking), fallback=fallback)
        paths = ranking.found.paths[:_SHOWN]
        numbers = dict.fromkeys(number for path in paths for number in path.propositions)
        texts = dict(zip(numbers, self._stored.texts.of([*numbers]), strict=True))
        return Evidence(
            seeds=tuple(self._seed(seed) for seed in ranking.seeds),
            nodes=tuple(Node(f"p{number}", text, kind="proposition") for number, text in texts.items()),
            paths=tuple(self._path(path, texts) for path in paths),
            notes=(
                Note("Explored", "entities of the most similar propositions", self._weights(ranking, "explore")),
                Note("Exploited", "entities of the best paths", self._weights(ranking, "exploit")),
                *(
                    Note(f"Beam of length {length}", " · ".join(self._line(path) for path in beam))
                    for length, beam in enumerate(ranking.found.beams, start=1)
                ),
            ),
            fallback=fallback,
            node_count=len(texts),
            context="\n".join(dict.fromkeys(texts[number] for path in paths for number in path.propositions)),
        )

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
        weights = ((self._stored.names[seed.entity], getattr(seed, part)) for seed in ranking.seeds)
        return tuple((name, round(weight, _DIGITS)) for name, weight in weights if weight > 0)

    def _path(self, path: PropositionPath, texts: dict[int, str]) -> Path:
        keys = tuple(f"p{number}" for number in path.propositions)
        names = tuple(texts[number] for number in path.propositions)
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

    def _line(self, path: PropositionPath) -> str:
        numbers = "→".join(f"p{number}" for number in path.propositions)
        return f"{numbers} {path.score:.4f}"
