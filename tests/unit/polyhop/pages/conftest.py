"""Answers as documents, small enough to draw by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from polyhop.pages.answer_page import PageMaterial
from polyhop.schemas.evidence import Edge, Evidence, Node, Path, QuestionNames, Seed, as_row

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
    lies_on = Edge(london, thames, ("lies on",))
    evidence = Evidence(
        names=QuestionNames((ada,), ()),
        seeds=(Seed("entity", ada, 1.0, "Ada Lovelace", "exact", 1.0),),
        nodes=(
            Node(ada, "Ada Lovelace", 1.0, type="PERSON", description="A poet's child."),
            Node(london, "London", 0.6),
            Node(thames, "River Thames", 0.4),
            Node(head, "Thames Head", 0.2),
            Node("england", "England", 0.1),
        ),
        paths=(
            Path(
                "Ada Lovelace --[born in]--> London --[lies on]--> River Thames",
                (ada, london, thames),
                ("Ada Lovelace", "London", "River Thames"),
                (Edge(ada, london, ("born in",)), lies_on),
                0.7,
            ),
            Path(
                "London --[lies on | near]--> River Thames <--[rises at]-- Thames Head",
                (london, thames, head),
                ("London", "River Thames", "Thames Head"),
                (Edge(london, thames, ("lies on", "near")), Edge(thames, head, (), ("rises at",))),
                0.3,
            ),
        ),
        measure="activation",
        node_count=9,
    )
    sentences = [{"passage_id": "p2", "text": "It lies on the River Thames.", "start": 8, "end": 36}]
    return as_row(evidence) | {"links": [], "sentences": sentences}


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
        "evidence": as_row(
            Evidence(
                names=QuestionNames(("esa",), ()),
                seeds=(Seed("passage", "p1", 0.9), Seed("entity", "esa", 0.5), Seed("passage", "p4", 0.1)),
            )
        )
        | {
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
