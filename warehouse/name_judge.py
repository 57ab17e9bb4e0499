"""Names of passages as the encoder's token states show them: where they begin and end, and of which type they are.

Three small networks, trained for the states that all-MiniLM-L6-v2 has after four of its six layers (weights/training).
One run of the encoder gives a passage's vector, which is cached for the embedding stage, and the states. What was found
of a passage is cached, too: by its text and the names in it.
Source: decisions/0039-types-from-token-states.md, 0042-joined-names-and-types-by-examples.md.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ModelFileError
from polyhop.schemas.languages import AUTO, ENGLISH
from polyhop.schemas.settings import LOCAL, PASSAGES, Settings
from polyhop.warehouse.cache.vectors import CachedEncoder
from polyhop.warehouse.models.local_encoder import LocalEncoder, Span, TokenStates
from polyhop.warehouse.open_models import open_encoder, open_name_cache

Floats = NDArray[np.float32]

OTHER = "OTHER"
CLASSES = ("PERSON", "ORGANIZATION", "LOCATION", "WORK", "EVENT", OTHER, "NONE")
"""Classes of spans: the five types, a name of none of these (a product, a law), and words that are not a name."""
HEADS_FILE = Path(__file__).parent / "name_heads.npz"
HEADS_SHA256 = "e9dff932cf83de150acf35cf12a682c2315e3ac1b79236b45b84432b724f9e44"
"""sha256 of the file that weights/training/entity_types.py and joined_names.py wrote."""


def type_features(text: str, tokens: TokenStates, spans: Sequence[Span], ranges: NDArray[np.int64]) -> Floats:
    """Mean state of each span, states of the tokens before and after it, and `span_flags`; shape (spans, 1174)."""
    states = tokens.states
    before, after = states[ranges[:, 0] - 1], states[np.minimum(ranges[:, 1], len(states) - 1)]
    flags = np.array([span_flags(text, *span) for span in spans], np.float32).reshape(len(spans), -1)
    return np.concatenate((tokens.means(ranges), before, after, flags), axis=1)


_AROUND = 40  # characters around a span that flags look at, and the longest line that is short; as in training
_THE = re.compile(r"\bthe$", re.IGNORECASE)


def span_flags(text: str, start: int, end: int) -> list[bool]:
    """Flags that the uncased encoder does not see of a span: capitals, digits, signs, and its position in the line."""
    name = text[start:end]
    words = name.split()
    before, after = text[max(0, start - _AROUND) : start].rstrip(" \t"), text[end : end + _AROUND].lstrip(" \t")
    line_start, line_end = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    return [
        *(len(words) == 1, len(words) == 2, len(words) == 3, len(words) >= 4),
        *(name.isupper() and len(name) > 1, any(word.isupper() and len(word) > 1 for word in words)),
        *(any(sign.isdigit() for sign in name), "&" in name, name.endswith(".")),
        any(word[:1].islower() for word in words),
        *(not before or before[-1] == "\n", not before or before[-1] in ".!?\n:;", not after or after[0] == "\n"),
        *(after[:1] == ":", after[:1] == ",", before[-1:] == ","),
        _THE.search(before) is not None,
        *(bool(before) and before[-1] in "\"'“«", before[-1:] == "(", after[:1] == "("),
        *(after[:1].isupper(), line_end - line_start <= _AROUND),
    ]


WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")  # what the second network finds inside or outside of names


def boundary_features(text: str, tokens: TokenStates, words: Sequence[Span], ranges: NDArray[np.int64]) -> Floats:
    """Mean state and `word_flags` of each word and of its neighbours, zeros if there is none; shape (words, 1176)."""
    means = tokens.means(ranges)
    flags = np.array([word_flags(text, *word) for word in words], np.float32).reshape(len(words), -1)
    nothing = np.zeros((1, means.shape[1]), np.float32)
    neighbours = np.concatenate((nothing, means[:-1])), np.concatenate((means[1:], nothing))
    of_neighbours = np.concatenate((flags[:1], flags[:-1])), np.concatenate((flags[1:], flags[-1:]))
    return np.concatenate((means, *neighbours, flags, *of_neighbours), axis=1)


def word_flags(text: str, start: int, end: int) -> list[bool]:
    """Capitals and digits of a word, and signs around it."""
    word, after = text[start:end], text[end : end + 1]
    before = text[max(0, start - _AROUND) : start].rstrip(" \t")[-1:]
    return [
        *(word[0].isupper(), word.isupper() and len(word) > 1, any(sign.isdigit() for sign in word)),
        *(not before or before in ".!?\n:;", after in ("", "\n")),
        *(text[start - 1 : start] == "-", after == "-", after == ","),
    ]


_AND = "and"
_JOIN = f" {_AND} "


def joining_word(tokens: TokenStates, words: Sequence[Span]) -> Floats:
    """States of the words between two names; shape (words with a token, 384)."""
    ranges = tokens.ranges(words)
    return tokens.means(ranges[ranges[:, 1] > ranges[:, 0]])


@dataclass(frozen=True, slots=True)
class NameHeads:
    """The three networks; the first and the third have one hidden layer, the second none.

    Weights have shape (in, out); features enter as they are, because the weights hold their scales.
    """

    type_hidden: Floats
    type_hidden_bias: Floats
    type_out: Floats
    type_out_bias: Floats
    boundary: Floats
    boundary_bias: Floats
    join_hidden: Floats
    join_hidden_bias: Floats
    join_out: Floats
    join_out_bias: Floats

    def type_probabilities(self, features: Floats) -> Floats:
        """Probability of each of `CLASSES`; shape (spans, 7)."""
        return _softmax(self.hidden(features) @ self.type_out + self.type_out_bias)

    def hidden(self, features: Floats) -> Floats:
        """Hidden units of the first network; shape (spans, 64)."""
        units: Floats = np.maximum(features @ self.type_hidden + self.type_hidden_bias, 0)
        return units

    def boundary_probabilities(self, features: Floats) -> Floats:
        """Probabilities that a word is outside of names, begins one, goes on in one; shape (words, 3)."""
        return _softmax(features @ self.boundary + self.boundary_bias)

    def join_probabilities(self, features: Floats) -> Floats:
        """Probability that the names around each `and` are one; shape (words,)."""
        hidden = np.maximum(features @ self.join_hidden + self.join_hidden_bias, 0)
        return _softmax(hidden @ self.join_out + self.join_out_bias)[:, 1]


def _softmax(scores: Floats) -> Floats:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=1, keepdims=True)
    return shares


@cache
def open_heads(path: Path = HEADS_FILE) -> NameHeads:
    """The networks of the installed package; checked, since one flipped bit would give other types."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"Cannot read the weights for types of names {path}: {error.strerror}.") from error
    digest = sha256(content).hexdigest()
    if digest != HEADS_SHA256:
        raise ModelFileError(
            f"The weights for types of names {path} are not the published ones: sha256 is {digest}, expected "
            f"{HEADS_SHA256}. Install Polyhop again."
        )
    with np.load(BytesIO(content), allow_pickle=False) as arrays:
        return NameHeads(**{name: arrays[name].astype(np.float32) for name in arrays.files})


