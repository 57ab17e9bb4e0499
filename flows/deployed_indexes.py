"""What the deployments of an index start from: its source and questions, as people name them or its manifest does."""

from dataclasses import replace
from pathlib import Path

from polyhop.flows.deployments import DeployedIndex
from polyhop.schemas.corpus import source_of
from polyhop.schemas.errors import ConfigurationError, nearest_name
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.redaction import has_secret
from polyhop.schemas.settings import Settings
from polyhop.tasks.registry import source_kind
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.sources import place_of
from polyhop.warehouse.files.versions import readable_manifest


def deployed_index(settings: Settings, name: str, source: str | None, questions: Path | None) -> DeployedIndex:
    """The index with its source; paths become absolute, because runs start in other folders.

    Args:
        settings: Say where the root is.
        name: Of the index; it need not exist yet if its source is named.
        source: What it is to be made from; None: what it was made from.
        questions: Question file; None: questions.jsonl in the folder that the deployment is made in.

    Raises:
        ConfigurationError: If the source holds a password: parameters are shown to all who may look; or if there is
            neither a source nor such an index, whose runs would all fail.
    """
    known = Layout(settings.root).index_names()
    if source is None and name not in known:
        nearest = nearest_name(name, known)
        hint = f" (did you mean '{nearest}'?)" if nearest else ""
        raise ConfigurationError(
            f"There is no index '{name}' under {settings.root}{hint}; make it first (polyhop index SOURCE --index "
            f"{name}), or name with --source what its first run is to read."
        )
    if source is not None and has_secret(source):
        raise ConfigurationError(
            "--source holds a password, and the Prefect server shows parameters to all its users; leave it out of the "
            "address and set NEO4J_USER and NEO4J_PASSWORD where the runs start."
        )
    found = DeployedIndex(name)
    manifest = readable_manifest(Layout(settings.root).index(name))
    if source is not None:
        found = replace(found, source=_absolute(source))
    elif manifest is not None:
        found = _with_source_of(manifest, found)
    if manifest is not None and len(manifest.sources) > 1:
        found = replace(found, sources=_locations(manifest))
    return found if questions is None else replace(found, questions=_absolute(str(questions)))


def _with_source_of(manifest: Manifest, index: DeployedIndex) -> DeployedIndex:
    """The index with the source that a version was made from, unless that is unknown or holds a password."""
    if not manifest.source or has_secret(manifest.source):
        return index
    found = replace(index, source=_absolute(manifest.source), kind=source_kind(manifest.stages))
    return replace(found, graph_sources=_absolute(manifest.graph_sources)) if manifest.graph_sources else found


def _locations(manifest: Manifest) -> dict[str, str]:
    """Where the sources of a version were read as a whole, by name; without those of which nobody knows."""
    return {name: _absolute(state.location) for name, state in sorted(manifest.sources.items()) if state.location}


def _absolute(source: str) -> str:
    return place_of(source_of(source))
