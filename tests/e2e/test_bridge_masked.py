"""`bridge-masked` and `bridge` on published versions: plain versions, from the docs alone, rank alike."""

import json
import math
import os
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_indexes import indexed, write_rows

from polyhop.api import Index, open_index
from polyhop.flows.evaluate import run_evaluation
from polyhop.schemas.languages import ANALYSERS
from polyhop.schemas.names import FUNCTION_WORDS
from polyhop.schemas.requests import EvaluationRequest
from polyhop.schemas.settings import ReaderSettings, Settings
from polyhop.schemas.text import fold
from polyhop.warehouse.artefacts import ALIASES, NAMES, vectors_of
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.files.versions import read_manifest, require_version

NAME = "bridge-masked"
OF_THE_GRAPH = ("bridge", "bridge-lexical", "graph", "graph-hybrid", "graph-dense", "rrf-ppr", "fusion", "bm25-rm3")
FIRST = 20
QUESTIONS, OTHERS = 40, 8
"""Of MuSiQue: the first questions, and every eighth passage beside their gold."""
WHOLE = bool(os.environ.get("POLYHOP_WHOLE_MUSIQUE"))
"""All 100 questions and 1,879 passages, whose vectors take most of a minute."""
_MENTIONS = """
SELECT unit_id, key, sum(tf)::DOUBLE, bool_or(is_title)
FROM mentions JOIN entities USING (entity_id) WHERE level = 'passage' AND is_named GROUP BY unit_id, key
"""


Vector = Any
WORD = re.compile(r"[^\W_]+")


class PlainBridge:
    """`bridge` with its defaults on one corpus, from algorithms.md 2B alone."""

    steps = 5

    def __init__(
        self,
        passages: Sequence[tuple[str, str, str]],  # id, title and text
        mentions: Sequence[tuple[str, str, float, bool]],  # id of the passage, key of the entity, tf, whether a title's
        vectors: Mapping[str, Vector],  # of the passages, by id
        names: Callable[[str], Sequence[tuple[str, int, int]]],  # key, start and end of each name, aliases resolved
        stems: Callable[[str], list[str]],  # the analyser of BM25
        encode: Callable[[str], Vector],
    ) -> None:
        self.ids = sorted(id_ for id_, _, _ in passages)
        self.vectors, self.names, self.stems, self.encode = vectors, names, stems, encode
        self.n = len(self.ids)
        self.common = max(5, self.n / 100)
        self.tf = {(id_, key): (tf, is_title) for id_, key, tf, is_title in mentions}
        self._add_edges({id_: title for id_, title, _ in passages})
        self.df = Counter(key for _, key in self.tf)
        self.weights = {
            (id_, key): tf * math.log((self.n + 1) / (self.df[key] + 1)) + 1 for (id_, key), (tf, _) in self.tf.items()
        }
        self.terms = {id_: Counter(stems(f"{title}\n{text}")) for id_, title, text in passages}
        self.term_df = Counter(term for counts in self.terms.values() for term in counts)

    def ask(self, question: str, count: int) -> tuple[list[str], str]:
        """Ids of the first passages, and the masked question (here always "")."""
        names = {key: self._evidence(key) for key, _, _ in self.names(question) if key in self.df}
        c = min(1.0, sum(v * math.sqrt(self.common / self.df[key]) for key, v in names.items()))
        q = self.encode(question)
        cosines = {id_: cosine(q, self.vectors[id_]) for id_ in self.ids}
        lex = self._relative(self._bm25(question))
        pi = self._walk({id_: cosines[id_] + 0.3 * lex[id_] for id_ in self.ids}, names)
        reference = reference_of(pi)
        score = {
            id_: cosines[id_] + 0.3 * (1 - c) * lex[id_] + 0.2 * max(c, 0.3) * math.sqrt(pi[id_] / reference)
            for id_ in self.ids
        }
        return self._cover(score, self._asked(question), max(c, 0.5))[:count], ""

    def _add_edges(self, titles: Mapping[str, str]) -> None:
        """None but the mentions."""

    def _evidence(self, key: str) -> float:
        stems = self.stems(key)
        if len(stems) != 1 or stems[0] not in self.term_df:
            return 1.0
        return min(1.0, 5 * self.df[key] / self.term_df[stems[0]])

    def _asked(self, question: str) -> dict[str, float]:
        """Idf of the question's stems that the corpus has."""
        return {stem: self._idf(stem) for stem in sorted({s for s in self.stems(question) if s in self.term_df})}

    def _relative(self, words: Mapping[str, float]) -> dict[str, float]:
        largest = max(words.values(), default=0.0)
        return {id_: words[id_] / largest if largest else 0.0 for id_ in self.ids}

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

    def _walk(self, seeding: Mapping[str, float], names: Mapping[str, float]) -> dict[str, float]:
        """The passages' part after all half-steps; `names` with what each seed is multiplied by."""
        first = ordered(seeding)[:5]
        start: dict[Any, float] = {("p", id_): math.exp((seeding[id_] - seeding[first[0]]) / 0.03) for id_ in first}
        start |= {("e", key): 2 * weight * self.df[key] ** -0.5 for key, weight in names.items()}
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
        for _ in range(self.steps):
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


