"""Rows of imported files: worked examples, garbage of every kind, and the real file."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.names import NameFinder
from polyhop.schemas.records import Passage
from polyhop.schemas.settings import ExtractionSettings
from polyhop.tasks.extraction.rows import Page, bundle_of
from polyhop.tasks.extraction.rules import rules_page
from polyhop.tasks.extraction.stated import (
    Contract,
    Matches,
    Stated,
    import_pages,
    left_over,
    match_rows,
    stated_in_row,
)
from polyhop.warehouse.files.rows import ExtractionRow

CONTRACT = Contract.of(ExtractionSettings())


def by_rules(passage: Passage) -> Page:
    return rules_page(passage, NameFinder([]))


def test_a_row_by_hand() -> None:
    triples = [["Ann  Roe", "Was born in", "Rome"], ["Rome", "fell in", "1990"], ["Rome", "is", "ROME"]]
    found, counts = stated_in_row({"entities": ["Ann Roe", "Rome"], "triples": triples}, CONTRACT)
    names = ["ann roe", "rome"]
    assert [name.key for name in found.names] == [*names, *names, "rome", "date:1990", "rome", "rome"]
    assert found.relations == [("ann roe", "was born in", "rome"), ("rome", "fell in", "date:1990")]
    assert found.propositions == [
        ("Ann Roe Was born in Rome.", ["ann roe", "rome"]),
        ("Rome fell in 1990.", ["rome", "date:1990"]),
        ("Rome is ROME.", ["rome"]),
    ]
    assert found.triples == found.propositions
    assert counts == {"triples_to_themselves": 1}


def malformed(why: str) -> dict[str, int]:
    return {"malformed_triples": 1, f"malformed_triples_{why}": 1}


@pytest.mark.parametrize(
    ("row", "counts"),
    [
        ({"triples": [["a", "b"]]}, malformed("not_three_parts")),
        ({"triples": [["a", "b", "c", "d"]]}, malformed("not_three_parts")),
        ({"triples": ["a b c"]}, malformed("not_three_parts")),
        ({"triples": [None]}, malformed("not_three_parts")),
        ({"triples": [["a", None, "c"]]}, malformed("not_strings")),
        ({"triples": [["a", "b", {"c": 1}]]}, malformed("not_strings")),
        ({"triples": [["a", " ", "c"]]}, malformed("empty")),
        ({"triples": [["", "b", "c"]]}, malformed("empty")),
        ({"triples": [["a" * 501, "b", "c"]]}, malformed("too_long")),
        ({"triples": [["±", "b", "c"]]}, {"triples_without_words": 1}),
        ({"triples": {"a": 1}}, {"triples_not_a_list": 1}),
        ({"entities": "Ann"}, {"entities_not_a_list": 1}),
        (
            {"entities": [1, "", "±", {"type": "PERSON"}]},
            {"entities_not_strings": 2, "entities_empty": 1, "entities_without_words": 1},
        ),
        ({"entities": None, "triples": None}, {}),
        ({"propositions": [{"text": ""}, 3]}, {"malformed_propositions": 2}),
    ],
)
def test_what_is_malformed_is_counted_by_reason(row: dict[str, object], counts: dict[str, int]) -> None:
    found, counted = stated_in_row(row, CONTRACT)
    assert counted == counts
    assert found == Stated()


def test_our_own_export_brings_types_and_propositions() -> None:
    row: dict[str, object] = {
        "entities": [{"name": "Rome", "type": "location"}],
        "triples": [["Rome", "is in", "Italy"]],
        "propositions": [{"text": "Rome is old.", "entities": ["Rome", 3]}],
    }
    found, counts = stated_in_row(row, CONTRACT)
    names = [("rome", "LOCATION"), ("rome", None), ("italy", None), ("rome", None)]
    assert [(name.key, name.type) for name in found.names] == names
    assert found.propositions == [("Rome is old.", ["rome"])]
    assert found.triples == [("Rome is in Italy.", ["rome", "italy"])]
    assert counts == {"entities_of_propositions_dropped": 1}


def test_triples_of_discarded_entities_go_with_them() -> None:
    contract = Contract.of(ExtractionSettings(type_contract="discard"))
    row: dict[str, object] = {"entities": [{"name": "X1", "type": "SHIP"}], "triples": [["X1", "hit", "Rome"]]}
    found, counts = stated_in_row(row, contract)
    assert found == Stated()
    assert counts == {"dropped_entity_types": 1, "triples_of_dropped_entities": 1}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["name", "type", "text", "entities", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)
ROWS = st.dictionaries(
    st.sampled_from(["entities", "triples", "propositions", "extracted_entities", "extracted_triples"]),
    JSON | st.lists(st.lists(JSON, max_size=4), max_size=4),
    max_size=4,
)


@given(ROWS)
def test_garbage_never_crashes_and_every_triple_is_used_or_counted(row: dict[str, object]) -> None:
    found, counts = stated_in_row(row, CONTRACT)
    triples = row.get("triples") if row.get("triples") is not None else row.get("extracted_triples")
    if isinstance(triples, list) and not isinstance(row.get("propositions"), list):
        lost = counts["malformed_triples"] + counts["triples_without_words"] + counts["triples_of_dropped_entities"]
        assert len(found.propositions) + lost == len(triples)
    by_reason = sum(n for name, n in counts.items() if name.startswith("malformed_triples_"))
    assert by_reason == counts["malformed_triples"]
    page = Passage("p", "p", "d", 0, "T", "x", 0, 1)
    matches = Matches({"p": ExtractionRow(1, "p", "", row)})
    bundle_of(import_pages([page], {}, matches, CONTRACT, by_rules).pages).mentions.validate(full=True)


def passage(passage_id: str, record_id: str, text: str) -> Passage:
    return Passage(passage_id, record_id, "d", 0, "Title", text, 0, len(text))


def row(line: int, id_: str = "", text: str = "", **fields: object) -> ExtractionRow:
    return ExtractionRow(line, id_, text, fields, "" if id_ or text else "neither an id nor a passage")


def test_rows_are_matched_by_id_or_text_and_the_rest_is_listed() -> None:
    rows = [row(1, "a"), row(2, "zz"), row(3, "a"), row(4), row(5, "0", "Title\nthe  TEXT of b"), row(6, "", "strange")]
    matches = match_rows(rows, ["a", "b", "0"], lambda: [("a", "Title", "x"), ("b", "Title", "The text of b")])
    assert {id_: found.line for id_, found in matches.by_id.items()} == {"a": 1, "b": 5}
    batch = left_over(matches)
    assert batch.counts == {"unknown_ids": 2, "rows_given_twice": 1, "malformed_rows": 1}
    assert [entry.unit_id for entry in batch.ledger] == ["line 2", "line 3", "line 4", "line 6"]


def test_pieces_share_their_records_row_whatever_the_batch() -> None:
    pieces = [passage("r#0", "r", "Bo left."), passage("r#1", "r", "Al came.")]
    matches = Matches({"r": row(1, "r", entities=["Bo", "Al", "Cy"], triples=[["Al", "came"]])})
    batches = [import_pages([piece], {"r": pieces}, matches, CONTRACT, by_rules) for piece in pieces]
    assert [sorted(batch.pages[0].rows) for batch in batches] == [["bo", "cy", "title"], ["al", "title"]]
    assert [batch.counts["malformed_triples"] for batch in batches] == [1, 0]
    assert [entry.error for batch in batches for entry in batch.ledger] == [
        "1 malformed triples, 1 malformed triples not three parts"
    ]


def test_a_passage_without_a_row_goes_to_the_rules_and_is_listed() -> None:
    page = passage("p", "p", "Bo met Al.")
    batch = import_pages([page], {}, Matches(), CONTRACT, by_rules)
    extractors = {key: found.extractor for key, found in batch.pages[0].rows.items()}
    assert extractors == dict.fromkeys(["title", "bo", "al"], "rules")
    (entry,) = batch.ledger
    assert (entry.unit_id, entry.state, entry.stand_in, entry.error_class) == ("p", "failed", "rules", "NoRow")
    assert batch.counts == {"without_row": 1}


@pytest.mark.shared_data
def test_the_185_malformed_triples_of_the_real_file_are_counted(shared_data: Path) -> None:
    counts: Counter[str] = Counter()
    triples = used = 0
    for line in (shared_data / "musique100" / "openie.jsonl").read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        found, counted = stated_in_row(fields, CONTRACT)
        triples += len(fields["triples"])
        used += len(found.propositions)
        counts += counted
    assert (triples, counts["malformed_triples"], counts["malformed_triples_not_three_parts"]) == (17419, 185, 185)
    assert used == triples - 185 - counts["triples_without_words"]
