"""A corpus of any size with a fixed seed, and multi-hop questions about it with gold passages and answers.

Every page is drawn from its own random stream, so that nothing is held in memory and any page can be drawn again.
Names are mentioned by Zipf's law with exponent 1 among their kind, whatever the size. Source: algorithms.md 6.5.

Run: uv run python benchmarks/papers/generated_corpus.py FOLDER [PASSAGES [QUESTIONS [SEED]]]
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import gcd
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from polyhop.schemas.errors import ConfigurationError
from polyhop.warehouse.files.disk import write_json_lines, writing

CORPUS_FILE = "corpus.jsonl"
QUESTIONS_FILE = "questions.jsonl"


class Kind(StrEnum):
    """What a generated page is about."""

    PERSON = "person"
    TOWN = "town"
    ORGANISATION = "organisation"
    WORK = "work"
    RIVER = "river"


class Thing(NamedTuple):
    """Something with a page of its own; of each kind, number 0 is the most famous."""

    kind: Kind
    number: int


_SYLLABLES = (
    "Bal Bor Bra Cal Cor Dal Dor Dra Fal Fen Gal Gar Gor Hal Har Jor Kal Kel Kor Lan Lor Mar Mel Mor Nar Nor Pel Por "
    "Ral Ren Ros Sal Sel Sor Tal Tar Tor Tre Val Var Vel Vor Wal Wen Wil Yar Zan Zel"
)
_GIVEN_NAMES = (
    "Adela Albert Anton Beatrix Bruno Carla Cedric Clara Conrad Daphne Dorian Edgar Elsa Emil Esther Felix Flora "
    "Georg Greta Harald Hedwig Hugo Ida Ingrid Ivan Jakob Judith Julius Karin Klaus Lea Leon Linus Lydia Magnus Marta "
    "Moritz Nadia Nils Olga Oscar Paula Petra Ralf Regina Roland Ruth Sonja Stefan Tilda Ulrich Vera Viktor Wanda"
)
_NOUNS = (
    "Anchor Bridge Candle Clock Crown Garden Harbour Hunter Lantern Letter Mirror Orchard Painter Queen Shadow "
    "Shepherd Silence Storm Tower Voyage Widow Winter"
)
_BODIES = "Academy Company Foundation Institute Laboratory Library Museum Press Society Theatre"
_STARTS, _GIVEN, _OBJECTS, _INSTITUTIONS = (words.split() for words in (_SYLLABLES, _GIVEN_NAMES, _NOUNS, _BODIES))
_MIDDLES = ("ad", "an", "el", "en", "im", "is", "or", "ul")
_TOWN_ENDS = ("bur", "dal", "ham", "ley", "mer", "ton", "wic")
_SURNAME_ENDS = ("ard", "ell", "ers", "ick", "man", "ott", "son")
_RIVER_ENDS = ("ane", "ebe", "eld", "ise", "une")
_ORGANISATION_ENDS = ("cor", "dyn", "lux", "tek", "ium")
_WORK_ENDS = ("ara", "ith", "oth", "yne")


def name_of(thing: Thing) -> str:
    """The name, which is also the title of its page."""
    number = thing.number
    match thing.kind:
        case Kind.PERSON:
            first, last = _mixed(number, len(_GIVEN))
            return f"{_GIVEN[first]} {_word(last, _SURNAME_ENDS)}"
        case Kind.TOWN:
            return _word(number, _TOWN_ENDS)
        case Kind.ORGANISATION:
            last, first = _mixed(number, len(_INSTITUTIONS))
            return f"{_word(first, _ORGANISATION_ENDS)} {_INSTITUTIONS[last]}"
        case Kind.WORK:
            first, last = _mixed(number, len(_OBJECTS))
            return f"The {_OBJECTS[first]} of {_word(last, _WORK_ENDS)}"
        case Kind.RIVER:
            return f"River {_word(number, _RIVER_ENDS)}"


def article_of(thing: Thing) -> str:
    """The name as it stands in a sentence."""
    return f"the {name_of(thing)}" if thing.kind in {Kind.ORGANISATION, Kind.RIVER} else name_of(thing)


def _mixed(number: int, size: int) -> tuple[int, int]:
    """A number as two, distinct for distinct ones, so that neighbours differ in both and namesakes are common."""
    rest, first = divmod(number, size)
    return first, rest + 3 * first


def _word(number: int, ends: tuple[str, ...]) -> str:
    """The word of that number: start, as few middles as needed, end."""
    rest, start = divmod(number, len(_STARTS))
    rest, end = divmod(rest, len(ends))
    middle = ""
    while rest > 0:
        rest, place = divmod(rest - 1, len(_MIDDLES))
        middle += _MIDDLES[place]
    return _STARTS[start] + middle + ends[end]


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


MIN_PASSAGES = 20  # twice the ten of `_PATTERN`: two pages of every kind, so that a link never leads to its own page
_PATTERN = (
    *(Kind.PERSON, Kind.TOWN, Kind.ORGANISATION, Kind.WORK, Kind.RIVER),
    *(Kind.PERSON, Kind.TOWN, Kind.WORK, Kind.PERSON, Kind.ORGANISATION),
)
"""Kinds of ten pages in a row."""
_PLACES = {kind: [place for place, other in enumerate(_PATTERN) if other is kind] for kind in Kind}
_LINKS: dict[Kind, tuple[tuple[str, Kind], ...]] = {
    Kind.PERSON: (("birthplace", Kind.TOWN), ("employer", Kind.ORGANISATION), ("friend", Kind.PERSON)),
    Kind.TOWN: (("river", Kind.RIVER), ("twin", Kind.TOWN)),
    Kind.ORGANISATION: (("founder", Kind.PERSON), ("seat", Kind.TOWN)),
    Kind.WORK: (("author", Kind.PERSON), ("publisher", Kind.ORGANISATION)),
    Kind.RIVER: (("mouth", Kind.RIVER), ("source", Kind.TOWN)),
}
_CHAINS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    (Kind.ORGANISATION, ("founder", "birthplace")),
    (Kind.WORK, ("author", "birthplace", "river")),
    (Kind.WORK, ("publisher", "founder", "birthplace", "river")),
    (Kind.WORK, ("author", "birthplace")),
    (Kind.ORGANISATION, ("founder", "birthplace", "river")),
    (Kind.ORGANISATION, ("founder", "birthplace", "river", "mouth")),
    (Kind.PERSON, ("birthplace", "river")),
    (Kind.WORK, ("publisher", "founder", "birthplace")),
    (Kind.WORK, ("author", "birthplace", "river", "mouth")),
    (Kind.PERSON, ("birthplace", "river", "mouth")),
)
"""Where questions start, and the relations that they follow: as many pages as relations."""
_SORTS = len(_CHAINS) + len(COMPARED_KINDS)
_ID_STEP = 387_420_489
"""3 ** 18, prime to every power of ten: ids in another order than fame."""


@dataclass(frozen=True, slots=True)
class Page:
    """What one page says: its links by relation, and one number (a year, or a count of inhabitants)."""

    links: dict[str, Thing]
    figure: int


@dataclass(frozen=True, slots=True)
class World:
    """All pages of a size and a seed; computed when asked for."""

    passages: int
    seed: int

    def count(self, kind: Kind) -> int:
        """How many pages are about this kind."""
        blocks, rest = divmod(self.passages, len(_PATTERN))
        return blocks * len(_PLACES[kind]) + sum(place < rest for place in _PLACES[kind])

    def thing(self, index: int) -> Thing:
        """What the page at this place of the corpus is about."""
        block, place = divmod(index, len(_PATTERN))
        kind = _PATTERN[place]
        return Thing(kind, block * len(_PLACES[kind]) + _PLACES[kind].index(place))

    def passage_id(self, thing: Thing) -> str:
        """Id of the page about a thing."""
        block, place = divmod(thing.number, len(_PLACES[thing.kind]))
        index = block * len(_PATTERN) + _PLACES[thing.kind][place]
        width = max(6, len(str(self.passages - 1)))
        return f"g{index * _ID_STEP % 10**width:0{width}d}"

    def page(self, thing: Thing) -> Page:
        """What the page about a thing says."""
        return self._draw(thing, self._stream(thing))

    def record(self, thing: Thing) -> dict[str, str]:
        """The page as a record of a corpus: {id, title, text}."""
        rng = self._stream(thing)
        page = self._draw(thing, rng)
        year = page.figure if thing.kind is not Kind.TOWN else rng.randrange(1500, 1800)
        other = rng.choice(tuple(Kind))
        words = {relation: article_of(target) for relation, target in page.links.items()} | {
            "name": name_of(thing),
            "self": article_of(thing),
            "figure": f"{page.figure:,}",
            "year": str(year),
            "middle": str(year + rng.randrange(20, 40)),
            "later": str(year + rng.randrange(45, 85)),
            "late": str(rng.randrange(1850, 2000)),
            "few": str(rng.randrange(3, 20)),
            "letters": str(rng.randrange(21, 400)),
            "trade": rng.choice(TRADES),
            "country": COUNTRIES[_zipf(rng, len(COUNTRIES))],
            "other": article_of(Thing(other, self._famous(rng, other, thing))),
        }
        words["river_first"] = words.get("river", "").replace("the ", "The ", 1)
        return {"id": self.passage_id(thing), "title": name_of(thing), "text": page_text(thing.kind, words, rng)}

    def _stream(self, thing: Thing) -> Random:
        """A text seeds the same stream in every process (random.seed, version 2)."""
        return Random(f"{self.seed}/{thing.kind}/{thing.number}")

    def _draw(self, thing: Thing, rng: Random) -> Page:
        links = {relation: Thing(kind, self._famous(rng, kind, thing)) for relation, kind in _LINKS[thing.kind]}
        low, high = (450, 60_000) if thing.kind is Kind.TOWN else (700, 900)
        # neighbours have an even and an odd figure: two that are compared are never equal
        return Page(links, 2 * rng.randrange(low, high) + thing.number % 2)

    def _famous(self, rng: Random, kind: Kind, thing: Thing) -> int:
        """A number of this kind by fame, never the thing itself."""
        count = self.count(kind)
        number = _zipf(rng, count)
        return (number + 1) % count if (kind, number) == thing else number


def _zipf(rng: Random, count: int) -> int:
    """A number below `count`, k with a probability of about 1 / (k + 1): the logarithm of k + 1 is uniform."""
    return min(int((count + 1) ** rng.random()), count) - 1


def generate(passages: int, questions: int, seed: int) -> tuple[Iterator[dict[str, str]], Iterator[dict[str, object]]]:
    """A corpus and questions about it; the same for the same numbers, in every process.

    Args:
        passages: Pages, at least `MIN_PASSAGES`; each is about one thing, which is its title.
        questions: At most as many as pages; distinct, two to four hops in turn, and comparisons.
        seed: Any whole number.

    Returns:
        Records {id, title, text} and questions {id, question, answers, supporting, hops, type}. `supporting` names
        the pages in the order of the hops: each one's title stands in the text of the one before (bridge), or the
        two that are compared (comparison).

    Raises:
        ConfigurationError: If the numbers are out of their range.
    Cost: O(passages + questions) time, O(1) memory.
    """
    if passages < MIN_PASSAGES or not 0 <= questions <= passages:
        raise ConfigurationError(
            f"A generated corpus has at least {MIN_PASSAGES} passages and at most as many questions as passages, "
            f"not {passages} and {questions}."
        )
    world = World(passages, seed)
    records = (world.record(world.thing(index)) for index in range(passages))
    return records, (_question(world, number) for number in range(questions))


def _question(world: World, number: int) -> dict[str, object]:
    turn, sort = divmod(number, _SORTS)
    if sort < len(_CHAINS):
        asked = _chain(world, sort, turn)
    else:
        asked = _comparison(world, COMPARED_KINDS[sort - len(_CHAINS)], sort, turn)
    return {"id": f"q{number + 1:06d}", **asked}


def _chain(world: World, sort: int, turn: int) -> dict[str, object]:
    kind, relations = _CHAINS[sort]
    things = [Thing(kind, _turn(world, kind, sort, turn))]
    for relation in relations:
        things.append(world.page(things[-1]).links[relation])
    answer = name_of(things[-1])
    return {
        "question": chain_question(article_of(things[0]), relations),
        "answers": [answer, answer.removeprefix("River ")] if things[-1].kind is Kind.RIVER else [answer],
        "supporting": [world.passage_id(thing) for thing in things[:-1]],
        "hops": len(relations),
        "type": "bridge",
    }


def _comparison(world: World, kind: Kind, sort: int, turn: int) -> dict[str, object]:
    """Two of a kind whose figures differ: a distance that is odd joins an even and an odd number."""
    count = world.count(kind)
    first = _turn(world, kind, sort, turn)
    distance = 2 * _numbers(world, f"distance/{sort}/{turn}").randrange(max(1, count // 4)) + 1
    second = first + distance if first + distance < count else first - distance
    pair = (Thing(kind, first), Thing(kind, second))
    choose = min if kind is Kind.PERSON else max
    return {
        "question": comparison_question(kind, name_of(pair[0]), name_of(pair[1])),
        "answers": [name_of(choose(pair, key=lambda thing: world.page(thing).figure))],
        "supporting": [world.passage_id(thing) for thing in pair],
        "hops": 2,
        "type": "comparison",
    }


def _turn(world: World, kind: Kind, sort: int, turn: int) -> int:
    """Where the question of this sort and turn starts: every number of the kind once before one comes again."""
    count = world.count(kind)
    step = next(step for step in range(max(1, 5 * count // 8), 2 * count + 2) if gcd(step, count) == 1)
    return (_numbers(world, f"start/{sort}").randrange(count) + turn * step) % count


def _numbers(world: World, what: str) -> Random:
    return Random(f"{world.seed}/{what}")


def write_generated(folder: Path, passages: int, questions: int, seed: int) -> dict[str, Any]:
    """Writes corpus.jsonl and questions.jsonl into a folder, which is made; the same bytes for the same numbers.

    Raises:
        ConfigurationError: If the numbers are out of their range; nothing is written.
        StoreError: If the disk refuses.
    """
    records, asked = generate(passages, questions, seed)
    with writing("a generated corpus", folder):
        folder.mkdir(parents=True, exist_ok=True)
    corpus, question_file = folder / CORPUS_FILE, folder / QUESTIONS_FILE
    return {
        "corpus": str(corpus),
        "questions": str(question_file),
        "passage_count": write_json_lines(corpus, records, "a generated corpus"),
        "question_count": write_json_lines(question_file, asked, "generated questions"),
        "seed": seed,
    }


def main() -> None:
    """Writes what the command line says: by default 1,000 passages and 200 questions by seed 13."""
    folder, *numbers = sys.argv[1:]
    passages, questions, seed = (*(int(number) for number in numbers), *(1000, 200, 13)[len(numbers) :])
    print(json.dumps(write_generated(Path(folder), passages, min(questions, passages), seed)))


if __name__ == "__main__":
    main()
