"""An answer with all it rests on as one HTML file: no network, no script, the same bytes for the same answer."""

import json
import re
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from polyhop.pages.drawing import DRAWN_PASSAGES, EvidenceGraph, Triple, draw, evidence_graph
from polyhop.schemas.chat import cost_words
from polyhop.schemas.errors import UnknownIdError, UnknownIndexError
from polyhop.schemas.evidence import (
    GRAPH,
    RANK_BY_SIMILARITY,
    RANK_BY_WORDS,
    RERANKED,
    SIMILARITY,
    WORDS,
    Evidence,
    evidence_of,
    shown_id,
)
from polyhop.schemas.ports import IndexReader
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import plural
from polyhop.schemas.version import VERSION
from polyhop.terminal import location_words, shown_triples
from polyhop.warehouse import artefacts
from polyhop.warehouse.files.disk import HTML, named_file
from polyhop.warehouse.index_reader import passage_texts
from polyhop.warehouse.open import open_published
from polyhop.worker.session import IndexSession
from polyhop.worker.strategies.registry import STRATEGIES, parse_parameters, spec_of

FOLDER = Path(__file__).parent
MARKED_NAMES = 20  # of a question; chosen: a question has few, and looking for hundreds in long texts takes seconds
SHOWN_TITLE = 300  # characters; chosen: titles are shorter by far, and a million would stop a browser
_NOTHING_READ: Mapping[str, Any] = {"kind": "", "values": (), "model": None, "citations": (), "verified": None}
_PARTS = {
    SIMILARITY: "how close its meaning is to that of the question (cosine of their vectors)",
    WORDS: "words that it shares with the question; rare words count more (BM25)",
    GRAPH: "its connection with names in the question and with the best passages, over entities that passages share",
    RANK_BY_WORDS: "its rank among passages that share words with the question (BM25)",
    RANK_BY_SIMILARITY: "its rank among passages of similar meaning (cosine of their vectors)",
}
"""Meanings of the parts of a score."""
_KINDS = {"computed": "computed from values", "extracted": "possible", "generated": "written by a model"}


@dataclass(frozen=True, slots=True)
class PageMaterial:
    """Data of an answer page besides the answer: index, encoder (None without vectors), all parameters.

    Texts of passages by id, empty if it was deleted, keys of the reached entities in each, relations between them,
    and the names in the question.
    """

    index: str
    encoder: str | None
    parameters: Mapping[str, object]
    texts: Mapping[str, str] = field(default_factory=dict)
    mentions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    relations: Sequence[Triple] = ()
    names: Sequence[str] = ()


def answer_page(document: Mapping[str, Any], material: PageMaterial) -> str:
    """The page of an answer in the JSON contract of `polyhop ask`, with texts of its passages and parameters."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.filters["cost_words"] = cost_words
    return environment.get_template("answer.html.jinja").render(answer_parts(document, material))


def answer_parts(
    document: Mapping[str, Any],
    material: PageMaterial,
    prefix: str = "",
    link: Callable[..., str] | None = None,
) -> dict[str, Any]:
    """Variables of the template answer_body.html.jinja for an answer.

    Its ids begin with the prefix; passages and entities are links where there are pages of them.
    """
    passages = [{**row, "title": shorten(row["title"])} for row in document["passages"]]
    document = {**document, "passages": passages}
    evidence = evidence_of(document["evidence"])
    graph = evidence_graph(document, material.mentions, material.relations)
    reading = {**_NOTHING_READ, **(document.get("reading") or {})}
    triples = document.get("triples") or ()
    return {
        "prefix": prefix,
        "link": link,
        "document": document,
        "reading": reading,
        "strategy_summary": STRATEGIES[name].summary if (name := document["strategy"]) in STRATEGIES else "",
        "changed_order": next((note.text for note in evidence.notes if note.label == RERANKED), ""),
        "is_in_score_order": all(before["score"] >= after["score"] for before, after in pairwise(passages)),
        "kind": _KINDS.get(reading["kind"], "") if document["answer"] else "",
        "sentences": _sentences(document, reading),
        "evidence": evidence,
        "graph": graph,
        "drawing": draw(graph) if graph.edges else None,
        "hrefs": {node.id: f"#{prefix}passage-{node.rank}" for node in graph.nodes if node.rank},
        "graph_note": _graph_note(document, evidence, graph),
        "is_reached": bool(evidence.all_edges() or triples),
        "draws_triples": bool(triples) and not evidence.all_edges(),
        "titles": {row["id"]: row["title"] for row in document["passages"]},
        "where": {row["id"]: location_words(row) for row in document["passages"]},
        "triples": list(shown_triples(triples, document["evidence"].get("paths", ()))),
        "shown_id": shown_id,
        "ranked": _ranked(document),
        "passages": _passage_rows(document, evidence, material),
        "spans": _sources(document, material),
        "has_texts": bool(material.texts) or not document["passages"],
        "other": json.dumps(evidence.data, ensure_ascii=False, indent=1, default=str) if evidence.data else "",
        "material": material,
        "seconds": document.get("seconds", {}),
        "polyhop_version": VERSION,
    }


def shorten(text: str) -> str:
    """A title as a page shows it: the beginning of one that would fill screens."""
    return text if len(text) <= SHOWN_TITLE else f"{text[:SHOWN_TITLE]}…"


def marked(
    text: str, spans: Sequence[tuple[int, int]], names: Sequence[tuple[int, int]] = ()
) -> list[tuple[str, bool, bool]]:
    """The text in pieces, each with whether it is in one of the spans and in one of the names; both may overlap."""
    changes: dict[int, list[int]] = {0: [0, 0], len(text): [0, 0]}
    for kind, some in enumerate((spans, names)):
        for start, end in some:
            if max(start, 0) < min(end, len(text)):
                changes.setdefault(max(start, 0), [0, 0])[kind] += 1
                changes.setdefault(min(end, len(text)), [0, 0])[kind] -= 1
    pieces, depths = [], [0, 0]
    for start, end in pairwise(sorted(changes)):
        depths = [depth + change for depth, change in zip(depths, changes[start], strict=True)]
        pieces.append((text[start:end], depths[0] > 0, depths[1] > 0))
    return pieces


def _sentences(document: Mapping[str, Any], reading: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The sentences that a short answer was read from, or that are shown instead of one, with the guess marked."""
    stated = [value["sentence"] for value in reading.get("values", ())]
    if (document["answer"] and stated) or reading["citations"]:
        return []  # they say it
    given = document["evidence"].get("sentences", ())
    guess = "" if document["answer"] else document.get("guess", "")
    found = []
    for sentence in given:
        at = sentence["text"].find(guess) if guess else -1
        pieces = marked(sentence["text"], [(at, at + len(guess))] if at >= 0 else [])
        if sentence not in stated:
            found.append({"pieces": pieces, **{name: sentence[name] for name in ("passage_id", "text")}})
    return found


