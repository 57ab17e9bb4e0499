"""Options of a question (`A or B`, `both A and B`) and the pages that tell about them.

Compares nothing. Source: reader.md 6.4.
Decided here: what a question calls `the author of NAME` is followed from NAME's page to the author's as
`the director of NAME` is, by the text that stands before a person with that role (lists/comparisons.toml).
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from polyhop.schemas.graph import Mention
from polyhop.schemas.names import NameFinder, name_tokens
from polyhop.worker.reading.countries import places_in
from polyhop.worker.reading.pages import Page
from polyhop.worker.reading.parsing import ParsedQuestion
from polyhop.worker.reading.word_lists import comparison_lists

_NEAR_OR = 12  # characters; reader.md 6.4, options.
_OR = re.compile(r"\bor\b", re.IGNORECASE)
# `between … and`, `of … and …,` on one line: from each line's beginning, the first such words are kept (`(?>…)`),
# because no later ones can match where the first do not; otherwise every pair of them would be tried
_PAIRED = re.compile(
    r"^(?>.*?\bbetween\b).+\band\b|^(?>.*?\bof )(?>.+? and ).+,"
    r"|\bof the two\b|\bwhich (?:was|is|came)\b|\bwho (?:is|was) (?:older|younger|first|born)\b",
    re.IGNORECASE | re.MULTILINE,
)
_SEPARATOR = re.compile(r"(?:,|,? (or|and)) (?:the )?")
_AMONG = re.compile(r"\b(?:of|among|between)(?: the)? $", re.IGNORECASE)
_ROLE_OF = re.compile(r"([a-z]+) of (?:the |both )?(?:[a-z]+ ){0,2}$", re.IGNORECASE)
_POSSESSIVE_ROLE = re.compile(r"['’]s? (\w+)")
_BORN = re.compile(r"\bborn\b")
_NAME_GAP = 48  # characters; chosen: a role and the article before a name (`the screenwriter of the film`), with room
_RUNS = NameFinder(())


@dataclass(frozen=True, slots=True)
class Option:
    """A thing that a question compares.

    Attributes:
        name: As the question writes it, or of the person whom it describes (`the author of …`).
        page: Its own page; the page of its director, author… if the question asks for that person's value.
        asked: The name in the question.
        via: Its own page, if `page` is another one.
    """

    name: str
    page: Page | None
    asked: str
    via: Page | None = None


def choice(question: ParsedQuestion) -> tuple[Mention, ...] | None:
    """The names that a question lets choose between, two or more; None if it does not."""
    series = _series(question)
    return series or _pair(question)


def _series(question: ParsedQuestion) -> tuple[Mention, ...] | None:
    """Three or more names in a row: `A, B or C`, and `of A, B and C` where the question compares."""
    names, text = question.names, question.text
    first = 0
    while first < len(names):
        last = first
        while last + 1 < len(names) and _SEPARATOR.fullmatch(text, names[last].end, names[last + 1].start):
            last += 1
        if last - first >= 2:
            sign = _SEPARATOR.fullmatch(text, names[last - 1].end, names[last].start)
            is_among = bool(_AMONG.search(text, 0, names[first].start)) and _compares(question)
            if sign and (sign[1] == "or" or (sign[1] == "and" and is_among)):
                return names[first : last + 1]
        first = last + 1
    return None


def _compares(question: ParsedQuestion) -> bool:
    lists = comparison_lists()
    return not (lists.larger | lists.smaller).isdisjoint(plain_words(question))


def _pair(question: ParsedQuestion) -> tuple[Mention, Mention] | None:
    names = question.names
    starts = [name.start for name in names]
    for sign in reversed(list(_OR.finditer(question.text))):
        after = bisect_left(starts, sign.end())
        last = names[after - 1] if after else None
        if last is None or last.end > sign.start() or after == len(names):
            continue
        chosen = _near(question, sign, last, names[after])
        if chosen is not None:
            return chosen
    if len(names) >= 2 and _compares(question) and _PAIRED.search(question.text):
        return names[0], names[1]
    return None


def lets_choose(question: ParsedQuestion) -> bool:
    """Whether a question names its alternatives (`A or B`), so that nothing else can answer it."""
    starts = [name.start for name in question.names]
    for sign in _OR.finditer(question.text):
        before = bisect_right(starts, sign.start())
        if not before or question.names[before - 1].end <= sign.start():
            return True
    return False


def _near(
    question: ParsedQuestion, sign: re.Match[str], before: Mention, behind: Mention
) -> tuple[Mention, Mention] | None:
    """The names beside an `or` if both are near; the one after it may be further away as `the ROLE of NAME`."""
    if sign.start() - before.end > _NEAR_OR:
        return None
    distance = behind.start - sign.end()
    is_choice = distance <= _NEAR_OR or (distance <= _NAME_GAP and role_of(question, behind) != "")
    return (before, behind) if is_choice else None


def plain_words(question: ParsedQuestion) -> frozenset[str]:
    """Words of a question outside its names."""
    ends = [0, *(name.end for name in question.names)]
    starts = [*(name.start for name in question.names), len(question.text)]
    outside = [question.text[end:start] for end, start in zip(ends, starts, strict=True)]
    return frozenset(name_tokens(" ".join(outside)))


def role_of(question: ParsedQuestion, name: Mention) -> str:
    """What the question calls somebody by this name (`the author of NAME`, `NAME's director`), "" if it does not."""
    roles = comparison_lists().roles
    behind = _POSSESSIVE_ROLE.match(question.text, name.end)
    if behind and behind[1].lower() in roles:
        return behind[1].lower()
    before = _ROLE_OF.search(question.text[max(0, name.start - _NAME_GAP) : name.start])
    return before[1].lower() if before and before[1].lower() in roles else ""


def own_page_of(name: str, pages: Sequence[Page]) -> Page | None:
    """The best ranked page with a name as one of its title's keys."""
    key = " ".join(name_tokens(name))
    return next((page for page in pages if key in page.title_keys), None)


