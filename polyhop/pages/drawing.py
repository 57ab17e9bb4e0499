"""The graph of an answer's evidence: entities and passages, how strong each is, what connects them, and its drawing.

Everything comes from the stored evidence, so that an answer can be redrawn later. Paths and edges tie what was reached;
without any, the passages are attached to what they share. The drawing is shapes with positions and sizes in pixels,
ready for a template to write as SVG. Source: layered drawing (Sugiyama et al. 1981), the order inside a column by the
middle of neighbours.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import sqrt
from typing import Any
from unicodedata import east_asian_width

from polyhop.schemas.evidence import Evidence, Node, evidence_of, shown_id

QUESTION = "question"
DRAWN_NODES = 60  # chosen: still readable in a browser's window; the page says how many are left out
DRAWN_PASSAGES = 10  # as many as a question asks for by default; the page says how many are left out
Triple = tuple[str, str, str]  # key of the source, label, key of the target
DRAWN_MENTIONS = 2  # A passage is tied to so many of its strongest entities; it owes its rank to them


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """An entity, a passage or the question: an id unique in the graph, what people read, strength (from 0), a note."""

    id: str
    kind: str
    name: str
    weight: float
    note: str = ""
    is_seed: bool = False
    rank: int = 0


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """Connection of two nodes: labels of relations in both directions; without labels the target mentions the source.

    `is_shared`: the label is an entity that both share, which points nowhere.
    """

    source: str
    target: str
    forward: tuple[str, ...] = ()
    backward: tuple[str, ...] = ()
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class EvidenceGraph:
    """Nodes (the strongest), edges between them, the column of those where it begins, how many nodes were left out."""

    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]
    roots: Mapping[str, int]
    left_out: int

    @property
    def has_question(self) -> bool:
        """Returns whether a node is attached to the question itself."""
        return QUESTION in self.roots


def evidence_graph(
    document: Mapping[str, Any], mentions: Mapping[str, Sequence[str]], relations: Iterable[Triple]
) -> EvidenceGraph:
    """The graph of an answer: of what its strategy reached if that is connected, else of the triples that it ranks."""
    evidence = evidence_of(document["evidence"])
    if evidence.all_edges():
        return _reached(document, evidence, mentions, relations)
    if document.get("triples"):
        return _of_triples(document["triples"])
    return _linked(document, evidence)


def _paired(relations: Iterable[Triple]) -> list[DrawnEdge]:
    """An edge per pair of entities with its labels in both directions; the first relation says which end is first."""
    labels: dict[tuple[str, str], tuple[dict[str, None], dict[str, None]]] = {}
    for source, label, target in relations:
        is_turned = (target, source) in labels
        pair = (target, source) if is_turned else (source, target)
        labels.setdefault(pair, ({}, {}))[int(is_turned)].setdefault(label)
    return [DrawnEdge(*pair, tuple(there), tuple(back)) for pair, (there, back) in labels.items()]


def _reached(
    document: Mapping[str, Any], evidence: Evidence, mentions: Mapping[str, Sequence[str]], relations: Iterable[Triple]
) -> EvidenceGraph:
    """Entities of the evidence and those that only its paths name, its edges, and relations that tie the others."""
    seeds = {seed.key for seed in evidence.seeds}
    known = {node.key: node for node in evidence.nodes}
    for path in evidence.paths:
        for key, name in zip(path.nodes, path.names, strict=False):
            known.setdefault(key, Node(key, name))
    nodes = [
        DrawnNode(_entity(node.key), "entity", node.name, node.weight or 0.0, node.type, node.key in seeds)
        for node in known.values()
    ]
    edges = [DrawnEdge(edge.source, edge.target, edge.forward, edge.backward) for edge in evidence.all_edges()]
    joined = {end for edge in edges for end in (edge.source, edge.target)}
    edges += _paired(one for one in relations if one[0] not in joined or one[2] not in joined)
    edges = [DrawnEdge(_entity(edge.source), _entity(edge.target), edge.forward, edge.backward) for edge in edges]
    # a passage is tied to the strongest of the entities that it mentions, as far as they are nodes
    passages = _passages(document, evidence)
    strength = {node.id: node.weight for node in nodes}
    for passage in passages:
        keys = (*mentions.get(passage.note, ()), *evidence.stated.get(passage.note, ()))
        mentioned = [_entity(key) for key in keys if _entity(key) in strength]
        mentioned.sort(key=lambda entity: (-strength[entity], entity))
        edges += [DrawnEdge(entity, passage.id) for entity in mentioned[:DRAWN_MENTIONS]]
    roots = {node.id: 0 for node in nodes if node.is_seed}
    roots = roots or {_entity(path.nodes[0]): 0 for path in evidence.paths if path.nodes}
    return _strongest([*passages, *nodes], edges, roots)


def _of_triples(triples: Sequence[Mapping[str, Any]]) -> EvidenceGraph:
    """Subjects and objects, each as strong as the best triple that it is in; it begins where no triple leads to."""
    nodes: dict[str, DrawnNode] = {}
    relations: list[Triple] = []
    for triple in triples:
        ends = [triple["subject"], triple["object"]]
        source, target = (_entity(end["id"]) for end in ends)
        for name, end in zip((source, target), ends, strict=True):
            score = max(0.0, float(triple["score"]))
            nodes.setdefault(name, DrawnNode(name, "entity", end["name"] or end["id"], score, shown_id(end)))
        if source != target:
            relations.append((source, triple["predicate"], target))
    entered = {_entity(triple["object"]["id"]) for triple in triples}
    begins = [node for node in nodes if node not in entered] or list(nodes)[:1]
    return _strongest(list(nodes.values()), _paired(relations), dict.fromkeys(begins, 0))


def _linked(document: Mapping[str, Any], evidence: Evidence) -> EvidenceGraph:
    """Graph of the first passages: an edge per link between two of them, labelled with what they share."""
    passages = _passages(document, evidence)
    node_ids = {passage.note: passage.id for passage in passages} | {QUESTION: QUESTION}
    edges = [
        DrawnEdge(node_ids[link["source"]], node_ids[link["target"]], (link["via"],), is_shared=True)
        for link in document["evidence"].get("links", ())
        if link["source"] in node_ids and link["target"] in node_ids
    ]
    asked = (
        [DrawnNode(QUESTION, QUESTION, "the question", 1.0)] if any(edge.source == QUESTION for edge in edges) else []
    )
    reached = {edge.target for edge in edges}
    roots = {node.id: 0 for node in asked} | {node.id: len(asked) for node in passages if node.id not in reached}
    return _strongest([*asked, *passages], edges, roots)


def _passages(document: Mapping[str, Any], evidence: Evidence) -> list[DrawnNode]:
    """The first passages; the note of each is its id."""
    begun, nodes = evidence.seed_weights("passage"), []
    for row in document["passages"][:DRAWN_PASSAGES]:
        key, weight = row["id"], max(0.0, float(row["score"]))
        nodes.append(
            DrawnNode(f"passage {key}", "passage", row["title"] or key, weight, key, key in begun, row["rank"])
        )
    return nodes


def _strongest(nodes: Sequence[DrawnNode], edges: Iterable[DrawnEdge], roots: Mapping[str, int]) -> EvidenceGraph:
    """The question, then seeds, passages and entities by weight, as many as can be drawn."""
    order = {QUESTION: 0, "passage": 2, "entity": 3}

    def importance(node: DrawnNode) -> tuple[int, float, str]:
        return (1 if node.is_seed else order[node.kind]), -node.weight, node.id

    kept = sorted(nodes, key=importance)[:DRAWN_NODES]
    names = {node.id for node in kept}
    tied = tuple(edge for edge in edges if edge.source in names and edge.target in names)
    begins = {name: column for name, column in roots.items() if name in names}
    return EvidenceGraph(tuple(kept), tied, begins, left_out=len(nodes) - len(kept))


def _entity(key: str) -> str:
    return f"entity {key}"


SWEEPS = 6  # over the columns, three in each direction; chosen: any number gives a drawing, more may save a crossing
SHEET = 1112.0  # width that a page has without scrolling; columns share it as far as they can
ROW, LINE, MARGIN = 34.0, 15.0, 14.0
"""Height of a node of one line with the space around it, of each further line, and of the sheet's edge."""
NAME_LINES = 3  # lines that a name may take; what is longer is cut, and is in full below the drawing
# least and most pixels of nodes and between columns, which share SHEET; chosen
NODE_WIDTHS, GAPS = (176.0, 250.0), (106.0, 190.0)
NAME_PIXELS, LABEL_PIXELS = 7.5, 6.4  # width of a plain letter in a name and in a label, in a wide font
_SMALLEST, _GROWTH = 3.5, 5.0  # pixels; chosen: the weakest mark is still seen, the strongest fits its row
_WIDTHS = (0.6, 1.8, 1.5, 1.15, 1.0)  # of narrow, East Asian, broad, capital and plain letters
_NARROW, _BROAD = frozenset(" !'(),.:;I[]fijlrt|"), frozenset("%@MWmw—…")


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A node on the sheet: `x`, `y` are the middle of its left side; `radius` grows with its weight.

    Its name (of a passage, after its rank) is in lines; `is_cut` if it continues after the last one.
    """

    node: DrawnNode
    x: float
    y: float
    radius: float
    lines: tuple[str, ...]
    is_cut: bool

    @property
    def height(self) -> float:
        """Height of the box."""
        return ROW - 10 + LINE * (len(self.lines) - 1)

    @property
    def strength(self) -> float:
        """Opacity of its mark, 0.25 to 1."""
        return round(0.25 + 0.75 * (self.radius - _SMALLEST) / _GROWTH, 3)


@dataclass(frozen=True, slots=True)
class EdgePath:
    """A connection as an SVG path, its short label (if there is room) with its position, and its full label."""

    path: str
    title: str
    label: str = ""
    x: float = 0.0
    y: float = 0.0
    anchor: str = "end"


@dataclass(frozen=True, slots=True)
class Drawing:
    """Shapes on a sheet of this size."""

    width: float
    height: float
    node_width: float
    nodes: tuple[NodeShape, ...]
    relations: tuple[EdgePath, ...]
    mentions: tuple[EdgePath, ...]

    @property
    def cut_names(self) -> tuple[str, ...]:
        """Names that are cut in the drawing, in full."""
        return tuple(dict.fromkeys(shape.node.name for shape in self.nodes if shape.is_cut))


def draw(graph: EvidenceGraph) -> Drawing:
    """The graph in columns from left to right, by distance from where the search began."""
    # by distance from the roots; next to entities, passages have their own column, the last one
    entities = [node.id for node in graph.nodes if node.kind == "entity"]
    inner: Collection[str] = set(entities) or {node.id for node in graph.nodes}
    among = [(edge.source, edge.target) for edge in graph.edges if edge.source in inner and edge.target in inner]
    column_of = distances(among, graph.roots)
    last = max([column_of.get(name, 1) for name in inner], default=0) + 1
    for node in graph.nodes:
        column_of.setdefault(node.id, 1 if node.id in inner else last)
    ordered = sorted((node.id for node in graph.nodes), key=column_of.__getitem__)
    columns = [list(column) for _, column in groupby(ordered, key=column_of.__getitem__)]
    # widths that fill the sheet; with many columns it grows beyond
    count = max(2, len(columns))
    node_width = int(max(NODE_WIDTHS[0], min(NODE_WIDTHS[1], 0.58 * SHEET / count)))
    gap = int(max(GAPS[0], min(GAPS[1], (SHEET - 2 * MARGIN - count * node_width) / (count - 1))))
    names = {
        node.id: wrapped(f"{node.rank or ''} {node.name}", (node_width - 36) / NAME_PIXELS, NAME_LINES)
        for node in graph.nodes
    }
    row = ROW + LINE * (max([len(lines) for lines, _ in names.values()], default=1) - 1)
    height = heights(columns, [(edge.source, edge.target) for edge in graph.edges], row)
    node_of = {node.id: node for node in graph.nodes}
    strongest: dict[bool, float] = defaultdict(float)  # of passages, and of the others
    for node in graph.nodes:
        strongest[node.kind == "passage"] = max(node.weight, strongest[node.kind == "passage"])
    shapes = {}
    for number, column in enumerate(columns):
        for name in column:
            node = node_of[name]
            most = strongest[node.kind == "passage"]
            radius = round(_SMALLEST + _GROWTH * sqrt(min(1.0, node.weight / most) if most > 0 else 0.0), 2)
            x, y = MARGIN + number * (node_width + gap), MARGIN + row / 2 + height[name]
            shapes[name] = NodeShape(node, x, y, radius, *names[name])
    relations, mentions = _lines(graph.edges, shapes, node_width, gap)
    width = 2 * MARGIN + len(columns) * (node_width + gap) - gap
    whole = 2 * MARGIN + max(height.values(), default=0.0) + row
    return Drawing(width, whole, node_width, tuple(shapes.values()), tuple(relations), tuple(mentions))


def distances(edges: Iterable[tuple[str, str]], roots: Mapping[str, int]) -> dict[str, int]:
    """Fewest edges from a root to each node that is reached, whichever way edges point."""
    neighbours = _neighbours(edges)
    found = dict(sorted(roots.items(), key=lambda root: root[1]))
    waiting = deque(found)
    while waiting:
        node = waiting.popleft()
        for other in neighbours[node]:
            if other not in found:
                found[other] = found[node] + 1
                waiting.append(other)
    return found


def heights(columns: Sequence[Sequence[str]], edges: Sequence[tuple[str, str]], gap: float) -> dict[str, float]:
    """The height of every node, 0 or more: columns are centred, ordered by the middle of their neighbours.

    The order in a column decides between nodes that nothing else distinguishes.
    Cost: O(sweeps * (edges + nodes log nodes)).
    """
    neighbours = _neighbours(edges)
    column_of = {node: number for number, column in enumerate(columns) for node in column}
    tallest = max((len(column) for column in columns), default=0)
    orders = [list(column) for column in columns]
    height: dict[str, float] = {}
    for sweep in range(-1, SWEEPS):
        for column in orders if sweep % 2 == 0 else reversed(orders):
            if sweep >= 0:  # before, all have to have a height
                wanted = {}
                for node in column:
                    near = [height[other] for other in neighbours[node] if column_of[other] != column_of[node]]
                    wanted[node] = sum(near) / len(near) if near else height[node]
                column.sort(key=lambda node: (wanted[node], height[node]))
            height |= {node: (row + (tallest - len(column)) / 2) * gap for row, node in enumerate(column)}
    lowest = min(height.values(), default=0.0)
    return {node: round(value - lowest, 2) for node, value in height.items()}


def _neighbours(edges: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    """Both ways, in the order of the edges."""
    found: dict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        found[source].append(target)
        found[target].append(source)
    return found


def _lines(
    edges: Iterable[DrawnEdge], shapes: Mapping[str, NodeShape], node_width: float, gap: float
) -> tuple[list[EdgePath], list[EdgePath]]:
    """Labelled relations, then mentions; arcs come last. Of several labels in one spot the first is shown."""
    relations, mentions = [], []
    taken: set[tuple[float, float]] = set()
    for edge in sorted(edges, key=lambda edge: shapes[edge.source].x == shapes[edge.target].x):
        left, right = shapes[edge.source], shapes[edge.target]
        forward, backward = edge.forward, edge.backward
        if (right.x, right.y) < (left.x, left.y):
            left, right, forward, backward = right, left, backward, forward
        start, end = left.x + node_width, right.x
        is_arc = left.x == right.x
        if is_arc:  # beside the column, its label too
            bulge = 14 + 5 * sqrt(abs(right.y - left.y) / ROW)
            bend, end = start + bulge, start
            spot, anchor = (round(start + 0.75 * bulge + 3, 1), round((left.y + right.y) / 2 + 3, 1)), "start"
        else:  # from side to side, the label before its target, above the line
            bend = (start + end) / 2
            spot, anchor = (round(right.x - 5, 1), round(right.y - 4, 1)), "end"
        path = f"M{start:.1f} {left.y:.1f}C{bend:.1f} {left.y:.1f} {bend:.1f} {right.y:.1f} {end:.1f} {right.y:.1f}"
        if not forward and not backward:
            mentions.append(EdgePath(path, f"{right.node.name} mentions {left.node.name}"))
            continue
        if edge.is_shared:
            title = f"{left.node.name} and {right.node.name} share {(*forward, *backward)[0]}"
        else:
            said = [f"{left.node.name} — {label} → {right.node.name}" for label in forward]
            said += [f"{right.node.name} — {label} → {left.node.name}" for label in backward]
            title = "\n".join(said)
        if spot in taken:
            relations.append(EdgePath(path, title))
            continue
        taken.add(spot)
        # the first label with an arrow that shows where the relation points, and how many more there are
        more = len(forward) + len(backward) - 1
        before = "" if forward or edge.is_shared else "↑ " if is_arc else "← "
        after = (f" +{more}" if more else "") + ("" if edge.is_shared or not forward else " ↓" if is_arc else " →")
        room = (gap - 12) / LABEL_PIXELS - text_width(before + after)
        relations.append(EdgePath(path, title, before + clipped((*forward, *backward)[0], room) + after, *spot, anchor))
    return relations, mentions


def wrapped(text: str, width: float, most: int) -> tuple[tuple[str, ...], bool]:
    """The text in at most `most` lines of this width (in plain letters), broken at spaces; whether it was cut."""
    lines: list[str] = []
    rest = " ".join(text.split())
    while rest and len(lines) < most - 1 and text_width(rest) > width:
        end = _fitting(rest, width)
        space = rest.rfind(" ", 0, end + 1)
        end = space if space > 0 else max(1, end)
        lines.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    last = clipped(rest, width)
    return (*lines, last), last != rest


def clipped(text: str, width: float) -> str:
    """One line of at most this width (in plain letters); what is cut shows as an ellipsis."""
    line = " ".join(text.split())
    return line if text_width(line) <= width else line[: _fitting(line, width - text_width("…"))].rstrip() + "…"


def _fitting(text: str, width: float) -> int:
    """Number of characters of the text that fit into this width."""
    count = 0
    while count < len(text) and (width := width - text_width(text[count])) >= 0:
        count += 1
    return count


def text_width(text: str) -> float:
    """About how wide a text is, in widths of a plain letter."""
    total = 0.0
    for letter in text:
        kinds = (letter in _NARROW, east_asian_width(letter) in "WF", letter in _BROAD, letter.isupper(), True)
        total += _WIDTHS[kinds.index(True)]
    return total
