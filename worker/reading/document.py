"""A Reading as the part `reading` of an answer's JSON: who read it, with which prompt, for how much, from where.

Stores nothing. An answer without a model has the same fields.
"""

import dataclasses
from typing import Any

from schemas.chat import Usage
from schemas.query import Citation, ModelUse, Reading


def reading_row(reading: Reading, naming: ModelUse | None = None) -> dict[str, Any]:
    """The reading in plain values.

    `usage` is what the reply took when it was made, `spent` what this answer took, names of the question included: 0
    calls if both were paid for before. `fallback` says why a model was asked in vain and rules read instead.
    """
    use = reading.use
    usage = use.usage if use else Usage()
    spent = (use.spent if use else Usage()) + (naming.spent if naming else Usage())
    return {
        "by": "model" if reading.kind == "generated" else "rules",
        "kind": reading.kind,
        "confidence": round(reading.confidence, 4),
        "rule": reading.rule,
        "values": [dataclasses.asdict(value) for value in reading.values],
        "model": use.model if use else None,
        "prompt": {"name": use.prompt, "hash": use.prompt_hash} if use else None,
        "cached": use.is_cached if use else False,
        "rung": use.rung if use else "",
        "usage": _usage_row(usage),
        "spent": _usage_row(spent),
        "reasoning": reading.reasoning,
        "citations": [_citation_row(citation) for citation in reading.citations],
        "dropped_citations": reading.dropped_citations,
        "fallback": _failure_row(use),
        "naming": _naming_row(naming),
    }


def _usage_row(usage: Usage) -> dict[str, Any]:
    return dataclasses.asdict(usage)


def _citation_row(citation: Citation) -> dict[str, Any]:
    sentence = citation.sentence
    return {
        "passage_id": citation.passage_id,
        "quote": sentence.text if sentence else "",
        "start": sentence.start if sentence else None,
        "end": sentence.end if sentence else None,
    }


def _failure_row(use: ModelUse | None) -> dict[str, str] | None:
    return {"error_class": use.error_class, "error": use.error} if use and use.error_class else None


def _naming_row(use: ModelUse | None) -> dict[str, Any] | None:
    if use is None:
        return None
    return {
        "model": use.model,
        "prompt": {"name": use.prompt, "hash": use.prompt_hash},
        "cached": use.is_cached,
        "usage": _usage_row(use.usage),
        "fallback": _failure_row(use),
    }
