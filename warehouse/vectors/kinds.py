"""The table of vector kinds: what has vectors, where its rows come from, what is embedded, where it is published.

Everything that embeds, publishes, searches or checks vectors asks here. Other packages add kinds through entry points.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint

from polyhop.schemas.encoder_settings import ENTITIES, PASSAGES, Space
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.extensions import extensions, load_extension, unusable_extension
from polyhop.schemas.proposition_origin import GraphName, PropositionOrigin
from polyhop.schemas.settings import Settings
from polyhop.schemas.text import passage_text
from polyhop.warehouse.statements import statement

GROUP = "polyhop.vectors"
"""Entry points of other packages: the name of a kind, and the `VectorKind` of that name."""

_NAME = re.compile(r"[a-z][a-z0-9]*")
"""Part of file names, of artefacts, and of the SQL view `<name>_vectors`; `-` and `_` separate their parts."""
_TABLE = re.compile(r"[a-z][a-z0-9_]*")
"""`-` is for the number of a table that was made from nothing."""


def no_parameters(_: Settings) -> Mapping[str, object]:
    """For rows without parameters."""
    return {}


@dataclass(frozen=True, slots=True)
class VectorKind:
    """A kind of thing that has vectors.

    Attributes:
        name: In artefacts (`vectors:passage`), stages, caches and the view `passage_vectors`: letters and digits.
        table: The LanceDB table that its vectors are published in, its own.
        rows: A SELECT of id, first, second and rank for every thing; ids and ranks differ from row to row, and ranks
            give the order of the matrix.
        text: What is embedded, of first and second.
        input: The artefact that `rows` reads: "passages" (tables of passages and documents), "entities" (also those of
            the graph), or what another stage writes.
        shown: What full-text search looks into, of first and second.
        parameters: Values of the parameters of `rows`, of the settings; part of the fingerprint.
        encoded_as: The kind that the encoder and its cache know these texts as, "" for its own: kinds with the same
            texts need not be encoded twice.
        revision: To be raised when `rows` or `text` change, so that nothing older is taken over.

    Raises:
        ConfigurationError: If a name cannot be used.
    """

    name: str
    table: str
    rows: str
    text: Callable[[str, str], str]
    input: str = "passages"
    shown: Callable[[str, str], str] = passage_text
    revision: int = 1
    parameters: Callable[[Settings], Mapping[str, object]] = no_parameters
    encoded_as: str = ""

    def __post_init__(self) -> None:
        """Checks the names."""
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"The vector kind '{self.name}' needs another name: lower-case letters and digits only, a letter first."
            )
        if not _TABLE.fullmatch(self.table):
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


def _origin(settings: Settings, graph: GraphName) -> Mapping[str, object]:
    """Where the propositions of a graph are."""
    return PropositionOrigin.of(graph, settings.propositions.include).parameters


def _hub_texts(_: Settings, kind: str) -> Mapping[str, object]:
    """Which rows of the table `hub_texts` a kind has: those that are called as it is."""
    return {"kind": kind}


_searched, _triples = partial(_origin, graph="propositions"), partial(_origin, graph="triples")
_TEXTS, _NAMES = statement("propositions", "proposition_texts"), statement("propositions", "proposition_names")
_HUB_TEXTS = statement("hubs", "hub_texts")
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
        *(
            VectorKind(name, table, _HUB_TEXTS, _first, "hubs", _first, parameters=partial(_hub_texts, kind=name))
            for name, table in (("hubpath", "hub_paths"), ("hubvalue", "hub_values"), ("hubname", "hub_names"))
        ),
    )
}
"""In the order in which they are published."""

_DECLARED: dict[str, VectorKind] = {}


def declare(kind: VectorKind) -> VectorKind:
    """Adds a kind for this process, as an installed package does for all; returns it.

    Raises:
        ConfigurationError: If another kind has its name or its table.
    """
    for other in (*OURS.values(), *_DECLARED.values()):
        if other != kind and (other.name == kind.name or other.table == kind.table):
            raise ConfigurationError(
                f"The vector kind '{kind.name}' with table '{kind.table}' collides with the kind '{other.name}' with "
                f"table '{other.table}'; choose another name and table."
            )
    _DECLARED[kind.name] = kind
    return kind


def kind_of(name: str) -> VectorKind:
    """A kind by its name; installed packages are asked only about names that are not ours.

    Raises:
        ConfigurationError: If nobody declares it, or the package that does cannot be used.
    """
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
    return declare(_loaded(point))


def space_of(name: str) -> Space:
    """Whose encoder embeds a kind; of one that nobody declares any more, that of entities."""
    try:
        return kind_of(name).space
    except ConfigurationError:
        return ENTITIES


def kinds_in(artefacts: Collection[str], prefix: str = "vectors") -> list[VectorKind]:
    """The kinds that artefacts `<prefix>:<kind>` name: ours in their order, then others by name."""
    names = {name for where, _, name in (artefact.partition(":") for artefact in artefacts) if where == prefix}
    return [kind_of(name) for name in (*(n for n in OURS if n in names), *sorted(names - OURS.keys()))]


def _loaded(point: EntryPoint) -> VectorKind:
    kind = load_extension(point, "vector kind")
    if not isinstance(kind, VectorKind) or kind.name != point.name:
        raise unusable_extension(point, "vector kind", f"is {point.value}, which is not a VectorKind of that name")
    return kind
