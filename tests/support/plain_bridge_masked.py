"""`bridge-masked` the plain way, word by word from docs/bridge-masked.md: loops and dictionaries, question by question.

Shares no code with the strategy. What it is given are its inputs: tables of a published version, the vectors, the name
finder and the analyser of the index.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from polyhop.schemas.names import FUNCTION_WORDS
from polyhop.schemas.text import fold

Vector = Any
WORD = re.compile(r"[^\W_]+")


class PlainBridgeMasked:
    """The strategy with its defaults on one corpus.

    Args:
        passages: Id, title and text.
        mentions: Id of the passage, key of the entity, tf, whether it is a title's.
        vectors: Of the passages, by id.
        names: A text to (key, start, end) of the names in it, aliases resolved.
        stems: The analyser of BM25.
        encode: A text to its vector.
    """

    def __init__(
        self,
        passages: Sequence[tuple[str, str, str]],
        mentions: Sequence[tuple[str, str, float, bool]],
        vectors: Mapping[str, Vector],
        names: Callable[[str], Sequence[tuple[str, int, int]]],
        stems: Callable[[str], list[str]],
        encode: Callable[[str], Vector],
    ) -> None:
        self.ids = sorted(id_ for id_, _, _ in passages)
        self.vectors, self.names, self.stems, self.encode = vectors, names, stems, encode
        self.n = len(self.ids)
        self.common = max(5, self.n / 100)
        self.tf = {(id_, key): (tf, is_title) for id_, key, tf, is_title in mentions}
        nodes = {key for _, key in self.tf}
        for id_, title, _ in passages:
            for key in chunks(title) & nodes:
                self.tf.setdefault((id_, key), (1.0, False))
        self.df = Counter(key for _, key in self.tf)
        self.weights = {
            (id_, key): tf * math.log((self.n + 1) / (self.df[key] + 1)) + 1 for (id_, key), (tf, _) in self.tf.items()
        }
        self.terms = {id_: Counter(stems(f"{title}\n{text}")) for id_, title, text in passages}
        self.term_df = Counter(term for counts in self.terms.values() for term in counts)

    def ask(self, question: str, count: int) -> tuple[list[str], str]:
        """Ids of the first passages, and the masked question ("" if there is none)."""
        found = [(key, start, end) for key, start, end in self.names(question) if key in self.df]
        keys = sorted({key for key, _, _ in found})
        seeds = [a for a in keys if not any(a != b and f" {a} " in f" {b} " for b in keys)]
        c = min(1.0, sum(math.sqrt(self.common / self.df[key]) for key in seeds))
        masked = self._mask(question, [(start, end) for key, start, end in found if self.df[key] <= self.common])

        q = self.encode(question)
        cosines = {id_: cosine(q, self.vectors[id_]) for id_ in self.ids}
        words = self._bm25(question)
        largest = max(words.values(), default=0.0)
        lex = {id_: words[id_] / largest if largest else 0.0 for id_ in self.ids}
        asked = sorted({stem for stem in self.stems(question) if stem in self.term_df})
        idf = {stem: self._idf(stem) for stem in asked}
        by_words = [id_ for id_ in ordered(words) if words[id_] > 0][:10]
        kappa = share_of(idf, self.terms[by_words[0]]) if by_words else 0.0
        o = len(set(by_words) & set(ordered(cosines)[:10]))
        r = max(kappa, min(1.0, o / 3))

        pi = self._walk({id_: cosines[id_] + 0.3 * r * lex[id_] for id_ in self.ids}, seeds)
        similar = cosines
        if masked:
            m = self.encode(masked)
            similar = {id_: 0.3 * cosines[id_] + 0.7 * cosine(m, self.vectors[id_]) for id_ in self.ids}
        ranked = sorted(pi.values(), reverse=True)
        reference = max(ranked[9] if len(ranked) > 9 else 0.0, ranked[0] / 100) if ranked[0] > 0 else 1.0
        score = {
            id_: similar[id_]
            + 0.3 * (1 - c) * max(0.0, 2 * kappa - 1) * lex[id_]
            + 0.35 * max(c, 0.2) * math.cbrt(pi[id_] / reference)
            for id_ in self.ids
        }
        return self._cover(score, idf, r)[:count], masked

    def _mask(self, question: str, spans: list[tuple[int, int]]) -> str:
        if not spans:
            return ""
        kept = []
        for word in WORD.finditer(question):
            if any(not (word.end() <= start or end <= word.start()) for start, end in spans):
                continue
            follows = any(question[end : word.start()] in ("'", "’") and end < word.start() for _, end in spans)
            if word[0] != "s" or not follows:
                kept.append(word[0])
        masked = " ".join(kept)
        return masked if self.stems(masked) else ""

    def _idf(self, term: str) -> float:
        return math.log(1 + (self.n - self.term_df[term] + 0.5) / (self.term_df[term] + 0.5))

    def _bm25(self, question: str) -> dict[str, float]:
        mean = sum(sum(counts.values()) for counts in self.terms.values()) / self.n
        found = {}
        for id_ in self.ids:
            counts = self.terms[id_]
            length = sum(counts.values())
            found[id_] = sum(
                self._idf(term) * counts[term] * 2.2 / (counts[term] + 1.2 * (0.25 + 0.75 * length / mean))
                for term in sorted(set(self.stems(question)))
                if term in counts
            )
        return found

    def _walk(self, seeding: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
        """The passages' part after 7 half-steps."""
        first = ordered(seeding)[:5]
        start: dict[Any, float] = {("p", id_): math.exp((seeding[id_] - seeding[first[0]]) / 0.03) for id_ in first}
        start |= {("e", key): 2 * self.df[key] ** -0.5 for key in names}
        total = sum(start.values())
        start = {node: weight / total for node, weight in start.items()}
        out_of = defaultdict[Any, float](float)
        steps = []
        for (id_, key), weight in self.weights.items():
            boosted = weight * (5 if self.tf[id_, key][1] else 1)
            out_of["p", id_] += weight
            out_of["e", key] += boosted
            steps += [(("p", id_), ("e", key), weight), (("e", key), ("p", id_), boosted)]
        held = dict(start)
        for _ in range(7):
            moved = defaultdict[Any, float](float, {node: 0.1 * weight for node, weight in start.items()})
            for source, target, weight in steps:
                if source in held:
                    moved[target] += 0.9 * held[source] * weight / out_of[source]
            held = dict(moved)
        return {id_: held.get(("p", id_), 0.0) for id_ in self.ids}

    def _cover(self, score: Mapping[str, float], idf: Mapping[str, float], trust: float) -> list[str]:
        order = ordered(score)
        pool, rest = order[:30], order[30:]
        chosen, left = pool[:1], pool[1:]
        while left and len(chosen) < 20:
            covered = {stem for id_ in chosen for stem in idf if stem in self.terms[id_]}
            gains = {
                id_: trust * share_of(idf, {stem for stem in self.terms[id_] if stem not in covered}) for id_ in left
            }
            best = min(left, key=lambda id_: (-round(score[id_] + gains[id_], 12), -round(score[id_], 12), id_))
            chosen.append(best)
            left.remove(best)
        return [*chosen, *left, *rest]


def chunks(title: str) -> set[str]:
    """Section 2, without the question whether a key is a node."""
    words = WORD.findall(fold(title))
    n, found = len(words), set()
    for i in range(min(n, 24)):
        for j in range(i + 1, min(n, i + 12) + 1):
            low = [word.lower() for word in words[i:j]]
            if j - i == n:
                continue
            if j - i == 1:
                first = words[i][0]
                if not first.isalpha() or first.islower() or low[0] in FUNCTION_WORDS or len(low[0]) < 3:
                    continue
            elif all(word in FUNCTION_WORDS for word in low):
                continue
            found.add(" ".join(low))
    return found


def cosine(one: Vector, other: Vector) -> float:
    return float(np.dot(one.astype(np.float64), other.astype(np.float64)))


def ordered(scores: Mapping[str, float]) -> list[str]:
    """Ids in descending order of score, ties by id."""
    return sorted(scores, key=lambda id_: (-round(scores[id_], 12), id_))


def share_of(idf: Mapping[str, float], stems: Any) -> float:
    """The share of the question's idf that these stems have."""
    total = sum(idf.values())
    return sum(value for stem, value in idf.items() if stem in stems) / total if total else 0.0
