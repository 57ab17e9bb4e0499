"""A user's schema: parsed from settings, TOML and OWL, and applied to the relations and types of pages."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from small_indexes import Run, indexed, printed, record, write_rows

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.extraction_schema import ExtractionSchema, parse_schema, parse_types
from polyhop.schemas.names import NameFinder
from polyhop.schemas.records import Passage
from polyhop.schemas.settings import ExtractionSettings, parse_settings
from polyhop.tasks.extraction.own_schema import with_schema
from polyhop.tasks.extraction.rows import ExtractedPassage
from polyhop.tasks.extraction.rules import rules_page
from polyhop.tasks.extraction.stated import Contract
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.tables.query import query_rows
from polyhop.warehouse.user_files import read_schema

TOML = """
[types.PROJECT]
patterns = ["Project *"]
[types.SUPPLIER]
patterns = ["* Castings"]
broader = "organization"
[relations."led by"]
domain = ["PROJECT"]
range = ["PERSON"]
synonyms = ["run by", "managed by"]
inverse = ["leads"]
[relations.supplies]
domain = ["organization"]
"""
TURTLE = """
@prefix : <http://example.org/firm#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix skos: <http://www.w3.org/2004/02/skos/core#> .
:Project a owl:Class . :ResearchProject a owl:Class ; rdfs:subClassOf :Project .
:Person a rdfs:Class ; rdfs:label "person"@en .
:ledBy a owl:ObjectProperty ; rdfs:domain :Project ; rdfs:range :Person .
:ledBy skos:altLabel "run by" ; owl:inverseOf :leads .
:leads a owl:ObjectProperty .
:budget a owl:DatatypeProperty .
"""


def schema() -> ExtractionSchema:
    return parse_schema(tomllib.loads(TOML), "firm.toml")


def page(text: str) -> ExtractedPassage:
    passage = Passage("p", "p", "p", 0, "Project Osprey", text, 0, len(text))
    return with_schema(rules_page(passage, NameFinder([])), schema())


def relations(text: str) -> list[tuple[str, str, str]]:
    return [relation for relation, _ in page(text).relations if relation[1] != "mentions"]


def test_a_name_that_fits_a_pattern_has_its_type() -> None:
    rows = page("Project Tern uses Nordwind Castings.").rows
    typed = {key: rows[key].type for key in ("project osprey", "project tern", "nordwind castings")}
    assert typed == {"project osprey": "PROJECT", "project tern": "PROJECT", "nordwind castings": "SUPPLIER"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is led by Ada Marlo.", ("project osprey", "led by", "ada marlo")),
        ("It is run by Ada Marlo.", ("project osprey", "led by", "ada marlo")),
        ("The pumps are managed by Ada Marlo.", ("project osprey", "led by", "ada marlo")),
        ("Ada Marlo leads the project.", ("project osprey", "led by", "ada marlo")),
        ("Nordwind Castings supplies Ada Marlo.", ("nordwind castings", "supplies", "ada marlo")),
        ("It moved to Cluj.", ("project osprey", "moves to", "cluj")),
        ("It is led by Nordwind Castings.", ("project osprey", "related to", "nordwind castings")),
        ("It supplies Ada Marlo.", ("project osprey", "related to", "ada marlo")),
    ],
)
def test_relations_have_the_labels_of_the_schema_between_allowed_types(
    text: str, expected: tuple[str, str, str]
) -> None:
    assert relations(text) == [expected]


def test_triples_follow_the_relations() -> None:
    triples = [text for (text, _), _ in page("Ada Marlo leads the project.").triples]
    assert triples == ["Project Osprey led by Ada Marlo."]


def test_a_model_is_asked_for_the_types_and_relations_of_the_schema() -> None:
    contract = Contract.of(ExtractionSettings(), schema())
    assert contract.asked_types[-2:] == ("PROJECT", "SUPPLIER")
    assert contract.guidance == (
        "; use these relations wherever they fit: led by (PROJECT to PERSON), supplies (ORGANIZATION to any)"
    )
    assert Contract.of(ExtractionSettings()).guidance == ""


def test_types_of_the_settings_have_patterns_between_bars() -> None:
    (project, ship) = parse_types("Project=Project *|Programme  *; SHIP=MV *")
    assert (project.name, project.patterns, ship.patterns) == ("PROJECT", ("Project *", "Programme *"), ("MV *",))


@pytest.mark.parametrize("text", ["PROJECT", "PROJECT=", "=Project *", "PROJECT=*"])
def test_a_type_without_a_name_or_a_word_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"extraction\.types: "):
        parse_types(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[classes.A]", "firm.toml: unknown table 'classes'"),
        ("types = 3", "firm.toml: 'types' is not a table of tables"),
        ("[types.A]\nword = 1", r"firm.toml: \[types.A\] has the unknown field 'word'"),
        ("[relations.a]\ndomain = 'B'", "firm.toml: 'domain' is not a list of texts"),
    ],
)
def test_a_schema_with_an_unknown_part_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_schema(tomllib.loads(text), "firm.toml")


def test_classes_and_properties_of_owl_are_types_and_relations(tmp_path: Path) -> None:
    file = tmp_path / "firm.ttl"
    file.write_text(TURTLE, encoding="utf-8")
    known = read_schema("", str(file))
    assert {(kind.name, kind.broader) for kind in known.types} == {
        ("PROJECT", ""),
        ("RESEARCH_PROJECT", "PROJECT"),
        ("PERSON", ""),
    }
    (led,) = [relation for relation in known.relations if relation.label == "led by"]
    assert (led.domain, led.range, led.synonyms, led.inverse) == (("PROJECT",), ("PERSON",), ("run by",), ("leads",))
    assert known.allows(led, "RESEARCH_PROJECT", None)
    assert not known.allows(led, "PERSON", None)


@pytest.mark.parametrize(("name", "text"), [("a.toml", "= 3"), ("a.ttl", "<a"), ("missing.toml", None)])
def test_a_schema_that_cannot_be_read_is_named(name: str, text: str | None, tmp_path: Path) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=f"Cannot read the schema .*{name}"):
        read_schema("", str(file))


RECORDS = [
    record("1", "Project Osprey", "Project Osprey is run by Ada Marlo."),
    record("2", "Minutes", "Ada Marlo leads Project Tern."),
]


def index(root: Path, **settings: str) -> None:
    given: dict[str, Any] = {f"extraction.{name}": value for name, value in settings.items()}
    known = parse_settings({"test": {"root": str(root), "strategies": "bridge-lexical", **given}})
    indexed(known, write_rows(root / "corpus.jsonl", RECORDS), "firm", source_name="corpus")


def labels(root: Path) -> list[str]:
    query = "SELECT DISTINCT relation FROM relations WHERE relation <> 'mentions' ORDER BY ALL"
    return query_rows(Layout(root), "firm", query).to_pydict()["relation"]  # type: ignore[no-any-return]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.mark.slow
def test_a_run_extracts_again_if_the_schema_changes(root: Path) -> None:
    file = root / "firm.toml"
    file.write_text(TOML, encoding="utf-8")
    index(root)
    assert labels(root) == ["leads", "run by"]
    index(root, schema_file=str(file))
    assert labels(root) == ["led by"]
    file.write_text('[relations.heads]\nsynonyms = ["leads"]\n', encoding="utf-8")
    index(root, schema_file=str(file))
    assert labels(root) == ["heads", "run by"]


@pytest.mark.slow
def test_suggested_types_are_saved_as_edits(root: Path, polyhop: Run) -> None:
    index(root)
    arguments = ("entities", "suggest", "--index", "firm", "PROJECT=Project *", "--root", str(root), "--json")
    found = printed(polyhop(*arguments))
    assert [(row["name"], row["suggested"]) for row in found["suggestions"]] == [
        ("Project Osprey", "PROJECT"),
        ("Project Tern", "PROJECT"),
    ]
    printed(polyhop(*arguments, "--accept"))
    index(root)
    assert printed(polyhop(*arguments))["suggestions"] == []
