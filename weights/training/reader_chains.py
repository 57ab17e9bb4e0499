"""Questions over one to three passages, generated from facts that patterns find in a corpus.

A fact joins the title of a page and a span of its text by a relation (relations.toml). Where the span names another
page, a fact of that page answers a question about the first: "Where was the director of X born?".
"""

import random
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from polyhop.schemas.names import NameFinder, split_sentences
from polyhop.schemas.text import fold
from weights.training.reader_text import Span, TrainingPassage, TrainingQuestion, bare_title, holds_any

TWO_HOPS, ONE_HOP = "two-hop", "one-hop"
_ROLE = (
    r"(?:(?:the )?(?:[A-Z][a-z]+(?:-[A-Z][a-z]+)? )?(?:(?!of\b|and\b|in\b|to\b|for\b|from\b|at\b|his\b|her\b|with\b)"
    r"[a-z-]+,? ){1,3}?)?(?=[A-Z])"
)
_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_VALUES = {
    "date": rf"(?:\d{{1,2}} {_MONTH},? \d{{3,4}}|{_MONTH} \d{{1,2}},? \d{{4}}|{_MONTH} \d{{4}}"
    r"|1\d{3}|20\d\d)(?!\d|s\b)",
    "year": r"(?:1\d{3}|20\d\d)(?!\d|s\b)",
}
_COPULA = re.compile(r"\b(?:is|was|are|were)\b (?:an?|the|one of the)\b")
_LIFE = re.compile(
    r"\((?:[^()]{0,60}[;,] ?)?\s?(?:born\b|b\.|\d{1,2} \w+ 1\d{3}|[A-Z]\w+ \d{1,2}, 1\d{3}|1\d{3}\s?[–-])"
)
_AFTER_KIND = re.compile(
    r",|;| (?:directed|written|by|in|of|from|on|at|for|that|which|who|starring|located|performed|recorded) "
)
_PRONOUN = re.compile(r"(?:He|She|It|They|His|Her|Its|The (?:film|song|album|novel|book|city|town|village|series|band|"
                      r"company|school|university|club|river|team))\b")  # fmt: skip
_WORKS = ("film", "song", "album", "book", "series", "game")
_NAMES_OF_KINDS = {
    "film": ("film", "movie"), "song": ("song", "single"), "album": ("album",), "book": ("book", "novel"),
    "series": ("series", "show"), "game": ("game",),
}  # fmt: skip
_GENERIC = frozenset(
    ("american", "british", "english", "french", "german", "italian", "indian", "russian", "chinese",
     "i", "he", "she", "it", "the")
)  # fmt: skip

_LARGER_PLACE = re.compile(r", ([A-Z][\w-]+(?: [A-Z][\w-]+)*)(?=[,.;)]|$| (?:on|in|and|to|where)\b)")
_LIST = re.compile(r"^Lists? of|\((?:given name|surname|name|disambiguation)\)")
_AFTER_ONE_WORD = re.compile(r"[,.;)]|$| (?:and|in|on|at|who|as|for|when|with|from|by)\b")
_NO_OBJECT = re.compile(
    r"['’]s?\b|-|\.? (?:coast|shore|area|region|side|border|street|campus|language|origin|national|team|state|province"
    r"|tribe|network|agent|singer|rapper|band|rock|pop|musician|group|artist|duo|actor|actress|director|author|writer"
    r"|novelist|composer|songwriter|player|politician|professor|king|duke|and [A-Z][a-z]+ (?:River|County))s?\b"
)
_RANK = re.compile(
    r",? (?:\d\w+ )?(?:Duke|Duchess|Count|Countess|Prince|Princess|King|Queen|Earl|Baron|Margrave|Elector|Marquess"
    r"|Landgrave|Emperor) of [A-Z]\w+(?:[ -][A-Z]\w+)?"
)


