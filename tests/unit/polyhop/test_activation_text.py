"""Spread activation on a terminal."""

from typing import Any

from polyhop.activation import activation_lines


def _entity(key: str, activation: float) -> dict[str, Any]:
    return {"key": key, "name": key.upper(), "activation": activation}


def _evidence() -> dict[str, Any]:
    hop = [{"relation": "r", "forward": True}]
    return {
        "seeds": [
            {"key": "a", "name": "A", "match": "exact", "score": 1.0, "activation": 1.0},
            {"key": "b", "name": "B", "match": "vector", "score": 0.5, "activation": 0.5},
        ],
        "entities": [_entity("a", 1.0), _entity("b", 0.5), _entity("c", 0.4), _entity("z", 0.1)],
        "chains": [
            {
                "keys": ["a", "c", "d"],
                "names": ["A", "C", "D"],
                "hops": [hop, hop],
                "score": 0.25,
                "text": "A -\n C - D",
            }
        ],
        "activations": {"a": 1.0, "b": 0.5, "c": 0.4, "d": 0.3, "z": 0.1},
        "activated": 12,
        "is_cut": True,
    }


def test_seeds_entities_by_distance_and_chains_are_lines() -> None:
    assert activation_lines(_evidence()) == [
        "Activation begins at",
        "  1.000  A  (exact)",
        "  0.500  B  (vector, likeness 0.500)",
        "Activated entities  (12 in all; these by their distance from a seed)",
        "  seeds   A 1.000 · B 0.500",
        "  1 hop   C 0.400",
        "  2 hops  D 0.300",
        "  others  Z 0.100",
        "Chains",
        "  0.250  A - C - D",
        "  the search stopped at max_paths_enumerated, so stronger chains may exist",
    ]


def test_many_entities_are_wrapped_under_each_other() -> None:
    evidence = _evidence()
    names = [f"name{n:02d}" for n in range(40)]
    evidence["entities"] += [_entity(name, 0.05) for name in names]
    evidence["activations"] |= dict.fromkeys(names, 0.05)
    lines = activation_lines(evidence)
    assert max(map(len, lines)) <= 118
    assert all(any(name.upper() in line for line in lines) for name in names)
    assert any(line.startswith(" " * 10 + "NAME") for line in lines)


def test_nothing_activated_says_so() -> None:
    empty = {"seeds": [], "entities": [], "chains": [], "activations": {}, "activated": 0, "is_cut": False}
    assert activation_lines(empty) == ["Activation begins nowhere: no entity is like the question"]
