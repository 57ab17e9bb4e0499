"""A question file to a job in the queue: the plain functions that `submit` and the flow call.

Answers nothing: workers do, wherever they run.
"""

from contextlib import closing
from dataclasses import dataclass, replace

from polyhop.schemas.corpus import BadRecord
from polyhop.schemas.errors import SourceError
from polyhop.schemas.filter_matching import check_filter
from polyhop.schemas.filter_parser import parse_filter
from polyhop.schemas.printable import plural
from polyhop.schemas.queue import NewQuestion
from polyhop.schemas.requests import SubmissionRequest
from polyhop.schemas.settings import Settings
from polyhop.schemas.strategies import default_strategy
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.questions import usable_questions
from polyhop.warehouse.files.versions import read_manifest, require_version
from polyhop.warehouse.open import open_published
from polyhop.warehouse.queue.queue import QuestionQueue
from polyhop.warehouse.record_fields import RECORD_FIELD_VALUES
from polyhop.worker.strategies.registry import parse_parameters, require_artefacts, spec_of


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job for a question file; `is_new` is False if an earlier submission with the same key made it.

    `bad` are the records that were left out.
    """

    job_id: int
    count: int
    is_new: bool
    bad: list[BadRecord]


def check_where(settings: Settings, index: str, where: str) -> None:
    """Makes sure that questions can be filtered so.

    Raises:
        FilterError: If the filter does not parse, or does not fit the metadata of the current version.
        ContractError: If that version was built before questions could be filtered.
    """
    asked = parse_filter(where)
    with closing(open_published(settings.root, index)) as published:
        check_filter(asked, published.artefact(RECORD_FIELD_VALUES).types)


def submit_file(settings: Settings, queue: QuestionQueue, request: SubmissionRequest) -> Submitted:
    """Submits a file as one job.

    The strategy's parameters are checked here, for the command line, the flow and Python alike: a misspelt one would
    become a job whose questions all die. A job without a strategy ("") gets that of the index. The queue checks the
    rest of the job (schemas/submissions.py).

    Raises:
        ConfigurationError: If a parameter does not exist or is out of its range.
        FilterError: If the filter does not parse, or does not fit the metadata of the current version.
        SourceError: If a record is bad and `skip_bad` is not set, or no question is usable; nothing is submitted.
        SubmissionError: If the job could never be answered.
        UnknownStrategyError: If there is no such strategy.
        UnknownIndexError: If there is no such index.
        MissingArtefactError: If the index was not built for the strategy.
    """
    _, folder = require_version(Layout(settings.root), request.job.index)
    manifest = read_manifest(folder)
    strategy = request.job.strategy or default_strategy(manifest.stages, manifest.artefacts)
    job = replace(request.job, name=request.job.name or request.questions.name, strategy=strategy)
    parse_parameters(spec_of(job.strategy), job.parameters)
    require_artefacts(job.strategy, manifest.artefacts, job.index)
    if job.where is not None:
        check_where(settings, job.index, job.where)
    records, bad = usable_questions(request.questions)
    if bad and not request.skip_bad:
        first = bad[0]
        raise SourceError(
            f"Nothing was submitted: {plural(len(bad), 'question')} of {request.questions} cannot be used; first "
            f"line {first.line}: {first.reason}. Fix them, or leave them out with --skip-bad."
        )
    questions = [NewQuestion(r.id, r.question, r.topic, r.answers, r.supporting, r.metadata) for r in records]
    job_id, is_new = queue.submit_or_find(job, questions)
    return Submitted(job_id, len(questions), is_new, bad)
