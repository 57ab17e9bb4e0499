"""Subjects of sentences: whether a noun phrase stands for what its passage is about, and who does what a verb says.

Finds no noun phrases (clauses.py does). Source: reader.md 6.5, 6.6 (the verb).
Decided here: `he`, `she`, `it`, `they` stand for the page's subject if the page uses that pronoun first; `the tower`
stands for it if the page's title or first definition calls it a tower; the first sentence is about the page.
"""

from collections.abc import Sequence

from polyhop.schemas.names import name_tokens
from polyhop.worker.reading.clauses import (
    PRONOUNS,
    Phrase,
    Word,
    is_passive,
    leading_subject,
    object_after,
    subject_of,
    words_of,
)
from polyhop.worker.reading.lexicon import forms_of, is_of_kind
from polyhop.worker.reading.pages import Page, PageContent, PageSentence

_OF_OTHERS = frozenset(("a", "an", "these", "both", "their", "this", "that"))
_NEAR_BY = 6  # words after a verb; chosen: room for a date or a place (`was designed in 1886 by`)


def is_subject(page: Page | PageContent, sentence: PageSentence, words: Sequence[Word], phrase: Phrase | None) -> bool:
    """Whether a noun phrase of a page's sentence stands for the page's subject.

    A phrase of the first sentence that could not be found (None) does, and so does what that sentence begins with.
    """
    if phrase is None:
        return sentence.number == 0
    if is_named(words, phrase, page.title_keys):
        return True
    first = words[phrase.first]
    if first.low in PRONOUNS:
        return phrase.first == phrase.last and PRONOUNS[first.low] == page.pronoun
    if first.low in ("the", "this", "that") and _is_kind(words, phrase, page.kinds):
        return True
    if _is_owner(words, phrase) or first.low in _OF_OTHERS:
        return False
    return (first.low != "the" and _is_part_of_name(words, phrase, page)) or _leads(sentence, words, phrase)


def _leads(sentence: PageSentence, words: Sequence[Word], phrase: Phrase) -> bool:
    """Whether a phrase begins the first sentence: a name in full, or `the` with a single noun."""
    leads = leading_subject(words) if sentence.number == 0 else None
    is_short = words[phrase.first].low != "the" or phrase.last == phrase.first + 1
    return leads is not None and is_short and leads.first == phrase.first


def is_named(words: Sequence[Word], phrase: Phrase, keys: Sequence[str]) -> bool:
    """Whether a noun phrase is or ends with one of these names (`the architect Jørn Utzon`), as no genitive.

    A name may go on after the phrase: `University of Middelby` where the phrase is `the University`.
    """
    said = " ".join(name_tokens(" ".join(word.low for word in words[phrase.first : phrase.last + 1])))
    for key in keys:
        if said in (key, f"the {key}") or (" of " in key and _goes_on_as(words, phrase, key)):
            return True
        if said.endswith(f" {key}") and not _is_owner(words, phrase):
            return True
    return False


def _goes_on_as(words: Sequence[Word], phrase: Phrase, key: str) -> bool:
    first = phrase.first + (words[phrase.first].low == "the")
    length = key.count(" ") + 1
    return " ".join(name_tokens(" ".join(word.low for word in words[first : first + length]))) == key


def _is_owner(words: Sequence[Word], phrase: Phrase) -> bool:
    """Whether a word of a phrase is in the genitive."""
    return any(word.low.endswith(("'s", "s'")) for word in words[phrase.first : phrase.last + 1])


def _is_part_of_name(words: Sequence[Word], phrase: Phrase, page: Page | PageContent) -> bool:
    """`Utzon` on the page of Jørn Utzon, `Jean-François Champollion le Jeune` on that of Champollion."""
    said = {word.low for word in words[phrase.first : phrase.last + 1] if word.is_capitalised}
    full = page.title_keys[-1].replace("-", " ").split() if page.title_keys else []
    if not said or not full:
        return False
    said = {part for word in said for part in word.split("-")}
    return said.issubset(full) or (len(full) > 1 and said.issuperset(full))


def _is_kind(words: Sequence[Word], phrase: Phrase, kinds: frozenset[str]) -> bool:
    """Whether `the tower` names a kind of the page's subject, by its last word or all of them in lower case."""
    said = words[phrase.first + 1 : phrase.last + 1]
    if not said or any(word.low not in kinds for word in said[:-1]):
        return False
    return said[-1].low in kinds or (not said[-1].is_capitalised and is_of_kind(kinds, said[-1].low))


def is_about(page: Page, sentence: PageSentence) -> bool:
    """Whether a sentence begins with what its page is about."""
    words = words_of(sentence.text)
    return sentence.number == 0 or is_subject(page, sentence, words, leading_subject(words))


def is_on_topic(page: Page, sentence: PageSentence) -> bool:
    """Whether a sentence begins with its page's subject or something of it (`His films`, `Scott's films`)."""
    words = words_of(sentence.text)
    phrase = leading_subject(words)
    if sentence.number == 0 or is_subject(page, sentence, words, phrase):
        return True
    if phrase is None:
        return False
    first = words[phrase.first]
    if first.low in PRONOUNS:
        return PRONOUNS[first.low] == page.pronoun
    owned = [word.low.removesuffix("'s") for word in words[phrase.first : phrase.last + 1] if word.low.endswith("'s")]
    full = page.title_keys[-1].split() if page.title_keys else []
    return bool(owned) and owned[-1] in full


def doers(
    sentence: PageSentence, verb_stems: frozenset[str], *, is_done_to: bool
) -> tuple[bool, list[tuple[int, int]]]:
    """Whether a sentence has a verb, and the spans of what does it (of what it is done to).

    Args:
        sentence: The sentence.
        verb_stems: Stems of the verb's forms.
        is_done_to: Whether the question asks for what it is done to (`who was born`).
    """
    if verb_stems.isdisjoint(sentence.places):
        return False, []
    words = words_of(sentence.text)
    spans: list[tuple[int, int]] = []
    for number, word in enumerate(words):
        if word.is_capitalised or forms_of(word.low).isdisjoint(verb_stems):
            continue
        agent = _agent(words, number)
        if agent is not None and not is_done_to:
            spans.append(agent)
            continue
        subject = subject_of(words, number)
        if subject is not None and (is_done_to or not is_passive(words, number)):
            spans.append((words[subject.first].start, words[subject.last].end))
    return bool(spans), spans


def _agent(words: Sequence[Word], verb: int) -> tuple[int, int] | None:
    """The span after `by` after a verb: `was designed in 1886 by the engineer …`, up to the next comma or verb."""
    for number in range(verb + 1, min(len(words) - 1, verb + _NEAR_BY)):
        if words[number].low == "by":
            phrase = object_after(words, number + 1)
            if phrase is None:
                return None
            last = phrase.last
            while last + 2 < len(words) and words[last + 1].low == "and" and words[last + 2].is_capitalised:
                more = object_after(words, last + 2)
                last = more.last if more else last + 2
            return words[phrase.first].start, words[last].end
    return None
