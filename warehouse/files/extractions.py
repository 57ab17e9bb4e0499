"""Files of existing extractions: openie.jsonl, HippoRAG's OpenIE results, and our own export, read and written.

A row is whatever JSON object stands there; tasks/extraction/imported.py judges it.
"""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from polyhop.schemas.errors import PolyhopError, SourceError
from polyhop.schemas.records import BadRecord
from polyhop.warehouse.files.disk import named_file
from polyhop.warehouse.files.records import damage
from polyhop.warehouse.files.rows import json_lines
from polyhop.warehouse.files.sources import open_bytes
from polyhop.warehouse.statements import statement
from polyhop.warehouse.tables.connection import connect

_ID_FIELDS = ("id", "passage_id", "idx")
_ROWS_PER_BATCH = 1000  # chosen: bounds memory, and any number gives the same rows


@dataclass(frozen=True, slots=True)
class ExtractionRow:
    """One row of such a file."""

    line: int
    id: str  # The record or passage meant, "" if the row names none by a string.
    text: str  # The passage itself, if the row holds it (with or without its title in front), else "".
    fields: dict[str, Any]
    fault: str = ""  # Why the row cannot be used, "" if it can.


def read_extractions(path: Path) -> Iterator[ExtractionRow]:
    """The rows of a file, one at a time; faulty ones say why.

    Args:
        path: .jsonl or .json (each also .gz) or .parquet. A .json file holds HippoRAG's {"docs": […]} or a list.
    """
    name = path.name.lower().removesuffix(".gz")
    try:
        if name.endswith(".parquet"):
            import pyarrow as pa
            import pyarrow.parquet as pq

            try:
                with pq.ParquetFile(path) as file:
                    values = chain.from_iterable(batch.to_pylist() for batch in file.iter_batches(_ROWS_PER_BATCH))
                    for number, value in enumerate(values, start=1):
                        yield _row(number, value)
            except pa.ArrowException as error:
                raise SourceError(f"The extractions {path} are not a parquet file: {error}.") from error
        elif name.endswith(".json"):
            yield from _from_document(path)
        else:
            for row in json_lines(path):
                if isinstance(row, BadRecord):
                    yield ExtractionRow(row.line, "", "", {}, row.reason)
                else:
                    yield _row(row.line, dict(row.fields))
    except PolyhopError:
        raise
    except OSError as error:
        raise SourceError(f"Cannot read the extractions {path}: {error}; check the path.") from error
    except Exception as error:  # what unpacks and parses a file from outside may fail in any way
        raise SourceError(f"Cannot read the extractions {path}: {damage(error)}; write the file again.") from error


def _from_document(path: Path) -> Iterator[ExtractionRow]:
    with open_bytes(path) as stream:
        try:
            document = json.loads(stream.read())
        except (ValueError, RecursionError) as error:
            raise SourceError(f"The extractions {path} are not JSON: {error}.") from error
    rows = document.get("docs") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise SourceError(f"The extractions {path} hold no list of rows; expected a list or an object with 'docs'.")
    for number, value in enumerate(rows, start=1):
        yield _row(number, value)


def _row(number: int, value: object) -> ExtractionRow:
    if not isinstance(value, dict):
        return ExtractionRow(number, "", "", {}, "not an object")
    text = value.get("passage")
    text = text if isinstance(text, str) else ""
    named = next((value[name] for name in _ID_FIELDS if value.get(name) is not None), None)
    # a running number beside a text is a place in HippoRAG's file, not an id of ours
    is_number = isinstance(named, int) and not isinstance(named, bool) and not text
    id_ = str(named) if isinstance(named, str) or is_number else ""
    fault = "" if id_ or text else "neither an id nor a passage"
    return ExtractionRow(number, id_, text, value, fault)


def export_extractions(tables: Path, target: Path) -> int:
    """Writes the extractions of an index as openie-like JSON lines, which import:FILE reads back; says how many.

    A line is {id, entities: [{name, type}], triples: [[s, p, o]], propositions: [{text, entities}]}, one per passage.
    """
    opener = gzip.open if target.name.lower().endswith(".gz") else open
    count = 0
    with connect(tables, read_only=True) as connection, named_file(target, "the extractions") as unfinished:
        found = connection.execute(statement("extract", "passage_extractions"))
        with opener(unfinished, "wt", encoding="utf-8") as file:
            while rows := found.fetchmany(_ROWS_PER_BATCH):
                for passage_id, entities, triples, propositions in rows:
                    row = {"id": passage_id, "entities": entities, "triples": triples, "propositions": propositions}
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
                count += len(rows)
    return count
