"""All stages: ours, and those that other packages bring; which of them an index needs, and in what order they run.

A stage that another package brings is an entry point of the group `polyhop.stages` (name: the stage's; value: the
`Stage`). It runs when a strategy of the index needs what it writes.
"""

import re
from collections.abc import Collection, Sequence
from functools import cache

from polyhop.schemas.errors import ConfigurationError, extensions, load_extension, unusable_extension
from polyhop.schemas.records import SourceKind
from polyhop.schemas.tables import TABLE_OF
from polyhop.tasks.corpus.stage import INGEST
from polyhop.tasks.embeddings.stage import AnnStage, EmbedStage
from polyhop.tasks.extraction.stage import EXTRACT
from polyhop.tasks.graph.stage import CHUNKS, GRAPH, RELATIONS
from polyhop.tasks.graph_source.stage import INGEST_GRAPH
from polyhop.tasks.hubs.stage import HUB_STAGES
from polyhop.tasks.lexical.stage import LEXICAL
from polyhop.tasks.propositions.stage import PROPOSITIONS, TRIPLES
from polyhop.tasks.resolution.stage import RESOLVE
from polyhop.tasks.stage import SourceStage, Stage
from polyhop.warehouse.vectors.kinds import kinds_in

STAGES: Sequence[Stage] = (
    INGEST,
    INGEST_GRAPH,
    EXTRACT,
    RESOLVE,
    GRAPH,
    RELATIONS,
    CHUNKS,
    *LEXICAL,
    PROPOSITIONS,
    TRIPLES,
    *HUB_STAGES,
)
"""Ours, besides those per kind of vectors; where reads and writes leave the order open, they run in this one."""

GROUP = "polyhop.stages"
_NAME = re.compile(r"[a-z][a-z0-9-]*")  # no `_`: it ends the prefix of a stage's array files
ALWAYS = ("source", "entities")  # artefacts that every version has


def stages_for(artefacts: Collection[str], source: SourceKind = "corpus") -> list[Stage]:
    """The stages that build these artefacts from a source, each after all whose results it reads."""
    ordered = producing_stages({*ALWAYS, *artefacts}, source)
    # No two stages fill one table or write arrays of one name, and no other package takes a name of ours.
    owner: dict[str, str] = {}
    for stage in ordered:
        for name in filter(None, (stage.name or "_", stage.arrays)):
            if not _NAME.fullmatch(name):
                raise ConfigurationError(
                    f"The stage or the arrays '{name}' need another name: lower-case letters, digits and - only, a "
                    "letter first."
                )
        arrays = [f"arrays {stage.arrays}"] if stage.arrays else []
        for name in (*(f"table {table.name}" for table in stage.tables), *arrays):
            if owner.setdefault(name, stage.name) != stage.name:
                raise _taken(name, stage)
        for table in stage.tables:
            if table is not TABLE_OF.get(table.name, table):
                raise _taken(f"table {table.name}", stage)
    return ordered


def producing_stages(artefacts: Collection[str], source: SourceKind = "corpus") -> list[Stage]:
    """The stages whose work is in these artefacts, and none besides, each after all whose results it reads."""
    known = _Known(artefacts, source)
    needed: dict[str, Stage] = {}
    wanted = sorted(artefacts)
    while wanted:
        stage = known.writer_of(wanted.pop())
        if needed.setdefault(stage.name, stage) is stage:
            wanted += [artefact for artefact in stage.reads if known.writer_of(artefact).name not in needed]
    # Each after those whose results it reads; else in the order of the list.
    left, ordered, done = [stage for stage in known.stages if stage.name in needed], list[Stage](), set[str]()
    while left:
        ready = next((stage for stage in left if done.issuperset(stage.reads)), None)
        if ready is None:
            raise ConfigurationError(
                f"The stages {', '.join(stage.name for stage in left)} depend on each other in a cycle; "
                "uninstall the package that brings one of them."
            )
        left.remove(ready)
        ordered.append(ready)
        done.update(ready.writes)
    return ordered


class _Known:
    """The stages that may be needed for some artefacts; those of other packages once no other stage builds one."""

    def __init__(self, artefacts: Collection[str], source: SourceKind) -> None:
        embedded = {f"vectors:{kind.name}": kind for kind in kinds_in(artefacts, "vectors")}
        embedded |= {f"vectors:{kind.name}": kind for kind in kinds_in(artefacts, "ann")}
        kinds = sorted(embedded.values(), key=lambda kind: kind.name)
        ours = [*STAGES, *map(EmbedStage, kinds), *map(AnnStage, kinds)]
        self._source: SourceKind = source
        self.stages = [stage for stage in ours if source in stage.sources]
        self._writers = {artefact: stage for stage in self.stages for artefact in stage.writes}
        self._is_complete = False

    def writer_of(self, artefact: str) -> Stage:
        """The stage that makes it."""
        if artefact not in self._writers and artefact.startswith("vectors:"):
            self._add([EmbedStage(kind) for kind in kinds_in([artefact])])  # read by a stage, not by a strategy
        if artefact not in self._writers and not self._is_complete:
            self._is_complete = True
            self._add([stage for stage in _of_others() if self._source in stage.sources])
        if artefact not in self._writers:
            raise ConfigurationError(
                f"No stage builds '{artefact}' from a {self._source}; known are {', '.join(sorted(self._writers))}. If "
                "a package brought it, install that package again."
            )
        return self._writers[artefact]

    def _add(self, stages: Collection[Stage]) -> None:
        names = {stage.name for stage in self.stages}
        for stage in stages:
            taken = [artefact for artefact in stage.writes if artefact in self._writers]
            if taken or stage.name in names:
                raise ConfigurationError(
                    f"The stage '{stage.name}' collides with another that has its name or writes "
                    f"{', '.join(taken) or 'the same'}; rename it, or uninstall one of the packages."
                )
            self.stages.append(stage)
            self._writers |= dict.fromkeys(stage.writes, stage)


def _taken(name: str, stage: Stage) -> ConfigurationError:
    return ConfigurationError(f"The stage '{stage.name}' writes the {name}, which exists already; rename one of them.")


def source_kind(stages: Collection[str]) -> SourceKind:
    """Kind of a version's source, by the names of the stages that made it."""
    return next(stage.sources[0] for stage in STAGES if isinstance(stage, SourceStage) and stage.name in stages)


@cache
def _of_others() -> tuple[Stage, ...]:
    found = []
    for point in extensions(GROUP).values():
        stage = load_extension(point, "stage")
        if not isinstance(stage, Stage) or stage.name != point.name:
            raise unusable_extension(point, "stage", f"is {point.value}, which is not a Stage of that name")
        found.append(stage)
    return tuple(found)
