"""Questions taken apart: the golden cases of reader.md, their parts, and how missing evidence lowers the confidence."""

from collections.abc import Callable
from typing import Any

import pytest

from polyhop.schemas.query import Reading
from polyhop.worker.reading.candidates import weight_of
from polyhop.worker.reading.pages import PageContent, subject_span
from polyhop.worker.reading.question import ParsedQuestion, asked_of, forms_of

Parse = Callable[..., ParsedQuestion]


@pytest.mark.parametrize(
    ("question", "expected", "head", "stems"),
    [
        (
            "Who was the first president of the association which published Journal of Psychotherapy Integration?",
            "PER",
            "",
            "associ first presid",
        ),
        (
            "What is the name of the waterfall in the country where the Bubye River is found?",
            "LOC",
            "waterfall",
            "countri waterfal",
        ),
        ("Which region is Corey Taylor's city of birth located?", "LOC", "region", "birth citi locat region"),
        (
            "When was the astronomical clock built in the city where Karel Purkyně died?",
            "DATE",
            "",
            "astronom built citi clock",
        ),
        ("Who is the spouse of Big Eye's main director?", "PER", "", "director main spous"),
    ],
)
def test_the_golden_questions_are_taken_apart_as_specified(
    parsed: Parse, question: str, expected: str, head: str, stems: str
) -> None:
    found = parsed(question, "Big Eye")
    assert (found.expected, " ".join(found.head), sorted(set(found.main_stems))) == (expected, head, stems.split())


OF_TYPE = {
    "PER": ("Who wrote it?", "To whom was she married?", "Which composer wrote it?"),
    "LOC": (
        "Where did she study?",
        "Where is the university located?",
        "Which cities are on it?",
        "Was Warsaw the capital of what country?",
    ),
    "DATE": ("When did it open?", "On what date did it open?", "What time does it open?"),
    "YEAR": ("In what year did it open?",),
    "NAT": ("What nationality is she?",),
    "NUM": ("How many people live there?", "What is the population of it?", "What is the area code of it?"),
    "ANY": (
        "How did it end?",
        "Which film came out in May?",
        "What does it mean?",
        "Whose tower is it?",
        "Name it.",
        "",
    ),
    "YES-NO": ("Is Warsaw a city?", "Did it open?"),
}


@pytest.mark.parametrize(
    ("question", "part", "expected"),
    [
        # wh-word and head noun decide the type
        *((question, "expected", kind) for kind, questions in OF_TYPE.items() for question in questions),
        # the asking wh-word among several
        ("In which city was the man who wrote it born?", "wh", "which"),
        ("The old man who wrote it was born in what city, and when?", "wh", "when"),
        ("The old man who left died. What was the town where he lived called?", "wh", "what"),
        ("The old town where the man lived lies in what country on the sea?", "wh", "what"),
        ("The house he built and where nobody who can lives is old", "wh", "who"),
        ("The man who wrote it was born in what city?", "wh", "who"),
        ("Warsaw is big", "wh", ""),
        # the head noun ends at function words, names and verbs
        ("Which suspension bridge is it?", "head", ("suspension", "bridge")),
        ("What is the term for it?", "head", ("term",)),
        ("What is the title of the old song about it?", "head", ("old", "song")),
        ("Which film won?", "head", ("film",)),
        ("Which explorer accurately mapped the coast?", "head", ("explorer",)),
        ("Which Polish city is it?", "head", ()),
        ("Who is it?", "head", ()),
        # the main clause is the sentence of the wh-word, or what stands behind the last comma; or else the names
        (
            "The probe is named after a painter. Who commissioned the chapel that holds his frescoes?",
            "main_stems",
            ("commiss", "chapel"),
        ),
        ("The bridge of the old town, built by monks, crosses what river?", "main_stems", ("cross", "river")),
        ("Who is from Warsaw?", "main_stems", ("warsaw",)),
    ],
)
def test_parts_of_a_question(parsed: Parse, question: str, part: str, expected: object) -> None:
    titles = ["Warsaw"] if part == "main_stems" else []
    assert getattr(parsed(question, *titles), part) == expected


Ask = Callable[..., Reading]

