"""Pages of a generated world in words, and questions about chains of its facts.

Draws no fact (generator.py does); every sentence that states one names its page's own title or a pronoun's antecedent.
"""

from collections.abc import Sequence
from random import Random

from polyhop.tasks.evaluation.generated_names import Kind

_TRADE_NAMES = (
    "astronomer botanist cartographer chemist composer engineer geologist historian painter physician poet printer"
)
_COUNTRY_NAMES = (
    "Austria Belgium Bulgaria Croatia Denmark Estonia Finland France Germany Greece Hungary Iceland Ireland Italy "
    "Latvia Lithuania Malta Norway Poland Portugal Romania Serbia Slovakia Slovenia Spain Sweden Switzerland Ukraine"
)
TRADES, COUNTRIES = _TRADE_NAMES.split(), _COUNTRY_NAMES.split()

_PAGES: dict[Kind, tuple[tuple[str, ...], ...]] = {
    Kind.PERSON: (
        (
            "{name} ({year}–{later}) was a {trade} from {country}.",
            "{name} was a {trade} of the time, known in {country}.",
        ),
        (
            "{name} was born in {birthplace} in {year}.",
            "Born in {birthplace} in {year}, {name} learned the trade of a {trade} early.",
        ),
        ("{name} worked for {employer} for {few} years.", "In {middle} {employer} took on {name} as a {trade}."),
        (
            "A long friendship with {friend} is known from {letters} letters.",
            "{name} and {friend} travelled together through {country}.",
        ),
    ),
    Kind.TOWN: (
        (
            "{name} is a town in {country} with {figure} inhabitants.",
            "{name} is a market town of {figure} inhabitants in {country}.",
        ),
        ("{name} lies on {river}.", "{river_first} flows through {name}.", "The old town of {name} lies on {river}."),
        ("{name} is twinned with {twin}.", "A railway has linked {name} with {twin} since {middle}."),
    ),
    Kind.ORGANISATION: (
        ("The {name} was founded by {founder} in {year}.", "In {year}, {founder} founded the {name}."),
        ("It has its seat in {seat}.", "The {name} has its seat in {seat}, where it employs {letters} people."),
        ("Its yearly report is read all over {country}.", "Since {later} it has had a branch in {country}."),
    ),
    Kind.WORK: (
        ("{name} is a novel by {author}.", "{name} is a play written by {author}."),
        ("It was published by {publisher} in {year}.", "In {year} {publisher} published {name}."),
        (
            "Critics in {country} praised its {few} short chapters.",
            "It was translated in {country} and printed {few} times.",
        ),
    ),
    Kind.RIVER: (
        ("The {name} is a river in {country}.", "The {name} is one of the rivers of {country}, {letters} km long."),
        ("The {name} flows into {mouth}.", "After {letters} km the {name} flows into {mouth}."),
        ("It rises in the hills behind {source}.", "Its spring is a short walk from {source}."),
    ),
}
_ASIDES = (
    "A guide of {late} names {self} together with {other}.",
    "An exhibition of {late} showed papers about {self} beside those of {other}.",
    "Whoever looks for {self} in an old register finds {other} first.",
)
_FILLERS = (
    "Little is known about the years that followed.",
    "Much of what is told today goes back to a single source.",
    "The records of that time were lost in a fire.",
    "Several scholars have doubted this account.",
    "A small memorial was put up later.",
    "The subject is taught in schools to this day.",
)

_PARTS = {
    "founder": "the founder of {}",
    "author": "the author of {}",
    "publisher": "the publisher of {}",
    "birthplace": "the birthplace of {}",
    "river": "the river that flows through {}",
}
_ASKED = {
    "birthplace": "In which town was {} born?",
    "river": "Which river flows through {}?",
    "mouth": "Into which river does {} flow?",
}
_COMPARED = {
    Kind.PERSON: "Who was born earlier, {} or {}?",
    Kind.TOWN: "Which town has more inhabitants, {} or {}?",
}
COMPARED_KINDS = tuple(_COMPARED)


def page_text(kind: Kind, words: dict[str, str], rng: Random) -> str:
    """The text of a page: every fact once, in one of several wordings, with something beside the point.

    Args:
        kind: What the page is about.
        words: Values of all placeholders of the kind's sentences.
        rng: Chooses the wordings; the next numbers of its stream are used.
    """
    sentences = [rng.choice(wordings) for wordings in _PAGES[kind]]
    sentences += [rng.choice(_ASIDES), *rng.sample(_FILLERS, 2)]
    return " ".join(sentence.format_map(words) for sentence in sentences)


def chain_question(start: str, relations: Sequence[str]) -> str:
    """The question in words, like `In which town was the author of … born?`.

    Args:
        start: Name of the thing that the chain starts from, as it stands in a sentence.
        relations: From the first page on; the last one is asked for.
    """
    phrase = start
    for relation in relations[:-1]:
        phrase = _PARTS[relation].format(phrase)
    return _ASKED[relations[-1]].format(phrase)


def comparison_question(kind: Kind, first: str, second: str) -> str:
    """The question in words, like `Who was born earlier, … or …?`."""
    return _COMPARED[kind].format(first, second)
