"""The stages from a corpus to a published version, as data.

Order is all that this module decides; how stages are run is index.py's business.
"""

from collections.abc import Collection

from tasks.embeddings.stage import ANN, EMBED
from tasks.extraction.stage import EXTRACT
from tasks.graph.stage import GRAPH, RELATIONS
from tasks.lexical.stage import LEXICAL
from tasks.resolution.stage import RESOLVE
from tasks.stage import Stage


def stages_for(artefacts: Collection[str]) -> list[Stage]:
    """The stages behind ingestion that build these artefacts, in order."""
    return [
        EXTRACT,
        RESOLVE,
        *([GRAPH] if "graph" in artefacts else []),
        *([RELATIONS] if "graph:relations" in artefacts else []),
        *(stage for name, stage in sorted(LEXICAL.items()) if f"lexical:{name}" in artefacts),
        *(stage for name, stage in sorted(EMBED.items()) if f"vectors:{name}" in artefacts),
        *(stage for name, stage in sorted(ANN.items()) if f"ann:{name}" in artefacts),
    ]
