"""The kinds of vectors: what has them, where rows are published, an earlier version's, the spread.

Everything that embeds, publishes, searches or checks vectors asks here. Other packages add kinds through entry points.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from heapq import nsmallest
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.errors import ConfigurationError, DamagedStoreError, extensions, load_extension, unusable_extension
from polyhop.schemas.names import split_sentences
from polyhop.schemas.settings import ENTITIES, PASSAGES, Settings, Space
from polyhop.schemas.text import content_hash, passage_text
from polyhop.warehouse.artefacts import forget_pages, open_array
from polyhop.warehouse.statements import statement

GROUP = "polyhop.vectors"  # Entry points of other packages: the name of a kind, and the `VectorKind` of that name.


def no_parameters(_: Settings) -> Mapping[str, object]:
    """For rows without parameters."""
    return {}


@dataclass(frozen=True, slots=True)
class VectorKind:
    """A kind of thing that has vectors."""

    name: str  # In artefacts (`vectors:passage`), stages, caches and the view `passage_vectors`: letters and digits.
    table: str  # The LanceDB table that its vectors are published in, its own.
    # A SELECT of id, first, second and rank for every thing; ids and ranks differ from row to row, and ranks give the
    # order of the matrix.
    rows: str
    text: Callable[[str, str], str]  # What is embedded, of first and second.
    # The artefact that `rows` reads: "passages" (tables of passages and documents), "entities" (also those of the
    # graph), or what another stage writes.
    input: str = "passages"
    shown: Callable[[str, str], str] = passage_text  # The text of its row in LanceDB, of first and second.
    revision: int = 1  # To be raised when `rows` or `text` change, so that nothing older is taken over.
    # Values of the parameters of `rows`, of the settings; part of the fingerprint.
    parameters: Callable[[Settings], Mapping[str, object]] = no_parameters
    # The kind that the encoder and its cache know these texts as, "" for its own: kinds with the same texts need not be
    # encoded twice.
    encoded_as: str = ""

    def __post_init__(self) -> None:
        """Checks the names."""
        # part of file names, of artefacts, and of the SQL view `<name>_vectors`; `-` and `_` separate their parts
        if not re.fullmatch(r"[a-z][a-z0-9]*", self.name):
            raise ConfigurationError(
                f"The vector kind '{self.name}' needs another name: lower-case letters and digits only, a letter first."
            )
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.table):  # `-` is for the number of a table made from nothing
            raise ConfigurationError(
                f"The vector kind '{self.name}' needs another table than '{self.table}': lower-case letters, digits "
                "and _ only, a letter first."
            )

    @property
    def space(self) -> Space:
        """Whose encoder embeds it."""
        return PASSAGES if self.input == "passages" else ENTITIES

    def statement(self, name: str) -> str:
        """A statement of sql/vectors.sql on the rows of this kind."""
        # not materialised: DuckDB would hold all texts to find the ids of one batch
        return f"WITH things AS NOT MATERIALIZED ({self.rows}) {statement('vectors', name)}"


def _first(text: str, _: str) -> str:
    return text


def _entity_text(name: str, description: str) -> str:
    return f"**{name}**: {description}" if description else name


def _noun(_: Settings, noun: str) -> Mapping[str, object]:
    """Prefix of the names of the tables with a graph's propositions."""
    return {"noun": noun}


def _hub_texts(_: Settings, kind: str) -> Mapping[str, object]:
    """Rows of the table `hub_texts` of a kind: those with its name."""
    return {"kind": kind}


_searched, _triples = partial(_noun, noun="proposition"), partial(_noun, noun="triple")
_TEXTS, _NAMES = statement("propositions", "proposition_texts"), statement("propositions", "proposition_names")

_of_hubs = partial(VectorKind, rows=statement("hubs", "hub_texts"), text=_first, input="hubs", shown=_first)
_of_propositions = partial(VectorKind, text=_first, input="entities", shown=_first)

