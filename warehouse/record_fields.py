"""The fields that filters compare: their types, and their values by record, read from the tables.

Compares nothing (schemas/filter_matching.py does). A field's values are read when a filter names it and are not kept.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.artefacts import Artefact, Stored, unrestricted
from polyhop.schemas.errors import ContractError
from polyhop.schemas.filter_matching import FieldValues, RecordFields
from polyhop.schemas.filters import DATE_FIELD, DATE_FIELDS, METADATA, RECORD_FIELDS
from polyhop.warehouse.statements import statement


def _open(stored: Stored) -> RecordFields:
    records = stored.columns(statement("read", "records_of_passages"))["record"].astype(np.int64)
    if len(stored.passage_ids) and not len(records):
        raise ContractError(
            "This version was built before questions could be filtered, and has no metadata by record; run polyhop "
            "index on its source again, which derives nothing else."
        )
    types = dict.fromkeys(RECORD_FIELDS, "text")
    types |= {METADATA + name: kind for name, kind in stored.rows(statement("read", "metadata_types"))}
    types |= dict.fromkeys(DATE_FIELDS, "date") if stored.rows(statement("read", "has_dates"))[0][0] else {}
    count = int(records.max()) + 1 if len(records) else 0
    return RecordFields(count, records, types, _reader(stored))


def _reader(stored: Stored) -> Callable[[str], FieldValues]:
    def read(field: str) -> FieldValues:
        if field in RECORD_FIELDS:
            return _values(stored.columns(statement("read", "record_values"), {"field": field}))
        if field in DATE_FIELDS:
            role = field.removeprefix(DATE_FIELD).removeprefix(".")
            return _values(stored.columns(statement("read", "date_values"), {"role": role}))
        return _values(stored.columns(statement("read", "metadata_values"), {"name": field.removeprefix(METADATA)}))

    return read


def _values(columns: Mapping[str, NDArray[Any]]) -> FieldValues:
    rows = columns["record"].astype(np.int64)
    numbers = np.ma.filled(columns["number"].astype(np.float64), np.nan)
    moments = np.ma.filled(columns["moment"].astype("datetime64[us]"), np.datetime64("NaT"))
    return FieldValues(rows, columns["value"].tolist(), columns["kind"].tolist(), numbers, moments)


RECORD_FIELD_VALUES = Artefact("records", _open, is_optional=False, restrict=unrestricted)
"""What filters look at."""
