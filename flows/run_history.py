"""Records an index run in the run history: its beginning, what its stages took, and how it ended.

Decides nothing about the run; an error of the run passes through, with its sentence recorded.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from polyhop.flows.model_run import model_use
from polyhop.flows.reports import IndexReport, ModelUse
from polyhop.schemas.errors import BudgetExceededError, ManifestMismatchError, PolyhopError
from polyhop.schemas.redaction import redact
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.runs import SENTENCE_CHARACTERS, Outcome, RunRecord, StageUse
from polyhop.schemas.tracing import span
from polyhop.schemas.version import VERSION
from polyhop.warehouse.files.layout import IndexFolder
from polyhop.warehouse.files.run_history import begin_run, end_run, starter
from polyhop.warehouse.files.versions import current_version
from polyhop.warehouse.machine import now, peak_rss_mb

_LOG = logging.getLogger(__name__)


class RunHistory:
    """What is recorded of one run; `begin` once it holds the writer's lease, `stage` after each stage."""

    def __init__(self, folder: IndexFolder, request: IndexRequest) -> None:
        self._folder = folder
        self._request = request
        self._started, self._clock = now(), time.perf_counter()
        self._begun: RunRecord | None = None
        self._stages: dict[str, StageUse] = {}
        self._cached = 0

    def begin(self) -> None:
        """Writes that the run has begun.

        Raises:
            StoreError: If the disk refuses.
        """
        self._begun = begin_run(self._folder, self._first)

    @contextmanager
    def stage(self, name: str, seconds: Callable[[float], None]) -> Iterator[None]:
        """Measures a block of a stage.

        Args:
            name: The stage.
            seconds: Gets what the block took, however it ends.
        """
        start, before = time.perf_counter(), model_use()
        try:
            with span("polyhop.stage", {"polyhop.stage": name}):
                yield
        finally:
            took, use = time.perf_counter() - start, model_use()
            seconds(took)
            _LOG.info("stage ended", extra={"fields": {"stage": name, "seconds": round(took, 3)}})
            self._cached = use.cached
            self._stages[name] = StageUse(
                seconds=round(took, 3),
                calls=use.calls - before.calls,
                prompt_tokens=use.prompt_tokens - before.prompt_tokens,
                completion_tokens=use.completion_tokens - before.completion_tokens,
                cost_usd=_cost_between(before, use),
            )

    def units(self, name: str, units: int, computed: int, *, is_taken_over: bool = False) -> None:
        """Notes how many units a measured stage had, and how many of them it computed."""
        update = {"units": units, "computed": computed, "is_taken_over": is_taken_over}
        self._stages[name] = self._stages.get(name, StageUse()).model_copy(update=update)

    def ended_well(self, report: IndexReport) -> None:
        """Writes what the run found or published.

        Raises:
            StoreError: If the disk refuses.
        """
        damaged = f"damaged, made again: {'; '.join(report.damaged)}" if report.damaged else ""
        said = [damaged or ("" if report.changed else "nothing has changed"), report.pin_sentence]
        sentence = "; ".join(filter(None, said))
        self._end("published" if report.changed else "unchanged", sentence, report.counts)

    def ended_ill(self, outcome: Outcome, sentence: str) -> None:
        """Writes why the run failed or was stopped; of one that never held the lease only if there is an index.

        The run's own error is what people must see, so a disk that refuses this line as well is not mentioned.
        """
        with suppress(PolyhopError, OSError):
            if self._begun is not None or self._folder.path.is_dir():
                self._end(outcome, sentence, {})

    def _end(self, outcome: Outcome, sentence: str, counts: Mapping[str, int]) -> None:
        ended = {
            "outcome": outcome,
            "sentence": redact(sentence)[:SENTENCE_CHARACTERS],
            "seconds": round(time.perf_counter() - self._clock, 3),
            "version": self._version(),
            "counts": dict(counts),
            "stages": self._stages,
            "cached": self._cached,
            "peak_memory_mb": peak_rss_mb(),
        }
        if self._begun is not None:
            end_run(self._folder, self._begun.model_copy(update=ended))
        else:
            begin_run(self._folder, lambda number: self._first(number).model_copy(update=ended))

    def _version(self) -> int:
        try:
            return current_version(self._folder) or 0
        except ManifestMismatchError:
            return 0

    def _first(self, number: int) -> RunRecord:
        request = self._request
        return RunRecord(
            run=number,
            started=self._started,
            started_by=starter(request.flow_run_id, request.flow_run_url),
            polyhop=VERSION,
            source=str(request.source) if request.source is not None else "",
        )


def _cost_between(before: ModelUse, after: ModelUse) -> float | None:
    """What calls cost; None if that is unknown."""
    if before.calls == after.calls:
        return 0.0
    unknown = before.cost_usd is None or after.cost_usd is None
    return None if unknown else round((after.cost_usd or 0.0) - (before.cost_usd or 0.0), 6)


@contextmanager
def recorded(history: RunHistory) -> Iterator[None]:
    """Around a run: writes how it ended if it ends with an error, which passes through."""
    try:
        yield
    except BudgetExceededError as error:
        history.ended_ill("stopped", str(error))
        raise
    except PolyhopError as error:
        history.ended_ill("failed", str(error))
        raise
    except Exception as error:
        history.ended_ill("failed", f"unexpected {type(error).__name__}: {error}")
        raise
    except BaseException as error:  # Ctrl-C, and Prefect's signal that a flow run was cancelled
        history.ended_ill("stopped", f"stopped by {type(error).__name__}")
        raise
