"""Title aliases: other names under which a page's title is known (pure).

Source: algorithms.md 2.7 (EL).
"""

from collections.abc import Iterable

from polyhop.schemas.names import title_keys
from polyhop.schemas.text import norm_simple, without_last_parenthesis


def title_aliases(titles: Iterable[str]) -> list[tuple[str, str]]:
    """(alias, key of the title it may mean) pairs, distinct and sorted; an alias with several keys is ambiguous.

    Args:
        titles: Titles; equal ones count once.
    """
    pairs = set()
    for title in set(titles):
        keys = title_keys(title)
        if not keys:
            continue
        for form in (title, without_last_parenthesis(title)):
            alias = norm_simple(form)
            if alias:
                pairs.add((alias, keys[0]))
    return sorted(pairs)
