"""Questions taken apart (reader.md), answers that are computed, and typed candidates with their features and scores."""

from collections.abc import Callable
from math import exp
from typing import Any

import pytest
from memory_index import ReadingIndex, Titled

from polyhop.schemas.names import NameFinder
from polyhop.schemas.query import ReaderResult
from polyhop.warehouse.artefacts import NAMES
from polyhop.worker.reading import candidates
from polyhop.worker.reading.comparisons import CONFIDENCES, MISSING, options_of
from polyhop.worker.reading.pages import CorpusPages, PassageContent, pages_of, subject_span
from polyhop.worker.reading.question import ParsedQuestion, asked_of, forms_of, parse_question

Parse = Callable[..., ParsedQuestion]


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "Who was the first president of the association which published Journal of Psychotherapy Integration?",
            "PER, , associ first presid",
        ),
        (
            "What is the name of the waterfall in the country where the Bubye River is found?",
            "LOC, waterfall, countri waterfal",
        ),
        ("Which region is Corey Taylor's city of birth located?", "LOC, region, birth citi locat region"),
        (
            "When was the astronomical clock built in the city where Karel Purkyně died?",
            "DATE, , astronom built citi clock",
        ),
        ("Who is the spouse of Big Eye's main director?", "PER, , director main spous"),
    ],
)
def test_golden_questions_taken_apart(parsed: Parse, question: str, parts: str) -> None:
    """Type, head noun, and stems of the main clause."""
    found = parsed(question, "Big Eye")
    assert f"{found.expected}, {' '.join(found.head)}, {' '.join(sorted(set(found.main_stems)))}" == parts


OF_TYPE = (
    ("PER", ("Who wrote it?", "To whom was she married?", "Which composer wrote it?")),
    ("LOC", ("Where did she study?", "Where is the university located?", "Which cities are on it?")),
    ("LOC", ("Was Warsaw the capital of what country?",)),
    ("DATE", ("When did it open?", "On what date did it open?", "What time does it open?")),
    ("YEAR", ("In what year did it open?",)),
    ("NAT", ("What nationality is she?",)),
    ("NUM", ("How many people live there?", "What is the population of it?", "What is the area code of it?")),
    ("ANY", ("How did it end?", "Which film came out in May?", "What does it mean?")),
    ("ANY", ("Whose tower is it?", "Name it.", "")),
    ("YES-NO", ("Is Warsaw a city?", "Did it open?")),
)


