"""Relations between names that stand close in a sentence (F-REL, pure).

Understands no grammar: the words between two names are the label. Source: algorithms.md 0.8 (F-REL).
Decided here: of overlapping mentions the longest counts; a possessive alone is not a label, nor are function words and
numbers alone (`and`, `in the`, `1 may 1974`): such names are related, and nothing says how.
"""

import string
from collections.abc import Sequence

from polyhop.schemas.graph import Mention
from polyhop.schemas.names import STOP_WORDS
from polyhop.tasks.extraction.rows import Relation

RELATED = "related to"
MENTIONS = "mentions"
_MOST_WORDS_BETWEEN = 12  # algorithms.md 0.8 (F-REL).
_MOST_WORDS_OF_LABEL = 8  # algorithms.md 0.8 (F-REL).
_PUNCTUATION = string.punctuation + "“”‘’«»–—…"


def sentence_relations(text: str, mentions: Sequence[Mention], homes: Sequence[int]) -> list[Relation]:
    """Relations between consecutive names of one sentence, in text order.

    Args:
        text: The passage's text.
        mentions: Its names, in order of place.
        homes: Number of the sentence of each.

    Source: algorithms.md 0.8 (F-REL). Cost: O(characters).
    """
    found = []
    before: Mention | None = None
    before_home = -1
    for mention, home in zip(mentions, homes, strict=True):
        if before is not None and mention.start < before.end:
            if mention.end - mention.start > before.end - before.start:
                before, before_home = mention, home
            continue
        if before is not None and home == before_home and before.key != mention.key:
            words = text[before.end : mention.start].split()
            if len(words) <= _MOST_WORDS_BETWEEN:
                found.append((before.key, _label(words), mention.key))
        before, before_home = mention, home
    return found


def _label(words: Sequence[str]) -> str:
    """The words in lower case without punctuation at their ends; `related to` if they say nothing."""
    bare = [word.strip(_PUNCTUATION).lower() for word in words]
    if bare and bare[0] == "s":
        bare = bare[1:]
    bare = [word for word in bare if word]
    says_something = any(word not in STOP_WORDS and not word.isdigit() and len(word) > 1 for word in bare)
    return " ".join(bare) if says_something and len(bare) <= _MOST_WORDS_OF_LABEL else RELATED


def title_relations(title_keys: Sequence[str], keys: Sequence[str], stated: Sequence[Relation]) -> list[Relation]:
    """`mentions` from the title's first key to each of `keys` that no stated relation links to a title key.

    Source: algorithms.md 0.8 (F-REL).
    """
    if not title_keys:
        return []
    own = set(title_keys)
    linked = {target for source, _, target in stated if source in own}
    linked.update(source for source, _, target in stated if target in own)
    return [(title_keys[0], MENTIONS, key) for key in keys if key not in own and key not in linked]
