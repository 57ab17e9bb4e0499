"""The bundle of the rules."""

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.names import NameFinder, title_keys
from polyhop.schemas.ports import NameFinding
from polyhop.schemas.records import Passage
from polyhop.tasks.extraction import rows
from polyhop.tasks.extraction.rules import rules_page
from polyhop.warehouse.names import RegexNames


def passage(title: str, text: str, passage_id: str = "p1") -> Passage:
    return Passage(passage_id, passage_id, "d1", 0, title, text, 0, len(text))


def extract(passages: Sequence[Passage], finder: NameFinding, extractor: str = "rules") -> rows.Bundle:
    return rows.bundle_of(rules_page(passage, finder, extractor) for passage in passages)


def extracted(*passages: Passage) -> rows.Bundle:
    return extract(passages, NameFinder(p.title for p in passages))


def by_key(bundle: rows.Bundle) -> dict[str, dict[str, object]]:
    return {row["key"]: row for row in bundle.mentions.to_pylist()}


CURIE = passage(
    "Marie Curie (physicist)",
    "Marie Curie (born 1867) was a physicist in Paris. She won 2 prizes on 10 December 1911. The work went on.",
)


def test_a_page_by_hand() -> None:
    bundle = extracted(CURIE)
    first = "Marie Curie (born 1867) was a physicist in Paris."
    second = "She won 2 prizes on 10 December 1911."
    mentions, relations, propositions, triples = (
        [tuple(row.values()) for row in table.to_pylist()]
        for table in (bundle.mentions, bundle.relations, bundle.propositions, bundle.triples)
    )
    assert mentions == [
        ("p1", "date:1867", "rules", "1867", 1, False, "[[18,22]]", "DATE", 1.0, None, first),
        ("p1", "date:1911-12-10", "rules", "10 December 1911", 1, False, "[[70,86]]", "DATE", 1.0, None, second),
        ("p1", "marie curie", "rules", "Marie Curie", 2, True, "[[0,11]]", None, 0.0, None, first),
        ("p1", "marie curie physicist", "rules", "Marie Curie (physicist)", 1, True, "[]", "PERSON", 0.95, None, first),
        ("p1", "number:2", "rules", "2", 1, False, "[[58,59]]", "NUMBER", 1.0, None, second),
        ("p1", "paris", "rules", "Paris", 1, False, "[[43,48]]", None, 0.0, None, first),
    ]
    assert relations == [("p1", 0, "marie curie", "physicist in", "paris", "rules")]
    assert propositions == [
        ("p1", 0, first, ["marie curie", "date:1867", "paris"], "rules"),
        ("p1", 1, f"Marie Curie (physicist): {second}", ["marie curie physicist", "date:1911-12-10"], "rules"),
        ("p1", 2, "The work went on.", ["marie curie physicist"], "rules"),
    ]
    text = "Marie Curie physicist in Paris."
    assert triples == [("p1", 0, text, ["marie curie", "paris"], "rules")]


def test_rows_come_in_the_order_of_their_keys_whatever_the_order_of_passages() -> None:
    pages = [passage("Paris", "Paris and Lyon.", "p2"), passage("Lyon", "Lyon and Paris.", "p1"), CURIE]
    pages[2] = passage(CURIE.title, CURIE.text, "p0")
    forward, backward = extracted(*pages), extracted(*reversed(pages))
    assert forward == backward
    found = [(row["passage_id"], row["key"]) for row in forward.mentions.to_pylist()]
    assert found == sorted(set(found))


def test_no_passages_give_empty_tables_with_the_right_columns() -> None:
    bundle = extracted()
    found = [bundle.mentions, bundle.relations, bundle.propositions, bundle.triples]
    wanted = [rows.RAW_MENTIONS, rows.RAW_RELATIONS, rows.RAW_PROPOSITIONS, rows.RAW_TRIPLES]
    assert [(table.num_rows, table.schema) for table in found] == [(0, table.arrow) for table in wanted]


def test_a_title_is_mentioned_though_its_text_is_empty() -> None:
    (row,) = extracted(passage("the end of it all", "")).mentions.to_pylist()
    title = "the end of it all"
    assert (row["key"], row["surface"], row["tf"], row["is_title"]) == (title, title, 1, True)
    assert (row["spans_json"], row["description"]) == ("[]", title)


