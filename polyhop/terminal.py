"""Answers, passages, evidence and evaluations as text and tables, for the terminal and the pages."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from polyhop.schemas.errors import UnknownIdError, UnknownIndexError
from polyhop.schemas.evidence import RERANKED, Evidence, Node, Note, Seed, shown_id
from polyhop.schemas.query import UNREAD
from polyhop.schemas.records import Location
from polyhop.schemas.settings import Settings

if TYPE_CHECKING:
    from polyhop.api import Answer

PREFIX = "triple_"
LEADING = f"{PREFIX}recall@10"
TRIPLES_WITH_INTERVAL = tuple(f"{PREFIX}{name}" for name in ("recall@10", "recall@30", "hit@10", "mrr"))
OF_ANSWERS = ("em", "f1", "containment")
COMPARED = ("recall@2", "recall@5", "recall@10", "mrr", *OF_ANSWERS)
LONGEST_LABELS = 60  # characters; chosen: leaves the other columns of a run room on one line; the JSON has all labels

_SHOWN_CHARACTERS = 100
"""What fits a wide terminal next to rank and score; chosen. Of names in triples, too: values may be whole abstracts."""


def passage_lines(
    passages: Sequence[Mapping[str, Any]], evidence: Mapping[str, Any], texts: Mapping[str, str]
) -> Iterator[str]:
    """A line for each passage and one for its text, if that is known."""
    if any(before["score"] < after["score"] for before, after in pairwise(passages)):
        order = "ranked to cover the question together; scores are per passage"
        if any(note["label"] == RERANKED for note in evidence.get("notes", ())):
            order = "the first scores are those of the re-ranker, the others those of the strategy"
        yield f"  {order}"
    for passage in passages:
        yield passage_line(passage)
        text = text_line(texts.get(passage["id"], ""))
        if text:
            yield text


def passage_line(passage: Mapping[str, Any]) -> str:
    """Rank, score, title and id, and the location in its file, if known."""
    where = location_words(passage)
    line = f"  {passage['rank']:>3}  {passage['score']:.3f}  {passage['title']}  [{passage['id']}]"
    return f"{line}  {where}" if where else line


def location_words(passage: Mapping[str, Any]) -> str:
    """Location in its file of a passage of the JSON contract: `page 3, Methods`; "" if unknown."""
    location = passage.get("location")
    if not isinstance(location, Mapping):
        return ""
    known = {field.name: location[field.name] for field in fields(Location) if field.name in location}
    return _line(Location(**{**known, "headings": tuple(known.get("headings", ()))}).words())


def text_line(text: str) -> str:
    """Beginning of a text, shown below its passage; "" if it is empty."""
    line = _line(text)
    return f"{'':14}{line[:_SHOWN_CHARACTERS].rstrip()}{'…' if len(line) > _SHOWN_CHARACTERS else ''}" if line else ""


def triple_lines(triples: Sequence[Mapping[str, Any]], paths: Sequence[Mapping[str, Any]] = ()) -> Iterator[str]:
    """A line for each triple of the JSON contract that is shown, with all hops that lead to it."""
    for triple, way in shown_triples(triples, paths):
        yield f"  {triple['rank']:>3}  {triple['score']:.3f}  {way}{triple_words(triple)}"


def shown_triples(
    triples: Sequence[Mapping[str, Any]], paths: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Each ranked triple once with the hops that lead to it, but those that an earlier one has among its hops."""
    ways: dict[tuple[str, str, str], str] = {}
    hops: dict[str, list[tuple[str, str, str]]] = {}
    for path in paths:
        stated = [_stated(edge) for edge in path["edges"]]
        if stated and stated[-1] not in ways:
            ways[stated[-1]] = "".join(_step(path, step) for step in range(len(stated) - 1))
            hops[ways[stated[-1]]] = stated[:-1]
    shown: set[tuple[str, str, str]] = set()
    for triple in triples:
        own = str(triple["subject"]["id"]), str(triple["predicate"]), str(triple["object"]["id"])
        if own not in shown:
            way = ways.get(own, "")
            shown.update((own, *hops.get(way, ())))
            yield triple, way


def _stated(edge: Mapping[str, Any]) -> tuple[str, str, str]:
    """Subject, predicate and object of an edge of the evidence, in their stored direction."""
    if edge["forward"]:
        return edge["source"], edge["forward"][0], edge["target"]
    return edge["target"], edge["backward"][0], edge["source"]


def _step(path: Mapping[str, Any], step: int) -> str:
    """A node of a path and the arrow to the next one."""
    edge = path["edges"][step]
    arrow = f"--[{_line(edge['forward'][0])}]-->" if edge["forward"] else f"<--[{_line(edge['backward'][0])}]--"
    return f"{_end({'id': path['nodes'][step], 'name': path['names'][step]})} {arrow} "


