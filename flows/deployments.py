"""The deployments of an index as data: what `polyhop deploy`, `serve` and prefect.yaml offer (a test compares them)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from polyhop.schemas.errors import ConfigurationError, has_secret, nearest_name
from polyhop.schemas.records import SourceKind, source_of
from polyhop.schemas.settings import Settings
from polyhop.tasks.registry import source_kind
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.records import place_of
from polyhop.warehouse.files.versions import readable_manifest

TAG = "polyhop"
FIRST_INDEX = "main"
AFTER_PUBLISH = ("export", "evaluation")  # kinds that can be started when a version is published
_INDEX, _ANSWER = "polyhop.flows.prefect_index", "polyhop.flows.prefect_answer"
SCHEDULED = ("incremental", "check", "evaluation", "maintenance")  # kinds that come with a schedule

Collision = Literal["ENQUEUE", "CANCEL_NEW"]


def run_tags(kind: str, index: str | None = None) -> list[str]:
    """The tags of runs of a kind (incremental, check, export, answers…), however they are started."""
    return [TAG, *([index] if index else []), kind]


@dataclass(frozen=True, slots=True)
class DeployedIndex:
    """An index to make deployments for; its source, kind and texts for nodes are as the flow `index` takes them.

    Without questions it is what the server has, or questions.jsonl; `sources` says where each of several is read.
    """

    name: str
    source: str = "corpus.jsonl"
    kind: SourceKind | None = None
    graph_sources: str | None = None
    questions: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment; its kind is its tag, its parameters are the defaults of its form.

    Attributes:
        index: The index that all its runs are about; None: of none.
        cron: When it runs once a schedule is switched on (UTC); None: when somebody or something starts it.
        by_source: A schedule for each source by name, with its parameters over the form's; empty: one schedule.
        collision: What happens to a run that would be the second at a time; None: any number at a time.
        fixed: Parameters that a further registration sets again; the others stay as people left them.
    """

    kind: str
    entrypoint: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    index: str | None = None
    cron: str | None = None
    by_source: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    collision: Collision | None = None
    fixed: tuple[str, ...] = ("index", "source", "kind", "graph_sources")

    @property
    def name(self) -> str:
        """Its name: that of the index first, so that lists keep the deployments of an index together."""
        return f"{self.index}-{self.kind}" if self.index else self.kind

    @property
    def tags(self) -> list[str]:
        """Of it and all its runs."""
        return run_tags(self.kind, self.index)


def deployments(indexes: Iterable[DeployedIndex]) -> list[Deployment]:
    """Those of every index, and those that belong to none."""
    return [each for index in indexes for each in _of_index(index)] + [
        Deployment(
            "maintenance",
            f"{_INDEX}.maintain_flow",
            "Remove old versions, unreferenced vectors and what killed runs left, of every index.",
            cron="0 4 * * 0",
            collision="CANCEL_NEW",
        ),
        Deployment(
            "worker",
            f"{_ANSWER}.worker_flow",
            "Answer questions from queues until they are empty.",
            {"queues": "default"},
        ),
    ]


def _of_index(index: DeployedIndex) -> list[Deployment]:
    """An index run waits for the one before it; a second check at the same time would find the same.

    Sources share one deployment, whose limit of one run at a time is that of the index; each has its own schedule.
    """
    name, to_index = index.name, {"index": index.name}
    questions = to_index | {"questions": index.questions or "questions.jsonl"}
    fixed = ("index", "questions") if index.questions else ("index",)
    source = {"source": index.source, "kind": index.kind, "graph_sources": index.graph_sources}
    return [
        Deployment(
            "incremental",
            f"{_INDEX}.index_flow",
            "Bring the index up to date with its source; without changes it takes seconds.",
            to_index | {key: value for key, value in source.items() if value} | {"wait_seconds": 600.0},
            name,
            cron="*/15 * * * *",
            by_source={n: {"source": at, "source_name": n, "partial": False} for n, at in index.sources.items()},
            collision="ENQUEUE",
        ),
        Deployment(
            "check",
            f"{_INDEX}.verify_flow",
            "Compare every file, table and vector of the index with what was published; the run fails if something "
            "differs.",
            to_index | {"repair": False},
            name,
            cron="0 2 * * *",
            collision="CANCEL_NEW",
        ),
        Deployment(
            "export",
            f"{_INDEX}.export_flow",
            "Make Neo4j hold the current version; NEO4J_URI and NEO4J_PASSWORD are set where it runs.",
            to_index,
            name,
            collision="ENQUEUE",
        ),
        Deployment(
            "answers",
            f"{_ANSWER}.answer_flow",
            "Answer a file of questions; start it with the path of the file.",
            questions,
            name,
            fixed=fixed,
        ),
        Deployment(
            "evaluation",
            f"{_ANSWER}.evaluate_flow",
            "Evaluate the strategies that the index was built for; the run fails where a gate does (fail_below, "
            "like bridge:recall@5=.65).",
            questions | {"strategies": "own", "fail_below": []},
            name,
            cron="0 3 * * *",
            collision="ENQUEUE",
            fixed=fixed,
        ),
    ]


def deployed_index(settings: Settings, name: str, source: str | None, questions: Path | None) -> DeployedIndex:
    """The index with its source; paths become absolute, because runs start in other folders.

    Without a source it is what the index was made from, without questions questions.jsonl in the folder of the call.
    """
    known = Layout(settings.root).index_names()
    if source is None and name not in known:
        nearest = nearest_name(name, known)
        hint = f" (did you mean '{nearest}'?)" if nearest else ""
        raise ConfigurationError(
            f"There is no index '{name}' under {settings.root}{hint}; make it first (polyhop index SOURCE --index "
            f"{name}), or name with --source what its first run is to read."
        )
    if source is not None and has_secret(source):
        raise ConfigurationError(
            "--source holds a password, and the Prefect server shows parameters to all its users; leave it out of the "
            "address and set NEO4J_USER and NEO4J_PASSWORD where the runs start."
        )
    found = DeployedIndex(name)
    manifest = readable_manifest(Layout(settings.root).index(name))
    if source is not None:
        found = replace(found, source=_absolute(source))
    elif manifest is not None and manifest.source and not has_secret(manifest.source):
        found = replace(found, source=_absolute(manifest.source), kind=source_kind(manifest.stages))
        if manifest.graph_sources:
            found = replace(found, graph_sources=_absolute(manifest.graph_sources))
    if manifest is not None and len(manifest.sources) > 1:
        read = {name: state.location for name, state in sorted(manifest.sources.items()) if state.location}
        found = replace(found, sources={name: _absolute(location) for name, location in read.items()})
    return found if questions is None else replace(found, questions=_absolute(str(questions)))


def _absolute(source: str) -> str:
    return place_of(source_of(source))
