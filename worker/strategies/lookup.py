"""Names of a question to the entities that bear them: by name or as an alias, never by similarity.

Finds no names (worker/questions does) and searches no vectors (engines do). Source: algorithms.md 1.5 step 2a.
"""

from polyhop.schemas.names import name_tokens
from polyhop.schemas.ports import IndexReader
from polyhop.schemas.query import QuestionName
from polyhop.schemas.spreading import Match
from polyhop.schemas.text import norm_ws
from polyhop.warehouse.artefacts import ALIASES, EXACT_NAMES, GRAPH


class NameLookup:
    """Entities by key (folded, docs/decisions/0002) and by `norm_ws` name, else by a name merged into theirs."""

    def __init__(self, reader: IndexReader) -> None:
        self._reader = reader

    def find(self, name: QuestionName) -> tuple[Match, tuple[int, ...]]:
        """How the name was found and the entities of that name, ascending; "vector" and none if nobody has it."""
        number_of = self._reader.artefact(GRAPH).number_of
        folded = " ".join(name_tokens(name.key))
        exact = set(self._reader.artefact(EXACT_NAMES).get(norm_ws(name.key), ()))
        if folded in number_of:
            exact.add(number_of[folded])
        if exact:
            return "exact", tuple(sorted(exact))
        merged = number_of.get(self._reader.artefact(ALIASES).get(folded, folded))
        return ("vector", ()) if merged is None else ("alias", (merged,))
