"""The configured name finder: rules, SPRIG's regular expression, or a spaCy model.

The only place that decides which one; builder and reader both come here, so both find the same names.
"""

from collections.abc import Callable, Iterable, Mapping

from schemas.names import NameFinder
from schemas.names_regex import RegexNames
from schemas.ports import NameFinding


def open_finder(ner: str, titles: Iterable[str], spacy_model: str, *, regex_drop_stopwords: bool = True) -> NameFinding:
    """The name finder for `settings.extraction`.

    Args:
        ner: "rules", "regex" or "spacy".
        titles: Titles of the corpus, the gazetteer of the rules.
        spacy_model: Name of the installed model for "spacy".
        regex_drop_stopwords: Whether "regex" leaves out single stop words.

    Raises:
        ConfigurationError: If spaCy or its model is not installed.
    """
    finders: Mapping[str, Callable[[], NameFinding]] = {
        "rules": lambda: NameFinder(titles),
        "regex": lambda: RegexNames(drop_stopwords=regex_drop_stopwords),
        "spacy": lambda: _spacy(spacy_model),
    }
    return finders[ner]()


def _spacy(model: str) -> NameFinding:
    from warehouse.models.spacy_names import SpacyNames

    return SpacyNames(model)
