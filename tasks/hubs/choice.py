"""What the settings say hubs are and where their search starts, looked up among the nodes of a graph.

Searches nothing (levels.py does). Source: algorithms.md 4.3, 4.7.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import duckdb
import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.corpus import SourceKind
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.hub_settings import DOCUMENT, HubMode, HubSettings
from polyhop.tasks.hubs.definition import hub_rules, nodes_beside, splits
from polyhop.tasks.hubs.flat import NamedGraph
from polyhop.tasks.hubs.read import numbered, texts_of


@dataclass(frozen=True, slots=True)
class HubRule:
    """What makes a node a hub: `mode` is not "auto", and there are types if it needs them."""

    mode: HubMode
    types: tuple[str, ...]
    min_edges: int

    @classmethod
    def of(cls, settings: HubSettings, kind: SourceKind) -> "HubRule":
        """The rule that the settings mean for a source.

        Raises:
            ConfigurationError: If a setting needs another one.
        """
        types = settings.types or _usual_types(settings, kind)
        mode: HubMode = settings.mode
        if mode == "auto":
            mode = "types" if types else "edges"
        if mode != "edges" and not types:
            raise ConfigurationError(
                f"hubs.mode = {mode} needs the types of hubs; name them in hubs.types, or set hubs.mode = edges."
            )
        if settings.split and settings.max_path_length == 0:
            raise ConfigurationError(
                "hubs.split needs a length at which paths end; set hubs.max_path_length, or leave hubs.split out."
            )
        return cls(mode, types if mode != "edges" else (), settings.min_edges)


def _usual_types(settings: HubSettings, kind: SourceKind) -> tuple[str, ...]:
    """The types of hubs if the settings name none: the documents of a corpus, unless edges alone make hubs."""
    return (DOCUMENT,) if kind == "corpus" and settings.mode != "edges" else ()


def find_hubs(
    connection: duckdb.DuckDBPyConnection, named: NamedGraph, rule: HubRule, *, must_exist: bool
) -> NDArray[np.uint8]:
    """The rules by which each node is a hub, shape (n,); see `hub_rules`.

    Args:
        connection: With the numbered nodes.
        named: The graph.
        rule: What makes a node a hub.
        must_exist: Whether a type that no node has is refused.

    Raises:
        ConfigurationError: If no node has one of the types.
    """
    typed: set[int] = set()
    for entry in rule.types:
        found = _typed(connection, named, entry)
        if must_exist and not found:
            raise _unknown(connection, "hubs.types", entry, "no node is of that type")
        typed |= found
    return hub_rules(named.graph, sorted(typed), rule.mode, rule.min_edges)


def find_starts(connection: duckdb.DuckDBPyConnection, starts: Sequence[str]) -> list[int] | None:
    """Nodes by id or type, in the order of the settings, each once; None without any: all hubs.

    Raises:
        ConfigurationError: If one is neither an id nor a type of a node.
    """
    if not starts:
        return None
    nodes: dict[int, None] = {}
    by_id = {own_id: node for node, own_id in numbered(connection, "nodes_of_ids", {"ids": list(starts)})}
    for start in starts:
        found = [by_id[start]] if start in by_id else _of_type(connection, start)
        if not found:
            raise _unknown(connection, "hubs.start", start, "no node has that id or type")
        nodes |= dict.fromkeys(found)
    return list(nodes)


def hub_type_names(connection: duckdb.DuckDBPyConnection, rule: HubRule) -> list[str]:
    """The types and labels that hubs were chosen by; if by their edges, the types that they have.

    The table `hubs` is filled.
    """
    if not rule.types:
        return texts_of(connection, "types_of_hubs")
    known = set(texts_of(connection, "known_types"))
    names = {entry for entry in rule.types if entry in known}
    return sorted(names | {label for entry in rule.types if entry not in known for _, label in splits(entry)})


def _typed(connection: duckdb.DuckDBPyConnection, named: NamedGraph, entry: str) -> set[int]:
    """Nodes of a type, or beside a label over a predicate."""
    found = set(_of_type(connection, entry))
    pairs = [(predicate, label) for predicate, label in splits(entry) if predicate in named.predicates]
    if not pairs:
        return found
    labelled: dict[str, list[int]] = {}
    for node, label in numbered(connection, "nodes_of_labels", {"labels": [label for _, label in pairs]}):
        labelled.setdefault(label, []).append(node)
    for predicate, label in pairs:
        found.update(nodes_beside(named.graph, named.predicates.index(predicate), labelled.get(label, [])).tolist())
    return found


def _of_type(connection: duckdb.DuckDBPyConnection, name: str) -> list[int]:
    return [node for node, _ in numbered(connection, "nodes_of_types", {"types": [name]})]


def _unknown(connection: duckdb.DuckDBPyConnection, setting: str, entry: str, why: str) -> ConfigurationError:
    known = texts_of(connection, "known_types")
    return ConfigurationError(f"{setting} names '{entry}', but {why}; {_advice(entry, known)}.")


def _advice(entry: str, known: Collection[str]) -> str:
    near = get_close_matches(entry, known, n=1)
    if near:
        return f"did you mean '{near[0]}'?".removesuffix("?")
    listed = ", ".join(sorted(known)[:10])
    return f"types are {listed}{', …' if len(known) > 10 else ''}" if known else "its nodes have no types"
