"""Settings: one frozen tree, parsed once from file, environment and flags; later sources win.

Every field says its unit and default.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from polyhop.schemas.errors import ConfigurationError, UnknownSettingError
from polyhop.schemas.languages import ENGLISH, known_code
from polyhop.schemas.text import names_in

if TYPE_CHECKING:
    from polyhop.schemas.records import SourceKind


_RULES: Mapping[str, str] = {
    **dict.fromkeys(["missing", "missing_argument", "missing_keyword_only_argument"], "is missing"),
    **dict.fromkeys(["extra_forbidden", "unexpected_keyword_argument"], "is unknown"),
    **dict.fromkeys(["string_type", "string_sub_type"], "must be text"),
    "string_unicode": "must be text without halves of surrogate pairs",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length:,} characters",
    **dict.fromkeys(["int_type", "int_parsing", "int_from_float"], "must be a whole number"),
    "int_parsing_size": "must be a number of fewer digits",
    **dict.fromkeys(["float_type", "float_parsing"], "must be a number"),
    "finite_number": "must be a finite number",
    **dict.fromkeys(["bool_type", "bool_parsing"], "must be true or false"),
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    **dict.fromkeys(["literal_error", "enum"], "must be {expected}"),
    **dict.fromkeys(["list_type", "tuple_type", "set_type", "iterable_type"], "must be a list"),
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length:,} items",
    **dict.fromkeys(
        ["dict_type", "mapping_type", "model_type", "model_attributes_type"], "must be a table of names and values"
    ),
    "none_required": "must be empty",
    "path_type": "must be a path",
}
"""The rule of each type of fault that pydantic finds; braces hold the fault's context."""
_UNION_MEMBER = re.compile(r"(str|int|float|bool|(list|dict)\[.*\])$")  # in the location of a fault
_LONGEST_VALUE = 60  # Characters of a wrong value that are shown; chosen: enough to find it.


class SettingsSection(BaseModel):
    """Settings that belong together."""

    model_config = ConfigDict(frozen=True, extra="forbid")


SectionT = TypeVar("SectionT", bound=SettingsSection)


def broken_rule(faults: ValidationError | Sequence[Mapping[str, Any]]) -> str:
    """The first rule that a value breaks: must be a whole number, not 'abc'."""
    return broken_value(faults)[1]


def broken_value(faults: ValidationError | Sequence[Mapping[str, Any]]) -> tuple[tuple[int | str, ...], str]:
    """The location of the first value that breaks a rule, and the rule: must be a whole number, not 'abc'."""
    listed: Sequence[Mapping[str, Any]] = faults.errors() if isinstance(faults, ValidationError) else faults
    first, location = listed[0], tuple(listed[0]["loc"])
    rule = _rule_of(first)
    if location and _UNION_MEMBER.match(str(location[-1])):
        location = location[:-1]  # of a value that may be of several types: a fault for each
        members = [fault for fault in listed if tuple(fault["loc"][:-1]) == location]
        rule = " or ".join(dict.fromkeys([rule, *(_rule_of(fault).removeprefix("must be ") for fault in members[1:])]))
    if first["type"] in {"missing", "missing_argument", "extra_forbidden", "unexpected_keyword_argument"}:
        return location, rule
    given = first.get("input")
    value = repr(given) if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=repr)
    shown = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…"
    return location, f"{rule}, not {shown}" if rule.startswith("must ") else f"is {shown}: {rule[:1].lower()}{rule[1:]}"


def _rule_of(fault: Mapping[str, Any]) -> str:
    if fault["type"] == "value_error":  # of a validator of ours
        return str(fault["msg"]).removeprefix("Value error, ")
    return _RULES.get(fault["type"], "must be of another form").format_map(fault.get("ctx") or {})


def one_of(*names: str) -> AfterValidator:
    """A check that a text is one of these names; `import:FILE` stands for every text that begins with `import:`."""

    def check(text: str) -> str:
        kind, colon, rest = text.partition(":")
        forms = {name.partition(":")[0] for name in names if ":" in name}
        if text not in names and not (colon and rest and kind in forms):
            raise ValueError(f"must be one of {', '.join(names)}")
        return text

    return AfterValidator(check)