def triple_words(triple: Mapping[str, Any]) -> str:
    """A triple in one line: `Ada Lovelace [p1] --[born in]--> London [t1]`."""
    return f"{_end(triple['subject'])} --[{_line(triple['predicate'])}]--> {_end(triple['object'])}"


def _end(node: Mapping[str, Any]) -> str:
    """A name, cut if it is long, and its id, unless that says no more than the name or Polyhop made it."""
    name, own_id = _line(node["name"]), shown_id(node)
    shown = name[:_SHOWN_CHARACTERS].rstrip() + "…" if len(name) > _SHOWN_CHARACTERS else name
    return f"{shown} [{own_id}]" if own_id else shown


def _line(text: str) -> str:
    return " ".join(str(text).split())


def stored_texts(document: Mapping[str, Any], settings: Settings) -> dict[str, str]:
    """Text by id of a stored answer's passages; empty if its version was deleted."""
    from polyhop.warehouse.index_reader import passage_texts
    from polyhop.warehouse.open import open_published

    try:
        published = open_published(settings.root, str(document["index"]), int(document["version"]))
    except (UnknownIndexError, UnknownIdError):
        return {}
    with closing(published):
        return passage_texts(published, document["passages"])


WIDTH = 118  # characters of a line, so that a terminal of 120 columns never wraps one; chosen
SHOWN = 10  # seeds, and items of a note, that are listed; the others are counted. A terminal shows some 40 lines.
VISIBLE = 0.0005  # smallest weight that three digits show
_INDENT = " " * 10
_GLUE = "\u00a0"


def evidence_lines(evidence: Evidence, titles: Mapping[str, str]) -> list[str]:
    """The evidence in lines; empty for a ranking by words or vectors alone."""
    lines = []
    if names := evidence.names:
        groups = (("matched", names.matched), ("unmatched", names.unmatched))
        listed = "; ".join(f"{kind}: {', '.join(map(_line, some))}" for kind, some in groups if some)
        lines.append(f"Question {'names' if names.noun == 'entities' else names.noun}  {listed or 'none found'}")
    if evidence.fallback:
        lines.append(f"Fallback  {evidence.fallback.text}")
    if evidence.seeds:
        lines.append("The search began at")
    # The strongest; those whose weight would show as 0.000 are only counted.
    shown = [seed for seed in evidence.seeds if seed.weight >= VISIBLE][:SHOWN]
    rest = len(evidence.seeds) - len(shown)
    lines += [_seed(seed, titles) for seed in shown] + ([f"  and {rest} more"] if rest else [])
    lines += _reached(evidence)
    if evidence.paths:
        lines.append("Paths")
    for path in evidence.paths:
        lines.append("  " + ("" if path.score is None else f"{path.score:.3f}  ") + _line(path.text))
    return lines + [_note(note) for note in evidence.notes]


def _seed(seed: Seed, titles: Mapping[str, str]) -> str:
    name = seed.name or (titles.get(seed.key, "") if seed.kind == "passage" else "") or seed.key
    found = [seed.match] if seed.match else []
    if seed.similarity is not None and seed.match != "exact":
        found.append(f"similarity {seed.similarity:.3f}")
    kind = f"{seed.kind} " if seed.kind != "entity" else ""
    return f"  {seed.weight:.3f}  {kind}{_line(name)}" + (f"  ({', '.join(found)})" if found else "")


def _reached(evidence: Evidence) -> list[str]:
    """Reached nodes, a paragraph per distance from a seed, strongest first; unconnected nodes come last."""
    if not evidence.nodes:
        return []
    from polyhop.pages.drawing import distances

    # The nodes by their distance from a seed, None for those that nothing leads to.
    pairs = [(edge.source, edge.target) for edge in evidence.all_edges()]
    walked = distances(pairs, {seed.key: 0 for seed in evidence.seeds if seed.kind != "passage"})
    groups: dict[int | None, list[Node]] = {}
    for node in evidence.nodes:
        hops_away = node.distance if node.distance is not None else walked.get(node.key)
        groups.setdefault(hops_away, []).append(node)
    counted = f"{evidence.node_count} in all" if evidence.node_count > len(evidence.nodes) else f"{len(evidence.nodes)}"
    by = f", by {evidence.measure}" if evidence.measure else ""
    lines = [f"Reached  ({counted}{by})"]
    for distance in sorted(groups, key=lambda hops: (hops is None, hops or 0)):
        words = "others" if distance is None else {0: "seeds", 1: "1 hop"}.get(distance, f"{distance} hops")
        head = f"  {words if len(groups) > 1 or distance is not None else '':<8}"
        nodes = sorted(groups[distance], key=lambda node: -(node.weight or 0.0))
        items = [_line(one.name) + ("" if one.weight is None else f" {one.weight:.3f}") for one in nodes]
        # on as many lines as they need; no item is broken
        whole = f"{_GLUE}· ".join(item.replace(" ", _GLUE) for item in items)
        wrapper = textwrap.TextWrapper(WIDTH, head, _INDENT, break_long_words=False, break_on_hyphens=False)
        lines += [line.replace(_GLUE, " ") for line in wrapper.wrap(whole)]
    return lines


