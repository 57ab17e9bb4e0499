"""Options that several commands share."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from polyhop.schemas.errors import ConfigurationError

if TYPE_CHECKING:
    from polyhop.schemas.settings import Settings

Root = Annotated[Path | None, Option("--root", help="Folder of all data (default: ./polyhop-data, or POLYHOP_ROOT).")]
Json = Annotated[
    bool, Option("--json", help="Print one JSON document on standard output, everything else on standard error.")
]
HtmlFile = Annotated[
    Path | None, Option("--html", help="Write a page with graph, activations and passages to this file.")
]
IndexName = Annotated[str, Option("--index", help="Name of the index.")]
Strategy = Annotated[
    str | None, Option("--strategy", help="Retrieval strategy; default: bridge, or hub-facets for graphs with hubs.")
]
Limit = Annotated[int, Option("--limit", min=1, max=1000, help="Passages to return.")]
Parameters = Annotated[list[str] | None, Option("--param", help="A parameter of the strategy, k=v; may be repeated.")]
Set = Annotated[
    list[str] | None, Option("--set", help="A setting, name=value (like extraction.ner=regex); may be repeated.")
]
ReaderName = Annotated[
    str | None,
    Option(
        "--reader",
        help="Reader of the answer: model (models.read; default if it is set), spans (short answers), sentences, or "
        "none (passages only).",
    ),
]
Uri = Annotated[str | None, Option("--uri", help="Address of the server, bolt://HOST:7687 (or NEO4J_URI).")]
User = Annotated[str | None, Option("--user", help="User (or NEO4J_USER, NEO4J_USERNAME; default neo4j).")]
Password = Annotated[
    str | None, Option("--password", help="Password; NEO4J_PASSWORD keeps it out of lists of processes.")
]
Database = Annotated[str | None, Option("--database", help="Database (or NEO4J_DATABASE; default neo4j).")]
Where = Annotated[
    str | None, Option("--where", help="Only records that match: \"metadata.year >= 2020 AND source ~ 'news'\".")
]
MinConfidence = Annotated[
    float | None,
    Option(
        "--min-confidence",
        min=0,
        max=1,
        help="Show sentences instead of a short answer below this confidence (default 0.5).",
    ),
]


def settings_of(root: Path | None, sets: list[str] | None = None) -> "Settings":
    """Settings from file, environment and these flags."""
    from polyhop.warehouse.user_files import load_settings

    flags: dict[str, object] = dict(pairs(sets, "--set"))
    if root is not None:
        flags["root"] = str(root)
    return load_settings(flags)


def with_reader(settings: "Settings", reader: str | None) -> "Settings":
    """The settings with the reader named on the command line; None: as they are.

    With `none` a model of the settings still finds the names in questions if it is to (models.name_questions), so that
    passages are ranked as with the reader that the settings name.
    """
    if reader not in {None, "spans", "sentences", "model", "none"}:
        raise ConfigurationError(f"--reader takes spans, sentences, model or none, not '{reader}'.")
    if reader == "model" and not settings.models.read:
        raise ConfigurationError(
            "--reader model needs a model: set models.read to one as litellm names it (like openai/gpt-4o-mini), "
            "in polyhop.toml or as POLYHOP_MODELS__READ."
        )
    if reader is None:
        return settings
    named = settings.reader.model_copy(update={"name": "spans" if reader == "model" else reader})
    is_local = reader in {"spans", "sentences"}
    models = settings.models.model_copy(update={"read": ""}) if is_local else settings.models
    return settings.model_copy(update={"reader": named, "models": models})


def pairs(values: list[str] | None, option: str) -> Mapping[str, str]:
    """{name: value} of repeated `name=value` options."""
    parsed = {}
    for value in values or []:
        name, separator, content = value.partition("=")
        if not separator or not name.strip():
            raise ConfigurationError(f"{option} takes name=value, not '{value}'.")
        parsed[name.strip()] = content
    return parsed
