"""Legal forms of companies: recognised at the end of a name, read with it, and one entity without them."""

from pathlib import Path

import pytest
from small_indexes import indexed

from polyhop.schemas.legal_forms import FORM_NAMES, LEGAL_FORMS, names_company, with_normal_form
from polyhop.schemas.names import NameFinder
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import fold
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.tables.query import query_rows

CASES = Path(__file__).parents[2] / "golden" / "company_forms"
ONE = {
    "case_30": [
        {"siemens", "siemens ag"},
        {"nestle", "nestle sa"},
        {"philips", "philips nv"},
        {"acme holdings ltd", "acme holdings limited"},
        {"enel", "enel s p a"},
        {"sulzer", "sulzer gmbh"},
    ],
    "more_forms": [
        {"kappa sense", "kappa sense ou"},
        {"velmont steelworks", "velmont steelworks s r o"},
        {"tarnwick pumps pty ltd", "tarnwick pumps proprietary limited"},
        {"osprey drives", "osprey drives a s"},
        {"falkner guss", "falkner guss gmbh co kg"},
        {"dromio systems inc", "dromio systems incorporated"},
        {"wolin kran", "wolin kran sp z o o"},
        {"marlo grupo", "marlo grupo s a de c v"},
        {"haneda optics", "haneda optics k k"},
        {"blue lagoon spa"},
        {"blue lagoon"},
        {"weissenburg werke", "weissenburg werke ag"},
        {"ost west lager", "ost west lager oy"},
        {"rolton marine plc"},
    ],
}
"""Right values: the keys of each entity."""


@pytest.mark.slow
@pytest.mark.parametrize("case", ONE)
def test_a_company_is_one_entity_with_and_without_its_legal_form(case: str, tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, strategies=("bridge-lexical",))
    indexed(settings, CASES / f"{case}.jsonl", "names")
    query = (
        "SELECT e.key, a.alias_key FROM entities AS e LEFT JOIN aliases AS a ON a.entity_id = e.entity_id "
        "WHERE e.is_named AND e.key NOT LIKE 'page%'"
    )
    found: dict[str, set[str]] = {}
    rows = query_rows(Layout(tmp_path), "names", query)
    for key, alias in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        found.setdefault(key, {key}).update({alias} - {None})
    assert sorted(map(sorted, found.values())) == sorted(map(sorted, ONE[case]))


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("Enel S.p.A.", "Enel s·p·a"),
        ("ACME LIMITED", "ACME ltd"),
        ("Foo Pty Ltd", "Foo pty ltd"),
        ("Acme, Inc.", "Acme inc"),
        ("Blue Lagoon Spa", "Blue Lagoon Spa"),
        ("Byatt A.S.", "Byatt a·s"),
        ("Such As", "Such As"),
        ("AG", "AG"),
        ("", ""),
    ],
)
def test_a_legal_form_at_the_end_of_a_name_has_a_normal_form(name: str, normal: str) -> None:
    assert with_normal_form(name) == normal


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Enel S.p.A.", True), ("GmbH", False), ("Falkner KG", False), ("Falkner GmbH & Co. KG", True), ("Ada", False)],
)
def test_a_legal_form_names_a_company_unless_others_have_it_too(name: str, expected: bool) -> None:
    assert names_company(name) == expected


@pytest.mark.parametrize("spelling", [spelling for form in LEGAL_FORMS for spelling in form.spellings])
def test_each_spelling_is_read_with_its_name_and_known_at_its_end(spelling: str) -> None:
    (mention,) = NameFinder([]).find(f"the office praised Kappa {spelling} for it")
    assert mention.surface == f"Kappa {spelling.rstrip('.)')}"
    assert set(with_normal_form(f"Kappa {spelling}").split()[1:]) <= FORM_NAMES


def test_legal_forms_are_not_repeated() -> None:
    words = [spelling for form in LEGAL_FORMS for spelling in form.spellings]
    assert len(words) == len(set(words))


def test_hyphens_and_sharp_s_are_folded() -> None:
    assert fold("Weißenburg\u2011Süd \u2010") == "Weissenburg-Sud -"
