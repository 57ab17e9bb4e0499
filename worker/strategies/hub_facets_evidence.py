"""What `hub-facets` leaves as evidence: linked values, the conditions they are, and the hubs that meet them.

Ranks nothing. Source: algorithms.md 4B.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.evidence import NO_HUBS, Evidence, Fallback, Node, Note, QuestionNames
from polyhop.tasks.hubs.artefact import StoredHubs
from polyhop.worker.ranking.facets.answers import FacetAnswer
from polyhop.worker.ranking.facets.conditions import HUB, Facet
from polyhop.worker.ranking.facets.ranking import PathScores
from polyhop.worker.ranking.facets.read_question import ReadQuestion
from polyhop.worker.ranking.facets.units import Units
from polyhop.worker.ranking.hubs.words import words_of
from polyhop.worker.ranking.order import best_positive
from polyhop.worker.strategies.drawn_paths import drawn_path

_DIGITS = 6  # decimals shown; rankings keep twelve (algorithms.md 0.3).
_SHOWN_VALUES = 5  # linked values of a condition; chosen: a line, which says how many more there are

NO_CONDITION = Fallback("similarity", "no word of the question names a value or a hub, so hubs stand by similarity")


FACET_ANSWER = "facet_answer"
"""Key of the short answer among an evidence's data."""


class FacetEvidence:
    """Writes down how a question was read on one open version."""

    shown = 10
    """Hubs and paths that are listed."""

    def __init__(self, stored: StoredHubs, units: Units, names: Sequence[str]) -> None:
        """Of an open version and the names of its nodes."""
        self._stored = stored
        self._units = units
        self._names = names

    def of(
        self, read: ReadQuestion, scores: PathScores, paths: NDArray[np.intp], answer: FacetAnswer | None
    ) -> Evidence:
        """The evidence of one question; `paths` are the best of its triples, `answer` the short one, if any."""
        facets = read.conditions.facets
        hubs = self._hubs_of(paths)
        hubs = hubs[np.argsort(-scores.hubs[hubs], kind="stable")]
        nodes = tuple(self._hub(hub, float(scores.hubs[hub])) for hub in hubs.tolist())
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
            data={} if answer is None else {FACET_ANSWER: self._answer(answer)},
        )

    def _answer(self, answer: FacetAnswer) -> dict[str, Any]:
        """A short answer in plain data, with the first hubs and triples that it rests on."""
        stored, last = self._stored, self._stored.paths.last_triples()
        hubs = [int(stored.paths.hubs[hub]) for hub in answer.hubs[: self.shown].tolist()]
        own_ids = stored.own_ids.of(hubs)
        shown = []
        for path in answer.paths[: self.shown].tolist():
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

    def _hubs_of(self, paths: NDArray[np.intp]) -> NDArray[np.int32]:
        """Hubs of paths, each once, in their order."""
        return np.array(list(dict.fromkeys(self._units.path_hubs[paths].tolist())), dtype=np.int32)

    def _hub(self, hub: int, met: float) -> Node:
        node = int(self._stored.paths.hubs[hub])
        (own_id,) = self._stored.own_ids.of([node])
        return Node(own_id, self._names[node], round(met, _DIGITS), kind="hub")

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
        fields = [
            "name of the hub" if signature == HUB else self._units.signatures[signature].text
            for signature in facet.signatures
        ]
        linked = self._linked(facet)
        values = "; ".join(f"{label} {strength:.2f}" for label, strength in linked[:_SHOWN_VALUES])
        more = f"; {len(linked) - _SHOWN_VALUES} more" if len(linked) > _SHOWN_VALUES else ""
        hubs = best_positive(met, self.shown).tolist()
        items = tuple((self._names[int(self._stored.paths.hubs[hub])], round(float(met[hub]), _DIGITS)) for hub in hubs)
        count = int(np.count_nonzero(met > 0))
        text = f"{said} as {' or '.join(fields)}: {values}{more}; met by {count} {'hub' if count == 1 else 'hubs'}:"
        return Note("Condition", text, items)
