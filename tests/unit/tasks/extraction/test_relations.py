"""Relations that sentences state: predicates, who pronouns mean, lists, rows of tables; other languages."""

import pytest

from polyhop.schemas.names import NameFinder, split_sentences
from polyhop.schemas.records import Passage
from polyhop.tasks.extraction.relations import MENTIONS, RELATED, consecutive_relations, title_relations
from polyhop.tasks.extraction.rules import rules_page

Stated = tuple[str, str, str]


def stated(text: str, title: str = "Project Osprey", language: str = "en") -> list[Stated]:
    """Labelled relations of a page."""
    passage = Passage("p", "p", "p", 0, title, text, 0, len(text))
    page = rules_page(passage, NameFinder([title]), language=language)
    return [relation for relation, _ in page.relations if relation[1] not in (MENTIONS, RELATED)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The project is led by Ines Falkner.", [("project osprey", "led by", "ines falkner")]),
        ("The project was led by Ines Falkner.", [("project osprey", "led by", "ines falkner")]),
        ("This project has been led by Ines Falkner.", [("project osprey", "led by", "ines falkner")]),
        ("It is supplied by Kappa Sense.", [("project osprey", "supplied by", "kappa sense")]),
        ("It was quickly bought by Kappa Sense.", [("project osprey", "bought by", "kappa sense")]),
        ("Kappa Sense supplies Dorn Castings.", [("kappa sense", "supplies", "dorn castings")]),
        ("Kappa Sense supplied Dorn Castings.", [("kappa sense", "supplies", "dorn castings")]),
        ("Kappa Sense has supplied Dorn Castings.", [("kappa sense", "supplies", "dorn castings")]),
        ("Kappa Sense is based in Tarnwick.", [("kappa sense", "based in", "tarnwick")]),
        ("Kappa Sense has its seat in Tarnwick.", [("kappa sense", "has seat in", "tarnwick")]),
        ("Ines Falkner took over Kappa Sense.", [("ines falkner", "takes over", "kappa sense")]),
        ("Kappa Sense is a firm based in Tarnwick.", [("kappa sense", "based in", "tarnwick")]),
        ("Kappa Sense is a subsidiary of Dorn Castings.", [("kappa sense", "subsidiary of", "dorn castings")]),
    ],
)
def test_a_label_is_the_predicate_in_its_normal_form(text: str, expected: list[Stated]) -> None:
    assert stated(text) == expected


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Kappa Sense will supply Dorn Castings.", "will supply"),
        ("Kappa Sense does not supply Dorn Castings.", "does not supply"),
        ("Kappa Sense never paid Dorn Castings.", "never paid"),
        ("Kappa Sense tried to buy Dorn Castings.", "tries to buy"),
    ],
)
def test_a_label_says_what_is_denied_planned_or_tried(text: str, label: str) -> None:
    assert stated(text) == [("kappa sense", label, "dorn castings")]


@pytest.mark.parametrize(
    ("title", "text", "expected"),
    [
        ("Ada Marlo", "She was born in Cluj.", ("ada marlo", "born in", "cluj")),
        ("Ada Marlo", "Born in Cluj, she left early.", ("ada marlo", "born in", "cluj")),
        ("Kappa Sense", "The company moved to Cluj.", ("kappa sense", "moves to", "cluj")),
        ("Project Osprey", "Its sponsor is Ada Marlo.", ("project osprey", "sponsor", "ada marlo")),
        ("Project Osprey", "Its sponsor, Ada Marlo, left.", ("project osprey", "sponsor", "ada marlo")),
        ("Project Osprey", "Ada Marlo leads the project.", ("ada marlo", "leads", "project osprey")),
        ("Project Osprey", "Ada Marlo is its chair.", ("ada marlo", "chair of", "project osprey")),
        ("Project Osprey", "The pumps are made by Kappa.", ("project osprey", "pumps made by", "kappa")),
        ("Project Osprey", "Sensors are made by Kappa.", ("project osprey", "sensors made by", "kappa")),
        ("Project Osprey", "Kappa makes the pumps.", ("kappa", "makes pumps of", "project osprey")),
        ("Ada Marlo", "Pavel Druz reports to her.", ("pavel druz", "reports to", "ada marlo")),
    ],
)
def test_pronouns_and_nouns_mean_the_title(title: str, text: str, expected: Stated) -> None:
    assert stated(text, title) == [expected]


