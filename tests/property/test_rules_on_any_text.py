"""No text rule fails on any text, and none takes more than linear time."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from time import sleep

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from memory_index import MemoryIndex

from polyhop.schemas.languages import language, plain_tokens, stem_tokens
from polyhop.schemas.names import FUNCTION_WORDS, NameFinder, split_sentences, title_forms
from polyhop.schemas.query import ContextPassage, Question, ReadingItem, Retrieval
from polyhop.schemas.records import Passage, Section, SourceRecord
from polyhop.schemas.text import fold, norm_answer, norm_simple, norm_ws, without_last_parenthesis
from polyhop.schemas.types import HEADS, TITLES_OF_PERSONS, title_type
from polyhop.schemas.values import find_dates, find_numbers
from polyhop.tasks.extraction.rows import bundle_of, cut, raw_tables
from polyhop.tasks.extraction.rules import rules_page
from polyhop.tasks.extraction.stated import PlacedText, Stated, clean, distribute, key_of, named, stated_page
from polyhop.tasks.passages.records import count_words, passages_table, split_record
from polyhop.warehouse.documents.tables import table_groups
from polyhop.warehouse.files.records import FaultError
from polyhop.warehouse.files.web_pages import read_html, read_markdown
from polyhop.warehouse.name_judge import span_flags
from polyhop.warehouse.names import LanguageNames, RegexNames
from polyhop.worker.questions.parts import RuleNaming
from polyhop.worker.reading.comparisons import compute
from polyhop.worker.reading.models import lines_within_tokens, within_tokens
from polyhop.worker.reading.pages import Similarity, StemWeights, own_page, pages_of
from polyhop.worker.reading.question import ParsedQuestion, parse_question
from polyhop.worker.reading.reader import LocalReader
from polyhop.worker.reading.spans import parts_of
from polyhop.worker.reading.word_lists import country_mentions

pytestmark = pytest.mark.rare

FINDER = NameFinder(["Al", "Alpha of the Beta", "The Beatles", "New York", "New York City Hall", "A A A A", "of the"])
GERMAN, CHINESE = (
    LanguageNames(["Al", "Alpha of the Beta", "New York City Hall", "中", "中中中"], code) for code in ("de", "zh")
)
SHORTEST, LONGEST, STEP = 8_000, 128_000, 4
"""Characters; from 8,000 on what is quadratic outweighs what is linear in all rules that ever were quadratic."""
STEEP = 10.0
"""Largest ratio of the times at 4n and n: 4 is linear, 16 quadratic; texts that outgrow a cache have shown 8."""
DOUBTFUL = 6.0
"""From this ratio on times are measured again: either of the two may have been disturbed."""
FLOOR, ENOUGH = 0.002, 0.005
"""Seconds: times below the first are noise, above the second no longer text is needed."""
ROUNDS = 6
"""Of measuring a doubtful pair of times again, with longer and longer pauses."""

TEXT_PIECES = (
    *("a", "A", "A ", "a ", "Al (Be) ", "Alpha of the ", "of the ", "of ", "Al ", "New York ", "the ", "(", ")"),
    *("((a)", "(born ", "(1 ", "1", "1 ", "1,", "1.", "1999 ", "1999-", "May 1, ", "May of ", "two-"),
    *("two hundred ", ". ", "?! ", '."', '"', "“a", "\n", "\n \n", " ", "'", "'s ", "A's ", "A-", "-", "_"),
    *("A & ", "A. ", "U.S. ", "e.g. ", "is a ", "is ", "was one of the ", "which ", "What is ", "in which "),
    *("Al that ", ", whose ", "A or ", "Is Al or Be ", "or ", "the author of Al ", "name of the "),
    *("between Al and ", "of x and ", "? what ", ", ", ";", "é", "e\u0301", "\u0301", "ﬁ", "½", "中。", "（"),
    *("العربية ", "\x1b[0m", "\u2028", "born in 1850 ", "(1850-1900) ", "died ", "founded ", "American "),
    *("Al, Be, ", "x1 ", "Senator ", "---\n", "```\n", "# \n", "title: ", "| a | b |\n", "Which is older, Al or "),
)
MARKDOWN_PIECES = (
    *("> ", "- ", "[a](", "![", "**a", "*a ", "<b", "    a\n", "|-|\n", "[a]: b\n", "* * ", "[", "`", "&amp;", "1. "),
    *TEXT_PIECES,
)
HTML_PIECES = (
    *('<a href="', "<!--", "<a x=1 ", "<", ">", "<a", "</", "</a>", "<a>", "<p>", "<div>", "<b>", "<![CDATA["),
    *("<?", "<!", "&amp;", "&#", "&lt", "<script>", "<style>", "<title>", "<textarea>", "<svg>", "<a b='", "</a "),
    *("<table>", "<td>", "--", "<!-->", "<!--a-", "<!DOCTYPE [", "<br>", "<a <", "<form>", "<select>", "<p><a>"),
    *("<a><b>", "</p>", "<i><table>", "<b><i></b>", "<font size=1>a", "<h1>", "<template>"),
    *("<plaintext>", "\0", "<meta charset "),
    *("<td rowspan=9 colspan=9>a", "<tr><td rowspan=99>a", "<table><tr><td colspan=999>ab", "<tr><th>a<td>b", "<sup>1"),
    *("<sup><a>1</a></sup>", "<ol><li>", "<li>a", "<p style='display:none'>"),
)


def passage(text: str, title: str = "Al") -> Passage:
    return Passage("p", "p", "d", 0, title, text, 0, len(text))


def page_context(text: str) -> list[ContextPassage]:
    return [ContextPassage("p", "Al", text, 1, 1.0), ContextPassage("q", "Be", "Be (born 1815) was British.", 2, 1.0)]


def parsed(text: str) -> ParsedQuestion:
    return parse_question(text, FINDER.find(text))


ASKED = parsed("Which river flows through the birthplace of Ada Lovelace?")
COMPARED = [parsed(text) for text in ("When did Al die?", "Is Al longer than 3 km?", "Who is older, Al or Bo?")]
SIMILAR = Similarity(MemoryIndex([], artefacts=()), None, StemWeights(None))
PAGES = pages_of(page_context("Al (1 May 1815 – 1852) was a British writer, born in New York."))


def read_page(text: str) -> None:
    pages = pages_of(page_context(text))
    parts_of(ASKED, pages, SIMILAR)
    for page in pages:
        for compared in COMPARED:
            compute(compared, [page], SIMILAR)
        page.mentions(("al", "new york"))


def ask(text: str) -> None:
    question = parsed(text)
    compute(question, PAGES, SIMILAR)
    parts_of(question, PAGES, SIMILAR)


def place_statements(text: str) -> None:
    stated = Stated([named(text[:500]), named("Al"), named("a a a")], [], [(text, ["al"])])
    for piece, share in zip([passage(text)] * 2, distribute(stated, [passage(text)] * 2), strict=True):
        stated_page(piece, share, "model")


def read_page_of(data: bytes) -> None:
    with suppress(FaultError):  # nested too deeply
        read_html(data, "stem")


def read_markdown_of(text: str) -> None:
    with suppress(FaultError):  # nested too deeply
        read_markdown(text.encode(), "stem")


def split_at_headings(text: str) -> None:
    """A section every 40 characters, headings that change every fourth time."""
    sections = tuple(Section(at, (str(at // 160),), page=at // 40 + 1) for at in range(0, len(text), 40))
    record = SourceRecord("r", "t", text, "s", 0, {}, sections)
    for least in (0, 1_000_000):
        pieces = split_record(record, max_characters=500, overlap_sentences=2, min_section_characters=least)
        passages_table([(piece, record) for piece in pieces])


def pack(text: str) -> None:
    within_tokens(page_context(text), 500)
    lines_within_tokens(text, 500)


def describe_title(text: str) -> None:
    title_forms(text)
    title_type(text, "al", text)
    own_page.__wrapped__(text, text[:400])
    without_last_parenthesis(text)


RULES: dict[str, Callable[[str], object]] = {
    "names": FINDER.find,
    "SPRIG's names": RegexNames().find,
    "names in another language": lambda text: (GERMAN.find(text), CHINESE.find(text)),
    "words in another language": lambda text: (language("ar").tokens(text), split_sentences(text, is_english=False)),
    "sentences": split_sentences,
    "dates": find_dates,
    "numbers": find_numbers,
    "flags of a span": lambda text: span_flags(text, len(text) // 2, len(text) // 2 + 3),
    "titles": describe_title,
    "type by a first sentence": lambda text: title_type("Al", "al", text),
    "normalised": lambda text: (norm_ws(text), norm_simple(text), norm_answer(text), fold(text)),
    "tokens": lambda text: (plain_tokens(text), stem_tokens(text), count_words(text, text)),
    "extraction": lambda text: bundle_of([rules_page(passage(text), FINDER)]),
    "extraction of a title": lambda text: bundle_of([rules_page(passage("Al was here.", text), FINDER)]),
    "places of a key": lambda text: PlacedText(text).find("al"),
    "key of a name": key_of.__wrapped__,
    "statements": place_statements,
    "cleaned": lambda text: (clean(text), cut(text)),
    "pieces": lambda text: split_record(SourceRecord("r", "t", text, "s", 1), max_characters=1000),
    "names of a question": lambda text: RuleNaming(FINDER).name([Question(text)]),
    "question": parsed,
    "answer": ask,
    "countries": country_mentions,
    "page": read_page,
    "context": pack,
    "pieces at headings": split_at_headings,
    "Markdown": read_markdown_of,
    "table of a document": lambda text: list(table_groups([[line] * 2 for line in text.split("\n")])),
    "HTML": lambda text: read_page_of(text.encode()),
    "HTML in another encoding": lambda text: read_page_of(b'<meta charset="latin-1">\xe9' + text.encode()),
}
_distinct = count()


@contextmanager
def without_collection() -> Iterator[None]:
    """Garbage collection comes when it likes and costs more the more there is."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def seconds(rule: Callable[[str], object], piece: str, size: int, repeats: int = 1) -> float:
    """Least processor time of a rule for a text of repeated pieces; no text twice, because rules have caches."""
    best = float("inf")
    for _ in range(repeats):
        text = f"{piece * (size // len(piece))} {next(_distinct)}"
        start = time.thread_time()
        rule(text)
        best = min(best, time.thread_time() - start)
    return best


