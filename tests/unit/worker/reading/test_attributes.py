"""Which date or measure a passage states of a thing: of the kind that is asked, of the thing that is asked."""

from collections.abc import Callable

import pytest

from polyhop.worker.reading.pages import Page
from polyhop.worker.reading.quantities import Day, stated_date, stated_measure
from polyhop.worker.reading.word_lists import date_attributes, measures

Pages = Callable[..., list[Page]]


@pytest.fixture
def day(pages: Pages) -> Callable[..., Day | None]:
    """The date of a kind that passages state of the first one's title, or of another name."""

    def find(kind: str, *passages: tuple[str, str], of: str = "") -> Day | None:
        context = pages(*passages)
        own = None if of else context[0]
        found = stated_date(of or passages[0][0], own, context, date_attributes()[kind])
        if found is not None:
            text = found.sentence.text
            assert found.page.text[found.sentence.start :].startswith(text)
            assert str(found.date.day[0]) in text[found.date.start : found.date.end]
        return found.date.day if found else None

    return find


FindDay = Callable[..., Day | None]


@pytest.mark.parametrize(
    ("title", "lead", "born", "died"),
    [
        (
            "David Lynch",
            "David Lynch (born January 20, 1946 in Missoula, Montana) is an American filmmaker.",
            (1946, 1, 20),
            None,
        ),
        ("Ann Roe", "Ann Roe (12 June 1516 – 3 May 1560) was an English writer.", (1516, 6, 12), (1560, 5, 3)),
        ("Jo Bloggs", "Jo Bloggs (died 1204) was a Norman knight.", None, (1204, 0, 0)),
        ("Henry King", "Henry King( January 24, 1886 June 29, 1982) was an actor.", (1886, 1, 24), (1982, 6, 29)),
        ("Ann Roe", "Ann Roe (1060 – 1114) was a countess.", (1060, 0, 0), (1114, 0, 0)),
        ("Guy", "Guy (died 929) was a margrave.", None, (929, 0, 0)),
        ("Bo", "Bo (born 1917 in Rome – 9 May 1994) was a man.", (1917, 0, 0), (1994, 5, 9)),
        (
            "Eve Doe",
            "Eve Doe was a writer born in Dijon in 1832. She died in Paris in 1923.",
            (1832, 0, 0),
            (1923, 0, 0),
        ),
        ("Eve Doe", "Eve Doe (the elder) (1832–1923) was a writer.", (1832, 0, 0), (1923, 0, 0)),
        ("Eve Doe", "Eve Doe was a writer. The prize came in 1999.", None, None),
        ("Eve Doe", "Eve Doe was born in Rome. The prize came in 1999.", None, None),
        ("Eve Doe", "", None, None),
        ("Ann Roe", "Ann Roe (1066) was a poem of note.", None, None),
        ("Ann Roe", "Ann Roe (reigned 1066 – 1087) was a queen.", None, None),
        ("Up High", "Up High (1988 film) is a film.", None, None),
        ("Ann Roe", "Annabel Roe, née Poe, was a French scholar born in Figeac, France, in 1790.", (1790, 0, 0), None),
        ("Ann Roe", "Ann Roe was a nurse. Born in Rome in May 1903, she moved to Paris in 1930.", (1903, 5, 0), None),
        ("Ann Roe", "Ann Roe was a nurse. She was born in Rome and moved to Paris in 1930.", None, None),
        ("Ben Poe", "Ben Poe was a king. His father Al was born in 1822 and died in 1888.", None, None),
        ("Ben Poe", "Ben Poe was a king. His wife Eve was born in 1904. She died in 1990.", None, None),
        ("Ben Poe", "Ben Poe was a king. He had a son, Al, born in 1815.", None, None),
        ("Ben Poe", "Ben Poe was a king. Ben Poe's father died in 1888.", None, None),
        ("Ben Poe", "Ben Poe was a king. Al Roe, who met him in 1870, died in 1888.", None, None),
        ("Ben Poe", "Ben Poe was a king. After his death in 1888 the war began.", None, (1888, 0, 0)),
        ("Ben Poe", "Ben Poe was a king. In 1888 he died at sea.", None, (1888, 0, 0)),
        ("Ben Poe", "Ben Poe was a king. He left Rome in 1880 and died in Paris.", None, None),
    ],
)
def test_birth_and_death_are_those_of_the_person(
    day: FindDay, title: str, lead: str, born: Day | None, died: Day | None
) -> None:
    assert (day("birth", (title, lead)), day("death", (title, lead))) == (born, died)