class Relation(NamedTuple):
    """A relation: kinds of its two sides, patterns of its sentences, and how to ask."""

    name: str
    subjects: frozenset[str]
    objects: frozenset[str]  # kinds of pages that it leads to; none: its object is an answer only
    patterns: tuple[re.Pattern[str], ...]
    value: re.Pattern[str] | None
    not_before: re.Pattern[str] | None
    not_at: re.Pattern[str] | None
    nouns: tuple[str, ...]
    questions: tuple[str, ...]


class Page(NamedTuple):
    """A passage of the corpus with the name and the kind of its subject."""

    title: str
    text: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A relation that a sentence of a page states of the page's subject."""

    relation: Relation
    page: Page
    spans: tuple[Span, ...]  # in the page's text; the first is the shortest
    sentence: Span

    @property
    def object_name(self) -> str:
        """The object as the page writes it."""
        return self.page.text[self.spans[0][0] : self.spans[0][1]]


@lru_cache(maxsize=1)
def _templates() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("relations.toml").read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def _kinds_by_word() -> dict[str, str]:
    return {word: kind for kind, words in _templates()["kinds"].items() for word in words.split()}


def load_relations() -> dict[str, Relation]:
    """The relations of relations.toml by name."""
    relations = {}
    for name, about in _templates()["relations"].items():
        value = about.get("value")
        relations[name] = Relation(
            name,
            frozenset(about["subject"].split()),
            frozenset(about["object"].split()),
            tuple(re.compile(pattern.replace("{role}", _ROLE)) for pattern in about["patterns"]),
            re.compile(_VALUES.get(value, value)) if value else None,
            re.compile(about["not_before"]) if "not_before" in about else None,
            re.compile(about["not_at"]) if "not_at" in about else None,
            tuple(about["nouns"]),
            tuple(about["questions"]),
        )
    return relations


def kind_of(text: str) -> str:
    """Kind of a page's subject by its first sentence, "" if no word says it."""
    start, end = next(iter(split_sentences(text)), (0, 0))
    sentence = text[start:end]
    copula = _COPULA.search(sentence)
    if copula is None:
        return "person" if _LIFE.search(sentence) else ""
    if _LIFE.search(sentence[: copula.start()]):
        return "person"
    said = _AFTER_KIND.split(sentence[copula.end() : copula.end() + 140])[0]
    by_word = _kinds_by_word()
    kinds = [by_word[word] for word in re.findall(r"[A-Za-z-]+", said) if word in by_word]
    return kinds[-1] if kinds else ""


def pages_of(passages: Iterable[tuple[str, str]]) -> list[Page]:
    """Pages of (title, text) pairs whose kind is known and whose beginning names the subject."""
    pages = []
    for title, text in passages:
        name = bare_title(title)
        words = re.findall(r"\w+", fold(name).lower())
        if len(name) < 3 or not words or " - " in title or _LIST.search(title) or name.lower() in _GENERIC:
            continue
        begin = fold(text[:160]).lower()
        if sum(word in begin for word in words) * 2 >= len(words) and (kind := kind_of(text)):
            pages.append(Page(title, text, name, kind))
    return pages


