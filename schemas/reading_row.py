"""A Reading as the JSON contract of answers has it.

Decides nothing: what was read, by whom and for how much is in the Reading. Source: architecture.md 9.
"""

import dataclasses
from typing import Any

from polyhop.schemas.chat import Usage
from polyhop.schemas.query import UNREAD, Citation, ModelUse, Reading


def reading_row(reading: Reading, naming: ModelUse | None = None) -> dict[str, Any]:
    """The reading in plain values.

    `usage` is what the reply took when it was made, `spent` what this answer took, names of the question included: 0
    calls if both were paid for before. `parts` lists the questions to the model where there were several. `fallback`
    says why a model was asked in vain and rules read instead.
    """
    use = reading.use
    usage = use.usage if use else Usage()
    spent = (use.spent if use else Usage()) + (naming.spent if naming else Usage())
    return {
        "by": {"generated": "model", "span": "model", UNREAD: "none"}.get(reading.kind, "rules"),
        "kind": reading.kind,
        "confidence": round(reading.confidence, 4),
        "rule": reading.rule,
        "values": [dataclasses.asdict(value) for value in reading.values],
        "model": use.model if use else None,
        "prompt": {"name": use.prompt, "hash": use.prompt_hash} if use and use.prompt else None,
        "cached": use.is_cached if use else False,
        "rung": use.rung if use else "",
        "usage": _usage_row(usage),
        "spent": _usage_row(spent),
        "reasoning": reading.reasoning,
        "citations": [_citation_row(citation) for citation in reading.citations],
        "dropped_citations": reading.dropped_citations,
        "fallback": _failure_row(use),
        "naming": _naming_row(naming),
        **({"parts": [_part_row(part) for part in use.parts]} if use and use.parts else {}),
    }


def _usage_row(usage: Usage) -> dict[str, Any]:
    return dataclasses.asdict(usage)


def _part_row(part: ModelUse) -> dict[str, Any]:
    """One of several questions to the model."""
    return {
        "prompt": {"name": part.prompt, "hash": part.prompt_hash},
        "cached": part.is_cached,
        "usage": _usage_row(part.usage),
        "fallback": _failure_row(part),
    }


def _citation_row(citation: Citation) -> dict[str, Any]:
    """A cited passage; of a cited hub also its id, name and number."""
    sentence = citation.sentence
    hub = {"hub_id": citation.hub_id, "name": citation.name, "number": citation.number} if citation.hub_id else {}
    return {
        "passage_id": citation.passage_id,
        "quote": sentence.text if sentence else "",
        "start": sentence.start if sentence else None,
        "end": sentence.end if sentence else None,
        **hub,
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
