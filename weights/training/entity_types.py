"""Trains the two networks that give names their types and their boundaries (warehouse/name_judge.py).

Run: uv run python weights/training/entity_types.py DATA [--states FOLDER] [--out FILE] [--without SOURCE] [--half]
DATA: the folder of train.jsonl.gz (weights/training/README.md says where its texts come from).
--states: keeps the token states of the texts (1.5 GB, 15 minutes on two cores) for the next run.
--without: leaves a source out and measures both networks on it. --half: trains boundaries on even texts and measures
them on odd ones. Otherwise writes FILE and prints its sha256.
Not called types.py, which the standard library's module of that name would be hidden by.
Source: decisions/0039-types-from-token-states.md.
"""

import argparse
import gzip
import json
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.names import NameFinder
from polyhop.warehouse.models.local_encoder import LocalEncoder, Span, TokenStates
from polyhop.warehouse.name_judge import (
    CLASSES,
    HEADS_FILE,
    WORD,
    NameHeads,
    boundary_features,
    cut_spans,
    type_features,
)

Floats = NDArray[np.float32]
Rows = tuple[Floats, NDArray[np.int64], NDArray[np.int64]]  # Features, classes, numbers of texts.
Features = Callable[[str, TokenStates, Sequence[Span], NDArray[np.int64]], Floats]

TEXTS_AT_ONCE = 1000  # texts in a file of states; chosen: 60 MB
SEED = 3  # of the sample of texts for boundaries; chosen
HIDDEN = 64  # hidden units; measured in decision 0039: 128 are no better
DROPOUT = 0.3  # share of hidden units; chosen
BATCH = 512  # examples per step; chosen
DECAY = 1e-3  # of weights, per unit of the learning rate; chosen
MOST_TWEETS = 6000  # candidates of btc; chosen, so that tweets do not outweigh the other sources
ROLES = frozenset(("borrower", "lender", "bank", "commonwealth"))
"""Defined terms that sec-filings marks as names of parties."""
BOUNDARY_TEXTS = {
    "wikigold": 250,
    "wnut17": 900,
    "re3d": 150,
    "uner-ewt": 900,
    "uner-pud-en": 400,
    "synthetic": 1500,
    "crossner-politics": 180,
    "crossner-science": 180,
    "crossner-music": 180,
    "crossner-literature": 180,
    "crossner-ai": 180,
}
"""Texts of each source that boundaries are learned from."""
GOLD_ONLY = "wiki-defined"  # Only the page's own title is marked in it.
SKIP, NONE, UNMARKED = "SKIP", "NONE", "UNMARKED"
MOST_OF_SPAN = 0.6  # share of a span's characters that names of one class must hold; chosen


@dataclass(frozen=True)
class Text:
    """A text of the training data with the names marked in it."""

    text: str
    spans: list[tuple[int, int, str]]
    source: str
    complete: bool


@dataclass
class Examples:
    """Features with the class of each, the number of its text and its source."""

    features: list[Floats] = field(default_factory=list)
    classes: list[int] = field(default_factory=list)
    texts: list[int] = field(default_factory=list)

    def arrays(self) -> Rows:
        """Features, classes and numbers of texts."""
        return np.concatenate(self.features), np.array(self.classes), np.array(self.texts)


