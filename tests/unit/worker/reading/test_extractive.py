"""The reader without a model: wanted kinds, spans, yes and no, silence, exact offsets."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.names import NameFinder
from schemas.query import ContextPassage, Question, Reading
from worker.reading.extractive import ExtractiveReader, wanted_kind

CURIE = (
    "Marie Curie",
    "Marie Curie was a physicist. She was born in Warsaw on 7 November 1867. Marie Curie married Pierre Curie in 1895.",
)
WARSAW = ("Warsaw", "Warsaw is the capital of Poland. It has 1,863,000 inhabitants. Warsaw lies on the Vistula River.")
TOWER = ("Eiffel Tower", "The tower in Paris was designed by Stephen Sauvestre. It opened in May 1889.")
TITLES = [CURIE[0], WARSAW[0], TOWER[0]]


def context_of(*passages: tuple[str, str]) -> list[ContextPassage]:
    return [
        ContextPassage(f"p{place}", title, text, place, 1 / place)
        for place, (title, text) in enumerate(passages, start=1)
    ]


def read(question: str, context: Sequence[ContextPassage]) -> Reading:
    return ExtractiveReader(NameFinder(TITLES)).read([Question(question)], [context])[0]


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Who discovered radium?", "personal"),
        ("To whom was Marie Curie married?", "personal"),
        ("Where was Marie Curie born?", "place"),
        ("When was Marie Curie born?", "date"),
        ("In what year did the tower open?", "year"),
        ("How many inhabitants does Warsaw have?", "number"),
        ("How much does it weigh?", "number"),
        ("How did it end?", "any"),
        ("What is the capital of the country where he was born?", "any"),
        ("Warsaw is the capital of which country?", "any"),
        ("Whose tower is it?", "any"),
        ("Is Warsaw the capital of Poland?", "yes-no"),
        ("did Marie Curie live in Paris", "yes-no"),
        ("Name the river.", "any"),
        ("", "any"),
    ],
)
def test_the_first_wh_word_decides_what_is_wanted(question: str, kind: str) -> None:
    assert wanted_kind(question) == kind


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who married Marie Curie?", "Pierre Curie"),
        ("Where was the physicist Marie Curie born?", "Warsaw"),
        ("When was she born in Warsaw?", "7 November 1867"),
        ("In what year was she born in Warsaw?", "1867"),
        ("How many inhabitants does Warsaw have?", "1,863,000"),
        ("What is Warsaw the capital of?", "Poland"),
        ("Who designed the tower in Paris?", "Stephen Sauvestre"),
        ("When was the opening of the tower?", "May 1889"),
        ("Is Warsaw the capital of Poland?", "yes"),
    ],
)
def test_an_answer_has_the_wanted_type_and_is_not_in_the_question(question: str, answer: str) -> None:
    reading = read(question, context_of(CURIE, WARSAW, TOWER))
    assert (reading.answer, reading.kind) == (answer, "extracted")
    assert reading.score > 0


def test_the_answers_sentence_is_cited_first_and_each_other_passage_once() -> None:
    context = context_of(TOWER, CURIE, WARSAW)
    reading = read("Where was Marie Curie born, in the capital of Poland or near the tower?", context)
    assert reading.answer == "Warsaw"
    assert [(sentence.passage_id, sentence.text) for sentence in reading.sentences] == [
        ("p3", "Warsaw is the capital of Poland."),
        ("p1", "The tower in Paris was designed by Stephen Sauvestre."),
        ("p2", "Marie Curie was a physicist."),
    ]


def test_at_most_three_sentences_are_cited() -> None:
    passages = [(f"Page {number}", f"The river flows through Town{number}ville.") for number in range(6)]
    assert len(read("Which river is it?", context_of(*passages)).sentences) == 3


def test_unrelated_passages_are_not_cited() -> None:
    reading = read("How many inhabitants does Warsaw have?", context_of(WARSAW, TOWER))
    assert [sentence.passage_id for sentence in reading.sentences] == ["p1"]


def test_equal_sentences_are_decided_by_the_earlier_passage() -> None:
    context = [
        ContextPassage("late", "One", "Anna Kern founded the school.", 1, 0.5),
        ContextPassage("early", "Two", "Otto Lang founded the school.", 1, 0.5),
    ]
    assert read("Who founded the school?", context).answer == "Anna Kern"
    assert read("Who founded the school?", context[::-1]).answer == "Otto Lang"


def test_the_better_rank_decides_between_equal_sentences() -> None:
    context = context_of(("One", "Anna Kern founded the school."), ("Two", "Otto Lang founded the school."))
    assert read("Who founded the school?", context[::-1]).answer == "Anna Kern"


def test_a_question_name_with_accent_or_possessive_is_no_answer() -> None:
    context = context_of(("One", "Antoni Gaudí died in Barcelona. Antoni Gaudi was a friend of Eusebi Güell."))
    assert read("Who was Antoni Gaudí's friend?", context).answer == "Eusebi Güell"


def test_a_year_is_no_number() -> None:
    context = context_of(("Race", "The race of 1950 had runners. It had twelve runners in the end."))
    assert read("How many runners had the race?", context).answer == "twelve"


@pytest.mark.parametrize(
    ("question", "answer", "cited"),
    [
        ("Did Marie Curie marry Pierre Curie?", "yes", ["Marie Curie married Pierre Curie in 1895."]),
        (
            "Was Marie Curie born in the capital of Poland?",
            "yes",
            ["Warsaw is the capital of Poland.", "She was born in Warsaw on 7 November 1867."],
        ),
        ("Is the Eiffel Tower in Poland?", "no", ["Warsaw is the capital of Poland."]),
    ],
)
def test_yes_needs_all_names_in_one_sentence_or_in_two_that_share_one(
    question: str, answer: str, cited: list[str]
) -> None:
    reading = read(question, context_of(CURIE, WARSAW, TOWER))
    assert reading.answer == answer
    assert [sentence.text for sentence in reading.sentences][: len(cited)] == cited


def test_overlapping_names_of_a_question_are_one_name() -> None:
    finder = NameFinder(["The Beatles"])
    context = context_of(("Liverpool", "The city is the home of the Beatles."))
    reading = ExtractiveReader(finder).read([Question("Were the Beatles famous?")], [context])[0]
    assert reading.answer == "yes"


@pytest.mark.parametrize(
    ("question", "passages"),
    [
        ("Who founded it?", []),
        ("Who founded it?", [("Empty", "")]),
        ("When was the tower in Paris designed?", [("Tower", "The tower in Paris was designed by Stephen Sauvestre.")]),
        ("How many towers are there?", [("Tower", "There are towers in Paris.")]),
        ("Who is Marie Curie?", [("Page", "Marie Curie was a physicist.")]),
        ("Is it true?", [("Page", "It is true.")]),
        ("Is Paris large?", []),
        ("What is it?", [CURIE]),
        ("", [CURIE]),
        ("???", [CURIE]),
    ],
)
def test_without_a_candidate_the_reader_is_silent(question: str, passages: list[tuple[str, str]]) -> None:
    assert read(question, context_of(*passages)) == Reading("", 0.0, (), "none")


ODD = st.text(alphabet=st.sampled_from(list("Aé1 .?!\n\t'’\u0301\u200bß中。İ\ud800(\"")), max_size=60)
WORDS = st.lists(
    st.sampled_from(
        ["Marie Curie", "Warsaw", "born", "in", "1867", "twelve", "who", "Is", "when", "where", ".", "İstanbul", "é"]
    ),
    max_size=20,
).map(" ".join)


@given(st.one_of(ODD, WORDS), st.lists(st.tuples(ODD, st.one_of(ODD, WORDS, st.text(max_size=60))), max_size=4))
def test_odd_texts_are_read_with_exact_offsets(question: str, passages: list[tuple[str, str]]) -> None:
    context = context_of(*passages)
    reading = read(question, context)
    texts = {passage.passage_id: passage.text for passage in context}
    assert all(texts[s.passage_id][s.start : s.end] == s.text for s in reading.sentences)
    assert (reading.kind == "none") == (reading.answer == "") == (len(reading.sentences) == 0)
    assert reading.answer in ("", "yes", "no") or reading.answer in reading.sentences[0].text


@given(st.lists(st.tuples(WORDS, st.lists(st.tuples(WORDS, WORDS), max_size=3)), max_size=4))
def test_a_reading_does_not_depend_on_the_batch(rows: list[tuple[str, list[tuple[str, str]]]]) -> None:
    reader = ExtractiveReader(NameFinder(TITLES))
    questions = [Question(question) for question, _ in rows]
    contexts = [context_of(*passages) for _, passages in rows]
    alone = [reader.read([question], [context])[0] for question, context in zip(questions, contexts, strict=True)]
    assert reader.read(questions, contexts) == alone
    assert reader.read(questions[::-1], contexts[::-1]) == alone[::-1]


def test_a_score_is_the_relevance_plus_both_bonuses() -> None:
    context = context_of(("One", "It rained. Otto Lang met Anna Kern."))
    assert read("Who met Anna Kern?", context).score == pytest.approx(1 + 0.1 + 0.05)
    assert read("Who met someone?", context).score == pytest.approx(1 + 0.05)
    assert read("Who slept?", [ContextPassage("p", "One", "Otto Lang met her.", 5, 0.1)]).score == pytest.approx(0.01)


def test_asked_for_anything_names_come_before_numbers() -> None:
    assert read("What grows there?", context_of(("Farm", "In 1990 there grows Golden Delicious."))).answer == (
        "Golden Delicious"
    )


def test_a_names_own_page_says_whether_it_is_a_place() -> None:
    page = ("Lena Ost", "Lena Ost is a village in Saxony.")
    plain = ("Letter", "The letter arrived and Lena Ost answered the letter.")
    assert read("Where did the letter arrive?", context_of(plain, page)).answer == "Lena Ost"
    assert read("Where did the letter arrive?", context_of(plain)).answer == ""
