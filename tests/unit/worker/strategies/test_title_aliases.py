"""EL's aliases: the golden titles and what makes an alias ambiguous."""

from polyhop.schemas.text import norm_lower, norm_simple
from polyhop.worker.strategies.sprig import title_aliases

TITLES = ["Mercury (planet)", "Mercury (element)", "Ada Lovelace", "Paris (Texas)", "Blur (band)", "Blur"]


def test_golden_aliases() -> None:
    """G-SPRIG-6."""
    assert title_aliases(TITLES, norm_simple) == {
        "ada lovelace": "ada lovelace",
        "blur band": "blur band",
        "mercury element": "mercury element",
        "mercury planet": "mercury planet",
        "paris texas": "paris texas",
        "paris": "paris texas",
    }


def test_another_norm_keeps_its_own_labels() -> None:
    assert title_aliases(["Paris (Texas)"], norm_lower) == {"paris (texas)": "paris (texas)", "paris": "paris (texas)"}


def test_equal_titles_count_once_in_any_order() -> None:
    assert title_aliases([*TITLES, *TITLES], norm_simple) == title_aliases(reversed(TITLES), norm_simple)


def test_only_the_last_parentheses_go_and_never_the_whole_title() -> None:
    assert title_aliases(["A (b) (c)"], norm_simple) == {"a b c": "a b c", "a b": "a b c"}
    assert title_aliases(["(Everything)", "?!"], norm_simple) == {"everything": "everything"}