@pytest.mark.parametrize(
    ("question", "part", "expected"),
    [
        # wh-word and head noun decide the type
        *((question, "expected", kind) for kind, questions in OF_TYPE for question in questions),
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


Ask = Callable[..., ReaderResult]

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
    page = PassageContent("Ada Low", f"{text} Then she left.")
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
def test_what_a_question_asks_of(parsed: Parse, question: str, predicate: Any, direct: Any, is_one_step: bool) -> None:
    """What is said of the answer, and what only leads there."""
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
    assert candidates.weight_of(forms, lambda stem: idf.get(stem, 1.0)) == 2.0


ANN = ("Ann Roe", "Ann Roe (12 June 1516 – 3 May 1560) was an English writer. She liked figs.")
POE = ("Ben Poe", "Ben Poe (born January 20, 1546 in London, England) is an American filmmaker.")
CAT = ("Cat Loe", "Cat Loe (1510 – 1599) was a British writer.")
DAN = ("Dan Moe", "Dan Moe is a painter of some note.")
EVA = ("Eva Doe", "Eva Doe was a painter. Born in Linz in 1862, she moved to Bern in 1889. She died in Lugano in 1931.")
UP = ("Up High", "Up High is a 1988 Indian film directed by Ben Poe.")
DOWN = ("Down Low", "Down Low is a 1977 Italian film written and directed by Cat Loe.")
RED = ("Red Lake", "Red Lake is a 1994 Indian film directed by Eva Doe.")
WORLD = ("Guitar World", "Guitar World is a magazine published since July 1980. It has 30 editors.")
TIMES = ("Lute Times", "Lute Times is a magazine founded in 1981. It has 12 editors and 40 pages.")
ATA = ("Muztagh Ata", "Muztagh Ata is a mountain. Its peak rises 7,546 m above sea level.")
MANASLU = ("Manaslu", "Manaslu is a mountain in Nepal. Its peak stands at 8,163 metres. It was climbed in 1956.")
OSSAN = ("Ossan", "The Ossan is a river. It is 31 km long and has 4 islands.")
EIFFEL = ("Eiffel Tower", "The Eiffel Tower is a tower in Paris. It opened in May 1889.")
GATE = ("Golden Gate Bridge", "The Golden Gate Bridge is a bridge. Work began in 1933. The bridge opened in May 1937.")
BORN = "January 20, 1546; 1510"
EVERYTHING = (ANN, POE, CAT, DAN, EVA, UP, DOWN, RED, WORLD, TIMES, ATA, MANASLU, OSSAN, EIFFEL, GATE)


@pytest.mark.parametrize(
    ("question", "answer", "rule", "values"),
    [
        ("Who lived longer, Ann Roe or Cat Loe?", "Cat Loe", "life span", "12 June 1516 to 3 May 1560; 1510 to 1599"),
        ("Who died younger, Ann Roe or Eva Doe?", "Ann Roe", "life span", "12 June 1516 to 3 May 1560; 1862 to 1931"),
        ("Who died first, Ann Roe or Cat Loe?", "Ann Roe", "death", "3 May 1560; 1599"),
        ("Who is younger, Ann Roe or Ben Poe?", "Ben Poe", "birth", "12 June 1516; January 20, 1546"),
        ("Between Ann Roe and Ben Poe, who is older?", "Ann Roe", "birth", "12 June 1516; January 20, 1546"),
        ("Which film came out later, Down Low or Up High?", "Up High", "date", "1977; 1988"),
        ("Which film came out first, Up High, Down Low or Red Lake?", "Down Low", "date", "1988; 1977; 1994"),
        ("Of Red Lake, Up High, and Down Low, which was released first?", "Down Low", "date", "1994; 1988; 1977"),
        ("Which magazine is older, Lute Times or Guitar World?", "Guitar World", "date", "1981; July 1980"),
        ("Which has more editors, Lute Times or Guitar World?", "Guitar World", "number", "12; 30"),
        ("Which has fewer editors, Lute Times or Guitar World?", "Lute Times", "number", "12; 30"),
        ("Which peak stands higher, Muztagh Ata or Manaslu?", "Manaslu", "number", "7,546 m; 8,163 metres"),
        ("Which film has the director born first, Up High or Down Low?", "Down Low", "birth", BORN),
        ("Who was born later, the director of Up High or the director of Down Low?", "Ben Poe", "birth", BORN),
        ("Is the Ossan longer than 20 kilometres?", "yes", "number", "31 km"),
        ("Is the Ossan longer than 20 miles?", "no", "number", "31 km"),
        ("Does Lute Times have more than 50 pages?", "no", "number", "40"),
        ("Is the Eiffel Tower older than the Golden Gate Bridge?", "yes", "date", "May 1889; 1933"),
        ("Was the Golden Gate Bridge opened after the Eiffel Tower?", "yes", "date", "May 1937; May 1889"),
        ("Were Ann Roe and Cat Loe born in the same year?", "no", "birth", "12 June 1516; 1510"),
        ("Were Ann Roe and Cat Loe born in the same century?", "yes", "birth", "12 June 1516; 1510"),
        ("Did Ann Roe die before Cat Loe?", "yes", "death", "3 May 1560; 1599"),
        ("Do Ann Roe and Ben Poe share the same nationality?", "no", "country", "england; united states"),
        ("Are Ann Roe and Cat Loe from the same country?", "yes", "country", "england; united kingdom"),
        ("Were Ann Roe and Cat Loe both writers?", "yes", "statement", None),
        ("Is Dan Moe a painter?", "yes", "statement", None),
        ("When was Ann Roe born?", "12 June 1516", "birth", "12 June 1516"),
        ("In what year was Manaslu climbed?", "1956", "date", "1956"),
        ("How long is the Ossan?", "31 km", "number", "31 km"),
    ],
)
def test_an_answer_has_rule_and_values(ask: Ask, question: str, answer: str, rule: str, values: str | None) -> None:
    reading = ask(question, *EVERYTHING)
    assert (reading.answer, reading.kind, reading.rule) == (answer, "computed", rule)
    assert values is None or "; ".join(value.value for value in reading.values) == values
    assert reading.confidence == CONFIDENCES[rule]
    shown = [value.sentence for value in reading.values]
    assert None not in shown
    assert list(reading.sentences) == list(dict.fromkeys(shown))


@pytest.mark.parametrize(
    ("question", "missing"),
    [
        ("Who was born first, Dan Moe or Ann Roe?", "Dan Moe"),
        ("Did Ben Poe die before Ann Roe?", "Ben Poe"),
        ("Who lived longer, Ann Roe or Ben Poe?", "Ben Poe"),
        ("Which has more editors, Lute Times or Up High?", "Up High"),
        ("Which film came out first, Up High, Blue Salt or Red Lake?", "Blue Salt"),
        ("Are Ann Roe and Dan Moe from the same country?", "Dan Moe"),
        ("Were Ann Roe and Dan Moe born in the same year?", "Dan Moe"),
        ("Is Zed Xoe older than 20 years?", "Zed Xoe"),
        ("Which film has the director born first, Up High or Guitar World?", "Guitar World"),
        # nothing is answered "no" because nothing was found
        ("Is Zed Xoe a painter?", None),
        ("Was Ann Roe a scientist?", None),
        ("Is Dan Moe the father of Ann Roe?", None),
        ("Did Eva Doe sell Red Lake?", None),
        ("Were Muztagh Ata and Manaslu both rivers?", None),
    ],
)
def test_a_missing_value_is_shown_and_nothing_answered(ask: Ask, question: str, missing: str | None) -> None:
    reading = ask(question, *EVERYTHING)
    assert (reading.answer, reading.kind, reading.confidence) == ("", "none", 0.0)
    assert None not in reading.sentences
    assert missing is None or missing in {value.name for value in reading.values if value.value == MISSING}


def test_a_year_does_not_decide_against_a_day_of_that_year_and_a_negation_states_nothing(ask: Ask) -> None:
    later = ("Up Low", "Up Low is a film that was released on 3 May 1988.")
    assert ask("Which film came out first, Up High or Up Low?", UP, later).answer == ""
    assert ask("Did Sam Scott make Red Sand?", ("Sam Scott", "Sam Scott never made Red Sand.")).answer == ""


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("Which is older, Sink or Swim or Ann Roe?", ["Sink or Swim", "Ann Roe"]),
        ("Which of Up High, Red Lake and Ann Roe was released first?", ["Up High", "Red Lake", "Ann Roe"]),
        ("Is it older or newer than Ann Roe?", []),
        ("What is the distance between Ann Roe and Up High?", []),
    ],
)
def test_options_are_names_beside_an_or(parsed: Parse, question: str, options: list[str]) -> None:
    found = options_of(parsed(question, "Sink or Swim", "Ann Roe", "Up High", "Red Lake"))
    assert [option.surface for option in found] == options


