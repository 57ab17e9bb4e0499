"""The tables `results` and `result_passages`, in which SQL shows the questions of an index's jobs with their answers.

Reads nothing (polyhop/result_tables.py does, from the question queue).
"""

import pyarrow as pa

from polyhop.schemas.columns import Column, Table, count, real, text

_JOB = count("job_id", "job")
_ID = text("id", "the asker's own id of the question, unique within the job")
RESULTS = Table(
    "results",
    "Questions of this index's jobs with their answers, also open and dead ones: WHERE job_id = 1.",
    ("job_id", "id"),
    (
        _JOB,
        _ID,
        text("question", "the question"),
        text("answer", "short answer, empty if none was found, NULL while there is none", nullable=True),
        text("state", "queued, leased, done, dead or cancelled"),
        count("version", "version that answered", nullable=True),
        text("strategy", "strategy that found the passages, or is to find them"),
        text("index", "the index"),
        real("seconds", "seconds that the answer took", nullable=True),
        Column("finished_at", pa.timestamp("ms", tz="UTC"), "when it was answered, or given up (UTC)", nullable=True),
        text("error", "why it is dead, or was tried again", nullable=True),
        text("error_class", "kind of that error", nullable=True),
        count("attempts", "how often a worker has tried"),
        text("topic", "entity that the question is about, as asked", nullable=True),
        Column("gold_answers", pa.list_(pa.string()), "answers of the question file, to compare with"),
        Column("gold_passages", pa.list_(pa.string()), "ids of the supporting passages of the question file"),
        real("confidence", "how sure the reader is of the answer, 0 to 1, where it says so", nullable=True),
        text("read_by", "who read the answer: rules, model or none", nullable=True),
        text("model", "model that read, NULL without one", nullable=True),
        count("prompt_tokens", "tokens sent to models for it", nullable=True),
        count("completion_tokens", "tokens received for it", nullable=True),
        real("cost_usd", "price of its calls in United States dollars, NULL where unknown", nullable=True),
        Column("passage_ids", pa.list_(pa.string()), "the passages found, by rank; result_passages has them as rows"),
        text("worker", "worker that has or had it", nullable=True),
    ),
)
RESULT_PASSAGES = Table(
    "result_passages",
    "The passages found for each answered question of this index's jobs: JOIN passages USING (passage_id).",
    ("job_id", "id", "rank"),
    (
        _JOB,
        _ID,
        count("rank", "rank, from 1"),
        text("passage_id", "passage, in the version that answered"),
        text("title", "title of its document", nullable=True),
        real("score", "score that the strategy gave it", nullable=True),
    ),
)
FROM_EVIDENCE = ("confidence", "read_by", "model", "prompt_tokens", "completion_tokens", "cost_usd", "passage_ids")
"""Columns of `results` that are stored with the evidence, which takes long to read: of an answer, some kilobytes."""
