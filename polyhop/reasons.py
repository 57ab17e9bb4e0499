"""What led a ranking, as lines for a terminal: what was added to a question, who put passages in order, what stood in.

Ranks nothing: everything is in the evidence of the answer, so that a stored one reads the same.
"""

from collections.abc import Mapping
from typing import Any

_SHOWN = 10
_STAND_INS = {
    "uniform": "the walk began at all passages alike, so the question did not lead it",
    "bm25_top1": "the walk began at BM25's best passage",
    "passages_only": "the walk began at passages only",
    "empty": "nothing was searched",
    "vector": "passages are ranked by likeness alone",
    "question_vector": "activation began at the entities most like the question",
}


def reason_lines(evidence: Mapping[str, Any]) -> list[str]:
    """Lines on what `Question names`, activation and links do not say; empty for a ranking by words or likeness alone.

    Args:
        evidence: Of any strategy.
    """
    lines = []
    terms = evidence.get("question_terms")
    if terms:
        lines.append(f"Question words  in the graph: {_listed(terms['matched'])}; not: {_listed(terms['unmatched'])}")
    feedback = evidence.get("feedback", {})
    for noun, word in (("terms", "Words"), ("entities", "Entities")):
        if noun in feedback:
            weighed = [f"{_plain(name)} {weight:.3f}" for name, weight in feedback[noun].items()]
            lines.append(f"{word} suggested by the first {len(feedback['passages'])} passages  {_listed(weighed)}")
    nearest = evidence.get("nearest_entities")
    if nearest:
        weighed = [f"{_plain(name)} {cosine:.3f}" for name, cosine in list(nearest.items())[:_SHOWN]]
        lines.append(f"Entities nearest to the question  {_listed(weighed)}")
    if "ce" in evidence:
        who = "a stand-in that reads words (ce: lexical)" if evidence["ce"] == "lexical" else f"ce: {evidence['ce']}"
        lines.append(f"Put in order  the first {evidence['reranked']}, by {who}")
    stand_in = _STAND_INS.get(evidence.get("fallback", "none"))
    if stand_in:
        lines.append(f"No name of the question is an entity here: {stand_in}")
    return lines


def _listed(names: list[str]) -> str:
    return ", ".join(_plain(name) for name in names) or "none"


def _plain(text: str) -> str:
    return " ".join(text.split())
