"""An evidence graph as shapes with positions and sizes, ready for a template to write as SVG.

Decides how things look, not what is shown (graph.py) nor the order of nodes (layout.py). Lengths are pixels.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import sqrt
from unicodedata import east_asian_width

from polyhop.pages.graph import Edge as GraphEdge
from polyhop.pages.graph import EvidenceGraph, Node

_NARROW, _BROAD = frozenset(" !'(),.:;I[]fijlrt|"), frozenset("%@MWmw—…")


def text_width(text: str) -> float:
    """About how wide a text is, in widths of a plain letter."""
    return sum(_letter_width(letter) for letter in text)


def clipped(text: str, width: float) -> str:
    """One line of at most this width (in plain letters); what is cut shows as an ellipsis."""
    line = " ".join(text.split())
    if text_width(line) <= width:
        return line
    return line[: _fitting(line, width - _letter_width("…"))].rstrip() + "…"


def wrapped(text: str, width: float, most: int) -> tuple[tuple[str, ...], bool]:
    """The text in lines of at most this width (in plain letters), broken at spaces where there are any.

    Args:
        text: Any text.
        width: In plain letters.
        most: Lines at most; the last one ends with an ellipsis if there is more.

    Returns:
        At least one line, and whether something was cut.
    """
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


def _fitting(text: str, width: float) -> int:
    """How many letters of the text fit into this width."""
    room, count = width, 0
    while count < len(text) and _letter_width(text[count]) <= room:
        room -= _letter_width(text[count])
        count += 1
    return count


def _letter_width(letter: str) -> float:
    if letter in _NARROW:
        return 0.6
    if east_asian_width(letter) in "WF":
        return 1.8
    return 1.5 if letter in _BROAD else 1.15 if letter.isupper() else 1.0


# Source: layered drawing (Sugiyama et al. 1981), the order inside a column by the middle of neighbours, heights by
# pool adjacent violators.

SWEEPS = 6  # over the columns, three in each direction; chosen: any number gives a drawing, more may save a crossing

Edge = tuple[str, str]


def distances(edges: Iterable[Edge], roots: Mapping[str, int]) -> dict[str, int]:
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


def heights(columns: Sequence[Sequence[str]], edges: Sequence[Edge], gap: float) -> dict[str, float]:
    """The height of every node in its column.

    Args:
        columns: Nodes by column; the order in a column decides between nodes that nothing else distinguishes.
        edges: Between these nodes.
        gap: Least distance between two nodes of a column.

    Returns:
        0 or more; nodes of a column are at least `gap` apart, and near the middle of their neighbours.
    Cost: O(sweeps * (edges + nodes log nodes)).
    """
    neighbours = _neighbours(edges)
    column_of = {node: number for number, column in enumerate(columns) for node in column}
    outer = {
        node: [other for other in neighbours[node] if column_of[other] != number] for node, number in column_of.items()
    }
    height = _centred(columns, gap)
    for sweep in range(SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            _settle(column, outer, height, gap)
    lowest = min(height.values(), default=0.0)
    return {node: round(value - lowest, 2) for node, value in height.items()}


def _centred(columns: Sequence[Sequence[str]], gap: float) -> dict[str, float]:
    """Heights with every column's middle at that of the tallest one."""
    tallest = max((len(column) for column in columns), default=0)
    return {
        node: (place + (tallest - len(column)) / 2) * gap for column in columns for place, node in enumerate(column)
    }


def _settle(column: Sequence[str], outer: Mapping[str, Sequence[str]], height: dict[str, float], gap: float) -> None:
    """Moves the nodes of a column to the middle of their neighbours in other columns, as near as the gap allows."""
    wanted = {node: _middle([height[other] for other in outer[node]], height[node]) for node in column}
    order = sorted(column, key=lambda node: (wanted[node], height[node]))
    height.update(zip(order, spread_out([wanted[node] for node in order], gap), strict=True))


def spread_out(wanted: Sequence[float], gap: float) -> list[float]:
    """Values at least `gap` apart, in the same order, as near as can be (least squares) to the wanted ones.

    Args:
        wanted: In ascending order.
        gap: At least 0.
    Source: isotonic regression by pool adjacent violators. Cost: O(n).
    """
    blocks: list[tuple[float, int]] = []
    for place, value in enumerate(wanted):
        total, count = value - place * gap, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            before, members = blocks.pop()
            total, count = total + before, count + members
        blocks.append((total, count))
    level = [total / count for total, count in blocks for _ in range(count)]
    return [value + place * gap for place, value in enumerate(level)]


def _neighbours(edges: Iterable[Edge]) -> Mapping[str, list[str]]:
    """Both ways, in the order of the edges."""
    found: dict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        found[source].append(target)
        found[target].append(source)
    return found


