"""Yes-no questions about what something is (`Are A and B both rivers?`) or did: definitions and sentences that say it.

Answers `yes` from a sentence that says all that the question says of its subject, `no` only from definitions that
exclude it. Source: reader.md 6.4.
"""

import re
from collections.abc import Sequence

from polyhop.schemas.graph import Mention
from polyhop.schemas.names import STOP_WORDS, name_tokens
from polyhop.schemas.query import ComparedValue
from polyhop.worker.reading.clauses import words_of
from polyhop.worker.reading.computed import MISSING, Computed
from polyhop.worker.reading.countries import nationalities, shared_countries
from polyhop.worker.reading.lexicon import forms_of, groups_of, is_of_kind, is_of_other_kind
from polyhop.worker.reading.options import Option
from polyhop.worker.reading.pages import Page, PageSentence
from polyhop.worker.reading.parsing import ParsedQuestion, stem_of
from polyhop.worker.reading.subjects import is_on_topic
from polyhop.worker.reading.word_lists import clause_lists, geography

_FILLERS = frozenset(("both", "all", "a", "an", "the", "also", "either", "too", "and"))
_NOT = re.compile(r"\b(?:not|never|no|nor|neither|without|instead|failed|refused)\b|n['’]t\b", re.IGNORECASE)
_DEFINED = re.compile(r"\b(?:is|was|are|were) (?:an?|the|one of the)\b[^.;]{0,80}")
_MOST_KIND_WORDS = 4  # chosen: longer predicates say what things do or have, not which kind they are


def by_definition(question: ParsedQuestion, options: Sequence[Option]) -> Computed | None:
    """Whether the definitions of all options say that they are of a kind; None if the question asks for no kind."""
    kind = _kind_asked(question)
    known = [option for option in options if option.page is not None]
    if kind is None or not known or len(known) < len(options):
        return None
    verdicts, values = [], []
    for option in known:
        if option.page is None:
            continue
        verdicts.append(_is_kind(option.page, kind, is_one_of_several=len(known) > 1))
        values.append(ComparedValue(option.name, _definition(option.page), option.page.cite(None)))
    if all(verdicts):
        return Computed("yes", "definition", tuple(values))
    if any(verdict is False for verdict in verdicts):
        return Computed("no", "definition", tuple(values))
    return None


def _kind_asked(question: ParsedQuestion) -> tuple[str, ...] | None:
    """The words after the names of `Are A and B both Italian film directors?`, None if that says more than a kind."""
    if not question.names or question.words[0] not in ("is", "are", "was", "were"):
        return None
    things = [name for name in question.names if name.key not in geography().demonyms]
    if not things:
        return None
    text = question.text[things[-1].end :]
    words = tuple(word for word in name_tokens(text) if word not in _FILLERS)
    lists = clause_lists()
    if not 0 < len(words) <= _MOST_KIND_WORDS or not (lists.prepositions | lists.auxiliaries | STOP_WORDS).isdisjoint(
        words
    ):
        return None
    is_verb = words[-1].endswith(("ed", "ing")) or words[-1] in lists.verbs
    return None if is_verb else words


def _is_kind(page: Page, words: Sequence[str], *, is_one_of_several: bool) -> bool | None:
    """Whether a page's definition says all of a kind, excludes it, or (None) leaves it open."""
    demonyms = [word for word in words if word in geography().demonyms]
    nouns = [word for word in words if word not in geography().demonyms]
    if demonyms:
        countries = {place.country for place in nationalities(page.lead) if place.is_demonym}
        if not countries:
            return None
        if not all(shared_countries({geography().demonyms[demonym]}, countries) for demonym in demonyms):
            return False
    return _is_of_nouns(page, nouns, is_one_of_several=is_one_of_several) if nouns else True


def _is_of_nouns(page: Page, nouns: Sequence[str], *, is_one_of_several: bool) -> bool | None:
    """Whether a page's definition says all nouns of a kind, excludes them, or (None) leaves it open."""
    if is_of_kind(page.kinds, nouns[-1]):
        stems = {stem_of(word) for word in page.kinds}
        return True if all(stem_of(word) in stems for word in nouns[:-1]) else None
    if is_of_other_kind(page.kinds, nouns[-1]):
        return False
    return False if is_one_of_several and _is_other_person(page, nouns[-1]) else None


def _is_other_person(page: Page, kind: str) -> bool:
    """Whether a definition names what a person was, and it is something else than what is asked."""
    return "person" in groups_of(page.kinds) and "person" in groups_of({kind})


def _definition(page: Page) -> str:
    match = _DEFINED.search(page.lead)
    return " ".join(match[0].split()) if match else MISSING


def by_statement(question: ParsedQuestion, options: Sequence[Option]) -> Computed:
    """Yes if a sentence about the first option with a page says all that the question says, else ""."""
    missing = tuple(ComparedValue(option.name, MISSING) for option in options[:1])
    option = next((one for one in options if one.page is not None), None)
    if option is None or option.page is None or (len(options) > 1 and options[0].page is None):
        return Computed("", "statement", missing)
    named = [name for name in question.names if name.surface != option.asked]
    content = _content(question, option)
    for sentence in option.page.sentences:
        if is_on_topic(option.page, sentence) and _says(question, option.page, sentence, content, named):
            shown = ComparedValue(option.name, " ".join(sentence.text.split()), option.page.cite(sentence))
            return Computed("yes", "statement", (shown,))
    return Computed("", "statement", missing)


def _content(question: ParsedQuestion, option: Option) -> list[str]:
    """The words that a sentence has to say: not those of names, nor those that led to the option's page."""
    lists = clause_lists()
    empty = {word for name in question.names for word in name_tokens(name.surface)}
    empty |= STOP_WORDS | lists.adverbs | lists.auxiliaries
    if option.via is not None:
        empty.update(name_tokens(option.via.passage.title))
        empty.update(word for word in question.words if word.endswith(("or", "er", "ist", "ect")))
    return [word for word in question.words if word not in empty]


def _says(
    question: ParsedQuestion, page: Page, sentence: PageSentence, content: Sequence[str], named: Sequence[Mention]
) -> bool:
    """Whether a sentence has all words of the question, its names after the same prepositions, and no negation."""
    if _NOT.search(sentence.text) or not (content or named):
        return False
    stems = {*sentence.places, *(stem_of(word) for word in page.kinds)}
    if not all(forms_of(word) & stems for word in content):
        return False
    return all(_is_named_alike(question.text, sentence.text, name) for name in named)


def _is_named_alike(asked: str, text: str, name: Mention) -> bool:
    """Whether a sentence has a name of the question, after the same preposition if the question has one."""
    before = words_of(asked[: name.start])
    link = next((word.low for word in reversed(before) if word.low != "the"), "")
    if link not in clause_lists().prepositions:
        return re.search(rf"(?<!\w){re.escape(name.surface)}(?!\w)", text) is not None
    return (
        re.search(rf"\b{re.escape(link)} (?:the )?(?:[\w-]+ ){{0,3}}{re.escape(name.surface)}(?!\w)", text) is not None
    )