class FactFinder:
    """Finds facts in pages."""

    def __init__(self, relations: Iterable[Relation]) -> None:
        self._relations = tuple(relations)
        self._names = NameFinder(())

    def facts(self, page: Page) -> list[Fact]:
        """The facts of a page, at most one of each relation: the first in its text."""
        sentences = [
            span
            for number, span in enumerate(split_sentences(page.text))
            if number == 0 or _is_about(page, page.text[span[0] : span[1]])
        ]
        found = []
        for relation in self._relations:
            if page.kind in relation.subjects or "any" in relation.subjects:
                fact = self._first(relation, page, sentences)
                if fact is not None:
                    found.append(fact)
        return found

    def _first(self, relation: Relation, page: Page, sentences: Sequence[Span]) -> Fact | None:
        for start, end in sentences:
            sentence = page.text[start:end]
            for pattern in relation.patterns:
                if pattern.pattern.startswith("^") and start > 0:
                    continue
                for match in pattern.finditer(sentence):
                    begin, ends = self._object(relation, sentence, match.end())
                    if not ends or _is_refused(relation, sentence, begin):
                        continue
                    if holds_any(sentence[begin : ends[0]], (page.name,)):
                        continue
                    spans = tuple((start + begin, start + stop) for stop in ends)
                    return Fact(relation, page, spans, (start, end))
        return None

    def _object(self, relation: Relation, sentence: str, begin: int) -> tuple[int, list[int]]:
        """The start of the object at an offset, and its ends: none, one, or two for `Paris` and `Paris, Texas`."""
        if relation.value is not None:
            if relation.value.pattern == _VALUES["date"]:  # the pattern may have taken the day of a date
                dates = (date for date in relation.value.finditer(sentence) if date.start() <= begin < date.end())
                begin = next((date.start() for date in dates), begin)
            match = relation.value.match(sentence, begin)
            return begin, [match.end()] if match else []
        mentions = [name for name in self._names.find(sentence[begin : begin + 90]) if name.start == 0]
        if not mentions:
            return begin, []
        end = begin + max(name.end for name in mentions)
        if end - begin < 3 or fold(sentence[begin:end]).lower() in _GENERIC or _NO_OBJECT.match(sentence, end):
            return begin, []
        following = None
        if "person" in relation.objects:
            if " " not in sentence[begin:end] and not _AFTER_ONE_WORD.match(sentence, end):
                return begin, []
            following = _RANK.match(sentence, end)
        elif "place" in relation.objects or relation.name in ("buried_in", "education"):
            following = _LARGER_PLACE.match(sentence, end)
        return begin, [end, following.end()] if following else [end]


def _is_refused(relation: Relation, sentence: str, begin: int) -> bool:
    """Returns whether the words around an object say that the fact is another one."""
    is_refused_before = relation.not_before is not None and relation.not_before.search(sentence, 0, begin)
    return bool(is_refused_before or (relation.not_at is not None and relation.not_at.match(sentence, begin)))


def _is_about(page: Page, sentence: str) -> bool:
    """Returns whether a later sentence begins with a pronoun, the name or its last word."""
    if _PRONOUN.match(sentence):
        return True
    names = {page.name, page.name.split()[-1], page.name.split()[0]} if page.kind == "person" else {page.name}
    return any(len(name) > 3 and re.match(rf"{re.escape(name)}\b", sentence) for name in names)


# Shorter words for two relations in a row.
_KIN = {
    ("father", "father"): ("the paternal grandfather of {x}", "Who is the paternal grandfather of {x}?"),
    ("father", "mother"): ("the paternal grandmother of {x}", "Who is the paternal grandmother of {x}?"),
    ("mother", "father"): ("the maternal grandfather of {x}", "Who is the maternal grandfather of {x}?"),
    ("mother", "mother"): ("the maternal grandmother of {x}", "Who is the maternal grandmother of {x}?"),
    ("spouse", "father"): ("the father-in-law of {x}", "Who is the father-in-law of {x}?"),
    ("spouse", "mother"): ("the mother-in-law of {x}", "Who is the mother-in-law of {x}?"),
    ("child", "spouse"): ("the child-in-law of {x}", "Who is the child-in-law of {x}?"),
    ("sibling", "spouse"): ("the sibling-in-law of {x}", "Who is the sibling-in-law of {x}?"),
}
_BACK = {
    ("spouse", "spouse"), ("sibling", "sibling"), ("father", "child"), ("mother", "child"), ("child", "father"),
    ("child", "mother"), ("capital", "capital_of"), ("capital_of", "capital"),
}  # fmt: skip
_MAY_REPEAT = ("father", "mother", "part_of")
_MOST_OF_PAIR = {2: 220, 3: 25}  # questions of one series of relations; chosen: no template fills a tenth
_MOST_OF_ANSWER = 25  # questions with one answer