_CUT = 0.25
"""Probability that a word is in a name below which it is cut from the end of one; chosen on the training data."""


def cut_spans(spans: Sequence[Span], words: Sequence[Span], outside: Floats) -> list[Span]:
    """Spans of names without the words at their ends that are in no name (`Hello Pavel`); one word of each stays.

    Args:
        spans: Names that rules found, in order; a span without words stays.
        words: Words of the text, in order.
        outside: Probability of each word that it is in no name.
    """
    starts = [start for start, _ in words]
    cut: dict[Span, None] = {}
    for start, end in spans:
        first, after = int(np.searchsorted(starts, start)), int(np.searchsorted(starts, end))
        ends = {first: start, after: end}  # signs around words stay where no word is cut: C++
        while after - first > 1 and 1 - outside[first] < _CUT:
            first += 1
        while after - first > 1 and 1 - outside[after - 1] < _CUT:
            after -= 1
        is_empty = first == after
        cut[(start, end) if is_empty else (ends.get(first, starts[first]), ends.get(after, words[after - 1][1]))] = None
    return sorted(cut)


_JOINED_WORDS = 8  # most words of a name that is joined with another; chosen: longer ones are no names
JOINED = 0.6
"""Probability from which two names with `and` between them are one; chosen: see decision 0042."""