def test_a_pronoun_means_the_subject_of_the_sentence_before() -> None:
    text = "Fiona Merrow left the firm. She moved to Danby."
    assert stated(text, "Edwin Merrow (engineer)") == [("fiona merrow", "moves to", "danby")]


def test_a_pronoun_does_not_mean_the_subject_of_a_subordinate_clause() -> None:
    text = "Clara Voss was chosen after Edwin Merrow retired. She was born in Bremen."
    assert stated(text, "Clara Voss") == [("clara voss", "born in", "bremen")]


def test_what_the_first_sentence_calls_the_title_means_it_later() -> None:
    text = "Nordwind is a foundry. The foundry was sold to Harlan Steel."
    assert stated(text, "Nordwind") == [("nordwind", "sold to", "harlan steel")]


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("Kappa supplies Beck, Dorn and Orlo.", [("kappa", "beck"), ("kappa", "dorn"), ("kappa", "orlo")]),
        ("Kappa and Beck supply the Dorn works.", [("kappa", "dorn"), ("beck", "dorn")]),
        ("Kappa, Beck and Orlo built Dorn.", [("kappa", "dorn"), ("beck", "dorn"), ("orlo", "dorn")]),
    ],
)
def test_each_name_of_a_list_has_its_relation(text: str, pairs: list[tuple[str, str]]) -> None:
    assert [(source, target) for source, _, target in stated(text)] == pairs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ines Falk, head of Kappa, left.", [("ines falk", "head of", "kappa")]),
        (
            "Ines Falk, head of Kappa, joined Beck.",
            [("ines falk", "head of", "kappa"), ("ines falk", "joins", "beck")],
        ),
        (
            "Ines Falk, who came from Kappa, leads Beck.",
            [("ines falk", "comes from", "kappa"), ("ines falk", "leads", "beck")],
        ),
        ("The cells come from Kappa, which is based in Tampere.", [("kappa", "based in", "tampere")]),
        ("Kappa's founder Ines Falk left.", [("kappa", "founder", "ines falk")]),
        ("Ines Falk (born in Kassel) left.", [("ines falk", "born in", "kassel")]),
    ],
)
def test_appositions_and_relative_clauses_belong_to_their_name(text: str, expected: list[Stated]) -> None:
    assert [relation for relation in stated(text) if relation[0] != "project osprey"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It was begun by Ada and is led by Jo Lim.", [("begun by", "ada"), ("led by", "jo lim")]),
        ("It is led by Ada and advised by Kappa.", [("led by", "ada"), ("advised by", "kappa")]),
        ("It uses Postgres and works with Kappa.", [("uses", "postgres"), ("works with", "kappa")]),
        ("It is a film made by Ada, starring Jo Lim.", [("made by", "ada"), ("stars", "jo lim")]),
        (
            "It left Kappa in Orrin and moved to Velsund.",
            [("leaves", "kappa"), ("leaves in", "orrin"), ("moves to", "velsund")],
        ),
    ],
)
def test_each_verb_of_a_subject_has_its_relation(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(label, target) for _, label, target in stated(text)] == expected


def test_a_clause_with_a_subject_of_its_own_says_nothing_of_the_one_before() -> None:
    text = "Dorian Pike declined the offer of Kappa, and Clara Voss called Beck."
    assert stated(text) == [("dorian pike", "declines offer of", "kappa"), ("clara voss", "calls", "beck")]


def test_fields_of_a_row_are_relations_of_its_first_name() -> None:
    text = "Pump: Piranha; Maker: Sulzer; Site: Orrin.\nPump: Marlin; Maker: Kappa."
    assert stated(text, "Pump list") == [
        ("piranha", "maker", "sulzer"),
        ("piranha", "site", "orrin"),
        ("marlin", "maker", "kappa"),
    ]


