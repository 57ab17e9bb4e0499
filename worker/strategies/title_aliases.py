"""EL: other names under which exactly one title of the corpus is known (pure).

Source: algorithms.md 2.7.
"""

from collections.abc import Callable, Iterable

from polyhop.schemas.text import without_last_parenthesis


def title_aliases(titles: Iterable[str], label: Callable[[str], str]) -> dict[str, str]:
    """Label of the one title that a label can mean.

    Args:
        titles: Titles of the corpus; equal ones count once.
        label: A title to its label, the norm of the graph's nodes.

    Returns:
        By alias: a title's own label, and that of the title without one trailing group in parentheses. What could be
        several titles' is left out.
    Source: algorithms.md 2.7 (EL).
    """
    meanings: dict[str, set[str]] = {}
    for title in set(titles):
        canonical = label(title)
        if not canonical:
            continue
        for alias in (canonical, label(without_last_parenthesis(title))):
            if alias:
                meanings.setdefault(alias, set()).add(canonical)
    return {alias: min(found) for alias, found in sorted(meanings.items()) if len(found) == 1}