COUNTED = "In May 1950 it had 1,200 seats, 3.5 million cars, 40 % and two cats, 1999."
OPENED = "It opened on 3 May 1950, closed in June 1960, then on 4 July, and burnt in 1999."


def candidates_of(question: str, *texts: str) -> list[candidates.Candidate]:
    parsed = parse_question(question, NameFinder(()).find(question))
    pages = pages_of(ReadingIndex([("T", text) for text in texts]).context())
    return [one for page in pages for one in candidates.find_candidates(parsed, page)]


@pytest.mark.parametrize(
    ("question", "text", "answers"),
    [
        ("When did it open?", OPENED, ["3 May 1950", "June 1960", "4 July", "1999"]),
        ("When did it open?", "It opened early, with 12 people.", []),
        ("When did it open in 1950?", "It opened in 1950.", []),
        ("In what year did it open?", OPENED, ["1950", "1960", "1999"]),
        ("In what year was it?", "It was on 3 May, item 12345.", []),
        ("How many?", COUNTED, ["1999", "1,200", "3.5 million", "40 %", "two"]),
        ("How many?", "It was in May 1950 or on 3 May 1951, said Ann.", []),
        ("How high?", "It is the 3rd, 120 metres high, for $5 billion, once.", ["120 metres", "$5 billion"]),
        ("Who was it?", "There Prime Minister Ann Roe met Ben Poe in May 1950.", ["Prime Minister Ann Roe", "Ben Poe"]),
        ("Who was it?", "it was nobody in may, of 1950.", []),
        ("Who was Ann Roe?", "Ann Roe was Roe.", []),
        ("Where was it?", "It was in Salem, Massachusetts.", ["Salem", "Massachusetts"]),
        ("In which country was it?", "A German in Bonn.", ["German", "Bonn", "Germany"]),
        ("What nationality is it?", "The French and German towns.", ["French", "German", "French", "German"]),
        ("What nationality is it?", "The old and new towns.", []),
        ("What was it?", "Ann sang of the old wooden town.", ["Ann", "old wooden town"]),
        ("What was it?", "12, 13. 14!", []),
    ],
)
def test_a_type_gets_its_spans_and_nothing_in_the_question(question: str, text: str, answers: list[str]) -> None:
    assert [candidate.span.answer for candidate in candidates_of(question, text)] == answers