def _middle(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


SHEET = 1112.0
"""Width that a page has without scrolling; columns share it as far as they can."""
ROW, LINE, MARGIN = 34.0, 15.0, 14.0
"""Height of a node of one line with the space around it, of each further line, and of the sheet's edge."""
NAME_LINES = 3
"""Lines that a name may take; what is longer is cut, and is in full below the drawing."""
# least and most pixels of nodes and between columns, which share SHEET; chosen
NODE_WIDTHS, GAPS = (176.0, 250.0), (106.0, 190.0)
NAME_PIXELS, LABEL_PIXELS = 7.5, 6.4
"""Width of a plain letter in a name and in a label, in a wide font."""
_SMALLEST, _GROWTH = 3.5, 5.0  # pixels; chosen: the weakest mark is still seen, the strongest fits its row


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A node on the sheet: `x`, `y` are the middle of its left side; `radius` grows with its weight.

    Attributes:
        lines: Its name (of a passage, after its rank) in lines.
        is_cut: Whether the name continues after the last line.
    """

    node: Node
    x: float
    y: float
    radius: float
    lines: tuple[str, ...]
    is_cut: bool

    @property
    def height(self) -> float:
        """Of its box."""
        return ROW - 10 + LINE * (len(self.lines) - 1)

    @property
    def strength(self) -> float:
        """Opacity of its mark, 0.25 to 1."""
        return round(0.25 + 0.75 * (self.radius - _SMALLEST) / _GROWTH, 3)


@dataclass(frozen=True, slots=True)
class Line:
    """A connection as an SVG path, its short label (if there is room) with its place, and all that it says."""

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
    relations: tuple[Line, ...]
    mentions: tuple[Line, ...]

    @property
    def cut_names(self) -> tuple[str, ...]:
        """Names that are cut in the drawing, in full."""
        return tuple(dict.fromkeys(shape.node.name for shape in self.nodes if shape.is_cut))


@dataclass(frozen=True, slots=True)
class _Sheet:
    """Widths of nodes and of the gaps between their columns."""

    node_width: float
    gap: float


def draw(graph: EvidenceGraph) -> Drawing:
    """The graph in columns from left to right, by distance from where the search began."""
    columns = _columns(graph)
    sheet = _sheet(len(columns))
    node_of = {node.id: node for node in graph.nodes}
    names = {node.id: _name_lines(node, sheet) for node in graph.nodes}
    row = ROW + LINE * (max([len(lines) for lines, _ in names.values()], default=1) - 1)
    height = heights(columns, [(edge.source, edge.target) for edge in graph.edges], row)
    strongest = {
        is_passage: max([node.weight for node in graph.nodes if (node.kind == "passage") == is_passage], default=0.0)
        for is_passage in (True, False)
    }
    shapes = {}
    for number, column in enumerate(columns):
        x = MARGIN + number * (sheet.node_width + sheet.gap)
        for name in column:
            node = node_of[name]
            radius = _radius(node, strongest[node.kind == "passage"])
            shapes[name] = NodeShape(node, x, MARGIN + row / 2 + height[name], radius, *names[name])
    relations, mentions = _lines(graph.edges, shapes, sheet)
    return Drawing(
        width=2 * MARGIN + len(columns) * (sheet.node_width + sheet.gap) - sheet.gap,
        height=2 * MARGIN + max(height.values(), default=0.0) + row,
        node_width=sheet.node_width,
        nodes=tuple(shapes.values()),
        relations=tuple(relations),
        mentions=tuple(mentions),
    )


def _sheet(columns: int) -> _Sheet:
    """Widths that fill the sheet; with many columns it grows beyond."""
    count = max(2, columns)
    node_width = max(NODE_WIDTHS[0], min(NODE_WIDTHS[1], 0.58 * SHEET / count))
    gap = (SHEET - 2 * MARGIN - count * node_width) / (count - 1)
    return _Sheet(int(node_width), int(max(GAPS[0], min(GAPS[1], gap))))


def _columns(graph: EvidenceGraph) -> list[list[str]]:
    """Nodes by distance from the roots; beside entities, passages have a column of their own, the last one."""
    entities = [node.id for node in graph.nodes if node.kind == "entity"]
    inner = set(entities) or {node.id for node in graph.nodes}
    column_of = distances(_edges_among(inner, graph.edges), graph.roots)
    last = max([column_of.get(name, 1) for name in inner], default=0) + 1
    for node in graph.nodes:
        column_of.setdefault(node.id, 1 if node.id in inner else last)
    names = sorted((node.id for node in graph.nodes), key=column_of.__getitem__)
    return [list(column) for _, column in groupby(names, key=column_of.__getitem__)]


def _edges_among(names: Collection[str], edges: Iterable[GraphEdge]) -> list[tuple[str, str]]:
    return [(edge.source, edge.target) for edge in edges if edge.source in names and edge.target in names]


def _name_lines(node: Node, sheet: _Sheet) -> tuple[tuple[str, ...], bool]:
    text = f"{node.rank} {node.name}" if node.rank else node.name
    return wrapped(text, (sheet.node_width - 36) / NAME_PIXELS, NAME_LINES)


def _radius(node: Node, strongest: float) -> float:
    share = min(1.0, node.weight / strongest) if strongest > 0 else 0.0
    return round(_SMALLEST + _GROWTH * sqrt(share), 2)


def _lines(edges: Iterable[GraphEdge], shapes: Mapping[str, NodeShape], sheet: _Sheet) -> tuple[list[Line], list[Line]]:
    """Labelled relations, then mentions. A label that would lie on another one is left out; arcs come last."""
    relations, mentions = [], []
    labels: list[Line] = []
    for edge in sorted(edges, key=lambda edge: shapes[edge.source].x == shapes[edge.target].x):
        left, right = shapes[edge.source], shapes[edge.target]
        forward, backward = edge.forward, edge.backward
        if (right.x, right.y) < (left.x, left.y):
            left, right, forward, backward = right, left, backward, forward
        path = _path(left, right, sheet)
        if not forward and not backward:
            mentions.append(Line(path, f"{right.node.name} mentions {left.node.name}"))
            continue
        if edge.is_shared:
            title = f"{left.node.name} and {right.node.name} share {(*forward, *backward)[0]}"
        else:
            title = _sentence(left.node, right.node, forward, backward)
        label = _label(forward, backward, _arrows(edge, left, right), (sheet.gap - 12) / LABEL_PIXELS)
        line = Line(path, title, label, *_label_spot(left, right, sheet))
        if any(_overlap(line, other) for other in labels):
            line = Line(path, title)
        labels += [line] if line.label else []
        relations.append(line)
    return relations, mentions


def _overlap(one: Line, other: Line) -> bool:
    """Whether two labels would lie on each other."""
    return abs(one.y - other.y) < 11 and max(_span(one)[0], _span(other)[0]) < min(_span(one)[1], _span(other)[1])


def _span(line: Line) -> tuple[float, float]:
    width = text_width(line.label) * LABEL_PIXELS
    return (line.x - width, line.x) if line.anchor == "end" else (line.x, line.x + width)


def _path(left: NodeShape, right: NodeShape, sheet: _Sheet) -> str:
    """A curve from the right side of one to the left side of the other; within a column, an arc beside it."""
    start, end = left.x + sheet.node_width, right.x
    if left.x == right.x:
        bend = start + _bulge(left, right)
        return f"M{start:.1f} {left.y:.1f}C{bend:.1f} {left.y:.1f} {bend:.1f} {right.y:.1f} {start:.1f} {right.y:.1f}"
    middle = (start + end) / 2
    return f"M{start:.1f} {left.y:.1f}C{middle:.1f} {left.y:.1f} {middle:.1f} {right.y:.1f} {end:.1f} {right.y:.1f}"


def _label_spot(left: NodeShape, right: NodeShape, sheet: _Sheet) -> tuple[float, float, str]:
    """Before its target, above the line; beside its arc within a column."""
    if left.x == right.x:
        x = left.x + sheet.node_width + 0.75 * _bulge(left, right) + 3
        return round(x, 1), round((left.y + right.y) / 2 + 3, 1), "start"
    return round(right.x - 5, 1), round(right.y - 4, 1), "end"


def _bulge(left: NodeShape, right: NodeShape) -> float:
    return 14 + 5 * sqrt(abs(right.y - left.y) / ROW)


def _arrows(edge: GraphEdge, left: NodeShape, right: NodeShape) -> tuple[str, str]:
    """What is before and after a label to show where its relation points."""
    if edge.is_shared:
        return "", ""
    return ("↑ ", " ↓") if left.x == right.x else ("← ", " →")


def _label(forward: Sequence[str], backward: Sequence[str], arrows: tuple[str, str], width: float) -> str:
    """The first label with an arrow that shows where the relation points, and how many more there are."""
    more = len(forward) + len(backward) - 1
    count = f" +{more}" if more else ""
    before, after = ("", arrows[1]) if forward else (arrows[0], "")
    room = width - text_width(before + count + after)
    return before + clipped((*forward, *backward)[0], room) + count + after


def _sentence(left: Node, right: Node, forward: Sequence[str], backward: Sequence[str]) -> str:
    lines = [f"{left.name} — {label} → {right.name}" for label in forward]
    lines += [f"{right.name} — {label} → {left.name}" for label in backward]
    return "\n".join(lines)
