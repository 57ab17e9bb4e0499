"""What the deployments of an index start from: its source and questions, as people name them or its manifest does."""

from dataclasses import replace
from pathlib import Path

from polyhop.flows.deployments import DeployedIndex
from polyhop.schemas.corpus import source_of
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.redaction import has_secret
from polyhop.schemas.settings import Settings
from polyhop.tasks.registry import source_kind
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import readable_manifest


def deployed_index(settings: Settings, name: str, source: str | None, questions: Path | None) -> DeployedIndex:
    """The index with its source; paths become absolute, because runs start in other folders.

    Args:
        settings: Say where the root is.
        name: Of the index, which need not exist yet.
        source: What it is to be made from; None: what it was made from.
        questions: Question file; None: questions.jsonl in the folder that the deployment is made in.

    Raises:
        ConfigurationError: If the source holds a password: parameters are shown to all who may look.
    """
    if source is not None and has_secret(source):
        raise ConfigurationError(
            "--source holds a password, and the Prefect server shows parameters to all its users; leave it out of the "
            "address and set NEO4J_USER and NEO4J_PASSWORD where the runs start."
        )
    found = DeployedIndex(name)
    manifest = readable_manifest(Layout(settings.root).index(name))
    if source is not None:
        found = replace(found, source=_absolute(source))
    elif manifest is not None and manifest.source and not has_secret(manifest.source):
        found = replace(found, source=_absolute(manifest.source), kind=source_kind(manifest.stages))
        if manifest.graph_sources:
            found = replace(found, graph_sources=_absolute(manifest.graph_sources))
    if manifest is not None and len(manifest.sources) > 1:
        read = {source: state.location for source, state in sorted(manifest.sources.items())}
        found = replace(found, sources={source: _absolute(where) for source, where in read.items() if where})
    return found if questions is None else replace(found, questions=_absolute(str(questions)))


def _absolute(source: str) -> str:
    named = source_of(source)
    return str(named.resolve()) if isinstance(named, Path) else source