def _note(note: Note) -> str:
    items = [f"{_line(name)} {weight:.3f}" for name, weight in note.items[:SHOWN]]
    rest = len(note.items) - len(items)
    said = [part for part in (_line(note.text), ", ".join([*items, f"{rest} more"] if rest else items)) if part]
    return "  ".join([_line(note.label), *(said or ["none"])])


def silence(answer: "Answer") -> str:
    """Sentence for an answer without a short answer: the reason, and the best guess."""
    if answer.reading.get("kind") == UNREAD:
        return "(reading is disabled; --reader spans or --reader model enables it)"
    if answer.sentences and answer.reading.get("kind") != "generated":
        guess = guess_of(answer)
        best = f"; best guess: {guess}, confidence {answer.reading['confidence']:.2f}" if guess else ""
        return f"No confident short answer{best}. Most relevant sentences:"
    ranked = [name for name in ("triples", "passages") if getattr(answer, name)]
    return f"(none found; read the {' and '.join(ranked)})" if ranked else "(none found)"


def guess_of(answer: "Answer") -> str:
    """The guess shown with the sentences, "" with a short answer."""
    return "" if answer.answer else answer.guess


def certainty(answer: "Answer") -> str:
    """Confidence of an answer: computed from values, possible, or by a model and verified or not."""
    kind, confidence = answer.reading.get("kind"), answer.reading.get("confidence")
    verified = answer.reading.get("verified")  # None in results stored before answers of models were checked
    if answer.answer and kind == "generated" and verified is not None:
        return f"  (by a model, confidence {confidence:.2f})" if verified else "  (by a model, not verified)"
    if not answer.answer or kind not in {"computed", "extracted"}:
        return ""
    return f"  ({'computed' if kind == 'computed' else 'possible'}, confidence {confidence:.2f})"


def stored_table(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[object]]]:
    """Columns and rows of the stored evaluations that can be read, with figures of their best strategy."""
    readable = [row for row in rows if "error" not in row]
    triples = [LEADING] if any(LEADING in one for row in readable for one in row["strategies"].values()) else []
    table: list[list[object]] = []
    for row in readable:
        figures, sample = row["strategies"], row.get("sample")
        best = max(figures, key=lambda name: figures[name]["recall@5"] or figures[name].get(LEADING) or 0.0)
        labels, asked = ",".join(figures), row["questions"]
        if len(labels) > LONGEST_LABELS:
            labels = f"{labels[:LONGEST_LABELS]}… ({len(figures)})"
        if sample is not None and sample["size"] < sample["of"]:
            rest = "the rest, " if sample.get("rest") else ""
            which = "the first" if sample["seed"] is None else f"seed {sample['seed']}"
            asked = f"{asked} ({rest}{row['n']} of {sample['of']}, {which})"
        means = (figures[best].get(name) for name in ("recall@5", *triples, "em"))
        table.append([row["run"], row["started"], row["index"], row["version"], asked, labels, best, *means])
    columns = ["run", "started", "index", "version", "questions", "strategies", "best", "recall@5", *triples, "em"]
    return columns, table


CHANGED = ["strategy", "metric", "before", "after", "change", "95 % interval", "wins/ties/losses", ""]


def changed_rows(changes: Mapping[str, Any]) -> list[list[object]]:
    """A row, as CHANGED heads it, per strategy and metric that changed, in the mean or for some questions."""
    strategies = changes["strategies"]
    rows: list[list[object]] = []
    for strategy, metrics in strategies.items():
        for metric in (*COMPARED, *TRIPLES_WITH_INTERVAL):
            found = metrics.get(metric) or {"difference": None, "paired": None}
            difference = found["paired"] or {"wins": 0, "losses": 0}
            if found["difference"] or difference["wins"] + difference["losses"]:
                line: list[object] = [strategy, metric, found["first"], found["second"], f"{found['difference']:+.3f}"]
                if found["paired"]:
                    line.append(f"[{difference['low']:+.3f}, {difference['high']:+.3f}]")
                    line.append(f"{difference['wins']}/{difference['ties']}/{difference['losses']}")
                    line.append("significant" if difference["significant"] else "")
                rows.append([*line, *[""] * (8 - len(line))])
    return rows