def _graph_note(document: Mapping[str, Any], evidence: Evidence, graph: EvidenceGraph) -> str:
    """Sentences about the drawing: its content if that is not what the strategy reached, and omitted nodes."""
    strategy, is_reached, triples = document["strategy"], bool(evidence.all_edges()), document.get("triples")
    notes = []
    if not graph.edges:
        notes.append(
            f"Strategy '{strategy}' returns no graph to draw; the {_ranked(document)} below are a plain ranking."
        )
    elif triples and not is_reached:
        notes.append("The drawing shows the ranked triples; it starts at entities that no triple points to.")
    elif not is_reached:
        if not (evidence.seeds or evidence.nodes or evidence.names):
            notes.append(f"Strategy '{strategy}' ranks without a graph; the drawing adds shared entities.")
        notes.append(
            "Each passage is attached to the rarest entity that it shares with the question or with an earlier passage."
        )
    draws_passages = is_reached or not triples
    left_out = graph.left_out + (max(0, len(document["passages"]) - DRAWN_PASSAGES) if draws_passages else 0)
    if graph.edges and left_out:
        notes.append(f"Not drawn: {left_out} weaker nodes.")
    beyond = evidence.node_count - len(evidence.nodes)
    if beyond > 0:
        notes.append(
            f"The search reached {plural(beyond, 'more entity', 'more entities')}, which the evidence does not list."
        )
    return " ".join(notes)