OURS: Mapping[str, VectorKind] = {
    kind.name: kind
    for kind in (
        VectorKind("passage", "passages", statement("vectors", "passages"), passage_text),
        VectorKind("entity", "entities", statement("vectors", "entities"), _entity_text, input="entities"),
        _of_propositions("proposition", "propositions", _TEXTS, parameters=_searched),
        _of_propositions("name", "names", _NAMES, parameters=_searched),
        _of_propositions("triple", "triples", _TEXTS, parameters=_triples, encoded_as="proposition"),
        _of_propositions("triplename", "triple_names", _NAMES, parameters=_triples, encoded_as="name"),
        _of_hubs("hubpath", "hub_paths", parameters=partial(_hub_texts, kind="hubpath")),
        _of_hubs("hubvalue", "hub_values", parameters=partial(_hub_texts, kind="hubvalue")),
    )
}
"""In the order in which they are published."""

_DECLARED: dict[str, VectorKind] = {}


def declare(kind: VectorKind) -> VectorKind:
    """Adds a kind for this process, as an installed package does for all; returns it."""
    for other in (*OURS.values(), *_DECLARED.values()):
        if other != kind and (other.name == kind.name or other.table == kind.table):
            raise ConfigurationError(
                f"The vector kind '{kind.name}' with table '{kind.table}' collides with the kind '{other.name}' with "
                f"table '{other.table}'; choose another name and table."
            )
    _DECLARED[kind.name] = kind
    return kind


def kind_of(name: str) -> VectorKind:
    """A kind by its name; installed packages are asked only about names that are not ours."""
    known = OURS.get(name) or _DECLARED.get(name)
    if known is not None:
        return known
    point = extensions(GROUP).get(name)
    if point is None:
        known_names = ", ".join(dict.fromkeys([*OURS, *_DECLARED, *extensions(GROUP)]))
        raise ConfigurationError(
            f"Unknown vector kind '{name}'; known are {known_names}. If a package brought it, install that package "
            "again."
        )
    kind = load_extension(point, "vector kind")
    if not isinstance(kind, VectorKind) or kind.name != point.name:
        raise unusable_extension(point, "vector kind", f"is {point.value}, which is not a VectorKind of that name")
    return declare(kind)


def space_of(name: str) -> Space:
    """Whose encoder embeds a kind; of an undeclared one, that of entities."""
    try:
        return kind_of(name).space
    except ConfigurationError:
        return ENTITIES


def kinds_in(artefacts: Collection[str], prefix: str = "vectors") -> list[VectorKind]:
    """The kinds that artefacts `<prefix>:<kind>` name: ours in their order, then others by name."""
    names = {name for where, _, name in (artefact.partition(":") for artefact in artefacts) if where == prefix}
    return [kind_of(name) for name in (*(n for n in OURS if n in names), *sorted(names - OURS.keys()))]


HASH_BYTES = 32  # of a sha256

Hashes = NDArray[np.uint8]
Rows = NDArray[np.int64]


class EarlierVectors:
    """A matrix of vectors with the content hash of every row.

    `hashes` has shape (n, 32), uint8: sha256 of what each row was made of; the smaller row counts where two are equal.
    The matrix, shape (n, d), float32, is closed after every use, because its version may be removed meanwhile.
    """

    def __init__(self, hashes: Hashes, open_matrix: Callable[[], NDArray[np.float32]]) -> None:
        self._hashes = hashes
        self._open_matrix = open_matrix
        heads = _heads(hashes)
        self._order = np.argsort(heads, kind="stable")
        self._heads = heads[self._order]

    def rows_of(self, hashes: Hashes) -> Rows:
        """The row of each content hash, -1 where there is none.

        Of two hashes that begin with the same 64 bits only one is found; the other counts as unknown, which is safe.

        Cost: O(m log n).
        """
        if not len(self._heads):
            return np.full(len(hashes), -1, dtype=np.int64)
        found = np.minimum(np.searchsorted(self._heads, _heads(hashes)), len(self._heads) - 1)
        rows = self._order[found].astype(np.int64)
        return np.where((self._hashes[rows] == hashes).all(axis=1), rows, -1)

    def copy_to(self, target: NDArray[np.float32], positions: Rows, rows: Rows) -> None:
        """Writes these rows into `target` at `positions`."""
        matrix = self._open_matrix()
        target[positions] = matrix[rows]
        forget_pages(matrix)


