"""A random sample of questions that depends on the seed and the questions' ids alone.

Reads no file. Invariant: a smaller sample of the same seed is part of a larger one, so that `polyhop eval --compare`
pairs all of its questions.
"""

from collections.abc import Sequence

from polyhop.schemas.ids import content_hash
from polyhop.schemas.questions import QuestionRecord

DEFAULT_SEED = 13  # architecture.md 9, as all seeds here: algorithms.md 0.3.


def sampled(records: Sequence[QuestionRecord], size: int, seed: int) -> list[QuestionRecord]:
    """The `size` questions whose hash of seed and id is smallest, in the order of `records`; all if there are fewer.

    Args:
        records: Questions with distinct ids.
        size: At least 1.
        seed: Of the sample; hashes instead of a generator, whose numbers a library may change.
    """
    place = {record.id: content_hash("sample", str(seed), record.id) for record in records}
    chosen = set(sorted(place, key=place.__getitem__)[:size])
    return [record for record in records if record.id in chosen]


def rest_of(records: Sequence[QuestionRecord], sample: Sequence[QuestionRecord]) -> list[QuestionRecord]:
    """The questions that are not in a sample of them, in the order of `records`."""
    chosen = {record.id for record in sample}
    return [record for record in records if record.id not in chosen]
