"""Names of the strategies and the artefacts that each one reads.

Here, because an index is built for strategies by flows that may not know the worker. How a strategy ranks is the
worker's business; a test keeps both lists equal.
"""

from collections.abc import Iterable, Mapping

from schemas.errors import UnknownStrategyError

_SPRIG = frozenset({"graph", "lexical:plain"})

NEEDS: Mapping[str, frozenset[str]] = {
    "bridge": frozenset({"graph", "lexical:stems", "vectors:passage"}),
    "bridge-lexical": frozenset({"graph", "lexical:stems"}),
    "bm25": frozenset({"lexical:plain"}),
    "bm25-rm3": frozenset({"lexical:plain"}),
    "bm25-2step": _SPRIG,
    "bm25-ce": frozenset({"lexical:plain"}),
    "dense": frozenset({"vectors:passage"}),
    "dense-ann": frozenset({"vectors:passage", "ann:passage"}),
    "rrf": frozenset({"lexical:plain", "vectors:passage"}),
    "rrf-ce": frozenset({"lexical:plain", "vectors:passage"}),
    "naive-vector": frozenset({"graph", "vectors:entity"}),
    "qasa": frozenset({"graph", "graph:relations", "vectors:entity"}),
    "graph": _SPRIG,
    "graph-hybrid": _SPRIG,
    "graph-dense": _SPRIG | {"vectors:passage"},
    "graph-rrf": _SPRIG | {"vectors:passage"},
    "rrf-ppr": _SPRIG | {"vectors:passage"},
    "tfidf-graph": frozenset({"lexical:plain"}),
    "graph-search": frozenset({"graph", "graph:relations"}),
    "fusion": frozenset({"graph", "graph:relations", "vectors:passage"}),
}
DEFAULT_STRATEGY = "bridge"


def needed_artefacts(strategies: Iterable[str]) -> frozenset[str]:
    """What an index must hold for these strategies.

    Raises:
        UnknownStrategyError: For a name that is not registered.
    """
    artefacts: frozenset[str] = frozenset()
    for name in strategies:
        if name not in NEEDS:
            raise UnknownStrategyError(name, NEEDS)
        artefacts |= NEEDS[name]
    return artefacts
