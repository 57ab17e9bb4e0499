"""G-SPRIG-9 and the stop-word switch of SPRIG's regular expression."""

import pytest

from schemas.graph import Mention
from schemas.names_regex import RegexNames


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("When was Ada Lovelace born in London?", ["When", "Ada Lovelace", "London"]),
        ("The New York Times Book Review section", ["The New York Times", "Book Review"]),
        ("NASA launched Apollo 11", ["Apollo"]),
        ("Louis XIII of France", ["Louis", "France"]),
        ("McDonald visited Rio de Janeiro", ["Rio", "Janeiro"]),
        ("Jean-Luc Picard", ["Jean", "Luc Picard"]),
        ("", []),
    ],
)
def test_golden_raw_matches(text: str, expected: list[str]) -> None:
    assert [mention.surface for mention in RegexNames(drop_stopwords=False).find(text)] == expected


def test_the_switch_drops_single_stop_words_only() -> None:
    found = RegexNames().find("When did The Band play?")
    assert found == [Mention("the band", "The Band", 9, 17)]


def test_keys_are_normalised_over_line_breaks() -> None:
    assert RegexNames().find("Ada\n Lovelace") == [Mention("ada lovelace", "Ada\n Lovelace", 0, 13)]
