"""Names like a type's examples, with the real encoder."""

import json
from pathlib import Path

import pytest
from small_indexes import Run, indexed, printed, record, write_rows

from polyhop.schemas.extraction_schema import parse_types
from polyhop.schemas.settings import parse_settings
from polyhop.tasks.extraction.own_schema import examples_of, name_vectors, names_like
from polyhop.warehouse.tables.version_rows import MentionedPassage

EXAMPLES = [
    "Osprey",
    "Kestrel",
    "Merlin",
    "Heron",
    "Plover",
    "Curlew",
    "Dunlin",
    "Avocet",
    "Siskin",
    "Fulmar",
    "Gannet",
    "Wigeon",
]
LIKE = ["Pochard", "Garganey", "Whimbrel", "Turnstone"]
PEOPLE = [
    "Ines Falkner",
    "Pavel Novak",
    "Maria Keller",
    "Tom Brandt",
    "Anna Osei",
    "Jan Maly",
    "Ruth Adler",
    "Luis Prado",
]
TOWNS = ["Leeds", "Bradford", "Ghent", "Porto", "Turku", "Graz", "Lyon", "Aarhus", "Malaga", "Bergen"]
FIRMS = [
    "Tarnwick Ltd",
    "Velmont Steel",
    "Sulzer GmbH",
    "Grundfos AG",
    "Kappa Sense",
    "Brandon Pumps",
    "Lowick Castings",
]


def passages() -> list[MentionedPassage]:
    """Texts of a firm that mention projects, people, towns and suppliers."""
    texts = [
        (name, f"The project {name} is on schedule; its second milestone was reached and its budget is approved.")
        for name in (*EXAMPLES, *LIKE)
    ]
    texts += [(name, f"{name} leads the team and reports to the board every month.") for name in PEOPLE]
    texts += [(name, f"The plant in {name} was closed for repairs during the summer.") for name in TOWNS]
    texts += [(name, f"Pumps are supplied by {name}, which raised its prices in May.") for name in FIRMS]
    return [
        MentionedPassage("", text, {name.lower(): json.dumps([[text.index(name), text.index(name) + len(name)]])})
        for name, text in texts
    ]


def test_names_used_like_the_examples_are_found() -> None:
    found = names_like([name.lower() for name in EXAMPLES], name_vectors(passages()))
    assert set(found) == {name.lower() for name in LIKE}


def test_without_other_names_nothing_is_like_the_examples() -> None:
    vectors = name_vectors(passages()[: len(EXAMPLES)])
    assert names_like([name.lower() for name in EXAMPLES], vectors) == {}


def test_patterns_without_a_star_are_examples() -> None:
    (kind,) = parse_types("PROJECT=Osprey|Project *|Kestrel")
    assert examples_of(kind) == ("Osprey", "Kestrel")


@pytest.mark.slow
@pytest.mark.parametrize(("count", "suggests"), [(10, True), (9, False)])
def test_ten_examples_suggest_other_projects(tmp_path: Path, polyhop: Run, count: int, suggests: bool) -> None:
    root = tmp_path / "root"
    root.mkdir()
    rows = [record(str(n), f"Note {n}", passage.text) for n, passage in enumerate(passages())]
    settings = parse_settings({"test": {"root": str(root), "strategies": "bridge-lexical"}})
    indexed(settings, write_rows(tmp_path / "corpus.jsonl", rows), "firm", source_name="corpus")
    asked = f"PROJECT={'|'.join(EXAMPLES[:count])}"
    out = printed(polyhop("entities", "suggest", asked, "--index", "firm", "--root", str(root), "--json"))
    found = {row["name"] for row in out["suggestions"] if row["by"] == "examples"}
    assert (len(found) > 2, found - {*EXAMPLES[10:], *LIKE}) == (suggests, set())
