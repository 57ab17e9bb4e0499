import random

from polyhop.tasks.resolution.candidates import DisjointSets, clusters_of


def test_overlapping_pairs_make_one_set() -> None:
    sets = DisjointSets(6)
    for a, b in ((1, 2), (4, 3), (3, 2)):
        sets.union(a, b)
    assert sets.groups(range(6)) == [[0], [1, 2, 3, 4], [5]]
    assert {sets.find(item) for item in (1, 2, 3, 4)} == {1}


def test_a_lone_first_name_that_links_everybody_is_left_out() -> None:
    star = [(0, n) for n in range(1, 8)]
    found = clusters_of(8, [*star, (1, 2)], 3)
    assert (found.clusters, found.left_out) == ([[1, 2]], [0])


def test_ties_between_equal_degrees_go_to_the_smaller_number() -> None:
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    found = clusters_of(4, ring, 3)
    assert (found.clusters, found.left_out) == ([[1, 2, 3]], [0])


def test_small_components_beside_a_large_one_lose_nobody() -> None:
    found = clusters_of(9, [(0, n) for n in range(1, 6)] + [(7, 8), (8, 7)], 2)
    assert (found.clusters, found.left_out) == ([[7, 8]], [0])


def test_peeling_equals_the_rule_taken_literally() -> None:
    for seed in range(60):
        chance = random.Random(seed)
        count, limit = chance.randrange(4, 25), chance.randrange(2, 6)
        pairs = [(chance.randrange(count), chance.randrange(count)) for _ in range(chance.randrange(2 * count))]
        pairs = [(a, b) for a, b in pairs if a != b]
        found = clusters_of(count, pairs, limit)
        assert (found.clusters, found.left_out) == literal(count, pairs, limit), seed


def literal(count: int, pairs: list[tuple[int, int]], limit: int) -> tuple[list[list[int]], list[int]]:
    """While a piece is too large, its member with most neighbours in it goes."""
    left_out: list[int] = []
    done: list[list[int]] = []
    waiting = pieces(set(range(count)), pairs)
    while waiting:
        piece = waiting.pop()
        if len(piece) <= limit:
            done.append(sorted(piece))
            continue
        degree = {m: len({a + b - m for a, b in pairs if m in (a, b) and {a, b} <= piece}) for m in piece}
        gone = min(piece, key=lambda m: (-degree[m], m))
        left_out.append(gone)
        waiting += pieces(piece - {gone}, pairs)
    return sorted(piece for piece in done if len(piece) > 1), sorted(left_out)


def pieces(members: set[int], pairs: list[tuple[int, int]]) -> list[set[int]]:
    found: list[set[int]] = [{member} for member in members]
    for a, b in pairs:
        if a in members and b in members:
            touching = [piece for piece in found if a in piece or b in piece]
            found = [piece for piece in found if piece not in touching] + [set().union(*touching)]
    return found
