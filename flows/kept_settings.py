"""The settings that an index keeps from run to run unless somebody says otherwise. Reads no file."""

from collections.abc import Mapping
from typing import TypeVar

from polyhop.schemas.encoder_settings import EncoderSettings
from polyhop.schemas.hub_settings import HubSettings
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.redaction import MASK
from polyhop.schemas.setting_section import Section
from polyhop.schemas.settings import ExtractionSettings, Settings

SectionT = TypeVar("SectionT", bound=Section)


def with_kept(settings: Settings, manifest: Manifest | None) -> Settings:
    """The settings of this run: what an index is made of stays as it is unless they say otherwise.

    That is the language, the extractor, who bears a name, the encoder, and what hubs are: a later run without them
    would quietly make another index.

    Args:
        settings: As given.
        manifest: Of the version before, None if there is none.
    """
    if manifest is None:
        return settings
    extraction, hubs = settings.extraction, settings.hubs
    corpus = _kept(settings.corpus, "language", manifest.settings.get("corpus"))
    resolution = _kept(settings.resolution, "identity", manifest.settings.get("resolution"))
    if "extractor" not in extraction.model_fields_set:
        before = ExtractionSettings.model_validate(manifest.settings["extraction"]).extractor
        extraction = extraction.model_copy(update={"extractor": before})
    kept = HubSettings.model_validate(manifest.settings.get("hubs", {})).model_dump(exclude=hubs.model_fields_set)
    hubs = hubs.model_copy(update=kept)
    encoder = _kept_encoder(settings.encoder, EncoderSettings.model_validate(manifest.settings.get("encoder", {})))
    made_of = {"corpus": corpus, "extraction": extraction, "resolution": resolution, "hubs": hubs, "encoder": encoder}
    return settings.model_copy(update=made_of)


def _kept(section: SectionT, name: str, before: object) -> SectionT:
    """A section with one of its settings as it was, if it was recorded and nothing is said of it now."""
    if name in section.model_fields_set or not isinstance(before, Mapping) or name not in before:
        return section
    return section.model_copy(update={name: before[name]})


def _kept_encoder(encoder: EncoderSettings, before: EncoderSettings) -> EncoderSettings:
    """The encoder of the version before, with whatever else is said of it now, unless another one is named."""
    if "name" in encoder.model_fields_set and encoder.name != before.name:
        return encoder
    kept: dict[str, object] = before.choice.model_dump(exclude=encoder.model_fields_set)
    entities = encoder.entities
    if "name" not in entities.model_fields_set or entities.name == before.entities.name:
        fields = before.entities.choice.model_dump(exclude=entities.model_fields_set)
        kept["entities"] = entities.model_copy(update=_without_secret(fields))
    return encoder.model_copy(update=_without_secret(kept))


def _without_secret(fields: dict[str, object]) -> dict[str, object]:
    """Without an address that held a password, which no manifest keeps."""
    return {name: value for name, value in fields.items() if not (name == "api_base" and MASK in str(value))}
