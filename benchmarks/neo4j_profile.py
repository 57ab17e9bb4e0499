"""Where the retrieval query spends its work on Neo4j: db hits and rows by operator, over all questions (PROFILE).

The version must have been exported before (polyhop export neo4j); the server is that of NEO4J_URI and NEO4J_PASSWORD.
Run: uv run python benchmarks/neo4j_profile.py ROOT INDEX QUESTIONS [STEPS]   (default 3)
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from neo4j import GraphDatabase
from neo4j_latency import spread_questions

from polyhop.warehouse.artefacts import GRAPH
from polyhop.warehouse.graph.neo4j_server import vector_index
from polyhop.warehouse.graph.neo4j_store import question_values, rule_values
from polyhop.warehouse.open import find_address, open_published
from polyhop.warehouse.statements import activation_query
from polyhop.worker.strategies.qasa import QasaParameters, rules_of

SHOWN = 16


def main() -> None:
    """Prints two Markdown tables: operators by db hits, and operators by rows."""
    root, name, file = sys.argv[1:4]
    rules = rules_of(QasaParameters(steps=int(sys.argv[4]) if len(sys.argv) > 4 else 3))
    index = open_published(Path(root), name)
    questions = spread_questions(root, index, Path(file))
    address = find_address(None, None, None)
    query = "PROFILE " + activation_query(rules.spread.steps, rules.chains.max_length)
    hits: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(questions))
    rows: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(questions))
    with (
        GraphDatabase.driver(address.uri, auth=(address.user, address.password)) as driver,
        driver.session(database=address.database, default_access_mode="READ") as session,
    ):
        for number, question in enumerate(questions):
            values = {
                **question_values(question, index.artefact(GRAPH).keys),
                **rule_values(len(question.names), rules.seeds, rules.spread, rules.chains),
                "index": name,
                "vector_index": vector_index(name),
            }
            profile: Any = session.run(query, values).consume().profile
            for operator in operators(profile):
                hits[_title(operator)][number] += operator["args"].get("DbHits", 0)
                rows[_title(operator)][number] += operator["args"].get("Rows", 0)
    index.close()
    totals = np.sum(list(hits.values()), axis=0)
    low, high = np.percentile(totals, [50, 95])
    print(f"{name}, T={rules.spread.steps}, {len(questions)} questions: db hits p50 {low:,.0f}, p95 {high:,.0f}")
    _print_table("db hits", hits)
    _print_table("rows", rows)


def operators(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A plan and all below it."""
    yield plan
    for child in plan.get("children", ()):
        yield from operators(child)


def _title(operator: Mapping[str, Any]) -> str:
    details = " ".join(str(operator["args"].get("Details", "")).split())
    return f"{operator['operatorType'].split('@')[0]}: {details[:90]}".replace("|", "\\|")


def _print_table(what: str, counts: Mapping[str, list[int]]) -> None:
    whole = sum(map(sum, counts.values()))
    print(f"\n| operator | {what} p50 | p95 | share |\n|---|---|---|---|")
    for title, values in sorted(counts.items(), key=lambda item: -sum(item[1]))[:SHOWN]:
        low, high = np.percentile(values, [50, 95])
        print(f"| `{title}` | {low:,.0f} | {high:,.0f} | {sum(values) / whole:.1%} |")


if __name__ == "__main__":
    main()
