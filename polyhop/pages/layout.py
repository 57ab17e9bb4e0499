"""Where the nodes of a small graph stand: columns by distance from the roots, few crossings, no overlap.

Pure and deterministic; knows neither evidence nor SVG. Source: layered drawing (Sugiyama et al. 1981), the order
inside a column by the middle of neighbours, heights by pool adjacent violators.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence

SWEEPS = 6  # over the columns, three in each direction; chosen: any number gives a drawing, more may save a crossing

Edge = tuple[str, str]


def distances(edges: Iterable[Edge], roots: Mapping[str, int]) -> dict[str, int]:
    """Fewest edges from a root to each node that is reached, whichever way edges point.

    Args:
        edges: Pairs of nodes.
        roots: Where counting begins, and with what (0 or 1).

    Cost: O(nodes + edges).
    """
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
