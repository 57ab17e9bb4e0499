"""What the word lists know of a word or a name: the forms a passage may say it in, the kinds and groups of a noun.

Holds no lists (word_lists.py reads them) and knows no passage. Source: reader.md 6.1, 6.4, 6.6; lists/clauses.toml,
lists/synonyms.toml, lists/kinds.toml.
"""

from collections.abc import Set as AbstractSet
from functools import lru_cache

from polyhop.worker.reading.parsing import stem_of
from polyhop.worker.reading.word_lists import clause_lists, geography, kind_lists, name_lists, question_lists, synonyms


@lru_cache(maxsize=1 << 15)
def singulars(word: str) -> frozenset[str]:
    """A noun as it stands and what it may be the plural of."""
    forms = {word}
    if word.endswith("ies"):
        forms.add(word[:-3] + "y")
    if word.endswith("es"):
        forms.add(word[:-2])
    if word.endswith("s"):
        forms.add(word[:-1])
    if word.endswith("men"):
        forms.add(word[:-3] + "man")
    return frozenset(forms)


@lru_cache(maxsize=1 << 10)
def _wanted(kind: str) -> frozenset[str]:
    forms = singulars(kind)
    return forms.union(*(kind_lists().narrower.get(one, ()) for one in forms))


def is_of_kind(definition: AbstractSet[str], kind: str) -> bool:
    """Whether one of the words of a definition is a kind or a narrower one."""
    wanted = _wanted(kind)
    return any(not wanted.isdisjoint(singulars(word)) for word in definition)


def groups_of(words: AbstractSet[str]) -> frozenset[str]:
    """The groups of kinds (person, organisation, building…) that words belong to."""
    lists = kind_lists()
    found = {lists.groups[form] for word in words for form in singulars(word) if form in lists.groups}
    people = question_lists().person_heads
    if any(not people.isdisjoint(singulars(word)) for word in words):
        found.add("person")
    return frozenset(found)


def is_of_other_kind(definition: AbstractSet[str], kind: str) -> bool:
    """Whether a definition puts something into other groups than the kind's."""
    wanted, said = groups_of({kind}), groups_of(definition)
    return bool(wanted) and bool(said) and wanted.isdisjoint(said)


@lru_cache(maxsize=1 << 13)
def forms_of(word: str) -> frozenset[str]:
    """Stems of a word, of its irregular forms and of what says the same."""
    irregular = clause_lists().irregular
    forms = {word, f"{word}ed", f"{word}d", *irregular.get(word, ())}
    for plain, others in irregular.items():
        if word in others:
            forms |= {plain, *others}
    forms |= {other for form in sorted(forms) for other in synonyms().get(form, ())}
    return frozenset(stem for form in forms if (stem := stem_of(form)))


@lru_cache(maxsize=1 << 15)
def has_place_word(key: str) -> bool:
    """Whether a word of a name says that it is a place's."""
    return name_lists().place_word.search(key) is not None


@lru_cache(maxsize=1 << 15)
def is_organisation(key: str) -> bool:
    """Whether a word of a name says that it is an organisation's, an event's or a work's."""
    return name_lists().organisation_word.search(key) is not None


def is_country_or_state(key: str) -> bool:
    """Whether a name is that of a known country or state."""
    return key in geography().countries or key in geography().states
