"""Names of a question to the entities that bear them: by name or as an alias, never by similarity.

Finds no names (worker/questions does) and searches no vectors (engines do). Source: algorithms.md 1.5 step 2a.
"""

from collections.abc import Callable, Collection

from polyhop.schemas.names import name_tokens
from polyhop.schemas.ports import IndexReader
from polyhop.schemas.query import QuestionName
from polyhop.schemas.spreading import Match
from polyhop.schemas.text import norm_ws
from polyhop.warehouse.artefacts import ALIASES, EXACT_NAMES, GRAPH


class NameLookup:
    """Entities by key (folded, docs/decisions/0002) and by `norm_ws` name, else by a name merged into theirs."""

    def __init__(self, reader: IndexReader, find_exact: Callable[[str, str], Collection[int]] | None = None) -> None:
        """Takes the index, and what finds entities by folded and `norm_ws` name in its place."""
        self._reader = reader
        self._find_exact = find_exact or self._in_index

    def find(self, name: QuestionName) -> tuple[Match, tuple[int, ...]]:
        """How the name was found and the entities of that name, ascending; "vector" and none if nobody has it."""
        number_of = self._reader.artefact(GRAPH).number_of
        folded = " ".join(name_tokens(name.key))
        exact = self._find_exact(folded, norm_ws(name.key))
        if exact:
            return "exact", tuple(sorted(exact))
        merged = number_of.get(self._reader.artefact(ALIASES).get(folded, folded))
        return ("vector", ()) if merged is None else ("alias", (merged,))

    def _in_index(self, folded: str, name: str) -> set[int]:
        found = set(self._reader.artefact(EXACT_NAMES).get(name, ()))
        number = self._reader.artefact(GRAPH).number_of.get(folded)
        return found if number is None else found | {number}