class PlainBridgeMasked(PlainBridge):
    """`bridge-masked` with its defaults on one corpus, from bridge-masked.md."""

    steps = 7

    def _add_edges(self, titles: Mapping[str, str]) -> None:
        nodes = {key for _, key in self.tf}
        for id_, title in titles.items():
            for key in chunks(title) & nodes:
                self.tf.setdefault((id_, key), (1.0, False))

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
        lex, idf = self._relative(words), self._asked(question)
        by_words = [id_ for id_ in ordered(words) if words[id_] > 0][:10]
        kappa = share_of(idf, self.terms[by_words[0]]) if by_words else 0.0
        o = len(set(by_words) & set(ordered(cosines)[:10]))
        r = max(kappa, min(1.0, o / 3))

        pi = self._walk({id_: cosines[id_] + 0.3 * r * lex[id_] for id_ in self.ids}, dict.fromkeys(seeds, 1.0))
        similar = cosines
        if masked:
            m = self.encode(masked)
            similar = {id_: 0.3 * cosines[id_] + 0.7 * cosine(m, self.vectors[id_]) for id_ in self.ids}
        reference = reference_of(pi)
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


def reference_of(masses: Mapping[str, float]) -> float:
    """The mass that counts as 1."""
    ranked = sorted(masses.values(), reverse=True)
    return max(ranked[9] if len(ranked) > 9 else 0.0, ranked[0] / 100) if ranked[0] > 0 else 1.0


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


def plain_on(index: Index, plain: type[PlainBridge]) -> PlainBridge:
    """A plain version on an open index."""
    published, services = index.session.published, index.session.services
    finder, aliases = published.artefact(NAMES), published.artefact(ALIASES)
    keys = {row["key"] for row in index.sql("SELECT key FROM entities WHERE is_named").to_pylist()}

    def names(text: str) -> list[tuple[str, int, int]]:
        return [(m.key if m.key in keys else aliases.get(m.key, m.key), m.start, m.end) for m in finder.find(text)]

    matrix = published.artefact(vectors_of("passage"))
    return plain(
        [tuple(row.values()) for row in index.sql("SELECT passage_id, title, text FROM passages").to_pylist()],
        [tuple(row.values()) for row in index.sql(_MENTIONS).to_pylist()],
        dict(zip(published.passage_ids, matrix, strict=True)),
        names,
        ANALYSERS["stems"],
        lambda text: services.encode([text])[0],
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, demo_folder: Path) -> Path:
    """A root with the demo's questions and two indexes for strategies that walk its graph; one is for ours, too."""
    root = tmp_path_factory.mktemp("masked")
    shutil.copy(demo_folder / "questions.jsonl", root)
    for name, strategies in (("without", OF_THE_GRAPH), ("with", (*OF_THE_GRAPH, NAME))):
        indexed(Settings(root=root, strategies=strategies), demo_folder / "corpus.jsonl", name)
    return root


@pytest.mark.rare
def test_all_other_tables_arrays_and_counts_are_as_without_it(demo: Path) -> None:
    ours, theirs = (read_manifest(require_version(Layout(demo), name)[1]) for name in ("with", "without"))
    changed = {name for name, table in ours.tables.items() if table != theirs.tables.get(name)}
    assert changed <= {"title_chunks", "version_stages"}
    assert ours.tables.keys() - {"title_chunks"} == theirs.tables.keys()
    assert {n: s for n, s in ours.arrays.items() if not n.startswith("title-chunks_")} == theirs.arrays
    counts = [{n: record.counts for n, record in one.stages.items() if n != "title-chunks"} for one in (ours, theirs)]
    assert counts[0] == counts[1]
    joined = "title_chunks AS c JOIN mentions AS m ON m.unit_id = c.passage_id AND m.entity_id = c.entity_id"
    with open_index("with", root=demo) as index:
        found, doubled = (
            index.sql(f"SELECT count(*) AS n FROM {rows}").to_pylist()[0]["n"] for rows in ("title_chunks", joined)
        )
    assert found == ours.stages["title-chunks"].counts["title_chunks"] > 0
    assert doubled == 0


