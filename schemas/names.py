"""Names in a text, the same code for passages and questions, and sentences.

Source: algorithms.md 2B.1. Decided here, where 2B.1 is silent (with these, `bridge-lexical` on MuSiQue-100 has R@5
.7025, R@10 .8358, and .827 of the capitalised names that gpt-3.5 extracted are found; one question is .005):

* A single capital letter other than `A` and `I` is not a function word, and these two are none before a full stop, so
  that `T. S. Eliot` and `A. J. Foyt` stay whole.
* A gap has one of the allowed signs, whitespace only around `&` and after `.`; freer gaps find fewer names (.825).
* Behind `. ` a function word ends the run (`World War I. It`); without this rule .823 of the names.
* Titles of several words count in lower case too, even within a run; asking for a capital lost .005 of both.
* Lower-case particles in front are dropped, as after a dropped `After` in `After van Gogh`.
* A title made of function words only (`What If`) counts where its last word is capitalised.
* A letter of a script without case counts as capitalised for titles of one word.
* Names end after `MAX_NAME_TOKENS` words, so that capitals without punctuation stay linear.
* A number after a name belongs to it (`Flight 370`, `Windows 10`), unless it is a count, a year or a day.
* A legal form belongs to the name before it (`Enel S.p.A.`, `Acme, Inc.`).
* A run of function words only is a name inside a sentence (`The Who`); `Node.js` and `Kim Min-jun` go on in lower case.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.graph import Mention
from polyhop.schemas.languages import STOP_WORDS
from polyhop.schemas.legal_forms import token_forms
from polyhop.schemas.text import fold

_LEADING = (
    "although however while because since according despite following additionally furthermore among within currently "
    "today born"
)
FUNCTION_WORDS = STOP_WORDS | frozenset(_LEADING.split())  # Words that never begin a capitalised run.

_MONTHS = "january february march april may june july august september october november december"
_NO_KEY = frozenset(_MONTHS.split())
_PARTICLES = frozenset(("of", "de", "la", "van", "von", "der", "den", "di", "da", "du", "le", "el", "al", "bin", "ibn"))
_ARTICLES = frozenset(("a", "i"))
_NO_LAST = frozenset(("the", "of", "and", "in", "on", "at", "to", "for", "from", "by", "with", "or", "as"))
_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_NOT_NUMBERED = _NO_KEY | frozenset(_DAYS.split())
_NUMBERED = (
    "article asteroid boeing chapter clause directive flight highway interstate invoice line lot model number order "
    "paragraph room route section series train unit"
)
_NUMBERED_BEYOND = frozenset(_NUMBERED.split())  # Words whose numbers may look like years.
_UNITS = "million billion trillion percent per people men women children other more and or to am pm km kg cm mm m ft th"
_COUNTED = _NO_KEY | frozenset(_UNITS.split())  # Words after a number that is a count or a day.
_NUMBER = re.compile(r"\d{1,4}[a-zA-Z]?")
_YEARS = range(1000, 2100)
_SUFFIXES = frozenset(("js", "com", "net", "org", "io", "ai", "py"))  # Lower-case ends of names after a full stop.
_COMPOUND = (
    "a an and as aged based born built class era free good held known language led level like long made man old owned "
    "part run size style time top type wide year area side war age pro de la le"
)
_AFTER_HYPHEN = frozenset(_COMPOUND.split())  # Lower-case words after a hyphen that are not part of a given name.
_SYLLABLE = 5  # Most letters of the syllables of a given name with a hyphen (`Min-jun`).
MAX_NAME_TOKENS = 24  # chosen: longer than names are; see above
_MAX_KEY_TOKENS = 40  # of a title that is looked for in texts; chosen: longer ones are sentences, hardly repeated

_WORD_OF_NAME = r"[^\W_]+(?:(?<=(?<![^\W_])[A-Za-z])(?:\+\+|#)(?![^\W_]))?"
_TOKEN_SPLIT = re.compile(f"({_WORD_OF_NAME})")
NAME_WORD = re.compile(_WORD_OF_NAME)  # Letters and digits; two languages are a letter with signs (`C++`, `C#`).
_PARENTHESES = re.compile(r"[(（][^()（）]*[)）]")
_COMMA = re.compile(r"[,，]")
_SPLITS = re.compile(r"[(（,，]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def name_tokens(text: str) -> list[str]:
    """Folded lower-case words of `text`: joined by one space they are its key."""
    return [word.lower() for word in NAME_WORD.findall(fold(text))]


def title_keys(title: str) -> tuple[str, ...]:
    """Keys under which a title is known: whole, without `(...)`, and of that the part before the first comma.

    Returns:
        Distinct keys in that order; stop words, months and single letters are left out, so there may be none.
    Source: algorithms.md 2B.1 (b), (c).
    """
    if _SPLITS.search(title):
        return tuple(key for key, _ in title_forms(title))
    key = _key_of(title)  # the usual case, in half the time
    return (key,) if key else ()


def title_forms(title: str) -> list[tuple[str, str]]:
    """Each of `title_keys` with its spelling. Source: algorithms.md 2B.1 (b)."""
    spellings = [title]
    if _SPLITS.search(title):
        outside = " ".join(_PARENTHESES.sub(" ", title).split())
        spellings += [outside, _COMMA.split(outside, maxsplit=1)[0]]
    forms: dict[str, str] = {}
    for spelling in spellings:
        if key := _key_of(spelling):
            forms.setdefault(key, spelling.strip())
    return list(forms.items())


def _key_of(spelling: str) -> str:
    """The key of a title as it is spelled, "" if it has none."""
    words = NAME_WORD.findall(fold(spelling))
    key = " ".join([word.lower() for word in words])
    return key if len(key) >= 2 and key not in _NO_KEY and (key not in STOP_WORDS or words[0].isupper()) else ""


class TitleKeys:
    """Keys of the titles that are looked for in texts."""

    def __init__(self, titles: Iterable[str]) -> None:
        self._singles: set[str] = set()
        self._phrases: set[str] = set()
        lengths: dict[tuple[str, str], set[int]] = {}
        for key in {key for title in set(titles) for key in title_keys(title)}:
            words = key.split()
            if len(words) == 1:
                if sum(map(str.isalpha, key)) >= 3:
                    self._singles.add(key)
            elif len(words) <= _MAX_KEY_TOKENS:
                self._phrases.add(key)
                lengths.setdefault((words[0], words[1]), set()).add(len(words))
        self._lengths = {pair: tuple(sorted(found, reverse=True)) for pair, found in lengths.items()}

    def is_single(self, word: str) -> bool:
        """Returns whether a title has this word alone as a key."""
        return word in self._singles

    def is_phrase(self, key: str) -> bool:
        """Returns whether a title has this key of several words."""
        return key in self._phrases

    def lengths(self, first: str, second: str) -> Sequence[int]:
        """Numbers of words, descending, of the keys that begin with these two."""
        return self._lengths.get((first, second), ())

    def arrays(self) -> dict[str, NDArray[np.uint64]]:
        """The same for `StoredTitleKeys`; shape (n,) each, hashes ascending, `lengths` parallel to `pairs` as bits."""
        pairs = {_hashed(" ".join(pair)): sum(1 << length for length in some) for pair, some in self._lengths.items()}
        hashes = {"singles": map(_hashed, self._singles), "phrases": map(_hashed, self._phrases), "pairs": pairs}
        found = {name: np.sort(np.fromiter(some, dtype=np.uint64)) for name, some in hashes.items()}
        return {**found, "lengths": np.array([pairs[pair] for pair in found["pairs"].tolist()], dtype=np.uint64)}


class StoredTitleKeys:
    """As `TitleKeys`, in arrays that are opened in no time and looked up by hashes of 64 bits.

    A key that no title has is taken for one with a probability of 5e-14 for a million titles.
    """

    def __init__(self, arrays: Mapping[str, NDArray[np.uint64]]) -> None:
        self._arrays = arrays

    def is_single(self, word: str) -> bool:
        """As of `TitleKeys`."""
        return self._number("singles", word) is not None

    def is_phrase(self, key: str) -> bool:
        """As of `TitleKeys`."""
        return self._number("phrases", key) is not None

    def lengths(self, first: str, second: str) -> Sequence[int]:
        """As of `TitleKeys`."""
        number = self._number("pairs", f"{first} {second}")
        bits = 0 if number is None else int(self._arrays["lengths"][number])
        return [length for length in range(_MAX_KEY_TOKENS, 1, -1) if bits >> length & 1] if bits else ()

    def _number(self, name: str, key: str) -> int | None:
        hashes, wanted = self._arrays[name], np.uint64(_hashed(key))
        number = int(np.searchsorted(hashes, wanted))
        return number if number < len(hashes) and hashes[number] == wanted else None


def _hashed(key: str) -> int:
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest())


class NameFinder:
    """Finds names: capitalised runs, and the titles of a corpus wherever they occur.

    Equal whatever the order of titles; immutable after construction, may be pickled and shared between threads.
    """

    def __init__(self, titles: Iterable[str], keys: StoredTitleKeys | None = None) -> None:
        """Takes the titles, or their keys as a version has stored them."""
        self._keys = keys or TitleKeys(titles)

    def is_title(self, key: str) -> bool:
        """Returns whether a key is looked for because a title has it."""
        return self._keys.is_single(key) or self._keys.is_phrase(key)

    def find(self, text: str) -> list[Mention]:
        """Names in `text`, each span and key once.

        Args:
            text: Any text; offsets refer to it as given, not to its folded form.

        Returns:
            Mentions in order of start, end, key; two may overlap (`beatles` and `the beatles`).
        Source: algorithms.md 2B.1.
        Cost: O(characters), whatever the number of titles.
        """
        folded, offsets = _fold_offsets(text)
        parts = _TOKEN_SPLIT.split(folded)
        words = parts[1::2]
        if not words:
            return []
        gaps = parts[2::2]
        lows = [word.lower() for word in words]
        found = set(_runs(words, lows, gaps))
        found.update(self._known(words, lows))
        edges = list(accumulate(map(len, parts)))
        named = sorted((edges[2 * first], edges[2 * last + 1], first, last) for first, last in found)
        mentions = []
        for folded_start, folded_end, first, last in named:
            start, end = folded_start, folded_end
            if offsets is not None:
                start, end = offsets[start], offsets[end - 1] + 1
                while end < len(text) and not fold(text[end]):  # marks after the last letter
                    end += 1
            mentions.append(Mention(" ".join(lows[first : last + 1]), text[start:end], start, end))
        return mentions

    def _known(self, words: list[str], lows: list[str]) -> list[tuple[int, int]]:
        """(first, last) word of each title, longest match left to right."""
        starts = [position for position, pair in enumerate(pairwise(lows)) if self._keys.lengths(*pair)]
        starts += [position for position, low in enumerate(lows) if self._keys.is_single(low)]
        found: list[tuple[int, int]] = []
        free = 0
        for position in sorted(set(starts)):
            if position >= free and (length := self._longest(words, lows, position)):
                free = position + length
                found.append((position, free - 1))
        return found

    def _longest(self, words: list[str], lows: list[str], position: int) -> int:
        """Words of the longest title that begins at `position`, 0 if none does."""
        lengths = self._keys.lengths(lows[position], lows[position + 1]) if position + 1 < len(lows) else ()
        for length in lengths:
            run = lows[position : position + length]
            if position + length > len(lows) or not self._keys.is_phrase(" ".join(run)):
                continue
            if not FUNCTION_WORDS.issuperset(run) or words[position + length - 1][0].isupper():
                return length
        word = words[position]
        if not self._keys.is_single(lows[position]) or word[0].islower() or not word[0].isalpha():
            return 0
        return int(lows[position] not in FUNCTION_WORDS or word.isupper())


def _runs(words: list[str], lows: list[str], gaps: list[str]) -> list[tuple[int, int]]:
    """(first, last) word of each capitalised run that is a name."""
    found = []
    free = 0
    for position in [position for position, word in enumerate(words) if word[0].isupper()]:
        if position < free:
            continue
        if lows[position] == "s" and position and gaps[position - 1] == "'":
            continue
        last = _legal_form_end(words, gaps, position, _run_end(words, lows, gaps, position))
        free = last + 1
        first = position
        while first <= last and _is_function(words[first], lows[first], gaps[first]):
            first += 1
        is_within = position and not gaps[position - 1].strip(" \t")
        if first > last and last > position and is_within and lows[last] not in _NO_LAST:
            first = position  # all are function words, within a sentence: The Who
        if first > last or (first == last and (len(lows[first]) < 2 or lows[first] in _NO_KEY)):
            continue
        found.append((first, last + _is_numbered(words, lows, gaps, last)))
    return found


def _run_end(words: list[str], lows: list[str], gaps: list[str], first: int) -> int:
    """Last capitalised word of the run that begins at `first`, or a lower-case end of its name."""
    last = first
    for position in range(first + 1, min(len(words), first + MAX_NAME_TOKENS)):
        gap = gaps[position - 1]
        if gap != " " and not _joins(gap, words[position - 1], lows[position]):
            break
        if words[position][0].isupper() or _ends_name(words, gap, first, position):
            last = position
        elif words[position] not in _PARTICLES and not (words[position] == "the" and words[position - 1] == "of"):
            break
    return last


def _legal_form_end(words: list[str], gaps: list[str], first: int, last: int) -> int:
    """Last word of a legal form that begins in a run, or right after it (`Enel S.p.A.`, `Acme, Inc.`), else `last`."""
    for begin in range(max(first + 1, last - _LONGEST_FORM), min(last + 2, len(words))):
        if gaps[begin - 1] not in _GAPS_BEFORE_FORM:
            continue
        for form in token_forms().get(words[begin], ()):
            end = begin + len(form) - 1
            if end > last and tuple(words[begin : end + 1]) == form and _is_one_form(gaps, begin, end):
                return end
    return last


_LONGEST_FORM = 4  # words of a legal form, less one
_GAPS_BEFORE_FORM = frozenset((" ", ", "))
_GAPS_IN_FORM = frozenset((".", ". ", "/", " ", " & ", "-", ". & ", " ("))


def _is_one_form(gaps: list[str], begin: int, end: int) -> bool:
    """Returns whether words are written as one legal form; two letters after a comma may be another name."""
    is_joined = all(gap in _GAPS_IN_FORM for gap in gaps[begin:end]) and gaps[end][:1] not in ("-", "'")
    return is_joined and (gaps[begin - 1] == " " or begin < end or gaps[end].startswith("."))


def _ends_name(words: list[str], gap: str, first: int, position: int) -> bool:
    """Returns whether a lower-case word goes on with the name before it: `Node.js`, `S.p.A.`, `Kim Min-jun`."""
    word, before = words[position], words[position - 1]
    if gap == ".":
        return word in _SUFFIXES if len(before) > 1 else len(word) == 1
    is_given_name = gap == "-" and position - first > 1 and before[0].isupper()
    return is_given_name and max(len(word), len(before)) <= _SYLLABLE and word.isalpha() and word not in _AFTER_HYPHEN


def _is_numbered(words: list[str], lows: list[str], gaps: list[str], last: int) -> bool:
    """Returns whether the word after a run is a number in its name: `Flight 370`."""
    number = last + 1
    if number >= len(words) or gaps[last] != " " or not _NUMBER.fullmatch(words[number]):
        return False
    if lows[last] in _NOT_NUMBERED or words[last][0].isdigit() or not words[last][0].isupper():
        return False
    if words[number].isdigit() and int(words[number]) in _YEARS and lows[last] not in _NUMBERED_BEYOND:
        return False
    after, following = gaps[number], lows[number + 1] if number + 1 < len(words) else ""
    if after != " " or not following:
        is_joined = following and following != "s" and after in (".", ",", ":", "/", "-", "–", "'")
        return not is_joined and after[:1] not in ("%", "°")
    if lows[last] in _NUMBERED_BEYOND:
        return True
    return following not in _COUNTED and (following != words[number + 1] or not _is_plural(following))


def _is_plural(word: str) -> bool:
    return len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) and word not in STOP_WORDS


def _joins(gap: str, before: str, after: str) -> bool:
    """Returns whether two words with this gap between them may be in one run."""
    inner = gap.strip(" \t")
    if inner in ("", "&"):
        return True
    if inner == "'":
        return gap == inner and after != "s"
    if inner == ".":
        return gap == inner or (gap[0] == "." and len(before) <= 3 and (len(after) == 1 or after not in FUNCTION_WORDS))
    return inner == "-" and gap == inner


def _is_function(word: str, low: str, gap: str) -> bool:
    """Returns whether a word at the head of a run is a function word there; lower-case particles are."""
    if word[0].islower():
        return True
    if low not in FUNCTION_WORDS:
        return False
    if len(word) == 1:
        return low in _ARTICLES and gap[:1] != "."
    return not word.isupper()


def _fold_offsets(text: str) -> tuple[str, list[int] | None]:
    """`fold(text)`, and the offset in `text` of each of its characters, None if all are the same."""
    folded = fold(text)
    sizes = {} if text.isascii() else {char: len(fold(char)) for char in set(_NOT_ASCII.findall(text))}
    if all(size == 1 for size in sizes.values()):
        return folded, None
    return folded, [offset for offset, char in enumerate(text) for _ in range(sizes.get(char, 1))]


# Source: algorithms.md 0.8 (F-SENT), abbreviations of reader.md. Decided here: after an initial or an abbreviation
# that may stand last (`World War I.`, `the U.S.`, `Inc.`) a function word shows that a new sentence begins.

_ABBREVIATIONS = frozenset(
    (
        *("mr", "mrs", "ms", "dr", "st", "no", "vs", "jr", "sr", "inc", "ltd", "co", "e.g", "i.e", "u.s", "col", "gen"),
        *("lt", "capt", "maj", "sgt", "gov", "sen", "rep", "prof", "rev", "hon", "ft", "mt", "c", "ca", "approx", "op"),
        *("vol", "ed", "etc", "cf", "al", "bros", "corp", "dept", "est", "fig"),
    )
)
_MAY_STAND_LAST = frozenset(("jr", "sr", "inc", "ltd", "co", "corp", "bros", "etc", "al", "est", "u.s", "c"))
_WORD = re.compile(r"[^\W_]{2,10}\b")
_BEFORE_WORD = re.compile(r"[\s(\[\"'“‘«,/–—-]")
# characters before a stop: above the six of `approx`, the longest of the list, and its border
_LONGEST_ABBREVIATION = 8
_SENTENCE_END = re.compile(r"[.!?。！？؟]+[\"'”’»)\]]*\s*|\n[ \t\r\f\v]*\n\s*")
_OTHER_STOP = re.compile(r"[.!?。！？｡؟۔।]+[\"'”’»)\]」』》]*\s*|\n[ \t\r\f\v]*\n\s*")
"""Of other languages: the stops of Urdu and Hindi too, and the closing quotes of Chinese and Japanese."""
_ORDINAL = re.compile(r"(?<![\d.,])\d{1,2}\Z")
_FULL_WIDTH = frozenset("。！？｡")
_OPENING = frozenset("\"'“‘«(")


def split_sentences(text: str, *, is_english: bool = True) -> list[tuple[int, int]]:
    """(start, end) of each sentence of `text`, trimmed, never empty, in order.

    A sentence ends after `.`, `!` or `?` (closing quotes and brackets included) if whitespace and a capital, digit,
    quote or `(` follow and the word before is not an abbreviation; and at an empty line. Letters of scripts without
    case count as capitals, and the full-width stops of Chinese and Japanese need no whitespace.

    Args:
        text: Any text.
        is_english: Otherwise a number of one or two digits before a full stop is an ordinal (`am 3. Mai`), which ends
            no sentence, and more signs are stops.

    Source: algorithms.md 0.8 (F-SENT).
    Cost: O(characters), with or without full stops.
    """
    found = []
    start = 0
    for match in (_SENTENCE_END if is_english else _OTHER_STOP).finditer(text):
        stop, end = match.span()
        is_ordinal = not is_english and match[0].strip() == "." and _ORDINAL.search(text[max(0, stop - 4) : stop])
        if _ends(text, match) and not (is_ordinal and end < len(text)):
            found.append((start, end))
            start = end
    found.append((start, len(text)))
    pieces = [(first, text[first:last]) for first, last in found]
    spans = [(first + len(piece) - len(piece.lstrip()), first + len(piece.rstrip())) for first, piece in pieces]
    return [(first, last) for first, last in spans if first < last]


def _ends(text: str, match: re.Match[str]) -> bool:
    """Returns whether a sentence ends at a stop."""
    stop, (dot, after) = match[0], match.span()
    if stop[0] == "\n" or stop.count("\n") > 1:  # an empty line
        return True
    if after == len(text) or stop[0] in _FULL_WIDTH:
        return True
    char = text[after]
    opens = char in _OPENING or char.isdigit() or (char.isalpha() and not char.islower())
    if stop.rstrip() != "." or not stop[-1].isspace() or not opens:
        return stop[-1].isspace() and opens
    # an abbreviation or single letters (`J`, `U.S`) before the stop: the sentence goes on
    word = _BEFORE_WORD.split(text[max(0, dot - _LONGEST_ABBREVIATION) : dot])[-1].lower()
    initials = word not in _ABBREVIATIONS and all(len(part) == 1 and part.isalpha() for part in word.split("."))
    if initials or word in _MAY_STAND_LAST:
        follower = _WORD.match(text, after)
        return follower is not None and follower[0].lower() in STOP_WORDS
    return word not in _ABBREVIATIONS


_DEMONYMS = """
afghan african albanian algerian american andalusian angolan arab arabian arabic argentine argentinian armenian asian
assyrian australian austrian azerbaijani aztec babylonian bahraini bangladeshi basque bavarian belarusian belgian
bengali berber bohemian bolivian bosnian brazilian breton british bulgarian burgundian burmese byzantine cambodian
cameroonian canadian cantonese carthaginian castilian catalan caucasian celtic chilean chinese colombian congolese
coptic cornish corsican cossack croatian cuban cypriot czech czechoslovak danish dutch egyptian emirati english
eritrean estonian ethiopian european fijian filipino finnish flemish frankish french frisian gaelic galician genoese
georgian german germanic ghanaian greek guatemalan gujarati haitian hawaiian hellenic hindi hispanic honduran hungarian
icelandic inca indian indonesian iranian iraqi irish israeli italian jamaican japanese jordanian kannada kazakh kenyan
khmer korean kurdish kuwaiti kyrgyz lao latin latino latvian lebanese liberian libyan lithuanian lombard luxembourgish
macedonian malagasy malay malayalam malaysian malian maltese manchu mandarin maori marathi mayan mexican moldovan
mongol mongolian montenegrin moroccan mozambican mughal namibian neapolitan nepalese nepali nicaraguan nigerian norman
norse norwegian occitan ottoman pakistani palestinian panamanian paraguayan parthian pashto persian peruvian phoenician
polish polynesian portuguese prussian punjabi qatari quechua roman romani romanian russian rwandan samoan sanskrit
sardinian saudi saxon scandinavian scots scottish senegalese serb serbian sicilian sinhala sinhalese slavic slovak
slovakian slovene slovenian somali soviet spanish spartan sudanese sumerian swahili swedish swiss syrian tagalog
taiwanese tajik tamil tanzanian tatar telugu thai tibetan tongan tunisian turkic turkish turkmen tuscan ugandan
ukrainian urdu uruguayan uyghur uzbek venetian venezuelan vietnamese viking visigothic welsh yemeni yiddish yoruba
yugoslav zambian zimbabwean zulu americans arabs australians britons canadians europeans germans greeks indians
italians romans russians africans asians serbs slavs turks vikings kurds mongols saxons normans franks jews christians
muslims hindus buddhists catholics protestants
"""
_FAITHS = """
adventist amish anglican anglicanism ashkenazi baptist buddhism buddhist calvinist catholic catholicism christian
christianity confucian evangelical franciscan hindu hinduism islam islamic ismaili jain jesuit jewish judaism lutheran
mennonite methodist mormon muslim orthodox pagan pentecostal presbyterian protestant protestantism puritan quaker
reformed sephardic shia shiite sikh sikhism sufi sufism sunni taoist unitarian zoroastrian
"""
_KINDS = """
antarctic arctic atlantic baroque capitalist classical colonial communism communist confederate conservative democrat
democratic edwardian elizabethan fascist federal gothic imperial impressionist liberal marxist medieval modernist nazi
neoclassical nationalist renaissance republican romantic romanesque socialism socialist tudor victorian
"""
_PARTS_OF_NAMES = """
ad am bc bce ce esq hon jr junior phd pm sr st ii iii iv vi vii viii ix xi xii xiii xiv xv xvi xvii monday tuesday
wednesday thursday friday saturday sunday january february march april may june july august september october november
december spring summer autumn winter christmas easter ramadan north south east west central northern southern eastern
western southeast southwest northeast northwest southeastern southwestern northeastern northwestern upper lower middle
great greater new old inc ltd llc corp co fm tv aka etc mr mrs ms dr
"""
UNTYPED = frozenset((*_DEMONYMS.split(), *_FAITHS.split(), *_KINDS.split(), *_PARTS_OF_NAMES.split()))
"""Demonyms, languages, faiths, schools of thought, months, compass points: a name of such words only has no type."""

_UNTYPED_HEADS = """
acid adjective aircraft alphabet animal architecture award awards beer belief bird breed butterfly card caste cell
chemical class clan code colour color compound computer concept custom dance decade decoration degree dialect diet
diploma disease disorder dish doctrine drink drug dynasty economy ethnicity fabric family fish flag flavor flower food
formation format fruit fungus garment gene generation genre genus gun holiday ideology infection instrument insect
issue language languages law laws literature locomotive mammal measure medal medication method mineral molecule moth
motorcycle nickname noun number numeral occupation oil ornament pattern penalty peoples philosophy phrase phylum piece
playing practice principle prize procedure process product profession pronoun property protein protocol psalm quantity
rank reactor religion rifle ritual rule scale science scholarship sector ship software species sport standard structure
style subfamily subgenus subspecies substance surname symbol symptom syndrome system technique technology term test tax
theorem theory title toponym tradition transformer tree tribe trophy typeface vehicle virus weapon weekday wine word
words year zodiac probe spacecraft vessel boat yacht satellite slab engine tool artefact artifact script scripts
"""
UNTYPED_HEADS = frozenset(_UNTYPED_HEADS.split())
"""Head nouns of what has none of the five types (`is a Bantu language`, `Academy Award`)."""