def read_texts(folder: Path) -> list[Text]:
    """The training data in the order of the file."""
    with gzip.open(folder / "train.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = map(json.loads, file)
        return [Text(row["text"], [*map(tuple, row["spans"])], row["source"], row["complete"]) for row in rows]


def states_of(texts: Sequence[Text], folder: Path) -> Iterator[TokenStates]:
    """Token states of the texts, in order, from the files in a folder; missing ones are computed."""
    encoder = LocalEncoder()
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        path = folder / f"{start // TEXTS_AT_ONCE:03}.npz"
        if not path.exists():
            some = [row.text for row in texts[start : start + TEXTS_AT_ONCE]]
            found = sorted(encoder.encode_states(some), key=lambda encoded: encoded.number)
            partial = path.with_suffix(".partial.npz")
            np.savez(
                partial,
                states=np.concatenate([encoded.tokens.states for encoded in found]).astype(np.float16),
                offsets=np.concatenate([encoded.tokens.offsets for encoded in found]),
                counts=np.array([len(encoded.tokens.states) for encoded in found]),
            )
            partial.replace(path)
        with np.load(path, allow_pickle=False) as arrays:
            states, offsets, ends = arrays["states"], arrays["offsets"], np.cumsum(arrays["counts"])
        for first, last in zip(np.r_[0, ends[:-1]], ends, strict=True):
            yield TokenStates(states[first:last].astype(np.float32), offsets[first:last].astype(np.int64))


_LETTERS = re.compile(r"[^\W\d_]+")
_WORDS = re.compile(r"[^\W_]+")


class CommonWords:
    """Words that are commoner in lower case than with a capital over all training texts but tweets."""

    def __init__(self, texts: Sequence[Text]) -> None:
        self._lower, self._capital = Counter[str](), Counter[str]()
        for row in texts:
            for match in _LETTERS.finditer(row.text if row.source != "btc" else ""):
                (self._lower if match[0].islower() else self._capital)[match[0].lower()] += 1

    def are_all(self, name: str) -> bool:
        """Returns whether a name has no other words, numbers apart."""
        words = [word.lower() for word in _WORDS.findall(name)]
        return all(self._lower[word] > self._capital[word] or not word[0].isalpha() for word in words)


def candidates(row: Text, finder: NameFinder, common: CommonWords) -> Iterator[tuple[Span, str]]:
    """Spans of a text with their classes: marked names, and what rules take for names."""
    marked = {(start, end): kind for start, end, kind in row.spans}
    for (start, end), kind in marked.items():
        if is_role(row, start, end):
            if row.text[start].isupper():
                yield (start, end), NONE
        elif kind != SKIP:
            yield (start, end), kind
    found = finder.find(row.text) if row.source != GOLD_ONLY else ()
    for start, end in [(mention.start, mention.end) for mention in found]:
        kind = "" if (start, end) in marked else NONE if is_role(row, start, end) else kind_beside(row, start, end)
        if kind == UNMARKED:
            kind = NONE if row.complete or common.are_all(row.text[start:end]) else ""
        if kind:
            yield (start, end), kind


def is_role(row: Text, start: int, end: int) -> bool:
    """Returns whether a span is a defined term of a contract."""
    return row.source == "sec-filings" and row.text[start:end].lower() in ROLES


def kind_beside(row: Text, start: int, end: int) -> str:
    """Class of the marked names that hold most of a span; UNMARKED if none touches it, "" if it stays unknown."""
    over = [(min(end, b) - max(start, a), kind) for a, b, kind in row.spans if a < end and b > start]
    if not over:
        return UNMARKED
    shares = [(length, kind) for length, kind in over if kind != SKIP]
    is_one = len({kind for _, kind in shares}) == 1 and max(shares)[0] >= MOST_OF_SPAN * (end - start)
    return shares[0][1] if is_one else ""


def positions_of(row: Text) -> Iterator[tuple[Span, int]]:
    """Words of a text with their position: 0 outside of names, 1 first of a name, 2 further on; -1 to be left out."""
    for match in WORD.finditer(row.text):
        over = [(a, kind) for a, b, kind in row.spans if a <= match.start() and match.end() <= b]
        position = 0 if not over else 1 if over[0][0] == match.start() else 2
        is_known = row.complete or position > 0 or not match[0][0].isupper()
        yield match.span(), position if is_known and not (over and over[0][1] == SKIP) else -1


def examples(texts: Sequence[Text], folder: Path) -> tuple[Examples, Examples]:
    """Examples of types and of boundaries."""
    finder, common = NameFinder([]), CommonWords(texts)
    draw = random.Random(SEED)
    by_source = defaultdict(list)
    for number, row in enumerate(texts):
        by_source[row.source].append(number)
    for_positions = {
        number
        for source, count in BOUNDARY_TEXTS.items()
        for number in draw.sample(by_source[source], min(count, len(by_source[source])))
    }
    typed, placed, tweets = Examples(), Examples(), 0
    for number, (row, tokens) in enumerate(zip(texts, states_of(texts, folder), strict=True)):
        found = [(span, CLASSES.index(kind)) for span, kind in candidates(row, finder, common)]
        if row.source == "btc":
            found = found[: MOST_TWEETS - tweets]
            tweets += len(found)
        add(typed, number, row.text, tokens, found, type_features)
        if number in for_positions:
            add(placed, number, row.text, tokens, list(positions_of(row)), boundary_features)
    return typed, placed


def add(
    to: Examples, number: int, text: str, tokens: TokenStates, found: Sequence[tuple[Span, int]], features: Features
) -> None:
    """Adds the examples of one text that have tokens within the encoder's limit."""
    ranges = tokens.ranges([span for span, _ in found])
    inside = np.flatnonzero(ranges[:, 1] > ranges[:, 0]).tolist()
    if len(inside):
        to.features.append(features(text, tokens, [found[i][0] for i in inside], ranges[inside]))
        to.classes += [found[i][1] for i in inside]
        to.texts += [number] * len(inside)


@dataclass(frozen=True)
class Trained:
    """Weights per layer, for features as they are."""

    weights: list[Floats]

    def probabilities(self, features: Floats) -> Floats:
        """Probability of each class."""
        scores = features @ self.weights[0] + self.weights[1]
        if len(self.weights) > 2:
            scores = np.maximum(scores, 0) @ self.weights[2] + self.weights[3]
        powers = np.exp(scores - scores.max(1, keepdims=True))
        return np.asarray(powers / powers.sum(1, keepdims=True), np.float32)


def train(
    features: Floats, classes: NDArray[np.int64], weights: Floats, *, count: int, hidden: int, epochs: int, rate: float
) -> Trained:
    """Softmax regression, with one hidden layer if `hidden`, by Adam with decoupled decay (Loshchilov, Hutter 2019)."""
    draw = np.random.default_rng(0)
    mean, scale = features.mean(0), features.std(0) + 1e-3
    scaled = ((features - mean) / scale).astype(np.float32)
    size = scaled.shape[1]
    if hidden:
        shapes = [((size, hidden), (2 / size) ** 0.5), ((hidden, count), hidden**-0.5)]
    else:
        shapes = [((size, count), 0.02)]
    layers: list[Floats] = []
    for shape, deviation in shapes:
        layers += [draw.normal(0, deviation, shape).astype(np.float32), np.zeros(shape[1], np.float32)]
    first, second = [np.zeros_like(p) for p in layers], [np.zeros_like(p) for p in layers]
    steps, step = epochs * (len(scaled) // BATCH + 1), 0
    for _ in range(epochs):
        order = draw.permutation(len(scaled))
        for start in range(0, len(scaled), BATCH):
            some = order[start : start + BATCH]
            step += 1
            slopes = gradients(layers, scaled[some], classes[some], weights[some], draw)
            speed = rate * (1 - step / steps) + 1e-5
            for number, slope in enumerate(slopes):
                first[number] += 0.1 * (slope - first[number])
                second[number] += 0.001 * (slope**2 - second[number])
                move = first[number] / (1 - 0.9**step) / (np.sqrt(second[number] / (1 - 0.999**step)) + 1e-8)
                layers[number] -= speed * (move + (DECAY * layers[number] if slope.ndim == 2 else 0))
    # the scales go into the weights, so that features enter as they are
    layers[1] = layers[1] - (mean / scale) @ layers[0]
    layers[0] = layers[0] / scale[:, np.newaxis]
    return Trained([layer.astype(np.float16 if layer.ndim == 2 else np.float32) for layer in layers])


def gradients(
    layers: Sequence[Floats], rows: Floats, classes: NDArray[np.int64], weights: Floats, draw: np.random.Generator
) -> list[Floats]:
    """Slopes of the weighted mean cross entropy, in the order of the layers."""
    inner = rows
    if len(layers) > 2:
        before = rows @ layers[0] + layers[1]
        mask = ((draw.random(before.shape) > DROPOUT) / (1 - DROPOUT)).astype(np.float32)
        inner = np.maximum(before, 0) * mask
    scores = inner @ layers[-2] + layers[-1]
    powers = np.exp(scores - scores.max(1, keepdims=True))
    errors = powers / powers.sum(1, keepdims=True)
    errors[np.arange(len(rows)), classes] -= 1
    errors *= (weights / weights.sum())[:, np.newaxis]
    slopes = [inner.T @ errors, errors.sum(0)]
    if len(layers) > 2:
        below = errors @ layers[-2].T * (before > 0) * mask
        return [rows.T @ below, below.sum(0), *slopes]
    return slopes


def example_weights(classes: NDArray[np.int64], sources: NDArray[np.str_]) -> Floats:
    """Root of the inverse share of the class times root of the inverse share of the source, mean 1."""
    shares = np.ones(len(classes))
    for values in (classes, sources):
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        shares *= (len(values) / counts[inverse]) ** 0.5
    return np.asarray(shares / shares.mean(), np.float32)


def trained_types(rows: Rows, sources: NDArray[np.str_]) -> Trained:
    """The network for types."""
    features, classes, _ = rows
    weights = example_weights(classes, sources)
    return train(features, classes, weights, count=len(CLASSES), hidden=HIDDEN, epochs=6, rate=1e-3)


def trained_boundaries(rows: Rows) -> Trained:
    """The network for boundaries."""
    features, classes, _ = rows
    weights = np.where(classes > 0, 1.5, 1.0).astype(np.float32)
    return train(features, classes, weights, count=3, hidden=0, epochs=4, rate=3e-3)


def chosen(rows: Rows, mask: NDArray[np.bool_]) -> Rows:
    """The rows of a mask."""
    return rows[0][mask], rows[1][mask], rows[2][mask]


def accuracy(model: Trained, features: Floats, classes: NDArray[np.int64]) -> str:
    """Share of spans with the right one of six answers (no type for names of none of the five and for no names)."""
    other = CLASSES.index("OTHER")
    predicted = model.probabilities(features).argmax(1)
    right = np.minimum(predicted, other) == np.minimum(classes, other)
    own = [(kind, predicted[classes == number] == number) for number, kind in enumerate(CLASSES)]
    parts = [f"{kind} {found.mean():.3f}" for kind, found in own if len(found)]
    return f"{right.mean():.3f} of {len(classes)} ({', '.join(parts)})"


def boundary_report(texts: Sequence[Text], folder: Path, model: Trained, numbers: set[int]) -> None:
    """Prints the share of marked names that rules find exactly, without and with the network."""
    finder = NameFinder([])
    no_weights = [np.zeros(0, np.float32)] * 4
    heads = NameHeads(*no_weights, *(layer.astype(np.float32) for layer in model.weights), *no_weights)
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for number, (row, tokens) in enumerate(zip(texts, states_of(texts, folder), strict=True)):
        if number not in numbers:
            continue
        marked = {(a, b - (row.text[b - 1] == ".")) for a, b, kind in row.spans if kind not in (SKIP, NONE)}
        by_rule = [(mention.start, mention.end) for mention in finder.find(row.text)]
        words = [match.span() for match in WORD.finditer(row.text)]
        ranges = tokens.ranges(words)
        words = [word for word, (a, b) in zip(words, ranges, strict=True) if b > a]
        ranges = ranges[ranges[:, 1] > ranges[:, 0]]
        positions = heads.boundary_probabilities(boundary_features(row.text, tokens, words, ranges))
        counts = found[row.source]
        counts[0] += len(marked)
        counts[1] += len(marked & set(by_rule))
        counts[2] += len(marked & set(cut_spans(by_rule, words, positions[:, 0])))
    for source, (names, rules, both) in sorted(found.items()):
        print(f"boundaries {source}: rules {rules / names:.3f}, cut {both / names:.3f} of {names}")


def main() -> None:
    """Trains and writes, or trains without a source and measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--states", type=Path, default=Path(tempfile.gettempdir()) / "polyhop-states")
    parser.add_argument("--out", type=Path, default=HEADS_FILE)
    parser.add_argument("--without", default="")
    parser.add_argument("--half", action="store_true")
    options = parser.parse_args()
    texts = read_texts(options.data)
    typed, placed = (part.arrays() for part in examples(texts, options.states))
    sources = np.array([row.source for row in texts])
    print(f"{len(typed[1])} candidates, {len(placed[1])} words", flush=True)
    known = placed[1] >= 0
    if options.half:
        model = trained_boundaries(chosen(placed, known & (placed[2] % 2 == 0)))
        boundary_report(texts, options.states, model, {number for number in placed[2] if number % 2})
    elif options.without:
        outside = np.array([source.startswith(options.without) for source in sources[typed[2]]])
        copies = np.isin(sources[typed[2]], ("titled", GOLD_ONLY))
        rest = ~outside & ~copies
        model = trained_types(chosen(typed, rest), sources[typed[2]][rest])
        print(f"without {options.without}: {accuracy(model, typed[0][outside], typed[1][outside])}")
    else:
        types = trained_types(typed, sources[typed[2]])
        boundaries = trained_boundaries(chosen(placed, known))
        names = [slot.name for slot in fields(NameHeads)]
        layers = (*types.weights, *boundaries.weights)  # joined_names.py adds the weights of the third network
        arrays: dict[str, Any] = dict(zip(names, layers, strict=False))
        np.savez(options.out, **arrays)
        print(f"{options.out}: sha256 {sha256(options.out.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