def chains_of(facts: Sequence[Fact]) -> list[tuple[Fact, ...]]:
    """Series of two or three facts, each about the object of the one before; the last is the answer."""
    by_name = defaultdict[str, list[Fact]](list)
    titles = defaultdict[str, set[str]](set)
    for fact in facts:
        by_name[fact.page.name].append(fact)
        titles[fact.page.name].add(fact.page.title)

    def following(fact: Fact) -> list[Fact]:
        if not fact.relation.nouns:
            return []
        name = next((fact.page.text[a:b] for a, b in fact.spans[::-1] if fact.page.text[a:b] in by_name), "")
        if not name or len(titles[name]) > 1:
            return []
        return [
            other
            for other in by_name[name]
            if other.page.kind in fact.relation.objects
            and ("(" not in other.page.title or other.page.kind == "person" or other.page.kind in _WORKS)
        ]

    chains: list[tuple[Fact, ...]] = []
    for first in facts:
        for second in following(first):
            if _is_answerable((first, second)):
                chains.append((first, second))
            chains += [(first, second, third) for third in following(second) if _is_answerable((first, second, third))]
    return chains


def _is_answerable(chain: tuple[Fact, ...]) -> bool:
    """Returns whether only the last passage has the answer, and the chain does not go back."""
    *others, last = chain
    names = [fact.page.name for fact in chain]
    answer = last.object_name
    relations = [fact.relation.name for fact in chain]
    if len(set(names)) < len(names) or any(pair in _BACK for pair in pairwise(relations)):
        return False
    if any(a == b for a, b in pairwise(relations)) and relations[0] not in _MAY_REPEAT:
        return False
    return not any(holds_any(f"{fact.page.title} {fact.page.text}", (answer,)) for fact in others) and not holds_any(
        last.page.title, (answer,)
    )


def ask(chain: Sequence[Fact], rng: random.Random) -> str:
    """A question for a chain of one to three facts."""
    first, *further = chain
    subject = first.page.name
    if first.page.kind in _WORKS and rng.random() < 0.45:
        kind = rng.choice(_NAMES_OF_KINDS[first.page.kind])
        subject = rng.choice(
            (f"the {kind} {subject}", f"{kind} {subject}", f"the {kind} “{subject}”", f'the {kind} "{subject}"')
        )
    noun = subject
    facts = [first, *further]
    number = 0
    while number < len(facts) - 1:
        pair = (facts[number].relation.name, facts[number + 1].relation.name)
        if pair in _KIN and rng.random() < 0.7:
            if number + 2 == len(facts):
                return _finished(_KIN[pair][1].format(x=noun))
            noun = _KIN[pair][0].format(x=noun)
            number += 2
            continue
        noun = rng.choice(facts[number].relation.nouns).format(x=noun)
        number += 1
    return _finished(rng.choice(facts[-1].relation.questions).format(x=noun))


def _finished(question: str) -> str:
    question = re.sub(r"\bthe (?:song|film) the (song|film) ", r"the \1 ", question)
    question = re.sub(r"\bthe (song|film) \1 ", r"the \1 ", question)
    return question[0].upper() + question[1:]


class GeneratedQuestion(NamedTuple):
    """A generated question with the titles of the pages that it was made of."""

    question: TrainingQuestion
    titles: frozenset[str]
    relations: tuple[str, ...]