def open_earlier(files: Sequence[Path], dimension: int) -> EarlierVectors:
    """The vectors in these files, hashes first, then the matrix; none if there are no files, or they do not fit."""
    return _opened(tuple(files), dimension)


@lru_cache(maxsize=1)
def _opened(files: tuple[Path, ...], dimension: int) -> EarlierVectors:
    with suppress(DamagedStoreError, ValueError):
        hashes, matrix = (open_array(file.parent, file.stem) for file in files)
        fits = hashes.shape == (len(matrix), HASH_BYTES) and matrix.shape[1:] == (dimension,)
        if fits and hashes.dtype == np.uint8 and matrix.dtype == np.float32:
            open_matrix = cast("Callable[[], Vectors]", partial(open_array, files[1].parent, files[1].stem))
            return EarlierVectors(np.array(hashes, np.uint8), open_matrix)
    nothing = np.empty((0, dimension), np.float32)
    return EarlierVectors(np.empty((0, HASH_BYTES), np.uint8), lambda: nothing)


def _heads(hashes: Hashes) -> NDArray[np.uint64]:
    """The first 64 bits of each."""
    return np.ascontiguousarray(hashes[:, :8]).view("<u8").ravel().astype(np.uint64, copy=False)


# Source: algorithms.md 2B.5.

RANK = 100  # The rank whose cosine counts as that of a text that has nothing to do with a question.
DIGITS = 4  # algorithms.md 2B.5.
MOST = 20.0  # Scales beyond that, either way, say that a sample was too small or texts all alike.

TEXTS = 1_000
"""Passages of the sample. Chosen: MiniLM encodes them in 14 s, once, and the 100th nearest is on another topic."""
SENTENCES = 200  # algorithms.md 2B.5.


Vectors = NDArray[np.float32]


def sampled_things(
    things: Iterable[tuple[str, str, str]], text: Callable[[str, str], str]
) -> list[tuple[int, str, str]]:
    """Number, first and second of the things in the sample, of all in order; only what `text` makes of them decides."""
    hashed = ((content_hash(text(*thing[1:])), number, *thing[1:]) for number, thing in enumerate(things))
    return [(number, first, second) for _, number, first, second in nsmallest(TEXTS, hashed)]


def sampled_sentences(bodies: Sequence[str]) -> list[str]:
    """The sentences of these texts that stand for questions; which ones, only their words decide."""
    found = {body[start:end] for body in bodies for start, end in split_sentences(body)}
    long = [sentence for sentence in found if len(sentence.split()) >= 4]  # a heading, a number is no question
    return sorted(long, key=content_hash)[:SENTENCES]


def spread(questions: Vectors, texts: Vectors, rank: int = RANK) -> float:
    """The median gap between the best cosine of a question and that of a given rank, the last one if there are fewer.

    Returns:
        From 0 to 2; 0 without questions or texts.
    """
    if not len(questions) or not len(texts):
        return 0.0
    cosines = -np.sort(-(questions.astype(np.float64) @ texts.astype(np.float64).T), axis=1)
    return float(np.median(cosines[:, 0] - cosines[:, min(rank, len(texts)) - 1]))


def cosine_scale(own: float, reference: float) -> float:
    """Scale of an encoder's cosine relative to the reference's, by their spreads over the same texts.

    `own / reference`, from 1/20 to 20, rounded, so that the last bits of vectors do not count; else 1.
    """
    if own <= 0 or reference <= 0:
        return 1.0
    return round(min(max(own / reference, 1 / MOST), MOST), DIGITS)
