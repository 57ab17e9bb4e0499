"""Questions taken apart: the golden cases of reader.md, their parts, and how missing evidence lowers the confidence."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.names import NameFinder
from polyhop.schemas.query import Reading
from polyhop.worker.reading.candidates import weight_of
from polyhop.worker.reading.pages import PageContent, subject_span
from polyhop.worker.reading.question import ParsedQuestion, asked_of, forms_of, parse_question

Parse = Callable[..., ParsedQuestion]


GOLDEN = """
Who was the first president of the association which published Journal of Psychotherapy Integration?
PER | | associ first presid
What is the name of the waterfall in the country where the Bubye River is found?
LOC | waterfall | countri waterfal
Which region is Corey Taylor's city of birth located?
LOC | region | birth citi locat region
When was the astronomical clock built in the city where Karel Purkyně died?
DATE | | astronom built citi clock
Who is the spouse of Big Eye's main director?
PER | | director main spous
"""


@pytest.mark.parametrize(
    ("question", "parts"), [*zip(GOLDEN.split("\n")[1::2], GOLDEN.split("\n")[2::2], strict=False)]
)
def test_the_golden_questions_are_taken_apart_as_specified(parsed: Parse, question: str, parts: str) -> None:
    """Expected type, head noun and stems."""
    (expected,), head, stems = map(str.split, parts.split("|"))
    found = parsed(question, "Big Eye")
    assert (found.expected, found.head, set(found.main_stems)) == (expected, tuple(head), set(stems))


OF_TYPE = {
    "PER": ("Who wrote it?", "To whom was she married?", "Which composer wrote it?"),
    "LOC": (
        "Where was she born?",
        "Where did she study?",
        "Where is the university located?",
        "Which cities are on it?",
        "Was Warsaw the capital of what country?",
    ),
    "DATE": ("When did it open?", "On what date did it open?", "What time does it open?"),
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
        ("In what year did it open?", "expected", "YEAR"),
        ("What nationality is she?", "expected", "NAT"),
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


def test_overlapping_names_leave_the_longest(parsed: Parse) -> None:
    found = parsed("Were the Beatles from Liverpool?", "The Beatles", "Beatles", "Liverpool")
    assert [name.surface for name in found.names] == ["the Beatles", "Liverpool"]
    assert found.name_keys == {"the beatles", "beatles", "liverpool"}


@given(st.text(max_size=80))
def test_any_text_can_be_taken_apart(question: str) -> None:
    found = parse_question(question, NameFinder(()).find(question))
    assert len(found.main_stems) == len(set(found.main_stems))


Ask = Callable[..., Reading]

ADA = ("Ada Low", "Ada Low was a writer born in Elmton in 1815. She was taught by Eve Doe.")
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
    ],
)
def test_an_answer_has_the_asked_type_predicate_and_name(ask: Ask, question: str, answer: str) -> None:
    reading = ask(question, BEN, TOWER, ELMTON, ADA, min_confidence=0.3)
    assert reading.answer == answer


@pytest.mark.parametrize(
    "question",
    [
        "Who was born in Ashby?",
        "When did Ada Low die?",
        "Which medal did Ben Poe receive?",
        "Who painted the Great Loom?",
        "What is the population of Ashby?",
        "Who invented the telephone?",
    ],
)
def test_without_the_predicate_or_the_name_there_is_no_answer(ask: Ask, question: str) -> None:
    assert ask(question, BEN, TOWER, ELMTON, ADA, min_confidence=0.3).answer == ""


KARLAND = ("Karland", "Karland is a country in the north. Its capital is Amring, and its money is struck in Drael.")
VELLAND = ("Velland", "Velland is a country in the south. The currency of Velland is the Orim, struck in Ovik.")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is the currency of Velland?", "Orim"),
        ("What is the currency of Karland?", ""),
        ("What is the longest fjord of Karland?", ""),
    ],
)
def test_a_question_for_a_thing_of_a_kind_is_answered_where_the_kind_is_said(
    ask: Ask, question: str, answer: str
) -> None:
    assert ask(question, KARLAND, VELLAND, min_confidence=0.3).answer == answer


def test_a_pronoun_stands_for_its_page_and_its_sentence_is_the_evidence(ask: Ask) -> None:
    reading = ask("Who designed the Great Loom?", TOWER, BEN)
    assert reading.sentences[0].text == "He designed the Great Loom in 1820."


def test_confidence_falls_with_each_part_of_the_evidence_that_is_missing(ask: Ask) -> None:
    whole = ask("Who designed the Great Loom?", BEN, TOWER).confidence
    unsaid = ask("Who bought the Great Loom?", BEN, TOWER).confidence
    unnamed = ask("Who designed the Small Loom?", BEN, TOWER).confidence
    assert whole > 1.9 * unsaid
    assert whole > 2 * unnamed


class Ordered(frozenset[str]):
    """A set that gives its members in ascending or descending order, as sets of strings may in any process."""

    is_descending: bool

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(super().__iter__(), reverse=self.is_descending))


@pytest.mark.parametrize("is_descending", [False, True])
def test_the_weight_of_a_word_does_not_depend_on_the_order_of_a_set(*, is_descending: bool) -> None:
    """`rise` and `rose` are of one length, and rare to different degrees."""
    forms = type("Order", (Ordered,), {"is_descending": is_descending})(forms_of("rise"))
    idf = {"rise": 2.0, "rose": 5.0}
    assert {"rise", "rose"} <= forms
    assert weight_of(forms, lambda stem: idf.get(stem, 1.0)) == 2.0