def test_offsets_point_at_the_answer_and_a_list_of_names_is_cut() -> None:
    text = "A first line\nThere Prime Minister Ann Roe met Éva Doe."
    for one in candidates_of("Who was it?", text):
        begin = one.sentence.start
        assert text[begin + one.span.start : begin + one.span.end] == one.span.answer
    names = ", ".join(f"Ann{chr(97 + n % 26)}{chr(97 + n // 26)} Roe" for n in range(200))
    assert len(candidates_of("Who was it?", names)) == candidates.MOST_CANDIDATES


ROE = ("Ann Roe", "Ann Roe (born 1950) is a painter of boats. She married Ben Poe in Ulm. Her boat sank.")
ULM = ("Ulm", "Ulm is a town in Germany. The town has a tower.")
HIGH_TOWER = ("High Tower", "The tower was built by Carl Zoe. It stands in Ulm, Baden, near Lake Bodo.")


def rows(question: str, *passages: Titled) -> dict[str, tuple[candidates.Features, float]]:
    """Features of each answer, the first of each, and how well it fits the type; every word is equally rare."""
    index = ReadingIndex(passages)
    parsed = parse_question(question, index.artefact(NAMES).find(question))
    found = pages_of(index.context())
    situation = candidates.Situation(parsed, found, (0.9, 0.5, 0.1)[: len(found)], lambda _: 1.0, CorpusPages(index))
    typed = [one for page in found for one in candidates.find_candidates(parsed, page)]
    both = [*zip(typed, candidates.features_of(situation, typed), strict=True)]
    fits = [(row, candidates.fitness(parsed, one, situation.own_page(one), row)) for one, row in both]
    return {one.span.answer: found for one, found in zip(reversed(typed), reversed(fits), strict=True)}


WEDDING = ("Wedding", "There Ann Doe met Captain Hook, Ben Poe, the Ulm Society For Boats, Ulm and Ann Roe.")
CHAPEL = ("Chapel", "It was commissioned by the rich banker Dan Moe. Later it was painted by Gus Hoe.")


@pytest.mark.parametrize(
    ("feature", "question", "passages", "values"),
    [
        # the share of the question's words in sentence or title
        ("mov", "Who built the old tower?", (HIGH_TOWER,), {"Carl Zoe": 2 / 3}),
        ("mov", "Who built the old tower?", (ULM,), {"Germany": 0}),
        # the closeness of the page that names this one
        ("bp", "Who built it?", (ROE, ULM, HIGH_TOWER), {"Germany": 0.9, "Carl Zoe": 0}),
        ("bp", "Who built it in Ulm?", (ROE, ULM), {"Germany": 0}),
        # a page that the question names
        ("qtitle", "Where in the High Tower is it?", (HIGH_TOWER, ULM), {"Carl Zoe": 1, "Germany": 0}),
        # the head noun in the answer
        ("chead", "Which lakes are near it?", (HIGH_TOWER,), {"Lake Bodo": 1, "Ulm": 0}),
        # words of places, countries and prepositions
        ("location", "Where is it?", (HIGH_TOWER, ULM, ROE), {"Germany": 1, "Ulm": 0.7, "Lake Bodo": 1, "Carl Zoe": 0}),
        ("location", "Who is it?", (HIGH_TOWER,), {"Ulm": 0}),
        # pages of people and honorifics
        ("person", "Who is it?", (WEDDING, ROE, ULM), {"Ann Roe": 1, "Captain Hook": 1, "Ben Poe": 0.5}),
        ("person", "Who is it?", (WEDDING, ROE, ULM), {"Ulm Society For Boats": 0, "Ulm": 0}),
        ("person", "Where is it?", (WEDDING, ROE), {"Ann Roe": 0}),
        # what is asked, or a word that says the same, a few words before the answer
        ("pat", "Who is the husband of her?", (ROE,), {"Ben Poe": 1, "Ulm": 1}),
        ("pat", "Who is the spouse?", (HIGH_TOWER,), {"Carl Zoe": 0}),
        ("pat", "Who commissioned the chapel?", (CHAPEL,), {"Dan Moe": 1, "Gus Hoe": 0}),
        # fades with the distance to the question's words
        ("mwin", "Who built it?", (HIGH_TOWER,), {"Carl Zoe": exp(-1 / 6)}),
        ("mwin", "Who liked it?", (HIGH_TOWER,), {"Carl Zoe": 0}),
    ],
)
def test_features_by_hand(feature: str, question: str, passages: tuple[Titled, ...], values: dict[str, float]) -> None:
    found = rows(question, *passages)
    assert {answer: getattr(found[answer][0], feature) for answer in values} == pytest.approx(values)


