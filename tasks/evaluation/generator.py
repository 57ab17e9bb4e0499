"""A corpus of any size with a fixed seed, and multi-hop questions about it with gold passages and answers (pure).

Every page is drawn from its own random stream, so that nothing is held in memory and any page can be drawn again.
Names are mentioned by Zipf's law with exponent 1 among their kind, whatever the size. Source: algorithms.md 6.5.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from random import Random

from polyhop.schemas.errors import ConfigurationError
from polyhop.tasks.evaluation.generated_names import Kind, Thing, article_of, name_of
from polyhop.tasks.evaluation.generated_prose import (
    COMPARED_KINDS,
    COUNTRIES,
    TRADES,
    chain_question,
    comparison_question,
    page_text,
)

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
        return Random(f"{self.seed}/{thing.kind}/{thing.number}")  # noqa: S311

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
    return Random(f"{world.seed}/{what}")  # noqa: S311
