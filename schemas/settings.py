"""Settings: one frozen tree, parsed once from file, environment and flags; later sources win.

Reads no file itself (warehouse/settings_file.py does) and holds no state. Every field says its unit and default.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field, ValidationError, field_validator

from polyhop.schemas.encoder_settings import EncoderSettings
from polyhop.schemas.errors import ConfigurationError, UnknownSettingError
from polyhop.schemas.hub_settings import HubSettings
from polyhop.schemas.languages import ENGLISH, known_code
from polyhop.schemas.maintenance import MaintenanceSettings
from polyhop.schemas.model_settings import ModelSettings
from polyhop.schemas.proposition_origin import PropositionSettings
from polyhop.schemas.runner_settings import RunnerSettings
from polyhop.schemas.serving_settings import QueueSettings, ReaderSettings, WorkerSettings
from polyhop.schemas.setting_section import Section, broken_rule

DEFAULT_STRATEGIES = (
    "bridge",
    "bridge-lexical",
    "bm25",
    "dense",
    "rrf",
    "graph",
    "graph-hybrid",
    "graph-dense",
    "graph-rrf",
    "graph-search",
    "fusion",
)


class CorpusSettings(Section):
    """How records become passages."""

    language: str = Field(
        ENGLISH,
        description="Language of the texts and questions, as its ISO 639-1 code, or auto: detected text by text "
        "(extra languages).",
    )
    max_passage_characters: int = Field(
        2000, ge=200, le=1_000_000, description="Longer texts are split into passages of at most this many characters."
    )
    min_section_characters: int = Field(
        200,
        ge=0,
        le=1_000_000,
        description="Parts of a file below one heading that are shorter than this are joined with the next part.",
    )
    overlap_sentences: int = Field(
        0,
        ge=0,
        le=20,
        description="Sentences that a piece of a split text repeats of the piece before, at most half a passage.",
    )
    max_file_mb: int = Field(
        256, ge=1, le=16_384, description="Largest PDF, Office, EPUB or e-mail file that is read, in megabytes."
    )
    max_unpacked_mb: int = Field(
        1024, ge=1, le=65_536, description="Largest unpacked size of a zipped file (.docx, .epub), in megabytes."
    )
    conversion_seconds: float = Field(
        60.0, gt=0, le=86_400, description="Seconds after which reading one such file is given up."
    )
    conversion_memory_mb: int = Field(
        2048, ge=256, le=1_048_576, description="Memory that reading one such file may take, in megabytes."
    )
    max_quarantine_share: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Share of unusable records above which a run fails and publishes nothing, 0 to 1. Fewer than 20 "
        "unusable files of a folder do not count, unless nothing in it can be used.",
    )
    max_deleted_share: float = Field(
        0.3,
        ge=0,
        le=1,
        description="Share of a source's records above which a run that would delete them publishes nothing, unless "
        "--allow-deletions says that it may, 0 to 1; sources of fewer than 20 records have no limit.",
    )
    follow_links: bool = Field(
        default=False, description="Whether a folder corpus reads what symbolic links out of the folder lead to."
    )

    _is_known_language = field_validator("language")(known_code)


class GraphSettings(Section):
    """How a knowledge graph is read (`polyhop index --graph`)."""

    languages: str = Field(
        "en",
        description="Languages of labels in N-Triples and Turtle, preferred ones first, separated by commas (en,de); "
        "after them come labels without a language, then other languages alphabetically.",
    )
    neo4j_ids: str = Field(
        "id,uri,iri,uuid",
        description="Properties that hold a Neo4j node's own id, unique in the database, the first that it has; a node "
        "with none gets Neo4j's own id, which another dump does not keep.",
    )
    neo4j_names: str = Field(
        "name,title,label", description="Properties that hold a Neo4j node's label, the first that it has."
    )
    neo4j_types: str = Field(
        "", description="Properties that hold the types of a Neo4j node; empty: its labels in Neo4j are its types."
    )
    neo4j_predicates: str = Field(
        "",
        description="Properties of a Neo4j relationship that hold the predicate, the first that it has; else it is the "
        "relationship's type. Its other properties are not read.",
    )


class ExtractionSettings(Section):
    """How names, relations and propositions are found."""

    ner: Literal["rules", "regex", "spacy"] = Field(
        "rules", description="Names by Polyhop's rules (default), SPRIG's regular expression, or a spaCy model."
    )
    spacy_model: str = Field("en_core_web_sm", description="Name of the installed spaCy model for ner = spacy.")
    regex_drop_stopwords: bool = Field(
        default=True, description="With ner = regex, drop names that are one stop word (default); false: as the paper."
    )
    extractor: str = Field(
        "rules",
        pattern=r"^(rules|model|import:.+)$",
        description="Who finds names, relations and propositions: rules, model, or import:FILE.",
    )
    demonstration: bool = Field(
        default=True,
        description="With extractor = model, show one example in each of the two prompts for propositions.",
    )
    on_failure: Literal["rules", "skip"] = Field(
        "rules", description="Fallback for a unit whose model extraction failed: rules, or nothing (skip)."
    )
    entity_types: str = Field(
        "", description="Known entity types, separated by spaces; empty: the five of the paper, DATE and NUMBER."
    )
    entity_type_contract: Literal["evolve", "freeze", "discard"] = Field(
        "evolve",
        description="Entities of unknown type: evolve keeps the type, freeze drops the type, discard drops both.",
    )
    relation_types: str = Field("", description="Known relation labels, separated by commas; empty: any label.")
    relation_type_contract: Literal["evolve", "freeze", "discard"] = Field(
        "evolve", description="Unknown labels: evolve keeps them, freeze maps them to 'related to', discard drops them."
    )


class ResolutionSettings(Section):
    """How names become entities."""

    method: Literal["off", "rules", "model"] = Field(
        "rules", description="Who decides that two names are one entity: nobody, rules, or a model (models.resolve)."
    )
    identity: Literal["name", "name_type", "context"] = Field(
        "name",
        description="What makes two mentions of one name one entity: the name, name and type, or name and context.",
    )
    max_cluster: int = Field(40, ge=2, le=1000, description="Names in one candidate cluster; larger ones are split.")
    must_link: str = Field("", description="CSV file of name pairs (a,b) that are one entity.")
    cannot_link: str = Field("", description="CSV file of name pairs (a,b) that are not one entity.")


class VectorSettings(Section):
    """How vectors are searched approximately (strategy dense-ann, search=ann)."""

    hnsw_m: int = Field(32, ge=4, le=256, description="Neighbours of a vector in the HNSW graph.")
    hnsw_ef_construction: int = Field(
        200, ge=8, le=10_000, description="Candidates looked at when a vector is added to the HNSW graph."
    )


class Settings(Section):
    """Everything that can be set. Settings that change results are part of every fingerprint."""

    root: Path = Field(Path("polyhop-data"), description="Folder of all data, default ./polyhop-data.")
    strategies: tuple[str, ...] = Field(
        DEFAULT_STRATEGIES, description="Strategies an index is built for; decides which artefacts are built."
    )
    batch_size: int = Field(500, ge=1, le=100_000, description="Passages per task of a stage.")
    keep_versions: int = Field(3, ge=1, le=1000, description="Published versions to keep, besides those in use.")
    max_cost_usd: float | None = Field(None, ge=0, description="USD that a run may spend on models; unset: no limit.")
    max_tokens: int | None = Field(None, ge=0, description="Tokens that a run may use of models; unset: no limit.")
    min_coverage: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of units that a model must have extracted before a version is published, 0 to 1.",
    )
    corpus: CorpusSettings = Field(default_factory=CorpusSettings, description="Records to passages.")
    graph: GraphSettings = Field(default_factory=GraphSettings, description="A knowledge graph as source.")
    extraction: ExtractionSettings = Field(
        default_factory=ExtractionSettings, description="Names, relations and propositions."
    )
    resolution: ResolutionSettings = Field(default_factory=ResolutionSettings, description="Names to entities.")
    propositions: PropositionSettings = Field(
        default_factory=PropositionSettings, description="The graph over propositions."
    )
    hubs: HubSettings = Field(default_factory=HubSettings, description="Hubs of a graph, and their paths.")
    models: ModelSettings = Field(default_factory=ModelSettings, description="Language models.")
    encoder: EncoderSettings = Field(default_factory=EncoderSettings, description="Texts to vectors.")
    vectors: VectorSettings = Field(default_factory=VectorSettings, description="Approximate search.")
    runner: RunnerSettings = Field(default_factory=RunnerSettings, description="Who does the batches of a run.")
    queue: QueueSettings = Field(default_factory=QueueSettings, description="Where questions wait.")
    reader: ReaderSettings = Field(default_factory=ReaderSettings, description="Answers, and those without a model.")
    maintenance: MaintenanceSettings = Field(
        default_factory=MaintenanceSettings, description="What `polyhop maintain` removes."
    )
    worker: WorkerSettings = Field(default_factory=WorkerSettings, description="How a worker takes questions.")


def with_min_confidence(settings: Settings, confidence: float | None) -> Settings:
    """The settings with the least confidence that one request asks for; None: as they are.

    Raises:
        ConfigurationError: If it is not within 0 to 1.
    """
    if confidence is None:
        return settings
    if not 0 <= confidence <= 1:
        raise ConfigurationError(f"The least confidence is {confidence}; it must be within 0 to 1.")
    reader = settings.reader.model_copy(update={"min_confidence": confidence})
    return settings.model_copy(update={"reader": reader})


def known_settings(section: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, str, object]]:
    """(dotted name, description, default) of every setting that takes a value."""
    for name, field in section.model_fields.items():
        inner = _section_of(field.annotation)
        if inner is not None:
            yield from known_settings(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field.description or "", field.default


def _section_of(annotation: Any) -> type[BaseModel] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def parse_settings(sources: Mapping[str, Mapping[str, object]]) -> Settings:
    """The settings from named sources of dotted keys; a later source wins.

    Args:
        sources: Source name ("polyhop.toml", "environment"…) to {dotted key: value}; values may be strings.

    Raises:
        UnknownSettingError: For a key that does not exist; it names the nearest one.
        ConfigurationError: For a value out of its range; it names the source, the key and the rule.
    """
    known = {name for name, _, _ in known_settings()}
    tree: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for where, values in sources.items():
        for key, value in values.items():
            if key not in known:
                raise UnknownSettingError(key, known, where)
            origin[key] = where
            _put(tree, key.split("."), _as_list(key, value))
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"] if isinstance(part, str))
        where = origin.get(key, "the settings")
        raise ConfigurationError(f"Setting '{key}' in {where} {broken_rule(error).rstrip('.')}.") from error


def _put(tree: dict[str, Any], path: list[str], value: object) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value


def _as_list(key: str, value: object) -> object:
    """Comma lists for settings that hold several values, so that the environment can set them."""
    if isinstance(value, str) and "." not in key and tuple in _origins(Settings.model_fields[key].annotation):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _origins(annotation: Any) -> tuple[Any, ...]:
    return (getattr(annotation, "__origin__", annotation), *get_args(annotation))


def flatten(tree: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """A nested mapping (a parsed TOML file) as dotted keys."""
    flat: dict[str, object] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat
