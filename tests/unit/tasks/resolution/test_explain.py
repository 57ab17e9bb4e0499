import pytest

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.graph import Decision
from polyhop.tasks.resolution.resolve import Explanation, explain, keys_of
from polyhop.warehouse.tables.version_rows import NameRecords

ENTITIES: dict[str, tuple[str, str | None]] = {
    "acme corp": ("Acme Corp", "ORGANIZATION"),
    "paris": ("Paris", "LOCATION"),
    "paris texas": ("Paris, Texas", "LOCATION"),
    "paris hilton": ("Paris Hilton", "PERSON"),
    "ada": ("Ada", "PERSON"),
    "louis xiii": ("Louis XIII", "PERSON"),
    "king louis xiii": ("King Louis XIII", "PERSON"),
    "thing": ("Thing", None),
    "the thing": ("The Thing", None),
}
DECISIONS = [
    Decision("acme", "er", "ORGANIZATION", "acme corp", "'acme corp' only adds corp to 'acme'"),
    Decision("big blue", "manual", "", "acme corp", "must-link 'big blue' = 'acme' (m.csv line 2)"),
    Decision(
        "paris", "er", "LOCATION", "paris", "places are one only with the same words: 'paris' is not 'paris texas'"
    ),
    Decision("ada", "manual", "", "ada", "cannot-link 'ada' is not 'acme' (c.csv line 2)"),
    Decision("louis xiii", "er", "PERSON", None, "several longer forms fit 'louis xiii': 'a', 'b'", is_ambiguous=True),
]


def told(a: str, b: str, method: str = "rules") -> Explanation:
    return explain(a, b, NameRecords(ENTITIES, DECISIONS, {"pariss": ["Paris"]}, method))


@pytest.mark.parametrize(
    ("a", "b", "same", "reason"),
    [
        ("Acme", "ÁCME!", True, "both are 'acme' once case, accents and punctuation are dropped"),
        ("Acme", "Acme Corp", True, "'acme corp' only adds corp to 'acme'"),
        (
            "Acme",
            "Big Blue",
            True,
            "'acme corp' only adds corp to 'acme'; must-link 'big blue' = 'acme' (m.csv line 2)",
        ),
        ("Ada", "Acme", False, "cannot-link 'ada' is not 'acme' (c.csv line 2)"),
        ("Paris", "Paris, Texas", False, "places are one only with the same words: 'paris' is not 'paris texas'"),
        ("Paris", "Paris Hilton", False, "of company: 'paris' is LOCATION and 'paris hilton' is PERSON"),
        ("Ada", "Paris Hilton", False, "neither name has all words of the other"),
        ("Louis XIII", "King Louis XIII", False, "several longer forms fit 'louis xiii'"),
        ("Thing", "The Thing", False, "both are of no known type"),
        ("Pariss", "Paris", False, "no passage of this index mentions 'Pariss'"),
    ],
)
def test_each_answer_has_its_reason(a: str, b: str, same: bool, reason: str) -> None:
    for first, second in ((a, b), (b, a)):
        explanation = told(first, second)
        assert explanation.same is same
        assert reason in explanation.reason


def test_an_unseen_name_gets_the_nearest_ones() -> None:
    assert told("Pariss", "Paris").nearest == {"Pariss": ["Paris"]}


def test_without_resolution_the_answer_says_so() -> None:
    assert "resolution was off" in explain("Paris", "Paris, Texas", NameRecords(ENTITIES, [], {}, "off")).reason


def test_a_name_without_letters_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is not a name"):
        told("!!!", "Paris")


def test_a_name_with_an_article_in_front_is_the_name_that_stands_in_the_texts() -> None:
    found = told("the Acme Corp", "Acme Corp")
    assert (found.same, found.nearest) == (True, {})
    assert found.reason == "both are 'acme corp' once function words in front are dropped"
    assert told("the Paris", "Paris Hilton").reason.startswith("names are one only within one type")


def test_an_article_that_belongs_to_a_name_stays() -> None:
    assert not told("The Thing", "Thing").same
    assert keys_of("The Thing", "Thing") == ("the thing", "thing")
    assert keys_of("The The", "a") == ("the the", "a")
