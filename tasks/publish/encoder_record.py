"""What a version remembers of the encoder of a kind of vectors: how questions are encoded, what its cosines are worth.

The local encoder's cosines are the unit, by definition: nothing is measured for it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.encoder_settings import LOCAL, EncoderSettings
from polyhop.schemas.manifest import EncoderRecord
from polyhop.warehouse.build import Build, latest_manifest
from polyhop.warehouse.open_encoders import open_encoder, record_of
from polyhop.warehouse.vectors.kinds import VectorKind
from polyhop.warehouse.vectors.spread import DIGITS, cosine_scale, sampled_sentences, sampled_texts, spread

Row = tuple[str, str]
"""What is embedded of a thing: first and second."""


def encoder_record(build: Build, kind: VectorKind, rows: Sequence[Row], matrix: NDArray[np.float32]) -> EncoderRecord:
    """The record of a kind's encoder; that of the version before, if its vectors are taken over.

    Args:
        build: The build, all stages done.
        kind: Of vectors.
        rows: What is embedded, in the order of the matrix.
        matrix: Shape (n, d), rows of length 1.
    """
    current, stage = latest_manifest(build), f"embed-{kind.name}"
    record = current.stages.get(stage) if current is not None else None
    before = current.vectors.get(kind.name) if current is not None else None
    if before is not None and record is not None and record.fingerprint == dict(build.fingerprints).get(stage):
        return before.encoder
    choice = build.settings.encoder.choice_of(kind.space)
    made = record_of(build.settings, choice, open_encoder(build.settings, kind.space).encoder.max_tokens)
    if kind.name != "passage" or choice.name == LOCAL:
        return made
    own, reference = _spreads(build, kind, rows, matrix)
    return made.model_copy(update={"spread": round(own, DIGITS), "cosine_scale": cosine_scale(own, reference)})


def _spreads(build: Build, kind: VectorKind, rows: Sequence[Row], matrix: NDArray[np.float32]) -> tuple[float, float]:
    """Of the configured encoder and of the local one, over the same sample."""
    chosen = sampled_texts([kind.text(*row) for row in rows])
    texts = [kind.text(*rows[number]) for number in chosen]
    questions = sampled_sentences([rows[number][1] for number in chosen])
    encoder = open_encoder(build.settings)
    asked = EncoderSettings(threads=build.settings.encoder.threads, batch_size=0)
    local = open_encoder(build.settings.model_copy(update={"encoder": asked}))
    own = spread(encoder.encode_cached_questions(questions), matrix[chosen])
    of_texts = local.encode(texts, kind.encoded_as or kind.name)
    return own, spread(local.encode_cached_questions(questions), of_texts)