class Mark(Enum):
    """Mark of a setting: the results that depend on it, if any, and how runs treat it."""

    INDEX = "index"
    ANSWERS = "answers"
    NOTHING = "nothing"
    KEPT = "kept"  # Later runs of an index keep the value of the version before unless it is set.
    SECRET = "secret"  # noqa: S105 - the name of a mark: other processes of a run get the default of an address or key


INDEX, ANSWERS, NOTHING, KEPT, SECRET = Mark


DEFAULT_STRATEGY = "bridge"
DEFAULT_GRAPH_STRATEGY = "hub-facets"
GRAPH_STRATEGIES = (DEFAULT_GRAPH_STRATEGY, "hublink")
"""What an index of a graph is built for besides those of every index, unless the settings name strategies."""
CLOSED_BOOK = "closed-book"  # The row of an evaluation that is not a strategy: a model answers without passages.


def strategies_for(settings: "Settings", source: "SourceKind") -> tuple[str, ...]:
    """The strategies that an index is built for: those of the settings; for a graph, unless they are set, two more."""
    more = GRAPH_STRATEGIES if source == "graph" and "strategies" not in settings.model_fields_set else ()
    return (*settings.strategies, *more)


Space = Literal["passages", "entities"]
PASSAGES: Space = "passages"
ENTITIES: Space = "entities"  # Everything but passages: entities, relations, propositions, texts of hubs.
LOCAL = "local"
BGE = "bge"


class Cosines(NamedTuple):
    """Cosines of an encoder that Polyhop ships, relative to the local one's. Measured: decision 0037."""

    scale: float  # Spread between the best and the 100th passage of a question.
    # Names of entities: a cosine c of the local encoder is as rare as `slope * c + floor` of this one.
    slope: float
    floor: float


SHIPPED: Mapping[str, Cosines] = {LOCAL: Cosines(1.0, 1.0, 0.0), BGE: Cosines(0.55, 0.5, 0.4)}


def cosine_threshold(cosine: float, encoder: str) -> float:
    """A threshold set for the local encoder's cosines, for another encoder's; unchanged if its cosines are unknown.

    Source: algorithms.md 2B.5.
    """
    cosines = SHIPPED.get(encoder, SHIPPED[LOCAL])
    return cosines.slope * cosine + cosines.floor


KINDS = {
    LOCAL: "all-MiniLM-L6-v2 on ONNX, no network",
    BGE: "bge-small-en-v1.5 on ONNX, no network, extra bge",
    "onnx:FOLDER": "an exported sentence encoder with tokenizer.json",
    "litellm:PROVIDER/MODEL": "any provider, or an OpenAI-compatible server",
    "fastembed:NAME": "extra fastembed",
    "sentence-transformers:NAME_OR_FOLDER": "extra sentence-transformers",
}
_NAME = re.compile(r"local|bge|(onnx|litellm|fastembed|sentence-transformers):.*\S.*")


def _checked(name: str) -> str:
    """The name."""
    if not _NAME.fullmatch(name):
        known = ", ".join(f"{kind} ({what})" for kind, what in KINDS.items())
        raise ValueError(f"unknown kind of encoder; known kinds are {known}")
    return name


def _name_of(encoder: object) -> object:
    """The name of an encoder; an earlier version of an index records prefixes with it."""
    return encoder.get("name", "") if isinstance(encoder, Mapping) else encoder


def _checked_if_named(name: str) -> str:
    return _checked(name) if name else name


