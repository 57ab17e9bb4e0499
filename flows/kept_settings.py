"""The settings that an index keeps from run to run unless somebody says otherwise. Reads no file."""

from polyhop.schemas.hub_settings import HubSettings
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.settings import ExtractionSettings, Settings


def with_kept(settings: Settings, manifest: Manifest | None) -> Settings:
    """The settings of this run: what an index is made of stays as it is unless they say otherwise.

    That is the extractor, and what hubs are: a later run without them would quietly make another index.

    Args:
        settings: As given.
        manifest: Of the version before, None if there is none.
    """
    if manifest is None:
        return settings
    extraction, hubs = settings.extraction, settings.hubs
    if "extractor" not in extraction.model_fields_set:
        before = ExtractionSettings.model_validate(manifest.settings["extraction"]).extractor
        extraction = extraction.model_copy(update={"extractor": before})
    kept = HubSettings.model_validate(manifest.settings.get("hubs", {})).model_dump(exclude=hubs.model_fields_set)
    hubs = hubs.model_copy(update=kept)
    return settings.model_copy(update={"extraction": extraction, "hubs": hubs})