@pytest.mark.parametrize(
    ("question", "text", "wrong", "right"),
    [
        ("Who is it?", "There Ann Roe met the Ulm University in France.", ["France"], ["Ann Roe"]),
        ("Who is it?", "There was Anna of Ulm, a Danish aunt of Eve Doe.", ["Anna of Ulm", "Danish"], ["Eve Doe"]),
        ("Where is it?", "There is Ann Roe in Texas, or in a Danish town.", ["Ann Roe", "Danish"], ["Texas"]),
        ("In which country is it?", "It is in Ulm and France.", ["Ulm"], ["France"]),
        ("In which city is it?", "It is in Fulda, Texas, or in France.", ["Texas", "France"], ["Fulda"]),
        ("In which state is it?", "It is in Texas, or in France.", ["France"], ["Texas"]),
        ("How many are it?", "There are 12 in 1999.", ["1999"], ["12"]),
        ("What nationality is it?", "The Danish Eve Doe.", [], ["Danish"]),
        ("What is it?", "There Ann Roe wrote Small Boats.", [], ["Ann Roe", "Small Boats"]),
        ("When is it?", "It was in May 1999.", [], ["May 1999"]),
    ],
)
def test_what_cannot_be_of_a_type_is_a_wrong_fit(question: str, text: str, wrong: list[str], right: list[str]) -> None:
    found = rows(question, ("Page", text), ROE)
    assert [found[answer][1] for answer in wrong] == [candidates.WRONG] * len(wrong)
    assert all(found[answer][1] > candidates.WRONG for answer in right)


def test_a_score_is_the_weighted_sum() -> None:
    ones = candidates.Features(*[1.0] * len(candidates.Features._fields))
    assert candidates.score(ones) == pytest.approx(3 + 4.5 + 3.5 + 2 + 0.7 + 1.5 + 1 + 1.5)
    assert candidates.score(candidates.WEIGHTS._replace(**dict.fromkeys(candidates.Features._fields, 0.0))) == 0


def test_confidence_grows_with_score_share_and_agreement_and_is_bounded() -> None:
    (candidate, *_) = candidates_of("Who was it?", "There Ann Roe met Ben Poe.")

    def told(sum_of: float, share: float, *, is_shown: bool = True, is_one_step: bool = True) -> float:
        return candidates.Best(candidate, sum_of, share).confidence(is_shown=is_shown, is_one_step=is_one_step)

    assert told(0, 0.5) < told(3, 0.5) < told(3, 0.9)
    assert told(3, 0.5, is_shown=False) < told(3, 0.5) < told(3, 0.5, is_one_step=False)
    assert told(50, 1.0) == candidates.MOST_CERTAIN


@pytest.mark.parametrize(("second", "share"), [("There was Cat Loe.", 1 / 3), ("There was Ann Roe.", 2 / 3)])
def test_equal_scores_go_to_the_better_page_and_earlier_offset_and_share_by_answer(second: str, share: float) -> None:
    typed = candidates_of("Who was it?", "There Ann Roe met Ben Poe.", second)
    nothing = candidates.Features(*[0.0] * len(candidates.Features._fields))
    best = candidates.choose(typed[::-1], [nothing] * 3, [1.0] * 3)
    assert best is not None
    assert best.candidate.span.answer == "Ann Roe"
    assert best.share == pytest.approx(share)
    assert candidates.choose([], [], []) is None


TABLE = "Pump | Weight\nP-102 | 40 kg\nPump: P-102; Weight: 40 kg."


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (TABLE, ["Pump: P-102; Weight: 40 kg."]),
        ("Ada | 1815\nBo | 1820", ["Ada | 1815", "Bo | 1820"]),  # no names of columns, so the rows have no sentences
        ("Pumps\n\nThey lift water.", ["They lift water."]),
        ("It ends.\n\nMore pumps\n\nThey lift water.", ["It ends.", "They lift water."]),
        ("A lone line", ["A lone line"]),
        ("They lift water.\n\nAda", ["They lift water.", "Ada"]),
        ("The valve leaks.\n\n-- \nAda Low\nKestrel Ltd, Zug", ["The valve leaks."]),
        ("The valve leaks.\n--\nAda Low\n\nForwarded: it does.", ["The valve leaks.", "Forwarded: it does."]),
        ("Pumps\n-- big\n-- small", ["Pumps", "-- big", "-- small"]),
    ],
)
def test_headings_signatures_and_rows_with_a_sentence_are_no_sentences_to_cite(text: str, sentences: list[str]) -> None:
    assert [sentence.text for sentence in PassageContent("Pumps", text).sentences] == sentences