class EncoderChoice(SettingsSection):
    """One encoder: all that determines its vectors, where it is, and what it costs."""

    name: Annotated[str, AfterValidator(_checked), INDEX, KEPT] = Field(
        LOCAL,
        description="The encoder: local (all-MiniLM-L6-v2 on ONNX, no network), bge (bge-small-en-v1.5, extra bge), "
        "onnx:FOLDER, litellm:PROVIDER/MODEL, fastembed:NAME or sentence-transformers:NAME_OR_FOLDER.",
    )
    query_prefix: Annotated[str, INDEX, KEPT] = Field(
        "", description="Prefix of every question: the model's instruction."
    )
    passage_prefix: Annotated[str, INDEX, KEPT] = Field("", description="Prefix of every indexed text.")
    dimension: Annotated[int, INDEX, KEPT] = Field(
        0, ge=0, le=65_536, description="Dimensions of a vector, for servers that can shorten vectors; 0: the model's."
    )
    max_tokens: Annotated[int, INDEX, KEPT] = Field(
        0, ge=0, le=1_000_000, description="Maximum tokens per text, the rest is cut; 0: the model's limit."
    )
    api_base: Annotated[str, NOTHING, KEPT, SECRET] = Field(
        "", description="Address of an OpenAI-compatible server with /embeddings; empty: models.api_base."
    )
    precision: Annotated[Literal["float32", "bfloat16", "int8"], INDEX, KEPT] = Field(
        "float32",
        description="Of the local encoder: float32, the same bits in every run on one kind of processor; bfloat16 by "
        "OpenVINO (extra openvino; on processors that have it, cosine .9999 to float32); int8 (extra int8, .994).",
    )

    @model_validator(mode="after")
    def _has_precisions(self) -> Self:
        if self.precision != "float32" and self.name != LOCAL:
            raise ValueError(f"encoder.precision applies to the local encoder only, not to {self.name}")
        return self

    @property
    def choice(self) -> "EncoderChoice":
        """This and nothing besides."""
        return EncoderChoice.model_construct(**{name: getattr(self, name) for name in EncoderChoice.model_fields})


class EncoderSettings(EncoderChoice):
    """The model that turns texts into vectors."""

    entities: Annotated[str, BeforeValidator(_name_of), AfterValidator(_checked_if_named), INDEX, KEPT] = Field(
        "",
        description="Another encoder, without prefixes, for all texts but passages: entities, relations, "
        "propositions, texts of hubs; empty: as passages.",
    )

    def choice_of(self, space: Space) -> EncoderChoice:
        """The encoder of a space; that of entities has the address of the other."""
        if space != ENTITIES or not self.entities:
            return self.choice
        return EncoderChoice(name=self.entities, api_base=self.api_base)


# Source: algorithms.md 4.3 to 4.7.

HubMode = Literal["auto", "types", "edges", "both", "either"]
Level = Literal["path", "triple", "entity"]
Textualiser = Literal["template", "model"]
AskMode = Literal["single", "batch", "extract", "propositions", "resolve", "hub-texts", "read"]
_STEPS: dict[str, AskMode] = {
    "kg.extract": "extract",
    "prop.entities": "propositions",
    "prop.propositions": "propositions",
    "kg.resolve": "resolve",
    "hub.path_text": "hub-texts",
}
"""The step that `models.mode` names, by the task of a request; all others are reading."""

DOCUMENT = "document"  # The type of a text corpus's title entities.


