"""Relations between the names of a page by rules (pure).

In English a relation's label is the predicate of its sentence, and the page's subject (its title) is meant by pronouns,
by `the project` or `this company`, and by the noun phrases of sentences without a name for a subject. In other
languages the label is the words between two names. Source: algorithms.md 0.8 (F-REL), decision 0040.
"""

import re
import string
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from polyhop.schemas.graph import Mention
from polyhop.schemas.languages import STOP_WORDS
from polyhop.tasks.extraction.clauses import Clauses, PageNames, tokens_of
from polyhop.tasks.extraction.rows import Relation

Found = Sequence[Mention]  # in order

RELATED = "related to"
MENTIONS = "mentions"
_MOST_WORDS_BETWEEN = 12  # algorithms.md 0.8 (F-REL).
_MOST_WORDS_OF_LABEL = 8  # algorithms.md 0.8 (F-REL).
_PUNCTUATION = string.punctuation + "“”‘’«»–—…"


# Source: algorithms.md 0.8 (F-REL). Decided here: of overlapping mentions the longest counts; a possessive alone is
# not a label, nor are function words and numbers alone (`and`, `in the`, `1 may 1974`): such names are related, and
# nothing says how.


def consecutive_relations(text: str, mentions: Found, homes: Sequence[int]) -> list[Relation]:
    """Relations between consecutive names of one sentence, labelled by the words between, in text order."""
    return [
        (before.key, _label(text[before.end : after.start].split()), after.key)
        for before, after in _neighbours(text, mentions, homes)
    ]


def _neighbours(text: str, mentions: Found, homes: Sequence[int]) -> Iterator[tuple[Mention, Mention]]:
    """Consecutive names of one sentence, at most twelve words apart."""
    before: Mention | None = None
    before_home = -1
    for mention, home in zip(mentions, homes, strict=True):
        if before is not None and mention.start < before.end:
            if mention.end - mention.start > before.end - before.start:
                before, before_home = mention, home
            continue
        if (
            before is not None
            and home == before_home
            and before.key != mention.key
            and len(text[before.end : mention.start].split()) <= _MOST_WORDS_BETWEEN
        ):
            yield before, mention
        before, before_home = mention, home


def _label(words: Sequence[str]) -> str:
    """The words in lower case without punctuation at their ends; `related to` if they say nothing."""
    bare = [word.strip(_PUNCTUATION).lower() for word in words]
    if bare and bare[0] == "s":
        bare = bare[1:]
    bare = [word for word in bare if word]
    says_something = any(word not in STOP_WORDS and not word.isdigit() and len(word) > 1 for word in bare)
    return " ".join(bare) if says_something and len(bare) <= _MOST_WORDS_OF_LABEL else RELATED


def title_relations(title_keys: Sequence[str], keys: Sequence[str], stated: Sequence[Relation]) -> list[Relation]:
    """`mentions` from the title's first key to each of `keys` that no stated relation links to a title key (F-REL)."""
    if not title_keys:
        return []
    own = set(title_keys)
    linked = {target for source, _, target in stated if source in own}
    linked.update(source for source, _, target in stated if target in own)
    return [(title_keys[0], MENTIONS, key) for key in keys if key not in own and key not in linked]


_ROW = re.compile(r"(?:^|(?<=[\n;.|]))[ \t]*([^\W\d_][\w /&-]{0,38}?):[ \t]+(?=\S)")
_NAMING = frozenset(
    [
        "name",
        "company",
        "organisation",
        "organization",
        "firm",
        "project",
        "product",
        "person",
        "supplier",
        "employee",
        "title",
    ]
)


def page_relations(
    text: str, sentences: Sequence[tuple[int, int]], mentions: Found, homes: Sequence[int], page: PageNames
) -> list[Relation]:
    """Relations that the English sentences and table rows of a page state, in text order, each once.

    Consecutive names of a sentence that nothing connects are `related to` each other. Cost: O(characters).
    """
    stated: dict[Relation, None] = {}
    in_rows: set[int] = set()
    outer: list[list[Mention]] = [[] for _ in sentences]
    for mention, home in zip(mentions, homes, strict=True):
        row = outer[home]
        if row and mention.start < row[-1].end:
            if mention.end - mention.start > row[-1].end - row[-1].start:
                row[-1] = mention
        else:
            row.append(mention)
    for (start, end), names in zip(sentences, outer, strict=True):
        fields = _fields(text, start, end, names) if ":" in text[start:end] else []
        if fields:
            found = _row_relations(text, (start, end), fields, names, page)
            in_rows.update(name.start for name in names)
        else:
            found = Clauses(tokens_of(text, start, end, names, page.title_keys), page).read() if names else []
        stated.update(dict.fromkeys(found))
    connected = {frozenset((source, target)) for source, _, target in stated}
    for before, after in _neighbours(text, mentions, homes):
        if frozenset((before.key, after.key)) not in connected and before.start not in in_rows:
            stated[before.key, RELATED, after.key] = None
    return list(stated)


def _fields(text: str, start: int, end: int, names: Found) -> list[re.Match[str]]:
    """Heads of the fields of a row, `Maker:`; a colon within a name is none (`Gaby: A True Story`)."""
    heads = _ROW.finditer(text, start, end)
    return [head for head in heads if not any(name.start < head.end(1) < name.end - 1 for name in names)]


def _row_relations(
    text: str, span: tuple[int, int], fields: Sequence[re.Match[str]], names: Found, page: PageNames
) -> list[Relation]:
    """Relations of `Pump: P-102; Maker: Sulzer`, labelled by the column: of the row's first name, else of the title."""
    found = []
    ends = [*(match.start() for match in fields[1:]), span[1]]
    subject = page.title
    starts = [name.start for name in names]
    for number, (match, end) in enumerate(zip(fields, ends, strict=True)):
        label = " ".join(match[1].lower().split())
        inside = names[bisect_left(starts, match.end()) : bisect_left(starts, end)]
        opens_row = number == 0 or text[match.start() - 1] not in ";|"
        has_more = number + 1 < len(fields) and text[fields[number + 1].start() - 1] in ";|"
        if opens_row and inside and (has_more or (number == 0 and label in _NAMING and len(fields) > 1)):
            subject = inside[0].key
            continue
        if opens_row and has_more:
            subject = page.title
        found += [(subject, label, name.key) for name in inside if subject is not None and name.key != subject]
    return found