@pytest.fixture(scope="module")
def musique(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    """A root with MuSiQue's first questions, and an index of their gold passages and a part of the others."""
    folder, data = tmp_path_factory.mktemp("musique"), shared_data / "musique100"
    questions = (data / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    passages = (data / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    if not WHOLE:
        questions = questions[:QUESTIONS]
        gold = {passage for line in questions for passage in json.loads(line)["supporting"]}
        passages = [line for n, line in enumerate(passages) if n % OTHERS == 0 or json.loads(line)["id"] in gold]
    write_rows(folder / "questions.jsonl", [], *questions)
    settings = Settings(root=folder, strategies=("bridge", NAME))
    indexed(settings, write_rows(folder / "corpus.jsonl", [], *passages), "with")
    return folder


@pytest.mark.rare
@pytest.mark.parametrize(
    ("corpus", "step", "least"),
    [
        ("demo", 1, 11),
        # every second of the first questions; of the whole set all, of which 91 have a mask
        pytest.param("musique", 1 if WHOLE else 2, 81 if WHOLE else 17, marks=pytest.mark.shared_data),
    ],
)
def test_a_plain_version_ranks_and_masks_alike(
    request: pytest.FixtureRequest, corpus: str, step: int, least: int
) -> None:
    root = request.getfixturevalue(corpus)
    texts = [record.question for record in read_questions(root / "questions.jsonl")[0]][::step]
    with open_index("with", settings=Settings(root=root, reader=ReaderSettings(name="none"))) as index:
        answers, plain = index.ask_batch(texts, strategy=NAME, limit=FIRST), plain_on(index, PlainBridgeMasked)
        expected = [plain.ask(text, FIRST) for text in texts]
    notes = ({note["label"]: note["text"] for note in answer.evidence["notes"]} for answer in answers)
    found = [
        ([p["id"] for p in answer.passages], note["Masked question"])
        for answer, note in zip(answers, notes, strict=True)
    ]
    assert found == [(ids, masked or "none") for ids, masked in expected]
    assert sum(bool(masked) for _, masked in expected) >= least


@pytest.mark.rare
@pytest.mark.parametrize("corpus", ["demo", pytest.param("musique", marks=pytest.mark.shared_data)])
def test_a_plain_version_of_bridge_ranks_alike(request: pytest.FixtureRequest, corpus: str) -> None:
    root = request.getfixturevalue(corpus)
    texts = [record.question for record in read_questions(root / "questions.jsonl")[0]]
    # without names, whose capitals are gone, as other corpora's questions
    texts = [*texts[::2], *(text.lower() for text in texts[1::2])]
    with open_index("with", settings=Settings(root=root, reader=ReaderSettings(name="none"))) as index:
        answers, plain = index.ask_batch(texts, strategy="bridge", limit=FIRST), plain_on(index, PlainBridge)
        expected = [plain.ask(text, FIRST)[0] for text in texts]
    assert [[passage["id"] for passage in answer.passages] for answer in answers] == expected


@pytest.mark.rare
@pytest.mark.shared_data
def test_musique_s_gold_passages_are_found_as_ever(musique: Path) -> None:
    """The floors of bridge-masked.md 6 for the whole set (measured .868, .907); of the part just below .910, .952."""
    settings = Settings(root=musique, reader=ReaderSettings(name="none"))
    request = EvaluationRequest(musique / "questions.jsonl", "with", (NAME, "bridge"))
    report = run_evaluation(settings, request).report
    means = report["strategies"]
    masked_5, masked_10, bridge_5 = (0.855, 0.89, 0.8217) if WHOLE else (0.9, 0.94, 0.9146)
    assert means[NAME]["recall@5"] >= masked_5
    assert means[NAME]["recall@10"] >= masked_10
    assert means["bridge"]["recall@5"] == pytest.approx(bridge_5, abs=5e-4), means
