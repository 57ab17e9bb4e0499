"""Raw rows of passages: where extraction leaves them for resolution, and for the run that makes the next version.

Makes and reads no row (extraction and resolution do).
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from polyhop.warehouse.build import Build, part_files
from polyhop.warehouse.files.disk import writing

PREFIX = "extraction"
RAW = ("mentions", "relations", "propositions", "triples")
EXTRACTED_FILE = f"{PREFIX}_passages.parquet"
"""Of the passages that the rows in the other files were extracted from."""
RAW_FILES = tuple(f"{PREFIX}_{name}.parquet" for name in RAW)
FILES = (EXTRACTED_FILE, *RAW_FILES)
_CHANGED = "changed.parquet"


def keeps_rows(build: Build) -> bool:
    """Whether the rows stand in the version for the next one: no fingerprint knows the release of a spaCy model."""
    return build.settings.extraction.extractor == "rules" and build.settings.extraction.ner != "spacy"


def raw_files(build: Build, name: str) -> list[str]:
    """The files with all rows of one of `RAW`, once extraction is done, by rules or otherwise."""
    if keeps_rows(build):
        return [str(build.staging.arrays / RAW_FILES[RAW.index(name)])]
    return part_files(build.parts("extract"), name)


def write_changed(build: Build, passages: Sequence[str] | None) -> None:
    """Notes the passages whose rows are not those of the version before, removed ones among them; None: all may be."""
    path = build.parts("extract") / _CHANGED
    with writing("the list of changed passages", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if passages is None:
            path.unlink(missing_ok=True)
        else:
            pq.write_table(pa.table({"passage_id": pa.array(passages, pa.string())}), path)


def read_changed(build: Build) -> list[str] | None:
    """What extraction in this run noted."""
    path = build.parts("extract") / _CHANGED
    return pq.read_table(path).column("passage_id").to_pylist() if path.is_file() else None