def test_a_title_without_keys_leaves_only_what_the_text_says_and_no_name_reaches_into_it() -> None:
    bundle = extracted(passage("It", "She met Ann Roe. It ended."))
    assert (list(by_key(bundle)), bundle.relations.num_rows) == (["ann roe"], 0)
    assert bundle.propositions["text"].to_pylist() == ["It: She met Ann Roe.", "It: It ended."]
    bundle = extracted(passage("New", "York is old."), passage("New York", "", "p2"))
    assert sorted(by_key(bundle)) == ["new", "new york", "york"]


def test_names_that_only_the_title_holds_are_linked_to_it() -> None:
    bundle = extracted(passage("Lambert, Margrave of Tuscany", "He died."))
    assert by_key(bundle)["margrave of tuscany"]["spans_json"] == "[]"
    (row,) = bundle.relations.to_pylist()
    assert (row["source_key"], row["relation"]) == ("lambert margrave of tuscany", "mentions")
    assert row["target_key"] == "margrave of tuscany"


def test_the_label_of_the_extractor_is_the_callers_but_rules_state_relations() -> None:
    bundle = extract([passage("Ann Roe", "Ann Roe met Bo Lee.")], RegexNames(), "regex")
    assert set(bundle.mentions["extractor"].to_pylist()) == {"regex"}
    assert set(bundle.relations["extractor"].to_pylist()) == {"rules"}


def test_descriptions_are_cut_behind_a_word() -> None:
    expected = {
        "": "",
        "a\n b ": "a b",
        "word " * 60: ("word " * 48).strip(),
        "x" * 300: "x" * 240,
        "x" * 240 + " y": "x" * 240,
        "x" * 239 + " yy": "x" * 239,
    }
    assert {text: rows.cut(text) for text in expected} == expected


TEXTS = st.lists(
    st.sampled_from(
        [*"aAé.,'()\n 1", "Ann ", "Bo Lee", "in 1990 ", " the end. ", "He ", "two ", "Éva ", "؟ مرحبا", "\u0301"]
    )
).map("".join)


@pytest.mark.slow
@given(TEXTS, TEXTS)
def test_spans_hold_the_key_and_count_the_mentions(title: str, text: str) -> None:
    finder = NameFinder(["Bo Lee", "the end", title])
    bundle = extract([passage(title, text)], finder)
    in_title = [mention.key for mention in finder.find(title)]
    for row in bundle.mentions.to_pylist():
        spans = json.loads(row["spans_json"])
        assert all(0 <= start < end <= len(text) for start, end in spans)
        assert row["tf"] == max(1, len(spans) + in_title.count(row["key"]))
        assert row["is_title"] == (row["key"] in title_keys(title))
        assert len(row["description"]) <= 240


@pytest.mark.slow
@given(TEXTS, TEXTS)
def test_relations_and_propositions_name_only_keys_that_are_mentioned(title: str, text: str) -> None:
    bundle = extracted(passage(title, text))
    known = set(bundle.mentions["key"].to_pylist())
    for row in bundle.relations.to_pylist():
        assert {row["source_key"], row["target_key"]} <= known
        assert row["source_key"] != row["target_key"]
        assert row["relation"] == row["relation"].lower().strip() != ""
    for number, row in enumerate(bundle.propositions.to_pylist()):
        assert row["ordinal"] == number
        assert set(row["keys"]) <= known
        assert len(row["keys"]) == len(set(row["keys"]))


@pytest.mark.slow
@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=4))
def test_a_batch_is_the_sum_of_its_passages(pages: Sequence[tuple[str, str]]) -> None:
    passages = [passage(title, text, f"p{number}") for number, (title, text) in enumerate(pages)]
    finder = NameFinder(["Bo Lee"])
    together = extract(passages, finder)
    alone = [extract([page], finder) for page in passages]
    if alone:
        assert together.mentions.equals(pa.concat_tables([bundle.mentions for bundle in alone]))
        assert together.relations.equals(pa.concat_tables([bundle.relations for bundle in alone]))


PIECES = ["Ann Roe, ", "Word ", "word ", "A. ", "| 12 | Ann |\n", "def F(x):\n\treturn X\n"]
PIECES += ["مرحبا بالعالم. ", "He met Bo. ", "“", "\n"]


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.timeout(300)  # quadratic takes hours
@pytest.mark.parametrize(
    "piece", PIECES, ids=["names", "run", "words", "initials", "table", "code", "arabic", "met", "quotes", "lines"]
)
def test_a_million_characters_are_no_trouble(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    bundle = extracted(passage("Ann Roe", text))
    assert by_key(bundle)["ann roe"]["tf"] == 1 + (len(text) // len(piece) if piece == "Ann Roe, " else 0)
