"""The settings of what answers questions: the queue, workers and the reader.

Those of encoders are in encoder_settings.py, those of models in settings.py, as are those that decide what an index
holds.
"""

from pydantic import Field

from polyhop.schemas.setting_section import Section


class QueueSettings(Section):
    """Where questions wait, and for how long."""

    url: str = Field("", description="Question queue: postgresql://…, or empty for queue.sqlite under root.")
    max_depth: int = Field(1_000_000, ge=1, description="Questions that may wait in one queue; more are refused.")
    ageing_seconds: float = Field(60, gt=0, description="Seconds of waiting that are worth one level of priority.")
    retention_days: float = Field(30, gt=0, description="Days that finished jobs are kept by `polyhop jobs --purge`.")


class WorkerSettings(Section):
    """How a worker takes questions."""

    batch: int = Field(32, ge=1, le=10_000, description="Questions that a worker claims at once.")
    lease_seconds: float = Field(30, gt=0, description="Seconds without a heartbeat until other workers take over.")
    poll_seconds: float = Field(0.5, gt=0, description="Seconds between polls of an empty queue.")
    question_seconds: float = Field(
        60,
        gt=0,
        description="Seconds of its own work after which a question is dead, default 60; waiting for a model is not "
        "counted (models.timeout_seconds).",
    )


class ReaderSettings(Section):
    """Whether answers are read, and how without a model."""

    reads: bool = Field(
        default=True, description="Whether answers are read; false: passages are ranked only (`--reader none`)."
    )
    min_confidence: float = Field(
        0.02, ge=0, le=1, description="Confidence below which an answer is left empty, 0 to 1."
    )
