"""Which texts a change of titles can touch: those in which a key of a title that came or went occurs (pure).

Names are found by capitals, which is a matter of the text alone, and by the keys of all titles, wherever their words
follow one another. Where no key that came or went occurs, the same names are found as before. Source: algorithms.md
2B.1.
"""

from collections.abc import Iterable

from polyhop.schemas.names import name_tokens, title_keys


class ChangedTitles:
    """Keys of titles that only one of two corpora has.

    Args:
        before: Titles of the one corpus.
        after: Titles of the other.
    """

    def __init__(self, before: Iterable[str], after: Iterable[str]) -> None:
        changed = set(before).symmetric_difference(after)
        self._keys_with: dict[str, list[str]] = {}
        for key in sorted({key for title in changed for key in title_keys(title)}):
            # the longest word is the rarest one, as a rule: most texts are cleared by a look at their words
            self._keys_with.setdefault(max(key.split(), key=len), []).append(key)

    @property
    def is_any(self) -> bool:
        """Whether any key came or went."""
        return bool(self._keys_with)

    def occur_in(self, text: str) -> bool:
        """Whether the words of one of the keys follow one another in a text.

        Cost: O(characters), and as much again per key whose longest word occurs.
        """
        if not self._keys_with:
            return False
        words = name_tokens(text)
        hits = self._keys_with.keys() & set(words)
        line = f" {' '.join(words)} " if hits else ""
        return any(f" {key} " in line for word in hits for key in self._keys_with[word])
