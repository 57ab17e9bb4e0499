"""The engine of spreading activation that asks a Neo4j server: one query a question, the same results as embedded.

Opens no server. Source: algorithms.md 1.6.
"""

from collections.abc import Sequence
from dataclasses import replace

from polyhop.schemas.ports import SpreadingDatabase
from polyhop.schemas.spreading import Activation, SpreadQuestion
from polyhop.worker.ranking.chains import without_duplicates
from polyhop.worker.strategies.spreading import QasaRules


class Neo4jEngine:
    """Asks the database question by question; drops duplicates as the embedded engine does."""

    def __init__(self, database: SpreadingDatabase, rules: QasaRules) -> None:
        self._database = database
        self._rules = rules

    def activate(self, questions: Sequence[SpreadQuestion]) -> list[Activation]:
        """One Activation per question, in order."""
        return [self._activate(question) for question in questions]

    def _activate(self, question: SpreadQuestion) -> Activation:
        rules = self._rules
        found = self._database.activate(question, rules.seeds, rules.spread, rules.chains)
        by_path = {chain.entities: chain for chain in found.chains}
        kept = without_duplicates(list(by_path))
        return replace(found, chains=tuple(by_path[path] for path in kept[: rules.chains.limit]))