def _listed(value: object) -> object:
    """A comma list as the environment and flags give it; a list of a settings file may hold commas in its entries."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Listed = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class HubSettings(SettingsSection):
    """Selection of hubs, and the indexed part of their paths (strategies hublink, hublink-topic, hub-facets)."""

    types: Annotated[Listed, INDEX, KEPT] = Field(
        (),
        description="Types of hubs, separated by commas: names of types (Paper), or predicate=label (rdf:type=Paper: "
        "nodes with a relation of that predicate to or from a node of that label). Of texts: types of entities, or "
        "document for the entities that documents are named after (the default there).",
    )
    mode: Annotated[HubMode, INDEX, KEPT] = Field(
        "auto",
        description="Condition for a node to be a hub: types (hubs.types), edges (hubs.min_edges), both, either; "
        "auto (default) is types if there are any, else edges.",
    )
    min_edges: Annotated[int, INDEX, KEPT] = Field(
        10, ge=1, description="Minimum number of incoming and outgoing relations of a hub, default 10."
    )
    split: Annotated[bool, INDEX, KEPT] = Field(
        default=False, description="Make nodes at which paths end for hubs.max_path_length hubs of the next level."
    )
    max_path_length: Annotated[int | None, INDEX, KEPT] = Field(
        None,
        ge=0,
        description="Relations of the longest path; 0: any number. Default 10 in a knowledge graph, and 2 in texts, "
        "where longer ones leave the document.",
    )
    max_paths_per_hub: Annotated[int, INDEX, KEPT] = Field(
        1000,
        ge=0,
        description="Paths kept per hub, in order of search, default 1000; 0: all. hub_coverage counts the rest.",
    )
    start: Annotated[Listed, INDEX, KEPT] = Field(
        (),
        description="Start nodes of the hub search: ids or types of nodes (of texts: keys or types of entities), "
        "separated by commas; empty (default): every hub.",
    )
    textualiser: Annotated[Textualiser, INDEX, KEPT] = Field(
        "template", description="Writer of path texts: template (default), or model (models.extract)."
    )
    levels: Annotated[tuple[Level, ...], BeforeValidator(_listed), INDEX, KEPT] = Field(
        ("path",),
        min_length=1,
        description="Embedded parts of a path for hublink: path (its text; default), triple, entity, or several.",
    )


Price = Annotated[float, Field(ge=0)]


def _prices(value: object) -> object:
    """A comma list of two or three as the environment and flags give it."""
    found = _listed(value)
    if isinstance(found, list | tuple) and len(found) not in {2, 3}:
        raise ValueError("must be two or three numbers, of prompts, of replies and of an encoder, like 0.15,0.6,0.02")
    return found


class ModelSettings(SettingsSection):
    """Language models, by role; none is needed."""

    extract: Annotated[str, INDEX] = Field(
        "", description="Model for extraction and resolution, as litellm names it (openai/gpt-4o-mini); empty: none."
    )
    read: Annotated[str, ANSWERS] = Field(
        "",
        description="Model that reads answers from passages, as litellm names it; empty: the reader without a model.",
    )
    read_passages: Annotated[int, ANSWERS] = Field(
        5,
        ge=0,
        le=100,
        description="Passages that a model reads for one answer, in addition to the strategy's own text; 0: only that "
        "text (of qasa, chains and descriptions of entities).",
    )
    rerank: Annotated[str, ANSWERS] = Field(
        "",
        description="Cross-encoder of bm25-ce and rrf-ce: local (the shipped reader), a name that fastembed knows "
        "(Xenova/ms-marco-MiniLM-L-6-v2), or a folder with model.onnx and tokenizer.json; empty: a lexical fallback.",
    )
    name_questions: Annotated[bool, ANSWERS] = Field(
        default=False,
        description="Use models.read to find the names in questions, for strategies that start from names.",
    )
    api_base: Annotated[str, NOTHING, SECRET] = Field(
        "", description="Address of an OpenAI-compatible server; empty: the provider's own."
    )
    max_reply_tokens: Annotated[int, INDEX, ANSWERS] = Field(
        0,
        ge=0,
        description="Maximum tokens of a reply; truncated replies are requested again after it is raised; 0: the "
        "default of each step.",
    )
    timeout_seconds: Annotated[float, NOTHING] = Field(120, gt=0, description="Seconds to wait for one reply.")
    max_attempts: Annotated[int, NOTHING] = Field(
        5, ge=1, le=100, description="Attempts per reply before it is listed as failed."
    )
    concurrency: Annotated[int, NOTHING] = Field(
        8, ge=1, le=256, description="Maximum concurrent calls; a slow server gets fewer, down to one."
    )
    requests_per_minute: Annotated[int, NOTHING] = Field(
        0, ge=0, description="Maximum calls per minute; 0: only the server's limit."
    )
    price: Annotated[tuple[Price, Price] | tuple[Price, Price, Price] | None, BeforeValidator(_prices), NOTHING] = (
        Field(
            None,
            description="USD per million tokens of prompts, of replies and, if there is a third number, of an "
            "encoder's texts, separated by commas (0.15,0.6,0.02); unset: litellm's table.",
        )
    )
    mode: Annotated[tuple[AskMode, ...], BeforeValidator(_listed), NOTHING] = Field(
        ("single",),
        min_length=1,
        description="How models are called: single (default), one request per call; batch, the provider's cheaper "
        "batch API (the run exits and a later run resumes); or the steps that use batches, separated by commas: "
        "extract, propositions, resolve, hub-texts, read (the questions of jobs).",
    )
    batch_requests: Annotated[int, NOTHING] = Field(50_000, ge=1, description="Maximum requests per batch.")
    batch_tokens: Annotated[int, NOTHING] = Field(
        2_000_000,
        ge=1,
        description="Maximum prompt tokens in open batches; see the limits page of your provider.",
    )
    batch_price: Annotated[tuple[Price, Price] | None, BeforeValidator(_listed), NOTHING] = Field(
        None,
        description="USD per million tokens of prompts and of replies in batches, separated by a comma (0.075,0.3); "
        "unset: litellm's table, which has few.",
    )

    def asks_in_batches(self, task: str) -> bool:
        """Returns whether requests of a task wait for batches."""
        return "batch" in self.mode or _STEPS.get(task, "read") in self.mode


class RunnerSettings(SettingsSection):
    """Executor of rule-based extraction and embedding batches."""

    kind: Annotated[Literal["auto", "local", "processes", "dask"], NOTHING] = Field(
        "auto",
        description="Executor for rule-based extraction and embedding batches: the run's own process (local), more "
        "processes on this machine (processes), or the workers of a Dask cluster (dask; the extra dask); auto: more "
        "processes for extraction of 10,000 passages and more, otherwise the run's own.",
    )


class QueueSettings(SettingsSection):
    """The queue of questions."""

    url: Annotated[str, NOTHING, SECRET] = Field(
        "", description="Question queue: postgresql://…, or empty for queue.sqlite under root."
    )


class IndexSettings(SettingsSection):
    """Remote storage of versions."""

    remote: Annotated[str, NOTHING] = Field(
        "",
        description="Store of published versions, s3://…, gs://…, az://… or file://…: runs push to it, workers pull "
        "from it; empty: none.",
    )
    key_file: Annotated[str, NOTHING, SECRET] = Field(
        "",
        description="File with a secret key that signs what is pushed; with it, only versions signed with the same key "
        "are pulled; empty: no signatures.",
    )


class SearchSettings(SettingsSection):
    """Vector search."""

    exact_below: Annotated[int, INDEX] = Field(
        200_000,
        ge=0,
        description="Exact search below this many passages, default 200000; approximate search through LanceDB "
        "above. Takes "
        "effect with the next version.",
    )


class WorkerSettings(SettingsSection):
    """Workers of the question queue."""

    question_seconds: Annotated[float, NOTHING] = Field(
        60,
        gt=0,
        description="Processing seconds after which a question is dead, default 60; time spent waiting for a model "
        "is not "
        "counted (models.timeout_seconds).",
    )


class ReaderSettings(SettingsSection):
    """Reading of answers, and its confidence without a model."""

    name: Annotated[Literal["spans", "sentences", "none"], ANSWERS] = Field(
        "spans",
        description="Reader without a model: spans (short answers, and sentences), sentences alone, or none, which "
        "ranks passages only (`--reader`).",
    )

    @property
    def reads(self) -> bool:
        """Returns whether answers are read at all."""
        return self.name != "none"

    min_confidence: Annotated[float, ANSWERS] = Field(
        0.5,
        ge=0,
        le=1,
        description="Confidence below which a short answer is a guess and sentences are shown instead, 0 to 1.",
    )


DEFAULT_STRATEGIES = (
    "bridge", "bridge-lexical", "bm25", "dense", "rrf", "graph", "graph-hybrid",
    "graph-dense", "graph-rrf", "graph-search", "fusion",
)  # fmt: skip


class CorpusSettings(SettingsSection):
    """Splitting of records into passages."""

    language: Annotated[str, INDEX, KEPT] = Field(
        ENGLISH,
        description="Language of the texts and questions, an ISO 639-1 code, or auto: detected text by text "
        "(extra languages).",
    )
    max_passage_characters: Annotated[int, INDEX] = Field(
        2000, ge=200, le=1_000_000, description="Longer texts are split into passages of at most this many characters."
    )
    overlap_sentences: Annotated[int, INDEX] = Field(
        0,
        ge=0,
        le=20,
        description="Sentences that consecutive pieces of a split text share, at most half a passage.",
    )
    max_quarantine_share: Annotated[float, NOTHING] = Field(
        0.05,
        ge=0,
        le=1,
        description="Share of unusable records above which a run fails and publishes nothing, 0 to 1. Fewer than 20 "
        "unusable files of a folder, and unusable records of a source of fewer than 20, do not count, unless nothing "
        "in it can be used.",
    )
    follow_links: Annotated[bool, INDEX] = Field(
        default=False, description="Follow symbolic links that lead out of a folder corpus."
    )

    _is_known_language = field_validator("language")(known_code)


class GraphSettings(SettingsSection):
    """Reading of a knowledge graph (`polyhop index --graph`)."""

    languages: Annotated[str, INDEX] = Field(
        "en",
        description="Languages of labels in N-Triples and Turtle, preferred ones first, separated by commas (en,de); "
        "after them come labels without a language, then other languages alphabetically.",
    )
    neo4j_ids: Annotated[str, INDEX] = Field(
        "id,uri,iri,uuid",
        description="Properties that hold a Neo4j node's own id, unique in the database, the first that it has; a node "
        "with none gets Neo4j's own id, which another dump does not keep.",
    )
    neo4j_names: Annotated[str, INDEX] = Field(
        "name,title,label", description="Properties that hold a Neo4j node's label, the first that it has."
    )
    neo4j_types: Annotated[str, INDEX] = Field(
        "", description="Properties that hold the types of a Neo4j node; empty: its labels in Neo4j are its types."
    )
    neo4j_predicates: Annotated[str, INDEX] = Field(
        "",
        description="Properties of a Neo4j relationship that hold the predicate, the first that it has; else it is the "
        "relationship's type. Its other properties are not read.",
    )


class ExtractionSettings(SettingsSection):
    """Extraction of names, relations and propositions."""

    ner: Annotated[str, one_of("rules", "regex", "spacy", "spacy:NAME"), INDEX] = Field(
        "rules",
        description="Names by Polyhop's rules (default), SPRIG's regular expression (regex), or an installed spaCy "
        "model (spacy:NAME; spacy: en_core_web_sm).",
    )
    extractor: Annotated[str, one_of("rules", "model", "import:FILE"), INDEX, KEPT] = Field(
        "rules",
        description="Extractor of names, relations and propositions: rules, model, or import:FILE.",
    )
    entity_types: Annotated[str, INDEX] = Field(
        "", description="Known entity types, separated by spaces; empty: the five of the paper, DATE and NUMBER."
    )
    type_contract: Annotated[Literal["evolve", "freeze", "discard", "qasa"], INDEX] = Field(
        "evolve",
        description="Treatment of unknown types and labels: evolve keeps them; freeze drops an entity's type and maps "
        "a label to 'related to'; discard drops the entity or relation; qasa discards all but the paper's five types.",
    )
    relation_types: Annotated[str, INDEX] = Field(
        "", description="Known relation labels, separated by commas; empty: any label."
    )
    types: Annotated[str, INDEX] = Field(
        "",
        description="Your own entity types with word patterns: PROJECT=Project *|Programme *; SHIP=MV *. A name that "
        "fits a pattern has this type.",
    )
    schema_file: Annotated[str, INDEX] = Field(
        "",
        description="File with types and relations for extraction (TOML; OWL or RDFS as .ttl, .nt, .owl, .rdf or "
        ".jsonld with the extra rdf); empty: none.",
    )
    prompts: Annotated[str, INDEX] = Field(
        "",
        description="Folder of extraction prompts (kg.extract.md, prop.entities.md, "
        "prop.propositions.md; `polyhop tune-prompts` writes them); the built-in prompts if empty, and for missing "
        "files.",
    )

    @model_validator(mode="after")
    def _has_one_set_of_types(self) -> Self:
        if self.type_contract == "qasa" and self.entity_types.strip():
            raise ValueError("extraction.type_contract=qasa has its own five types; leave out extraction.entity_types")
        return self


class ResolutionSettings(SettingsSection):
    """Resolution of names to entities."""

    method: Annotated[Literal["off", "rules", "model"], INDEX] = Field(
        "rules",
        description="Entity resolution: none, rules, or model (models.extract decides whether two names are one "
        "entity).",
    )
    identity: Annotated[Literal["name", "name_type", "context"], INDEX, KEPT] = Field(
        "name",
        description="Condition for two mentions of a name to be one entity: the same name, name and type, or name "
        "and context.",
    )
    links: Annotated[str, INDEX] = Field(
        "",
        description="CSV file of name pairs (a,b) that are one entity, or with `no` in a third column (same) are not.",
    )


class Settings(SettingsSection):
    """Everything that can be set. Settings that change results are part of every fingerprint."""

    root: Annotated[Path, NOTHING] = Field(
        Path("polyhop-data"), description="Folder of all data, default ./polyhop-data."
    )
    strategies: Annotated[tuple[str, ...], NOTHING, KEPT] = Field(
        DEFAULT_STRATEGIES, description="Strategies that an index is built for; they determine its artefacts."
    )
    cores: Annotated[int, NOTHING] = Field(
        0,
        ge=0,
        le=1024,
        description="Processor cores that a command uses, for processes of runner.kind and threads of the encoder; 0: "
        "all (a worker of a queue: one).",
    )
    memory_mb: Annotated[int, NOTHING] = Field(
        1000,
        ge=100,
        le=1_000_000,
        description="Megabytes of memory for an index run's tables before they spill to disk.",
    )
    sql_memory_mb: Annotated[int, NOTHING] = Field(
        1000,
        ge=100,
        le=1_000_000,
        description="Megabytes that ad-hoc SQL may take: all queries of a server together, or one of `polyhop sql`; of "
        "`Index.sql` only the memory that DuckDB counts.",
    )
    batch_size: Annotated[int, NOTHING] = Field(500, ge=1, le=100_000, description="Passages per batch of a stage.")
    keep_versions: Annotated[int, NOTHING] = Field(
        3, ge=1, le=1000, description="Published versions to keep, in addition to those in use."
    )
    max_cost_usd: Annotated[float | None, NOTHING] = Field(
        None, ge=0, description="Maximum USD that a run spends on models; unset: no limit."
    )
    max_tokens: Annotated[int | None, NOTHING] = Field(
        None, ge=0, description="Maximum tokens that a run uses of models; unset: no limit."
    )
    min_coverage: Annotated[float, NOTHING] = Field(
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
    hubs: HubSettings = Field(default_factory=HubSettings, description="Hubs of a graph, and their paths.")
    models: ModelSettings = Field(default_factory=ModelSettings, description="Language models.")
    encoder: EncoderSettings = Field(default_factory=EncoderSettings, description="Encoders: texts to vectors.")
    runner: RunnerSettings = Field(default_factory=RunnerSettings, description="Executor of a run's batches.")
    queue: QueueSettings = Field(default_factory=QueueSettings, description="The queue of questions.")
    reader: ReaderSettings = Field(default_factory=ReaderSettings, description="Reading of answers.")
    index: IndexSettings = Field(default_factory=IndexSettings, description="Remote storage of versions.")
    search: SearchSettings = Field(default_factory=SearchSettings, description="Vector search.")
    worker: WorkerSettings = Field(default_factory=WorkerSettings, description="Workers of the question queue.")


def with_min_confidence(settings: Settings, confidence: float | None) -> Settings:
    """The settings with the least confidence that one request asks for; None: as they are."""
    if confidence is None:
        return settings
    if not 0 <= confidence <= 1:
        raise ConfigurationError(f"min_confidence is {confidence}; it must be from 0 to 1.")
    reader = settings.reader.model_copy(update={"min_confidence": confidence})
    return settings.model_copy(update={"reader": reader})


def settings_with(*marks: Mark, section: type[BaseModel] = Settings) -> dict[str, Any]:
    """The settings with one of these marks, as `include` and `exclude` of `model_dump` take them."""
    found: dict[str, Any] = {}
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            if inner := settings_with(*marks, section=field.annotation):
                found[name] = inner
        elif any(mark in field.metadata for mark in marks):
            found[name] = True
    return found


def without_secrets(settings: Settings) -> Settings:
    """The settings with the defaults of all that are secret."""
    sections = {}
    for name, secrets in settings_with(SECRET).items():
        section = getattr(settings, name)
        defaults = {field: type(section).model_fields[field].default for field in secrets}
        sections[name] = section.model_copy(update=defaults)
    return settings.model_copy(update=sections)


def stored_section(kind: type[SectionT], stored: object) -> SectionT:
    """Reads a section stored with a version; ignores settings that no longer exist."""
    return kind.model_validate(stored, extra="ignore")


def known_settings(section: type[BaseModel] = Settings, prefix: str = "") -> Iterator[tuple[str, str, object]]:
    """(dotted name, description, default) of every setting that takes a value."""
    for name, field in section.model_fields.items():
        kind: Any = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from known_settings(kind, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field.description or "", field.default


def parse_settings(sources: Mapping[str, Mapping[str, object]]) -> Settings:
    """The settings from named sources of dotted keys; a later source wins.

    Args:
        sources: Source name ("polyhop.toml", "environment"…) to {dotted key: value}; values may be strings.

    Raises:
        UnknownSettingError: For a key that does not exist; it names the nearest one.
        ConfigurationError: For a value out of its range; it names source, key and rule.
    """
    known = {name for name, _, _ in known_settings()}
    tree: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for where, values in sources.items():
        for key, value in values.items():
            if key not in known:
                raise UnknownSettingError(key, known, where)
            origin[key] = where
            *path, last = key.split(".")
            branch = tree
            for part in path:
                branch = branch.setdefault(part, {})
            if isinstance(value, str) and not path:  # comma lists, so that the environment can set several values
                annotation = Settings.model_fields[key].annotation
                is_list = tuple in (getattr(annotation, "__origin__", annotation), *get_args(annotation))
                branch[last] = names_in(value) if is_list else value
            else:
                branch[last] = value
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"] if isinstance(part, str))
        where = origin.get(key, "the settings")
        raise ConfigurationError(f"Setting '{key}' in {where} {broken_rule(error).rstrip('.')}.") from error


def flatten(tree: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """A nested mapping (a parsed TOML file) as dotted keys."""
    flat: dict[str, object] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


ENVIRONMENT_PREFIX = "POLYHOP_"
_NO_SETTINGS = ("CONFIG", "DEBUG", "LOG_JSON", "LOG_LEVEL", "UI_TOKEN")


def environment_settings(environment: Mapping[str, str]) -> dict[str, object]:
    """{dotted key: value} of all variables POLYHOP_A__B=value; two underscores separate section and name."""
    return {
        name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", "."): value
        for name, value in environment.items()
        if name.startswith(ENVIRONMENT_PREFIX) and name.removeprefix(ENVIRONMENT_PREFIX) not in _NO_SETTINGS
    }


def as_environment(values: Mapping[str, object]) -> dict[str, str]:
    """Settings by dotted name as variables (the inverse of `environment_settings`), for a process that is started.

    They do not go on a command line: everybody on the machine can read it, and addresses hold passwords.
    """
    return {
        ENVIRONMENT_PREFIX + name.upper().replace(".", "__"): (
            ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        )
        for name, value in values.items()
        if value is not None
    }