def joinable_words(text: str, loose: Sequence[Span], fixed: Sequence[Span]) -> list[Span]:
    """Spans of each `and` between two loose names that the text names neither alone nor at the end of a longer name.

    So `Parker and Stone` stay two where the text also has `Trey Parker`.
    """
    pairs = [(a, b) for a, b in pairwise(loose) if text[a[1] : b[0]] == _JOIN]
    paired = {span for pair in pairs for span in pair}
    words = {span: tuple(text[slice(*span)].split()) for span in {*loose, *fixed}}
    ends = {words[span][-count:] for span in words.keys() - paired for count in range(1, _JOINED_WORDS + 1)}
    return [
        (a[1] + 1, b[0] - 1)
        for a, b in pairs
        if all(len(words[span]) <= _JOINED_WORDS and words[span] not in ends for span in (a, b))
    ]


def join_spans(spans: Sequence[Span], probabilities: Mapping[Span, float]) -> list[Span]:
    """Spans of names, those joined that are one (`Marks and Spencer`).

    Args:
        spans: Names that rules found, in order.
        probabilities: Probability, by the span of an `and` between two of them, that they are one.
    """
    joined: list[Span] = []
    for start, end in spans:
        between = (joined[-1][1] + 1, start - 1) if joined else (0, 0)
        if probabilities.get(between, 0.0) >= JOINED:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


PASSAGE = "passage"  # Kind of vectors under which a passage's is cached.
TYPED_LANGUAGES = frozenset((ENGLISH, "de", "fr", AUTO))
"""Languages whose names the networks give types; others were not measured."""
VOTES = 1000  # Sum of the votes of one mention: probabilities in thousandths, so that sums have no order.
_RECORD = "names-2"  # Kind of cached results; its number is to be raised when code changes them.
_OTHER, _NONE = CLASSES.index(OTHER), CLASSES.index("NONE")


@dataclass(frozen=True, slots=True)
class NamedText:
    """A text with the spans of its names; words may be cut from `loose` ones only."""

    text: str
    fixed: Sequence[Span]
    loose: Sequence[Span]
    is_english: bool


@dataclass(frozen=True, slots=True)
class JudgedText:
    """Spans of names, the loose ones cut, each with its votes for `CLASSES`; none where it has no token."""

    votes: Mapping[Span, tuple[int, ...]]
    loose: Sequence[Span]


def gives_types(settings: Settings, artefacts: Sequence[str]) -> bool:
    """Returns whether names get types: if passages have vectors by the encoder that the networks are trained for."""
    is_embedded = not {"vectors:passage", "ann:passage"}.isdisjoint(artefacts)
    is_known = settings.encoder.choice_of(PASSAGES).name == LOCAL
    return is_embedded and is_known and settings.corpus.language in TYPED_LANGUAGES