@pytest.mark.parametrize(
    ("kind", "title", "text", "expected"),
    [
        ("release", "Up", "Up is a 1988 Indian Malayalam film directed by K. Madhu.", (1988, 0, 0)),
        ("founding", "Guitar World", "Guitar World is a music magazine published since July 1980.", (1980, 7, 0)),
        ("founding", "Cam-Pact", "The band was founded in Leeds in 1981. The band Cam-Pact was a band.", (1981, 0, 0)),
        ("founding", "Elm School", "Opened by a king of 1700, the school was founded in 1816.", (1816, 0, 0)),
        (
            "opening",
            "Elm Bridge",
            "Elm Bridge is a bridge. Work began in 1930, and the bridge opened in May 1937.",
            (1937, 5, 0),
        ),
        ("founding", "Elm Bridge", "Elm Bridge is a bridge. Work began in 1930, and it opened in 1937.", None),
        ("building", "Elm Hall", "Elm Hall is a hall. It was built between 1887 and 1889 by Al Roe.", (1889, 0, 0)),
        ("building", "Al Roe", "Al Roe was an architect. He built the Elm Hall in 1889.", None),
        ("opening", "Elm Museum", "Elm Museum is a museum. A new wing of the museum opened in 2000.", None),
        ("opening", "Elm Museum", "Elm Museum is a museum. The museum's shop opened in 2000.", None),
        (
            "opening",
            "Elm House",
            "Elm House is a concert hall. Queen Ann opened the building on 20 May 1973.",
            (1973, 5, 20),
        ),
        ("release", "Zap", "The Zap is a player that Sony released in July 1979.", (1979, 7, 0)),
        ("release", "Ann Roe", "Ann Roe was a writer. In 1843 she published notes on engines.", None),
        ("founding", "Elm", "Elm is a firm. It dates its foundation to 1088.", (1088, 0, 0)),
        ("opening", "Elm Fair", "Elm Fair is a fair. It opened before 1800.", None),
        ("launch", "Elm", "Elm is a three-masted ship launched at Oslo in 1912.", (1912, 0, 0)),
        ("opening", "Elm", "A name of 1999.", None),
    ],
)
def test_a_thing_has_only_the_dates_that_are_stated_of_it(
    day: FindDay, kind: str, title: str, text: str, expected: Day | None
) -> None:
    assert day(kind, (title, text)) == expected


def test_a_page_of_something_else_may_state_a_date_by_name(day: FindDay) -> None:
    page = ("Elm Town", "Elm Town is the home of Ann Roe (1510 – 1560). The painter Ben Poe was born there in 1899.")
    assert day("birth", page, of="Ann Roe") == (1510, 0, 0)
    assert day("death", page, of="Ann Roe") == (1560, 0, 0)
    assert day("birth", page, of="Ben Poe") == (1899, 0, 0)
    assert day("birth", page, of="Cat Loe") is None


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("height", "Elm Peak is a mountain. Its summit is 4,478 metres high.", 4478.0),
        ("height", "Elm Peak is a bridge. Its towers are 227 metres tall, and it is 2,737 metres long.", None),
        ("length", "Elm Peak is a bridge. Its towers are 227 metres tall, and it is 2,737 metres long.", 2737.0),
        ("length", "Elm Peak is about 2.5 kilometres long.", 2500.0),
        ("height", "Elm Peak stands beside Ash Peak. Ash Peak is 900 metres high.", None),
        ("height", "Elm Peak rises 4,806 metres above the sea.", 4806.0),
        ("population", "Elm Peak is a city. It has about 8.8 million inhabitants.", 8.8e6),
        ("staff", "Elm Peak is a firm. It employs about 100,000 people.", 1e5),
        ("height", "Elm Peak has a height of 100 ft and a past.", 30.48),
        ("depth", "Elm Peak is 30 metres high.", None),
    ],
)
def test_a_measure_needs_its_unit_its_word_and_its_subject(
    pages: Pages, kind: str, text: str, expected: float | None
) -> None:
    found = stated_measure(pages(("Elm Peak", text))[0], measures()[kind])
    assert (found.value if found else None) == (pytest.approx(expected) if expected else None)
