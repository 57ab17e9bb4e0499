"""Golden triples of a question as its file states them: texts, or ids of subject and object with the predicate.

Compares nothing with a graph (tasks/evaluation/golden_triples.py does).
"""

from collections.abc import Mapping, Sequence

from polyhop.schemas.questions import GoldenTriple
from polyhop.warehouse.files.records import FaultError, kind_of, storable

FIELD = "golden_triples"
_PARTS = ("subject", "predicate", "object")


def golden_triples(fields: Mapping[str, object]) -> tuple[GoldenTriple, ...]:
    """The golden triples of a question, each once, without empty texts.

    Args:
        fields: `golden_triples` is a list (or one) of texts, of lists [subject id, predicate, object id], or of objects
            {subject, predicate, object} whose ends are ids, values or {id}.

    Raises:
        FaultError: If one is none of these.
    """
    value = fields.get(FIELD)
    values = () if value is None else value if isinstance(value, (list, tuple)) else (value,)
    return tuple(dict.fromkeys(triple for item in values if (triple := _triple(item))))


def _triple(item: object) -> GoldenTriple:
    if isinstance(item, str):
        return storable(item).strip()
    if isinstance(item, Mapping):
        return _ids([item.get(part) for part in _PARTS])
    if isinstance(item, (list, tuple)) and len(item) == len(_PARTS):
        return _ids(item)
    raise FaultError(f"a golden triple is neither a text nor subject, predicate and object, but holds {kind_of(item)}")


def _ids(parts: Sequence[object]) -> tuple[str, str, str]:
    subject, predicate, value = (_end(name, part) for name, part in zip(_PARTS, parts, strict=True))
    return subject, predicate, value


def _end(name: str, value: object) -> str:
    """An id, a value, or the id (else the name) of a node."""
    found = value.get("id") or value.get("name") if isinstance(value, Mapping) else value
    if isinstance(found, bool) or not isinstance(found, (str, int, float)) or not str(found).strip():
        raise FaultError(f"the {name} of a golden triple holds no id but {kind_of(found)}")
    return storable(str(found))
