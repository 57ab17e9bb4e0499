"""What the stages of a published version took: the file `timings.json` beside its manifest.

Measures nothing. Versions of before have no such file; a damaged one says nothing, and `find_timing_damage` says why.
"""

import json
from collections.abc import Mapping

from polyhop.schemas.timings import StageTiming, VersionTimings
from polyhop.warehouse.files.disk import write_whole, writing
from polyhop.warehouse.files.layout import VersionFolder
from polyhop.warehouse.files.versions import CHECKSUM, document_checksum


def write_timings(folder: VersionFolder, timings: Mapping[str, StageTiming]) -> None:
    """Writes the file into a version that is being built.

    Raises:
        StoreError: If the disk refuses.
    """
    document = VersionTimings(stages=dict(timings)).model_dump(mode="json")
    document[CHECKSUM] = document_checksum(document)
    with writing("the timings of a version", folder.path):
        write_whole(folder.timings, (json.dumps(document, indent=2) + "\n").encode())


def read_timings(folder: VersionFolder) -> Mapping[str, StageTiming]:
    """Timings by stage, as far as they were recorded; none if the file is missing or damaged."""
    try:
        return _read(folder)
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def find_timing_damage(folder: VersionFolder) -> str:
    """What is wrong with the file, in a sentence; "" if nothing is, or if the version has none."""
    try:
        _read(folder)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, AttributeError, TypeError):  # a ValidationError is a ValueError
        return f"file '{folder.timings.name}' has another content than was published"
    return ""


def _read(folder: VersionFolder) -> Mapping[str, StageTiming]:
    document = json.loads(folder.timings.read_bytes())
    if document.pop(CHECKSUM) != document_checksum(document):
        raise ValueError("its checksum is wrong")
    return VersionTimings.model_validate(document).stages
