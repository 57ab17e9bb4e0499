"""Raw rows of passages: where extraction leaves them for resolution, and for the run that makes the next version."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from polyhop.warehouse.build import Build, part_files
from polyhop.warehouse.files.disk import writing
from polyhop.warehouse.tables.connection import literal

PREFIX = "extraction"
RAW = ("mentions", "relations", "propositions", "triples")
"""Kinds of rows. What the others of a passage name, it mentions: whose names changed is found by mentions alone."""
EXTRACTED_FILE = f"{PREFIX}_passages.parquet"  # of the passages that the rows in the other files were extracted from
RAW_FILES = tuple(f"{PREFIX}_{name}.parquet" for name in RAW)
SINCE_FILES = tuple(f"{PREFIX}_{name}-since.parquet" for name in RAW)
"""Rows of passages that changed since the other files were written, which stay as they are."""
REPLACED_FILE = f"{PREFIX}_replaced.parquet"
"""Of the passages whose rows in the files without "since" do not count any more."""
FILES = (EXTRACTED_FILE, REPLACED_FILE, *RAW_FILES, *SINCE_FILES)
_CHANGED = "changed.parquet"


def keeps_rows(build: Build) -> bool:
    """Returns whether a version keeps its rows for the next one; rows by spaCy depend on an unknown model release."""
    return build.settings.extraction.extractor == "rules" and not build.settings.extraction.ner.startswith("spacy")


@dataclass(frozen=True, slots=True)
class RawRows:
    """Files of all rows of one of `RAW`: those of earlier runs without replaced passages, and of rows since."""

    files: Sequence[str]
    since: Path | None = None
    replaced: Path | None = None

    def query(self, passages: str = "") -> str:
        """A statement that reads the rows, or those of the passages in a table."""
        written = f"SELECT w.* FROM read_parquet([{', '.join(map(literal, self.files))}]) AS w"
        among = f"SEMI JOIN {passages} AS p USING (passage_id)" if passages else ""
        if self.since is None or self.replaced is None or not pq.read_metadata(self.replaced).num_rows:
            return f"{written} {among}"
        replaced, since = (f"read_parquet({literal(str(path))})" for path in (self.replaced, self.since))
        others = f"ANTI JOIN {replaced} AS r USING (passage_id)"
        if passages:  # most, or all, are replaced ones: their remaining rows decide what to read
            others = f"SEMI JOIN (FROM {passages} {others}) AS p USING (passage_id)"
        return f"{written} {others} UNION ALL SELECT w.* FROM {since} AS w {among}"


def raw_rows(build: Build, name: str) -> RawRows:
    """All rows of one of `RAW`, once extraction is done, by rules or otherwise."""
    if not keeps_rows(build):
        return RawRows(part_files(build.parts("extract"), name))
    folder, number = build.staging.arrays, RAW.index(name)
    written, replaced = [str(folder / RAW_FILES[number])], folder / REPLACED_FILE
    return RawRows(written, folder / SINCE_FILES[number], replaced) if replaced.is_file() else RawRows(written)


def raw_rows_before(build: Build, name: str) -> RawRows:
    """The rows of the version before, whose files are as they were published."""
    files = dict(zip(FILES, build.earlier_files(*FILES), strict=True))
    number = RAW.index(name)
    return RawRows([str(files[RAW_FILES[number]])], files[SINCE_FILES[number]], files[REPLACED_FILE])


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
    """Passages that extraction recorded as changed in this run."""
    path = build.parts("extract") / _CHANGED
    return pq.read_table(path).column("passage_id").to_pylist() if path.is_file() else None
