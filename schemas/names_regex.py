"""Names by SPRIG's regular expression: one to four capitalised ASCII words.

Kept to reproduce the paper; it misses NASA, XIII, McDonald and every accent (names.py does not).
Source: algorithms.md 2.3.
"""

import re

from schemas.graph import Mention
from schemas.names import STOP_WORDS
from schemas.text import norm_simple

_CAPITALISED = re.compile(r"\b[A-Z][a-z]+(\s+[A-Z][a-z]+){0,3}\b")


class RegexNames:
    """Finds SPRIG's names; keys are `norm_simple` of the match.

    Args:
        drop_stopwords: Leave out matches that are one stop word; False reproduces the paper.
    """

    def __init__(self, *, drop_stopwords: bool = True) -> None:
        self._dropped = STOP_WORDS if drop_stopwords else frozenset[str]()

    def find(self, text: str) -> list[Mention]:
        """Names in `text` from left to right, without overlap. Source: algorithms.md 2.3."""
        found = []
        for match in _CAPITALISED.finditer(text):
            key = norm_simple(match[0])
            if key not in self._dropped:
                found.append(Mention(key, match[0], match.start(), match.end()))
        return found
