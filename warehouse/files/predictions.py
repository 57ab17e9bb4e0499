"""Files of predicted answers beside their gold answers, whatever made them.

Scores nothing (tasks/evaluation/scoring.py does).
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from polyhop.schemas.corpus import BadRecord
from polyhop.schemas.questions import Prediction
from polyhop.warehouse.files.formats import ROWS, row_reader
from polyhop.warehouse.files.records import (
    ID_FIELDS,
    FaultError,
    Row,
    checked_id,
    distinct_records,
    kind_of,
    storable,
)
from polyhop.warehouse.files.sources import check_source, guarded, suffix_of

_Reader = Callable[[Path], Iterator[Row | BadRecord]]


def read_predictions(path: Path) -> tuple[list[Prediction], list[BadRecord]]:
    """The predictions of a file in its order, and the records that hold no usable one.

    Fields: id or _id (default q000001… by line); prediction (null, or an empty cell: nothing was answered); answers or
    answer, a string or a list (in CSV separated by `|`). Other fields are skipped.

    Args:
        path: A file of a known format.

    Raises:
        SourceError: If it cannot be read to its end or holds no record at all.
    """
    check_source(path, PREDICTION_FORMATS, accepts_folder=False)
    rows = guarded(path, PREDICTION_FORMATS[suffix_of(path)](path), "prediction")
    return distinct_records(path.name, rows, _prediction, lambda prediction: prediction.prediction)


def _prediction(row: Row, _source: str) -> Prediction:
    if "prediction" not in row.fields:
        raise FaultError("there is no prediction: expected a field named prediction")
    name = next((name for name in ("answers", "answer") if row.fields.get(name) is not None), None)
    if name is None:
        raise FaultError("there are no gold answers: expected a field named answers or answer")
    return Prediction(
        id=checked_id(row.fields, ID_FIELDS) or f"q{row.line:06d}",
        prediction=_text("prediction", row.fields["prediction"]),
        answers=_texts(name, row.fields[name]),
    )


def _texts(name: str, value: object) -> tuple[str, ...]:
    """A string or a list of them, each once; an empty one is an answer as well (algorithms.md, G-EVAL)."""
    values = value if isinstance(value, (list, tuple)) else (value,)
    return tuple(dict.fromkeys(_text(name, item) for item in values))


def _text(name: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise FaultError(f"the {name} is neither a string nor a number but {kind_of(value)}")
    return storable(str(value))


def _cells(rows: Iterator[Row | BadRecord], *, splits: bool) -> Iterator[Row | BadRecord]:
    """Rows of a table: an empty cell is an empty prediction; in CSV lists of answers are taken apart."""
    for row in rows:
        if isinstance(row, BadRecord):
            yield row
            continue
        fields: dict[str, object] = {"prediction": "", **row.fields}
        if splits:
            fields |= {n: str(fields[n]).split("|") for n in ("answers", "answer") if n in fields}
        yield Row(row.line, fields, row.raw)


def _reader(suffix: str) -> _Reader:
    if "json" in suffix:
        return lambda path: row_reader(suffix)(path, ("prediction",))
    splits = "csv" in suffix
    return lambda path: _cells(row_reader(suffix)(path, ("prediction",)), splits=splits)


PREDICTION_FORMATS: Mapping[str, _Reader] = {suffix: _reader(suffix) for suffix in ROWS}
"""The registry of formats of predictions: suffix to reader of rows."""
