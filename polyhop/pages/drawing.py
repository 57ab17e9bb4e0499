"""An evidence graph as shapes with places and sizes, ready for a template to write as SVG.

Decides how things look, not what is shown (graph.py) nor the order of nodes (layout.py). Lengths are pixels.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import sqrt

from polyhop.pages.graph import Edge, EvidenceGraph, Node
from polyhop.pages.layout import distances, heights
from polyhop.pages.lettering import clipped, text_width, wrapped

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


def _edges_among(names: Collection[str], edges: Iterable[Edge]) -> list[tuple[str, str]]:
    return [(edge.source, edge.target) for edge in edges if edge.source in names and edge.target in names]


def _name_lines(node: Node, sheet: _Sheet) -> tuple[tuple[str, ...], bool]:
    text = f"{node.rank} {node.name}" if node.rank else node.name
    return wrapped(text, (sheet.node_width - 36) / NAME_PIXELS, NAME_LINES)


def _radius(node: Node, strongest: float) -> float:
    share = min(1.0, node.weight / strongest) if strongest > 0 else 0.0
    return round(_SMALLEST + _GROWTH * sqrt(share), 2)


def _lines(edges: Iterable[Edge], shapes: Mapping[str, NodeShape], sheet: _Sheet) -> tuple[list[Line], list[Line]]:
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


def _arrows(edge: Edge, left: NodeShape, right: NodeShape) -> tuple[str, str]:
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
