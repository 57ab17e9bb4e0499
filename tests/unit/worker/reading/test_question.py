"""Questions taken apart: the golden cases of reader.md, their parts, and how missing evidence lowers the confidence."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas.names import NameFinder
from polyhop.schemas.query import Reading
from polyhop.worker.reading.candidates import Evidence
from polyhop.worker.reading.clauses import subject_of, words_of
from polyhop.worker.reading.pages import PageSentence, doers, forms_of
from polyhop.worker.reading.question import ParsedQuestion, asked_of, parse_question

Parse = Callable[..., ParsedQuestion]


GOLDEN = """
Who was the first president of the association which published Journal of Psychotherapy Integration?
PER | | associ first presid | president
What is the name of the waterfall in the country where the Bubye River is found?
LOC | waterfall | countri waterfal | located
Which region is Corey Taylor's city of birth located?
LOC | region | birth citi locat region | bornl located
When was the astronomical clock built in the city where Karel Purkyně died?
DATE | | astronom built citi clock |
Who is the spouse of Big Eye's main director?
PER | | director main spous | spouse director
"""


@pytest.mark.parametrize(
    ("question", "parts"), [*zip(GOLDEN.split("\n")[1::2], GOLDEN.split("\n")[2::2], strict=False)]
)
def test_the_golden_questions_are_taken_apart_as_specified(parsed: Parse, question: str, parts: str) -> None:
    """Expected type, head noun, stems and relations."""
    (expected,), head, stems, relations = map(str.split, parts.split("|"))
    found = parsed(question, "Big Eye")
    assert (found.expected, found.head, set(found.main_stems)) == (expected, tuple(head), set(stems))
    assert [relation.name for relation in found.relations] == relations


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
        (
            "The probe is named after a painter. Who commissioned the chapel that holds his frescoes?",
            "verbs",
            {"commissioned"},
        ),
        ("The bridge of the old town, built by monks, crosses what river?", "main_stems", ("cross", "river")),
        ("Who is from Warsaw?", "main_stems", ("warsaw",)),
    ],
)
def test_parts_of_a_question(parsed: Parse, question: str, part: str, expected: object) -> None:
    titles = ["Warsaw"] if part == "main_stems" else []
    assert getattr(parsed(question, *titles), part) == expected


@pytest.mark.parametrize(("question", "relation"), [("When was he born?", "bornd"), ("Where was he born?", "bornl")])
def test_a_relation_of_another_type_is_not_asked_for(parsed: Parse, question: str, relation: str) -> None:
    assert [one.name for one in parsed(question).relations] == [relation]


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
    ("text", "verb", "subject"),
    [
        ("Ada Low was a writer born in Elmton.", "born", "Ada Low"),
        ("Ada Low, a writer from Elmton, was born in 1815.", "born", "Ada Low"),
        ("His father, Al Fay, was born in 1815.", "born", "His father"),
        ("In 1815 the tower opened.", "opened", "the tower"),
        ("Work began in 1930, and the bridge opened in 1937.", "opened", "the bridge"),
        ("The tower was designed by Al and opened in 1937.", "opened", "The tower"),
        ("A new wing of the museum opened in 2000.", "opened", "A new wing"),
        ("Founded in 1861 by Al, it was a school.", "Founded", "it"),
        ("Opened.", "Opened", None),
    ],
)
def test_the_subject_of_a_verb_is_found_over_its_clause(text: str, verb: str, subject: str | None) -> None:
    words = words_of(text)
    number = next(n for n, word in enumerate(words) if word.text == verb)
    found = subject_of(words, number)
    assert (text[words[found.first].start : words[found.last].end] if found else None) == subject


@pytest.mark.parametrize(
    ("text", "verb", "is_done_to", "names"),
    [
        ("It was designed by Al Fay and Ed Noe for Cy Orr.", "designed", False, ["Al Fay and Ed Noe"]),
        ("He designed the Great Loom.", "designed", False, ["He"]),
        ("Ada Low was born in Elmton.", "born", True, ["Ada Low"]),
        ("Ada Low liked figs.", "born", True, []),
    ],
)
def test_who_does_what_is_its_subject_or_stands_after_by(
    text: str, verb: str, is_done_to: bool, names: list[str]
) -> None:
    has_verb, spans = doers(PageSentence(text, 0, len(text), 0), forms_of(verb), is_done_to=is_done_to)
    assert (has_verb, [text[start:end] for start, end in spans]) == (bool(names), names)


@pytest.mark.parametrize(
    ("question", "predicate", "direct", "leading", "inner"),
    [
        ("Who designed the Great Loom?", ["designed"], ["Great Loom"], [], []),
        ("Where is the seat of Ada Low?", ["seat"], ["Ada Low"], [], []),
        ("Which river flows through the birthplace of Ada Low?", ["flows", "through"], [], ["Ada Low"], ["birthplace"]),
        ("Which city was Ada Low's father born in?", ["born"], [], ["Ada Low"], ["father"]),
        ("Who led the city where Ada Low was born?", ["led"], [], ["Ada Low"], ["city", "born"]),
        ("Which river flows through the city Ada Low played for?", ["flows", "through"], [], ["Ada Low"], ["city"]),
    ],
)
def test_a_question_says_what_is_said_of_the_answer_and_what_only_leads_there(
    parsed: Parse, question: str, predicate: list[str], direct: list[str], leading: list[str], inner: list[str]
) -> None:
    asked = asked_of(parsed(question, "Ada Low", "Great Loom"))
    assert list(asked.predicate)[: len(predicate)] == predicate
    assert [name.surface for name in asked.direct] == direct
    assert [name.surface for name in asked.leading] == leading
    assert set(inner) <= set(asked.inner)


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
    reading = ask(question, BEN, TOWER, ELMTON, ADA, min_confidence=0.5)
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
    assert ask(question, BEN, TOWER, ELMTON, ADA, min_confidence=0.5).answer == ""


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
    assert ask(question, KARLAND, VELLAND, min_confidence=0.4).answer == answer


def test_a_pronoun_stands_for_its_page_and_its_sentence_is_the_evidence(ask: Ask) -> None:
    reading = ask("Who designed the Great Loom?", TOWER, BEN)
    assert reading.sentences[0].text == "He designed the Great Loom in 1820."


def test_confidence_falls_with_each_part_of_the_evidence_that_is_missing(ask: Ask) -> None:
    whole = ask("Who designed the Great Loom?", BEN, TOWER).confidence
    unsaid = ask("Who bought the Great Loom?", BEN, TOWER).confidence
    unnamed = ask("Who designed the Small Loom?", BEN, TOWER).confidence
    assert whole > 2 * unsaid
    assert whole > 2 * unnamed


class Ordered(frozenset[str]):
    """A set that gives its members in ascending or descending order, as sets of strings may in any process."""

    is_descending = False

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(super().__iter__(), reverse=self.is_descending))


@pytest.mark.parametrize("is_descending", [False, True])
def test_the_weight_of_a_word_does_not_depend_on_the_order_of_a_set(
    parsed: Parse, monkeypatch: pytest.MonkeyPatch, *, is_descending: bool
) -> None:
    """`rise` and `rose` are of one length, and rare to different degrees."""
    order = type("Order", (Ordered,), {"is_descending": is_descending})
    monkeypatch.setattr("polyhop.worker.reading.candidates.forms_of", lambda word: order(forms_of(word)))
    idf = {"rise": 2.0, "rose": 5.0}
    question = parsed("Where does the river rise?")
    situation: Any = SimpleNamespace(question=question, idf=lambda stem: idf.get(stem, 1.0))
    assert {"rise", "rose"} <= forms_of("rise")
    assert Evidence(situation)._unit("rise").weight == 2.0