def option_of(question: ParsedQuestion, name: Mention, pages: Sequence[Page], shared_role: str = "") -> Option:
    """A name of the question with the page to compare by.

    Args:
        question: The question.
        name: The name.
        pages: The context.
        shared_role: Word for a person whom the question asks about for all its options (`directors`), "" without.
    """
    own = own_page_of(name.surface, pages)
    role = role_of(question, name)
    if own is None or not (role or shared_role) or _BORN.search(own.lead):
        return Option(name.surface, own, name.surface)
    person, page = follow(own, role or shared_role, pages)
    if page is None:
        return Option(name.surface, own, name.surface)
    return Option(person if role and not shared_role else name.surface, page, name.surface, own)


def shared_role_of(question: ParsedQuestion) -> str:
    """The role whose persons a question compares for all its options, "" if it compares the options themselves."""
    words = plain_words(question)
    described = {role_of(question, name) for name in question.names}
    if "director" in words and "director" not in described:
        return "director"
    plural = sorted(role for role in words & comparison_lists().roles.keys() if role.endswith("s"))
    return plural[0] if plural else ""


def follow(own: Page, role: str, pages: Sequence[Page]) -> tuple[str, Page | None]:
    """The person with a role for a page (`directed by NAME`), and that person's own page."""
    before = comparison_lists().roles[role]
    for match in before.finditer(own.text):
        reach = own.text[match.end() : match.end() + _NAME_GAP]
        for mention in _RUNS.find(reach + own.text[match.end() + _NAME_GAP : match.end() + 2 * _NAME_GAP]):
            if mention.start >= _NAME_GAP:
                break
            page = own_page_of(mention.surface, pages)
            if page is not None and page is not own:
                return mention.surface, page
            if not _is_demonym(mention.surface):
                break
    return "", None


def _is_demonym(name: str) -> bool:
    found = places_in(name)
    return bool(found) and (found[0].end - found[0].start) == len(name)