def generate_questions(
    pages: Sequence[Page],
    retrieve: Callable[[Sequence[str]], list[list[TrainingPassage]]],
    is_held_out: Callable[[str, str, Sequence[str]], bool],
    *,
    seed: int,
    most: int = 4500,
    one_hop: int = 1400,
) -> list[GeneratedQuestion]:
    """Questions over one to three pages, with the pages that they lead through and retrieved negatives.

    Args:
        pages: The pages of the corpus.
        retrieve: Passages of the corpus for each question, in descending order of score.
        is_held_out: Whether a benchmark asks the same: (question, name of the first page, answers).
        seed: Seed of the choices.
        most: Most questions over two or three pages.
        one_hop: Questions over one page.
    """
    rng = random.Random(seed)
    finder = FactFinder(load_relations().values())
    facts = [fact for page in pages for fact in finder.facts(page)]
    chains = chains_of(facts)
    rng.shuffle(chains)
    chosen = _balanced(chains, most, rng)
    used = {page.title for chain in chosen for page in (fact.page for fact in chain)}
    singles = [
        fact for fact in facts if fact.page.title in used and not holds_any(fact.page.title, (fact.object_name,))
    ]
    rng.shuffle(singles)
    chosen += _balanced([(fact,) for fact in singles], one_hop, rng)
    linked = _links(pages)
    drafts, seen = [], set()
    for chain in (*chosen, *(chain for chain in chosen if len(chain) > 1)):  # two wordings where several are combined
        text = ask(chain, rng)
        answers = tuple(dict.fromkeys(chain[-1].page.text[a:b] for a, b in chain[-1].spans))
        if text.lower() not in seen and not is_held_out(text, chain[0].page.name, answers):
            seen.add(text.lower())
            drafts.append((chain, text, answers))
    found = retrieve([text for _, text, _ in drafts])
    return [_assembled(*draft, passages, linked) for draft, passages in zip(drafts, found, strict=True)]


def _balanced(chains: Sequence[tuple[Fact, ...]], most: int, rng: random.Random) -> list[tuple[Fact, ...]]:
    """Chains without too many of one series of relations or of one answer; at most one in seven has three facts."""
    series: Counter[tuple[str, ...]] = Counter()
    answers: Counter[str] = Counter()
    lengths: Counter[int] = Counter()
    chosen = []
    for chain in chains:
        names = tuple(fact.relation.name for fact in chain)
        limit = _MOST_OF_PAIR.get(len(chain), 110)
        answer = chain[-1].object_name
        if series[names] >= limit or answers[answer] >= _MOST_OF_ANSWER:
            continue
        if len(chain) == 3 and lengths[3] * 7 > most:
            continue
        series[names] += 1
        answers[answer] += 1
        lengths[len(chain)] += 1
        chosen.append(chain)
    rng.shuffle(chosen)
    return chosen[:most]


def _links(pages: Sequence[Page]) -> Callable[[Page], list[Page]]:
    """Returns what finds the other pages that a page names."""
    by_name = {page.name: page for page in pages}
    finder = NameFinder(())

    def linked(page: Page) -> list[Page]:
        names = dict.fromkeys(mention.surface for mention in finder.find(page.text))
        return [by_name[name] for name in names if name in by_name and name != page.name]

    return linked


def _assembled(
    chain: tuple[Fact, ...],
    text: str,
    answers: tuple[str, ...],
    retrieved: Sequence[TrainingPassage],
    linked: Callable[[Page], list[Page]],
) -> GeneratedQuestion:
    last = chain[-1]
    gold = TrainingPassage(last.page.title, last.page.text, last.spans)
    support = [TrainingPassage(fact.page.title, fact.page.text, is_supporting=True) for fact in reversed(chain[:-1])]
    negatives = [TrainingPassage(page.title, page.text) for fact in chain for page in linked(fact.page)][:4]
    negatives += retrieved
    used = {gold.text, *(passage.text for passage in support)}
    others: dict[str, TrainingPassage] = {}
    for passage in negatives:
        if passage.text not in used and not holds_any(f"{passage.title} {passage.text}", answers):
            others.setdefault(passage.text, passage)
    source = TWO_HOPS if len(chain) > 1 else ONE_HOP
    question = TrainingQuestion(text, answers, source, (gold, *support), tuple(others.values())[:8])
    return GeneratedQuestion(
        question, frozenset(fact.page.title for fact in chain), tuple(fact.relation.name for fact in chain)
    )
