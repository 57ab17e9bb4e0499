"""The strategies by name: ours, and those that other packages bring; how to make one.

A strategy is declared by `@strategy` in its module (base.py). A module is imported when one of its strategies is asked
for, so that a command pays for the strategy it uses. Ours are named in `MODULES`; another package names its own as
entry points of the group `polyhop.strategies` (name: the strategy; value: the module that declares it).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from polyhop.schemas.errors import (
    ConfigurationError,
    MissingArtefactError,
    UnknownParameterError,
    UnknownStrategyError,
    extensions,
    load_extension,
    unusable_extension,
)
from polyhop.schemas.ports import IndexReader, Reader, Services, Strategy
from polyhop.worker.strategies.base import DECLARED, Parameters, Reranking, RerankParameters, StrategySpec

_DECLARING: Mapping[str, tuple[str, ...]] = {
    "bridge": ("bridge", "bridge-lexical"),
    "bridge_masked": ("bridge-masked",),
    "baselines": ("bm25", "bm25-rm3", "bm25-2step", "bm25-ce", "dense", "dense-ann", "rrf", "rrf-ce", "naive-vector"),
    "qasa": ("qasa",),
    "proprag": ("proprag", "triple-ppr"),
    "hub_facets": ("hub-facets",),
    "sprig": ("graph", "graph-hybrid", "graph-dense", "graph-rrf", "rrf-ppr", "tfidf-graph"),
    "hublink": ("hublink", "hublink-topic"),
    "arcana": ("graph-search", "fusion"),
}
MODULES: Mapping[str, str] = {name: module for module, names in _DECLARING.items() for name in names}
"""Our strategies, in the order in which they are listed, and the module here that declares each."""

GROUP = "polyhop.strategies"

P = TypeVar("P", bound=Parameters)


class Registry(Mapping[str, StrategySpec]):
    """The strategies by name; a strategy's module is imported when it is looked up."""

    def __getitem__(self, name: str) -> StrategySpec:
        if name not in DECLARED:
            if name in MODULES:
                import_module(f"polyhop.worker.strategies.{MODULES[name]}")
            elif name in extensions(GROUP):
                point = extensions(GROUP)[name]
                load_extension(point, "strategy")
                if name not in DECLARED:
                    reason = f"is missing: its module {point.module} declares none of that name with @strategy"
                    raise unusable_extension(point, "strategy", reason)
        return DECLARED[name]

    def __iter__(self) -> Iterator[str]:
        yield from MODULES
        yield from (name for name in extensions(GROUP) if name not in MODULES)

    def __len__(self) -> int:
        return len(MODULES.keys() | extensions(GROUP).keys())

    def __contains__(self, name: object) -> bool:
        return name in MODULES or name in extensions(GROUP)


STRATEGIES: Mapping[str, StrategySpec] = Registry()


def spec_of(name: str) -> StrategySpec:
    """The strategy of that name.

    Raises:
        UnknownStrategyError: If there is none.
        ConfigurationError: If it is another package's, and that package does not load.
    """
    if name not in STRATEGIES:
        raise UnknownStrategyError(name, STRATEGIES)
    return STRATEGIES[name]


def needed_artefacts(strategies: Iterable[str]) -> frozenset[str]:
    """Artefacts that an index needs for these strategies."""
    return frozenset[str]().union(*(spec_of(name).needs for name in strategies))


def servable_strategies(artefacts: Collection[str]) -> list[str]:
    """Names of the strategies that a version with these artefacts can serve; broken extensions are left out."""
    names, held = [], set(artefacts)
    for name in STRATEGIES:
        with suppress(ConfigurationError):
            if held.issuperset(spec_of(name).needs):
                names.append(name)
    return names


def require_artefacts(strategy: str, artefacts: Collection[str], index: str) -> None:
    """Makes sure that the version of an index, which was built with these artefacts, holds what a strategy needs."""
    for artefact in sorted(set(spec_of(strategy).needs) - set(artefacts)):
        raise MissingArtefactError(artefact, index, strategy)


def parse_parameters(spec: StrategySpec, given: Mapping[str, object]) -> Parameters:
    """A strategy's own parameters from names and values; values may be strings."""
    return parse_setting(spec, given)[0]


def parse_setting(spec: StrategySpec, given: Mapping[str, object]) -> tuple[Parameters, Reranking | None]:
    """A strategy's own parameters, and how it is re-ranked (None if it is not); equal for equal settings."""
    where, known = f"strategy '{spec.name}'", spec.parameters.model_fields
    common = {} if issubclass(spec.parameters, RerankParameters) else Reranking.model_fields
    for key in given:
        if key == "rerank" and not common:
            raise ConfigurationError(f"Strategy '{spec.name}' always re-ranks; leave out '{key}'.")
        if key not in known and key not in common:
            raise UnknownParameterError(key, {*known, *common}, spec.name)
    own = _validated(spec.parameters, {key: value for key, value in given.items() if key in known}, where)
    shared = {key: value for key, value in given.items() if key not in known}
    reranking = _validated(Reranking, shared, where)
    idle = sorted(shared.keys() - {"rerank"})
    if idle and not reranking.rerank:
        raise ConfigurationError(f"Parameter '{idle[0]}' of {where} requires rerank=true.")
    return own, reranking if reranking.rerank else None


def _validated(kind: type[P], given: Mapping[str, object], where: str) -> P:
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        key = str(error.errors()[0]["loc"][0])
        raise ConfigurationError(
            f"Parameter '{key}' of {where} is {given[key]!r}; it must be {_allowed(kind.model_fields[key])}."
        ) from error


def make(name: str, reader: IndexReader, params: Mapping[str, object], services: Services | None = None) -> Strategy:
    """A strategy ready on an open version."""
    spec, offered = spec_of(name), services or Services()
    own, reranking = parse_setting(spec, params)
    built = spec.build(reader, own, offered)
    if reranking is None:
        return built
    from polyhop.worker.strategies.baselines import RerankedStrategy

    return RerankedStrategy(built, reader, reranking, offered.reranker())


def make_reader(
    name: str, index: IndexReader, params: Mapping[str, object], services: Services, configured: Reader
) -> Reader:
    """Reader of a strategy's retrievals: its own, or the configured one if it has none."""
    spec = spec_of(name)
    if spec.reader is None:
        return configured
    return spec.reader(index, parse_parameters(spec, params), services, configured)


def _allowed(field: FieldInfo) -> str:
    """The range of a parameter in words."""
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    limits = [
        f"{word} {getattr(rule, name)}"
        for rule in field.metadata
        for name, word in words.items()
        if getattr(rule, name, None) is not None
    ]
    kind: Any = field.annotation
    choices = getattr(kind, "__args__", None)
    if choices and type(None) in choices:
        kind, choices = choices[0], None
    if choices:
        return "one of " + ", ".join(map(str, choices))
    if kind is bool:
        return "true or false"
    number = "a whole number" if kind is int else "a number"
    return " ".join((number, " and ".join(limits))).strip()