ADA = ("Ada Low", "Ada Low was a writer born in Elmton in 1815. She was taught by Eve Doe.")
KARLAND = ("Karland", "Karland is a country in the north. Its capital is Amring, and its money is struck in Drael.")
VELLAND = ("Velland", "Velland is a country in the south. The currency of Velland is the Orim, struck in Ovik.")
ELMTON = ("Elmton", "Elmton is a city in Ardenia. The River Ash flows through Elmton. Its mayor is Gus Hoe.")
BEN = ("Ben Poe", "Ben Poe was an inventor who studied at the University of Ashby. He designed the Great Loom in 1820.")
TOWER = ("Oak Tower", "The Oak Tower is a tower. It was designed by Al Fay and Ed Noe for the car maker Cy Orr.")


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("Ada Low was a writer.", "Ada Low"),
        ("In 1815 she wrote it.", "she"),
        ("In the spring of 1815, Low went to Elmton.", "Low"),
        ("The writer Ada Low was born in Elmton.", None),
        ("The writer was born in Elmton.", "The writer"),
        ("Ada Low's mother was Eve Doe.", None),
    ],
)
def test_a_sentence_begins_with_what_its_page_is_about(text: str, subject: str | None) -> None:
    page = PageContent("Ada Low", f"{text} Then she left.")
    place = subject_span(page, page.sentences[0])
    assert (place and text[slice(*place)]) == subject


@pytest.mark.parametrize(
    ("question", "predicate", "direct", "is_one_step"),
    [
        ("Who designed the Great Loom?", ["designed"], ["Great Loom"], True),
        ("Where is the seat of Ada Low?", ["seat"], ["Ada Low"], True),
        ("Which river flows through the birthplace of Ada Low?", ["flows", "through"], [], False),
        ("Who led the city where Ada Low was born?", ["led"], [], False),
    ],
)
def test_a_question_says_what_is_said_of_the_answer_and_what_only_leads_there(
    parsed: Parse, question: str, predicate: list[str], direct: list[str], is_one_step: bool
) -> None:
    asked = asked_of(parsed(question, "Ada Low", "Great Loom"))
    assert list(asked.predicate)[: len(predicate)] == predicate
    assert [name.surface for name in asked.direct] == direct
    assert asked.is_one_step is is_one_step


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which river flows through the birthplace of Ada Low?", "River Ash"),
        ("Who designed the Great Loom?", "Ben Poe"),
        ("Who designed the Oak Tower?", "Al Fay"),
        ("Who was born in Elmton?", "Ada Low"),
        ("Who taught Ada Low?", "Eve Doe"),
        ("What is the currency of Velland?", "Orim"),
        # without the predicate, the name or the kind of thing there is none
        ("Who was born in Ashby?", ""),
        ("When did Ada Low die?", ""),
        ("Which medal did Ben Poe receive?", ""),
        ("Who painted the Great Loom?", ""),
        ("What is the population of Ashby?", ""),
        ("What is the currency of Karland?", ""),
        ("What is the longest fjord of Karland?", ""),
    ],
)
def test_an_answer_has_the_asked_type_predicate_and_name(ask: Ask, question: str, answer: str) -> None:
    passages = (KARLAND, VELLAND) if "land?" in question else (BEN, TOWER, ELMTON, ADA)
    assert ask(question, *passages, min_confidence=0.3).answer == answer


def test_confidence_falls_with_each_part_of_the_evidence_that_is_missing(ask: Ask) -> None:
    """A pronoun stands for its page, and its sentence is the evidence."""
    whole = ask("Who designed the Great Loom?", TOWER, BEN)
    unsaid = ask("Who bought the Great Loom?", BEN, TOWER).confidence
    unnamed = ask("Who designed the Small Loom?", BEN, TOWER).confidence
    assert whole.sentences[0].text == "He designed the Great Loom in 1820."
    assert whole.confidence > 1.9 * unsaid
    assert whole.confidence > 2 * unnamed


@pytest.mark.parametrize("is_descending", [False, True])
def test_the_weight_of_a_word_does_not_depend_on_the_order_of_a_set(*, is_descending: bool) -> None:
    """As sets of strings may have any in any process; `rise` and `rose` are of one length, and differently rare."""
    forms: Any = sorted(forms_of("rise"), reverse=is_descending)
    idf = {"rise": 2.0, "rose": 5.0}
    assert {"rise", "rose"} <= {*forms}
    assert weight_of(forms, lambda stem: idf.get(stem, 1.0)) == 2.0