def test_lines_with_one_field_are_relations_of_the_title() -> None:
    text = "Owner: Lene Oster\nSite: Lovik Works"
    assert stated(text) == [("project osprey", "owner", "lene oster"), ("project osprey", "site", "lovik works")]


@pytest.mark.parametrize("end", ["Best regards", "Kind regards", "Thanks", "Cheers", "Best wishes"])
def test_a_greeting_and_a_signature_state_nothing(end: str) -> None:
    text = f"Dear Jo,\nKappa visits Orrin.\n{end}\nAda Marlo"
    assert stated(text, "Mail: visit") == [("kappa", "visits", "orrin")]


def test_names_that_no_predicate_connects_are_related() -> None:
    passage = Passage("p", "p", "p", 0, "Osprey", "Of Ann and Rome.", 0, 16)
    relations = [relation for relation, _ in rules_page(passage, NameFinder([])).relations]
    assert relations == [("ann", RELATED, "rome"), ("osprey", MENTIONS, "ann"), ("osprey", MENTIONS, "rome")]


def consecutive(text: str, *titles: str) -> list[Stated]:
    mentions = NameFinder(titles).find(text)
    sentences = split_sentences(text)
    homes = [max(n for n, (start, _) in enumerate(sentences) if start <= m.start) for m in mentions]
    return consecutive_relations(text, mentions, homes)


def test_in_other_languages_a_label_is_the_words_between_two_names() -> None:
    expected = {
        "Ann Roe was born in Rome.": [("ann roe", "was born in", "rome")],
        "Ann Roe (“Bo”) came.": [("ann roe", "related to", "bo")],
        "Ann's Rome": [("ann", "related to", "rome")],
        "Ann's house in Rome": [("ann", "house in", "rome")],
        "Ann, then, to Rome": [("ann", "related to", "rome")],
        "Ann a1 b c d e f g h Rome": [("ann", "a1 b c d e f g h", "rome")],
        "Ann a1 b c d e f g h i Rome": [("ann", "related to", "rome")],
        "Ann a1 b c d e f g h i j k l Rome": [("ann", "related to", "rome")],
        "Ann a1 b c d e f g h i j k l m Rome": [],
        "Ann left. Rome stayed.": [],
        "Ann saw Ann": [],
        "Ann met Bo in Rome": [("ann", "met", "bo"), ("bo", "related to", "rome")],
        "Ann and Bo": [("ann", "related to", "bo")],
        "Ann, 1 May 1974, in the Rome": [("ann", "related to", "rome")],
        "Ann near Rome": [("ann", "near", "rome")],
        "The Beatles left Rome": [("the beatles", "left", "rome")],
        "": [],
    }
    assert {text: consecutive(text, "The Beatles") for text in expected} == expected
    assert stated("Ann Roe wohnt in Rom.", language="de") == [("ann roe", "wohnt in", "rom")]


def test_a_title_mentions_what_no_relation_links_to_it() -> None:
    found = [("t", "met", "a"), ("b", "met", "t2"), ("a", "met", "c")]
    assert title_relations(["t", "t2"], ["t", "t2", "a", "b", "c"], found) == [("t", "mentions", "c")]
    assert title_relations([], ["a"], []) == []


def test_a_colon_within_a_title_is_no_field() -> None:
    text = "Gaby: A True Story is a film directed by Luis Mandoki."
    assert stated(text, title="Gaby: A True Story") == [("gaby a true story", "directed by", "luis mandoki")]


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Harold Johnston", "Harold Johnston was a classical historian and Professor of Latin at Tarnwick College."),
        (
            "Page 1",
            "Richard W. Story is a Senior Judge of the United States District Court for the Northern District of Ulm.",
        ),
        ("Louis Film", "Louis Film portrays the life of the Heidelberg-born Elizabeth Charlotte."),
    ],
    ids=["conjunction", "preposition", "born"],
)
def test_a_label_without_a_predicate_is_not_stated(title: str, text: str) -> None:
    labels = [label for _, label, _ in stated(text, title=title)]
    assert [label for label in labels if label == "for" or label.split()[-1] in ("and", "born")] == []
