"""Golden triples as question files write them, found among a graph's triples by id."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.graph import NamedTriple
from polyhop.tasks.evaluation.metrics import find_golden, possible_subjects
from polyhop.warehouse.files.questions import read_questions

ADA = NamedTriple("R1", "Ada Lovelace", "born in", "R2", "London")
NAMED_BADLY = NamedTriple("R3", "Titles (1), born in, R2:x: a history", "part of: a, b", "R4", "Volume, part (2)")
URIS = NamedTriple("http://ex.org/a", "A", "http://ex.org/p", "http://ex.org/b", "B")
VALUE = NamedTriple("R1", "Ada Lovelace", "born in year", "6f1c", "1815, December")
GRAPH = [ADA, NAMED_BADLY, URIS, VALUE, NamedTriple("R1", "Ada Lovelace", "lived in", "R2", "London")]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("(R1:Ada Lovelace, born in, R2:London)", ADA),
        ("R1:Ada Lovelace, born in, R2:London", ADA),
        ("(R1:Augusta Ada King, born in, R2:London, England)", ADA),
        ("(R1, born in, R2)", ADA),
        (f"(R3:{NAMED_BADLY.subject}, part of: a, b, R4:Volume, part (2))", NAMED_BADLY),
        ("(http://ex.org/a:A, http://ex.org/p, http://ex.org/b:B)", URIS),
        ("(http://ex.org/a, http://ex.org/p, http://ex.org/b)", URIS),
        ("(R1:Ada Lovelace, born in year, 1815, December)", VALUE),
        (("R1", "born in", "R2"), ADA),
        (("R1", "born in year", "1815, December"), VALUE),
    ],
)
def test_a_golden_triple_is_found_whatever_is_in_names_and_ids(written: Any, meant: NamedTriple) -> None:
    assert find_golden([written], GRAPH) == {written: meant.ids}


@pytest.mark.parametrize(
    "written",
    [
        "None",
        "",
        "(R1:Ada Lovelace, born in, R9:London)",
        "(R9:Ada Lovelace, born in, R2:London)",
        "(R1:Ada Lovelace, died in, R2:London)",
        "(R10:Ada Lovelace, born in, R2:London)",
        ("R1", "born in", "London, Ontario"),
        ("R2", "born in", "R1"),
    ],
)
def test_a_golden_triple_that_the_graph_does_not_have_is_not_found(written: Any) -> None:
    assert find_golden([written], GRAPH) == {}


def test_of_two_triples_that_fit_it_is_the_one_whose_names_the_text_has() -> None:
    other = NamedTriple("R1", "Ada Lovelace, born in, R2:London", "born in", "R5", "x")
    text = "(R1:Ada Lovelace, born in, R2:London, born in, R5:x)"
    named_otherwise = NamedTriple("R1", "Ada Lovelace", "born in", "R2", "London, born in, R5:x")
    assert find_golden([text], [other, ADA]) == {text: other.ids}
    without_names = other._replace(subject="Ada", object="y")
    assert find_golden([text], [named_otherwise, without_names]) == {text: named_otherwise.ids}
    assert find_golden([text], [ADA._replace(subject="Ada"), without_names]) == {text: other.ids}


def test_a_value_that_two_objects_have_stands_for_none_of_them() -> None:
    twice = [VALUE, VALUE._replace(object_id="7a2d")]
    assert find_golden([("R1", "born in year", VALUE.object)], twice) == {}


AWKWARD = st.text(alphabet="aR1,: ()", max_size=8).map(str.strip)
IDS = st.sampled_from(["R1", "R2", "R11", "a:b", "L,1"])
TRIPLES = st.builds(NamedTriple, IDS, AWKWARD, AWKWARD.filter(bool), IDS, AWKWARD)


@given(st.lists(TRIPLES, min_size=1, max_size=6, unique_by=lambda row: row.ids), st.data())
def test_every_triple_of_a_graph_is_found_by_a_text_of_its_own(graph: list[NamedTriple], data: st.DataObject) -> None:
    meant = data.draw(st.sampled_from(graph))
    text = f"({meant.subject_id}:{meant.subject}, {meant.predicate}, {meant.object_id}:{meant.object})"
    assert meant.subject_id in possible_subjects([text])
    found = find_golden([text], graph)[text]
    same = {row.ids for row in graph if _written(row) == text}
    assert found in same  # two triples may be written alike


def _written(row: NamedTriple) -> str:
    return f"({row.subject_id}:{row.subject}, {row.predicate}, {row.object_id}:{row.object})"


def _read(folder: Path, *golden: object, suffix: str = ".jsonl") -> Any:
    path = folder / f"questions{suffix}"
    path.write_text("".join(json.dumps({"question": "Who?", "golden_triples": one}) + "\n" for one in golden))
    return read_questions(path)


def test_question_files_have_golden_triples_as_texts_ids_or_objects(tmp_path: Path) -> None:
    ids = ["R1", "born in", "R2"]
    as_object = {"subject": {"id": "R1", "name": "Ada"}, "predicate": "born in", "object": 1815}
    records, bad = _read(
        tmp_path, ["(R1:a, p, R2:b)", " ", "(R1:a, p, R2:b)"], [ids], as_object, "(R1:a, p, R2:b)", None
    )
    assert bad == []
    assert [record.golden_triples for record in records] == [
        ("(R1:a, p, R2:b)",),
        (tuple(ids),),
        (("R1", "born in", "1815"),),
        ("(R1:a, p, R2:b)",),
        (),
    ]
    assert records[1].metadata == {"golden_triples": [ids]}


@pytest.mark.parametrize(
    ("golden", "reason"),
    [
        ([5], "a golden triple is neither a text nor subject, predicate and object, but holds a number"),
        ([["R1", "born in"]], "a golden triple is neither a text nor"),
        ([{"subject": "R1", "object": "R2"}], "the predicate of a golden triple holds no id but null"),
        ([["R1", " ", "R2"]], "the predicate of a golden triple holds no id but a string"),
    ],
)
def test_a_golden_triple_of_another_kind_makes_a_bad_record(tmp_path: Path, golden: object, reason: str) -> None:
    records, (bad,) = _read(tmp_path, golden, ["(R1:a, p, R2:b)"])
    assert len(records) == 1
    assert bad.reason.startswith(reason)


def test_cells_of_a_csv_file_hold_several(tmp_path: Path) -> None:
    (tmp_path / "questions.csv").write_text('question,golden_triples\nWho?,"(R1:a, p, R2:b)|(R1:a, p, R3:c)"\n')
    ((record,), _) = read_questions(tmp_path / "questions.csv")
    assert record.golden_triples == ("(R1:a, p, R2:b)", "(R1:a, p, R3:c)")


@pytest.mark.shared_data
def test_all_golden_triples_of_orkg_but_the_one_that_is_none_are_in_its_graph(shared_data: Path) -> None:
    folder = shared_data / "orkg"

    def end(node: Any) -> tuple[str, str]:
        return (node["id"], node["name"]) if isinstance(node, dict) else (str(node), str(node))

    stated = []
    for line in (folder / "triples.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        stated.append(NamedTriple(*end(row["subject"]), row["predicate"], *end(row["object"])))
    records, _ = read_questions(folder / "questions.jsonl")
    golden = [triple for record in records for triple in record.golden_triples]
    found = find_golden(golden, stated)
    assert len(golden) > 800
    assert [triple for triple in golden if triple not in found] == ["None"]