def settled(rule: Callable[[str], object], piece: str, size: int) -> tuple[float, float]:
    """Least times for both lengths over rounds with pauses, until they no longer look steep or all rounds are over."""
    before = now = float("inf")
    for round_number in range(ROUNDS):
        sleep(0.2 * round_number)
        before = min(before, seconds(rule, piece, size // STEP, repeats=3))
        now = min(now, seconds(rule, piece, size, repeats=3))
        if now <= (STEEP if round_number else DOUBTFUL) * max(before, FLOOR):
            break
    return before, now


def is_steep(rule: Callable[[str], object], piece: str) -> str:
    """How a rule's time grows with the piece's number, if too fast; else ""."""
    size = SHORTEST
    before = seconds(rule, piece, size)
    while size < LONGEST:
        size *= STEP
        now = seconds(rule, piece, size)
        if now > ENOUGH and now > DOUBTFUL * max(before, FLOOR):
            before, now = settled(rule, piece, size)
            if now > STEEP * max(before, FLOOR):
                return f"{piece!r}: {before:.4f} s for {size // STEP:,} characters, {now:.4f} s for {size:,}"
        if now > ENOUGH and before > FLOOR:
            break  # both times mean something, and they are not far apart
        before = now
    return ""


@pytest.mark.parametrize("name", RULES)
def test_time_grows_with_the_text_and_no_faster(name: str) -> None:
    pieces = (*HTML_PIECES, *TEXT_PIECES) if "HTML" in name else MARKDOWN_PIECES if name == "Markdown" else TEXT_PIECES
    rule = RULES[name]
    rule("Al was here in 1999.")
    with without_collection():
        steep = [found for piece in pieces if (found := is_steep(rule, piece))]
    assert not steep, steep


def test_unmatched_tags_cost_no_more_than_the_deepest_nesting_that_is_read() -> None:
    """Each end tag is looked for among all open ones, so their number is bounded."""

    def refused(text: str) -> None:
        with pytest.raises(FaultError, match="nested more than 6,000 deep"):
            read_html(text.encode(), "stem")

    with without_collection():
        before, now = settled(refused, "<b></p>", 256_000)
    assert now < STEEP * before


@pytest.mark.real_time
def test_a_quadratic_rule_is_noticed() -> None:
    def quadratic(text: str) -> int:
        return sum(text[:end].count("b") for end in range(0, len(text), 50))

    assert "32,000" in is_steep(quadratic, "a")
    assert is_steep(str.split, "a ") == ""


TYPES = {"PERSON", "ORGANIZATION", "LOCATION", "EVENT", "WORK", None}
TITLES = ["The Beatles", "Springfield, Illinois", "Paris (mythology)", "What If", "Of Mice and Men", "中国", "A"]
TITLED = NameFinder(TITLES)

_COVER_PAGE = (
    *("FORM 10-K", "(Mark One)", "☒", "ANNUAL REPORT PURSUANT TO SECTION 13 OR 15(d)", "SECURITIES AND EXCHANGE"),
    *("OF THE SECURITIES EXCHANGE ACT OF 1934", "For the fiscal year ended December 31, 2023", "001-36743"),
    *("OF", "OF THE", "THE", "AND", "Item 1A.", "Yes ☐ No ☒", "$1,234,567", "(in millions)", "N/A", "—", "§ 232.405"),
)
_NOISE = (
    *("Tlie cornpany", "l9B4", "rn", "0f", "OF.", "of", "|", "| a | b |", "\t", "....... 12", "_____", "1.", "(1"),
    *("(((", ")", '"', "“", "'s", "'", "-", "–", "&", ".", ". ", "?", "!", ",", "\n", "\n\n", " ", "€", "1,2,3"),
    *("1990", "may 19"),
    *("May 99, 1999", "31 February 2001", "0000", "twenty-", "2100", "19999", "born", "(born", "died", "1800–", "b."),
)
_SCRIPTS = (
    *("中国。", "東京、", "（北京）", "مرحبا", "؟", "Ελλάδα", "Россия", "ไทย", "हिन्दी", "ﬁ", "ß", "İ", "ı", "É"),
    *("e\u0301",),
    *("\u0301", "Ǆ", "½", "²", "٣", "𝔄", "🙂", "\u200b", "\u202e", "\u2028", "\ufeff", "\u00ad", "\u00a0", "\u0085"),
    *("\x1b[31m", "\x07", "\x01", "\x0b", "\r\n"),
)
_QUESTIONS = (
    *("What", "which", "Who", "whose", "When", "where", "how many", "how", "why", "Is", "Are", "was", "did", "or"),
    *("both", "between", "older", "earlier", "longer", "than", "before", "the same", "country", "nationality", "year"),
    *("name of", "the director of", "in which", "that", "is located in", "the author of", "of", "the", "film", "and"),
    *("Al (Be)", "Alpha of the"),
    *("more", "more people", "state", "died", "born", "Ada Lovelace", "The Beatles", "Springfield", "Paris", "?"),
)
_WORDS = sorted({*HEADS, *TITLES_OF_PERSONS, *FUNCTION_WORDS})
_PIECES = st.sampled_from([*_COVER_PAGE, *_NOISE, *_SCRIPTS, *_QUESTIONS, *TITLES, *_WORDS])
_CASED = st.tuples(_PIECES, st.sampled_from([str, str.upper, str.title, str.lower, str.swapcase])).map(
    lambda pair: pair[1](pair[0])  # type: ignore[operator]
)
_JOINED = st.tuples(st.lists(_CASED, max_size=25), st.sampled_from([" ", "", "\n", ", ", "\t"])).map(
    lambda pair: pair[1].join(pair[0])
)
ANY_TEXT = st.one_of(_JOINED, _JOINED, st.text(max_size=80))
STORED = ANY_TEXT.filter(lambda text: "\0" not in text).map(lambda text: text.encode("utf-8", "ignore").decode())
"""Texts that a corpus may hold: readers refuse NUL and halves of characters."""


@given(STORED, STORED)
@example("Cover", "ANNUAL REPORT PURSUANT TO SECTION 13 OR 15(d) OF THE SECURITIES EXCHANGE ACT OF 1934")
@example("OF THE SECURITIES EXCHANGE ACT OF", "of the Act OF")
def test_extraction_by_rules_fails_on_no_passage(title: str, text: str) -> None:
    page = rules_page(passage(text, title), TITLED)
    assert all(row.type in {*TYPES, "DATE", "NUMBER"} for row in page.rows.values())
    assert page.rows.keys() >= {key for (_, keys), _ in [*page.propositions, *page.triples] for key in keys}
    for table in raw_tables([page]).values():
        table.validate(full=True)


@given(ANY_TEXT, st.lists(st.tuples(STORED, STORED), min_size=1, max_size=4))
@example("Is OF or Ada older?", [("OF", "OF (1 ) was born."), ("Ada", "Ada (born 1815) is a writer.")])
def test_any_question_about_any_passages_is_read(question: str, pages: list[tuple[str, str]]) -> None:
    rows = [(f"p{number}", title, text) for number, (title, text) in enumerate(pages)]
    reader = LocalReader(MemoryIndex(rows, artefacts=()))
    context = [ContextPassage(*row, rank, 1.0) for rank, row in enumerate(rows, start=1)]
    (reading,) = reader.read([ReadingItem(Question(question, "q"), Retrieval(()), context)])
    texts = {passage_id: text for passage_id, _, text in rows}
    assert all(texts[one.passage_id][one.start : one.end] == one.text for one in reading.sentences)
    assert len(pages_of(context)) == len(rows)
