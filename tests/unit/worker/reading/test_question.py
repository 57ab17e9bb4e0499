"""Questions taken apart, answers that are computed, and sentences that may be cited. Source: reader.md."""

from collections.abc import Callable

import pytest

from polyhop.schemas.query import ReaderResult
from polyhop.worker.reading.comparisons import CONFIDENCES, MISSING, options_of
from polyhop.worker.reading.pages import PassageContent
from polyhop.worker.reading.question import ParsedQuestion

Parse = Callable[..., ParsedQuestion]


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "Who was the first president of the association which published Journal of Psychotherapy Integration?",
            "ANY, ",
        ),
        (
            "What is the name of the waterfall in the country where the Bubye River is found?",
            "ANY, waterfall",
        ),
        ("Which region is Corey Taylor's city of birth located?", "ANY, region"),
        (
            "When was the astronomical clock built in the city where Karel Purkyně died?",
            "DATE, ",
        ),
        ("Who is the spouse of Big Eye's main director?", "ANY, "),
    ],
)
def test_golden_questions_taken_apart(parsed: Parse, question: str, parts: str) -> None:
    """Type and head noun."""
    found = parsed(question, "Big Eye")
    assert f"{found.expected}, {' '.join(found.head)}" == parts


OF_TYPE = (
    ("ANY", ("Who wrote it?", "Where did she study?", "Was Warsaw the capital of what country?")),
    ("DATE", ("When did it open?", "On what date did it open?", "What time does it open?")),
    ("YEAR", ("In what year did it open?",)),
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
    ],
)
def test_parts_of_a_question(parsed: Parse, question: str, part: str, expected: object) -> None:
    assert getattr(parsed(question), part) == expected


Ask = Callable[..., ReaderResult]

ADA = ("Ada Low", "Ada Low was a writer born in Elmton in 1815. She was taught by Eve Doe.")
KARLAND = ("Karland", "Karland is a country in the north. Its capital is Amring, and its money is struck in Drael.")
VELLAND = ("Velland", "Velland is a country in the south. The currency of Velland is the Orim, struck in Ovik.")
ELMTON = ("Elmton", "Elmton is a city in Ardenia. The River Ash flows through Elmton. Its mayor is Gus Hoe.")
BEN = ("Ben Poe", "Ben Poe was an inventor who studied at the University of Ashby. He designed the Great Loom in 1820.")
TOWER = ("Oak Tower", "The Oak Tower is a tower. It was designed by Al Fay and Ed Noe for the car maker Cy Orr.")


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
    assert reading.answer == ""
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
        ("Which is older, Red Lake (film) or Up High?", ["Red Lake (film)", "Up High"]),
        ("Is it older or newer than Ann Roe?", []),
        ("What is the distance between Ann Roe and Up High?", []),
    ],
)
def test_options_are_names_beside_an_or(parsed: Parse, question: str, options: list[str]) -> None:
    found = options_of(parsed(question, "Sink or Swim", "Ann Roe", "Up High", "Red Lake", "Red Lake (film)"))
    assert [option.surface for option in found] == options


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
