"""What is asked for, by verb: one type for the command line, the form on Prefect and Python.

Says nothing about how it is done: whoever does it checks it (flows/), so that all three are refused the same things.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from polyhop.schemas.corpus import GraphServer, Source, SourceKind
from polyhop.schemas.queue import JobSpec


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """What to index.

    Attributes:
        index: Name of the index.
        source: The corpus or graph, or None to build on the current version's, with its texts for nodes.
        add_strategies: Strategies to build for besides the settings' and the index's own.
        full: Derive every stage again (caches are still used: nothing is paid or encoded twice).
        kind: What the source is; None: what the current version was made from, a corpus if there is none.
        graph_sources: A file of texts for the graph's nodes; None: it has none.
        source_name: Which of the index's sources it is; "": the one that was read from there, or the only one.
        is_partial: Whether the source only adds and changes: records that it does not mention stay.
        wait_seconds: How long to wait while another process writes the index; infinite: as long as it takes.
        flow_run_id: The Prefect flow run that asks, for the run history; "" without one.
        flow_run_url: Its page on the dashboard.
        removed_source: A source of the index that goes, with its records; nothing is read then. "": none.
        replaces: Whether the source takes the place of the index's only one, or of the one that `source_name` names.
        allows_deletions: Whether it may delete more than `corpus.max_deleted_share` of a source's records.
    """

    index: str
    source: Source | None
    add_strategies: tuple[str, ...] = ()
    full: bool = False
    kind: SourceKind | None = None
    graph_sources: Path | None = None
    source_name: str = ""
    is_partial: bool = False
    wait_seconds: float = 0.0
    flow_run_id: str = ""
    flow_run_url: str = ""
    removed_source: str = ""
    replaces: bool = False
    allows_deletions: bool = False

    @property
    def stated_kind(self) -> SourceKind | None:
        """What the source is, if the request says so: databases and what texts for nodes belong to are graphs."""
        is_graph = isinstance(self.source, GraphServer) or self.graph_sources is not None
        return self.kind or ("graph" if is_graph else None)


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What to evaluate.

    Attributes:
        questions: Question file.
        index: Name of the index.
        strategies: Names, or variants of them, or lists of such separated by commas (variants.py); `all` are those
            that the index can serve; none: the index's default.
        parameters: Given to each.
        out: A file for one row per question and strategy.
        baselines: Those of the strategies that the others are compared with, each or in a list separated by commas;
            default: the first.
        fail_below: Gates like recall@5=.65 or bridge:em=.1.
        min_confidence: Answers by rules below it are left empty; None: as the settings say.
        is_stored: Whether a run and a report of it are kept under the root.
        sample: How many questions are asked, chosen at random; None: all.
        seed: Of the sample; None: 13.
        asks_rest: Whether the questions that the sample leaves out are asked in place of it.
        closed_book: Whether the model that reads also answers without passages, as one more row.
        where: A filter of the passages; None: all.
    """

    questions: Path
    index: str
    strategies: tuple[str, ...]
    parameters: Mapping[str, object] = field(default_factory=dict)
    out: Path | None = None
    baselines: tuple[str, ...] = ()
    fail_below: tuple[str, ...] = ()
    min_confidence: float | None = None
    is_stored: bool = True
    sample: int | None = None
    seed: int | None = None
    closed_book: bool = False
    asks_rest: bool = False
    where: str | None = None


@dataclass(frozen=True, slots=True)
class TuningRequest:
    """What settings of a strategy to try, and on which questions.

    Attributes:
        questions: Question file.
        index: Name of the index.
        strategy: One strategy with ranges of parameters (variants.py); a name alone: its own grid; "": the index's
            default strategy.
        parameters: Given to every setting, the default one included.
        metric: What the settings are chosen by.
        sample: On how many questions they are tried, chosen at random; None: half of them, at most 500.
        seed: Of the sample; None: 13.
        is_stored: Whether the result and a report of it are kept under the root.
    """

    questions: Path
    index: str
    strategy: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    metric: str = "recall@5"
    sample: int | None = None
    seed: int | None = None
    is_stored: bool = True


@dataclass(frozen=True, slots=True)
class SubmissionRequest:
    """A question file to submit as one job.

    Attributes:
        questions: Question file.
        job: How its questions are to be answered; without a name, it gets the file's.
        skip_bad: Whether bad questions are left out; otherwise a file that has one is refused.
    """

    questions: Path
    job: JobSpec
    skip_bad: bool = False


def names_in(text: str) -> tuple[str, ...]:
    """Names that are separated by commas, as options and forms take them."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
