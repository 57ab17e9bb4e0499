"""What became of a job whose file had gold: its answers judged like those of an evaluation.

Asks nothing again; apart from answer.py, so that submitting pays for no metrics.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from polyhop.schemas.questions import TripleIds
from polyhop.schemas.queue import QuestionState, ResultRow
from polyhop.schemas.statements import NamedTriple
from polyhop.tasks.evaluation.golden_triples import find_golden
from polyhop.tasks.evaluation.report import RETRIEVAL_METRICS, GoldQuestion, Outcome, evaluate
from polyhop.tasks.evaluation.triple_metrics import TRIPLE_METRICS
from polyhop.warehouse.files.golden_triples import golden_triples
from polyhop.warehouse.files.records import FaultError


def job_metrics(rows: Iterator[ResultRow]) -> dict[str, Any] | None:
    """Metrics of a job whose file had answers, supporting passages or golden triples; None if it had none of them.

    Depths beyond the job's limit were not looked at and are None, like whatever has no gold. Golden triples are looked
    for among those that the question's answer ranks: the index may be gone.
    """
    gold, outcomes = [], []
    limits: set[int] = set()
    records: dict[str, str] = {}
    for row in rows:
        records |= {p["id"]: p["record"] for p in _passages(row) if "record" in p}
        limits |= {value for value in (row.result.get("limit"),) if isinstance(value, int)}
        gold.append(_gold(row))
        outcomes.append(_outcome(row))
    if not any(map(_has_gold, gold)):
        return None
    outcomes = _without_unranked_triples(outcomes)
    report = evaluate(gold, {"job": outcomes}, lambda passage_id: records.get(passage_id, passage_id))
    metrics: dict[str, Any] = report["strategies"]["job"]
    beyond = _beyond(metrics, min(limits)) if limits else set()
    long_answers = {name: report[name] for name in ("long_answers",) if name in report}
    return {"n": report["n"], **metrics, **dict.fromkeys(beyond), **long_answers}


def _has_gold(question: GoldQuestion) -> bool:
    return bool(question.answers or question.supporting or question.triples)


def _without_unranked_triples(outcomes: list[Outcome]) -> list[Outcome]:
    """The outcomes, without triples if no answer ranks any: the job's strategy ranks none."""
    if any(outcome.triples is not None and outcome.error is None for outcome in outcomes):
        return outcomes
    return [replace(outcome, triples=None) for outcome in outcomes]


def _beyond(metrics: Mapping[str, Any], limit: int) -> set[str]:
    """The metrics that look deeper than a limit (recall@10 of five passages)."""
    ranked = [name for name in (*RETRIEVAL_METRICS, *TRIPLE_METRICS) if name in metrics]
    return {name for name in ranked if int(name.partition("@")[2] or 0) > limit}


def _gold(row: ResultRow) -> GoldQuestion:
    try:
        golden = golden_triples(row.metadata)
    except FaultError:  # a field of that name with something else in it: metadata, like any other
        golden = ()
    ids = find_golden(golden, _triples(row))
    triples = frozenset(ids.get(triple, triple) for triple in golden)
    return GoldQuestion(row.question_id, tuple(row.answers), frozenset(row.supporting), triples=triples)


def _triples(row: ResultRow) -> list[NamedTriple]:
    """The triples that an answer ranks."""
    found = row.result.get("triples", [])
    return [
        NamedTriple(t["subject"]["id"], t["subject"]["name"], t["predicate"], t["object"]["id"], t["object"]["name"])
        for t in (found if isinstance(found, list) else [])
    ]


def _ranked_triples(row: ResultRow) -> tuple[TripleIds, ...] | None:
    return tuple(triple.ids for triple in _triples(row)) if "triples" in row.result else None


def _outcome(row: ResultRow) -> Outcome:
    if row.state is not QuestionState.DONE:
        return Outcome(error=row.error or row.state.value, triples=())
    if row.damage is not None and row.damage.is_of_answer:
        return Outcome(error=row.damage.fault, triples=())
    reading: Any = row.result.get("reading") or {}
    usage, parts = reading.get("usage") or {}, row.result.get("seconds")
    return Outcome(
        ranking=tuple(passage["id"] for passage in _passages(row)),
        answer=row.answer,
        seconds=row.seconds,
        confidence=None if reading.get("kind") == "generated" else reading.get("confidence"),
        kind=reading.get("kind", ""),
        parts=parts if isinstance(parts, dict) else {},
        prompt_tokens=usage.get("prompt_tokens", 0),
        completion_tokens=usage.get("completion_tokens", 0),
        cost_usd=usage.get("cost_usd", 0.0),
        triples=_ranked_triples(row),
    )


def _passages(row: ResultRow) -> list[dict[str, str]]:
    passages = row.result.get("passages", [])
    return passages if isinstance(passages, list) else []
