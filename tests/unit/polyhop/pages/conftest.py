"""Answers as documents, small enough to draw by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from polyhop.pages.answer_page import PageMaterial

Document = dict[str, Any]


def qasa_document() -> Document:
    """Ada -born in-> London -lies on-> Thames <-rises at- Thames Head, and England, which no chain reaches."""
    return {
        "question": "Which river flows through the birthplace of Ada Lovelace?",
        "answer": "River Thames",
        "strategy": "qasa",
        "version": 3,
        "passages": [
            {"id": "p1", "title": "Ada Lovelace", "score": 1.0, "rank": 1},
            {"id": "p2", "title": "London", "score": 0.6, "rank": 2},
        ],
        "evidence": _activation(),
        "reading": {"kind": "extracted", "confidence": 0.42, "values": []},
        "seconds": {"encoding": 0.004, "seed": 0.001},
    }


def _activation() -> Document:
    ada, london, thames, head = "ada lovelace", "london", "river thames", "thames head"
    return {
        "question_entities": {"matched": [ada], "unmatched": []},
        "seeds": [{"key": ada, "name": "Ada Lovelace", "match": "exact", "score": 1.0, "activation": 1.0}],
        "entities": [
            {
                "key": ada,
                "name": "Ada Lovelace",
                "type": "PERSON",
                "description": "A poet's child.",
                "activation": 1.0,
            },
            {"key": london, "name": "London", "type": "", "description": "", "activation": 0.6},
            {"key": "england", "name": "England", "type": "", "description": "", "activation": 0.1},
        ],
        "chains": [
            {
                "keys": [ada, london, thames],
                "names": ["Ada Lovelace", "London", "River Thames"],
                "hops": [_hop("born in"), _hop("lies on")],
                "score": 0.7,
                "text": "Ada Lovelace --[born in]--> London --[lies on]--> River Thames",
            },
            {
                "keys": [london, thames, head],
                "names": ["London", "River Thames", "Thames Head"],
                "hops": [_hop("lies on", "near"), _hop("rises at", forward=False)],
                "score": 0.3,
                "text": "London --[lies on | near]--> River Thames <--[rises at]-- Thames Head",
            },
        ],
        "activations": {ada: 1.0, "england": 0.1, london: 0.6, thames: 0.4, head: 0.2},
        "activated": 9,
        "is_cut": False,
        "context": "",
        "fallback": "none",
        "links": [],
        "sentences": [{"passage_id": "p2", "text": "It lies on the River Thames.", "start": 8, "end": 36}],
    }


def bridge_document() -> Document:
    """The question reaches p1, p1 reaches p2 and p3 through one entity, p4 hangs nowhere."""
    titles = {"p1": "Rosetta", "p2": "Giotto", "p3": "Cassini", "p4": "Moss"}
    return {
        "question": "Which probe?",
        "answer": "",
        "strategy": "bridge",
        "version": 1,
        "passages": [
            {"id": name, "title": title, "score": 2.0 - rank / 2, "rank": rank}
            for rank, (name, title) in enumerate(titles.items(), start=1)
        ],
        "evidence": {
            "question_entities": {"matched": ["esa"], "unmatched": []},
            "seeds": {"passages": {"p1": 0.9, "p4": 0.1}, "entities": {"esa": 0.5}},
            "n_e": 1,
            "n_d": 2,
            "fallback": "none",
            "links": [
                {"source": "question", "via": "esa", "target": "p1", "weight": 2.0},
                {"source": "p1", "via": "agency", "target": "p2", "weight": 1.0},
                {"source": "p1", "via": "agency", "target": "p3", "weight": 1.0},
            ],
            "sentences": [],
        },
        "reading": {"kind": "none", "confidence": 0.0, "values": []},
        "seconds": {},
    }


def _hop(*relations: str, forward: bool = True) -> list[dict[str, Any]]:
    return [{"relation": relation, "forward": forward} for relation in relations]


@pytest.fixture
def qasa_answer() -> Document:
    return qasa_document()


@pytest.fixture
def bridge_answer() -> Document:
    return bridge_document()


@pytest.fixture
def make_material() -> Callable[..., PageMaterial]:
    """Material of a page; whatever is not given is empty."""

    def make(**given: Any) -> PageMaterial:
        return PageMaterial(**{"index": "tiny", "encoder": None, "parameters": {}, **given})

    return make