def _cited(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All sentences that an answer cites: {passage_id, text, start?, end?}."""
    reading = document.get("reading") or {}
    sentences = [*document["evidence"].get("sentences", ())]
    sentences += [value["sentence"] for value in reading.get("values", ()) if value.get("sentence")]
    return sentences + [{**one, "text": one["quote"]} for one in reading.get("citations", ()) if one.get("quote")]


def _sources(document: Mapping[str, Any], material: PageMaterial) -> dict[tuple[str, str], tuple[int, int]]:
    """Offsets of the cited sentences in their passages, by passage and text."""
    found = {}
    for one in _cited(document):
        for span in _spans(material.texts.get(one["passage_id"], ""), [one]):
            found[one["passage_id"], one["text"]] = span
    return found


def _passage_rows(document: Mapping[str, Any], evidence: Evidence, material: PageMaterial) -> list[dict[str, Any]]:
    """Passages with their texts in marked and unmarked pieces, and a bar of their score."""
    sentences = _cited(document)
    best = max([float(row["score"]) for row in document["passages"]], default=0.0)
    longest_first = sorted(map(re.escape, material.names[:MARKED_NAMES]), key=len, reverse=True)
    named = re.compile(rf"(?<!\w)(?:{'|'.join(longest_first)})(?!\w)" if longest_first else r"(?!)", re.IGNORECASE)
    weight_of = {node.key: node.weight or 0.0 for node in evidence.nodes}
    rows = []
    for row in document["passages"]:
        text = material.texts.get(row["id"], "")
        known = [key for key in material.mentions.get(row["id"], ()) if key in weight_of]
        cited = [sentence for sentence in sentences if sentence["passage_id"] == row["id"]]
        share = round(100 * max(0.0, float(row["score"])) / best, 1) if best > 0 else 0.0
        reached = sorted(known, key=lambda key: (-weight_of[key], key))
        pieces = marked(text, _spans(text, cited), [found.span() for found in named.finditer(text)])
        parts = evidence.score_parts.get(row["id"], {})
        shown = [(name, value, _PARTS.get(name, "")) for name, value in parts.items()]
        rows.append({**row, "pieces": pieces, "share": share, "reached": reached, "parts": shown})
    return rows


def _spans(text: str, sentences: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Offsets of sentences in their passage: the stored ones if they are right, otherwise found by text."""
    spans = []
    for sentence in sentences:
        words, start, end = sentence["text"], sentence.get("start"), sentence.get("end")
        if isinstance(start, int) and isinstance(end, int) and text[start:end] == words:
            spans.append((start, end))
        elif words and words in text:
            spans.append((text.index(words), text.index(words) + len(words)))
    return spans


def _ranked(document: Mapping[str, Any]) -> str:
    return "triples" if document.get("triples") and not document["passages"] else "passages"


def material_of(session: IndexSession, document: Mapping[str, Any], parameters: Mapping[str, object]) -> PageMaterial:
    """Texts and mentions of an answer's passages, from the version that gave it; parameters with defaults."""
    index = session.index
    ids = [str(row["id"]) for row in document["passages"]]
    numbers = [index.number_of_passage[passage_id] for passage_id in ids]
    texts = passage_texts(index, document["passages"])
    parameters = all_parameters(document, parameters)
    question_names = [mention.surface for mention in index.artefact(artefacts.NAMES).find(str(document["question"]))]
    nodes = evidence_of(document["evidence"]).nodes
    material = PageMaterial(index.name, session.encoder_model, parameters, texts, names=question_names)
    if not nodes or "graph" not in index.artefacts:
        return material
    graph = index.artefact(artefacts.GRAPH)
    reached = frozenset(node.key for node in nodes if node.kind != "proposition") & graph.number_of.keys()
    mentions = {}
    for passage_id, number in zip(ids, numbers, strict=True):
        entities = graph.indices[graph.indptr[number] : graph.indptr[number + 1]].tolist()
        mentions[passage_id] = [graph.keys[entity] for entity in entities if graph.keys[entity] in reached]
    relations = _relations(index, reached) if "graph:relations" in index.artefacts else []
    return replace(material, mentions=mentions, relations=relations)


def _relations(index: IndexReader, reached: Set[str]) -> list[Triple]:
    """Relations between reached entities, in the order of their keys."""
    number_of = {key: index.artefact(artefacts.GRAPH).number_of[key] for key in sorted(reached)}
    relations = index.artefact(artefacts.RELATIONS)
    found = []
    for key, source in number_of.items():
        near = set(relations.indices[relations.indptr[source] : relations.indptr[source + 1]].tolist())
        for other, target in number_of.items():
            if target in near:
                found += [(key, label, other) for label in relations.labels_from(source, target)]
    return found


PAGE = "the page"  # what is written, for messages


def all_parameters(document: Mapping[str, Any], given: Mapping[str, object]) -> dict[str, object]:
    """The strategy's parameters with those given instead of their defaults."""
    return parse_parameters(spec_of(str(document["strategy"])), given).model_dump()


def write_page(path: Path, document: Mapping[str, Any], material: PageMaterial) -> None:
    """Writes the page, whole or not at all; what is not a character (half a surrogate pair) becomes a question mark."""
    page = answer_page(document, material)
    with named_file(path, PAGE, HTML) as target:
        target.write_bytes(page.encode("utf-8", errors="replace"))


def write_stored_page(path: Path, document: Mapping[str, Any], settings: Settings) -> None:
    """The page of a stored answer; without texts if its version was deleted."""
    write_page(path, document, stored_material(document, settings))


def stored_material(document: Mapping[str, Any], settings: Settings) -> PageMaterial:
    """Data of the page of a stored answer; without texts if its version was deleted."""
    name, given = str(document["index"]), document.get("parameters") or {}
    try:
        published = open_published(settings.root, name, int(document["version"]))
    except (UnknownIndexError, UnknownIdError):
        return PageMaterial(name, None, all_parameters(document, given))
    where = (document.get("filter") or {}).get("where")
    with closing(IndexSession(published, settings)) as session:
        return material_of(session.where(where), document, given)