class NameJudge:
    """Judges names of texts by the encoder of passages; its vectors and its results go into the cache."""

    def __init__(self, settings: Settings) -> None:
        self._cached: CachedEncoder = open_encoder(settings, PASSAGES)
        self._records = open_name_cache(settings.root)
        self._prefix = settings.encoder.choice_of(PASSAGES).passage_prefix
        self._heads = open_heads()

    def judge(self, texts: Sequence[NamedText]) -> list[JudgedText]:
        """Spans and votes of each text, in order.

        Votes of texts that are not English do not say what is not a name. Cost: one run of the encoder for each
        text that has names and is not in the cache.
        """
        keys = [self._key(text) for text in texts]
        records = self._records.get_many(keys)
        missing = {key: n for n, key in enumerate(keys) if key not in records and (texts[n].fixed or texts[n].loose)}
        found = self._judged({key: texts[number] for key, number in missing.items()}) if missing else {}
        records |= found
        return [_opened(records.get(key)) for key in keys]

    def _key(self, text: NamedText) -> str:
        said = json.dumps([text.text, text.fixed, text.loose, text.is_english])
        return self._cached.key(f"{HEADS_SHA256}\n{said}", _RECORD)

    def _judged(self, texts: Mapping[str, NamedText]) -> dict[str, NDArray[np.float32]]:
        encoder, keys = self._cached.encoder, list(texts)
        if not isinstance(encoder, LocalEncoder):
            raise TypeError(f"{encoder.model} gives no token states")
        records, vectors = {}, {}
        for encoded in encoder.encode_states([self._prefix + text.text for text in texts.values()]):
            key = keys[encoded.number]
            vectors[self._cached.key(texts[key].text, PASSAGE)] = encoded.vector
            offsets = encoded.tokens.offsets - len(self._prefix)
            records[key] = self._record(texts[key], TokenStates(encoded.tokens.states, offsets))
        self._cached.keep_vectors(vectors)
        self._records.put_many(records)
        return records

    def _record(self, named: NamedText, tokens: TokenStates) -> NDArray[np.float32]:
        """Number of loose spans, then each span with its votes, loose ones first."""
        loose = self._joined(named, self._cut(named, tokens), tokens) if named.is_english else [*named.loose]
        spans = [*loose, *sorted({*named.fixed} - {*loose})]
        ranges = tokens.ranges(spans)
        inside = np.flatnonzero(ranges[:, 1] > ranges[:, 0])
        votes = np.zeros((len(spans), len(CLASSES)), np.float32)
        if len(inside):
            features = type_features(named.text, tokens, [spans[number] for number in inside], ranges[inside])
            votes[inside] = np.rint(VOTES * self._heads.type_probabilities(features))
        if not named.is_english:
            votes[:, _OTHER] += votes[:, _NONE]
            votes[:, _NONE] = 0
        rows = np.concatenate((np.array(spans, np.float32).reshape(-1, 2), votes), axis=1)
        return np.concatenate(([1 + len(loose)], rows.ravel())).astype(np.float32)

    def _cut(self, named: NamedText, tokens: TokenStates) -> list[Span]:
        """The loose spans without the words at their ends that the second network finds in no name."""
        words = [match.span() for match in WORD.finditer(named.text)]
        ranges = tokens.ranges(words)
        inside = np.flatnonzero(ranges[:, 1] > ranges[:, 0])
        words = [words[number] for number in inside]
        if not words or not named.loose:
            return [*named.loose]
        features = boundary_features(named.text, tokens, words, ranges[inside])
        return cut_spans(named.loose, words, self._heads.boundary_probabilities(features)[:, 0])

    def _joined(self, named: NamedText, loose: Sequence[Span], tokens: TokenStates) -> list[Span]:
        """The spans of the cut names, those joined that the third network takes for one."""
        words = joinable_words(named.text, loose, named.fixed)
        ranges = tokens.ranges(words)
        words = [word for word, (first, after) in zip(words, ranges, strict=True) if after > first]
        if not words:
            return [*loose]
        found = self._heads.join_probabilities(joining_word(tokens, words)).tolist()
        return join_spans(loose, dict(zip(words, found, strict=True)))


def _opened(record: NDArray[np.float32] | None) -> JudgedText:
    if record is None:
        return JudgedText({}, ())
    rows = record[1:].astype(np.int64).reshape(-1, 2 + len(CLASSES)).tolist()
    spans = [(row[0], row[1]) for row in rows]
    votes = {span: tuple(row[2:]) for span, row in zip(spans, rows, strict=True) if any(row[2:])}
    return JudgedText(votes, spans[: int(record[0]) - 1])
