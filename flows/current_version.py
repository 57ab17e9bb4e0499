"""What of an index's current version a run may keep.

Reads its manifest only; takes nothing over.
"""

from dataclasses import dataclass

from polyhop.schemas.errors import DamagedStoreError, UnknownIndexError
from polyhop.schemas.manifest import Manifest, StageRecord
from polyhop.schemas.requests import IndexRequest
from polyhop.tasks.stage import Stage
from polyhop.warehouse.build import Build
from polyhop.warehouse.integrity import Damage


@dataclass(frozen=True, slots=True)
class CurrentVersion:
    """The current version as a run sees it.

    Attributes:
        manifest: None before the first version.
        damage: What of it must not be taken over.
        request: What is asked for; a full run keeps nothing.
    """

    manifest: Manifest | None
    damage: Damage
    request: IndexRequest

    def require(self, build: Build) -> Manifest:
        """The manifest.

        Raises:
            UnknownIndexError: If there is no version.
        """
        if self.manifest is None:
            raise UnknownIndexError(build.index, build.layout.index_names(), str(build.layout.root))
        return self.manifest

    def holds(self, stage: Stage, build: Build) -> bool:
        """Whether it has the whole result of this stage, whose fingerprint the build knows."""
        record = self._record_to_keep(stage)
        if record is None or self.damage.concerns(stage.table_names, stage.arrays):
            return False
        return record.is_final and record.fingerprint == build.fingerprint(stage.name)

    def holds_source(self, source: Stage, build: Build) -> bool:
        """Whether it was made of the very source that was just read, and nothing of it is damaged."""
        record = self._record_to_keep(source)
        if self.damage or record is None or record.fingerprint != build.fingerprint(source.name):
            return False
        return record.outcome == dict(build.outcomes).get(source.name, "")

    def has_outcomes_of(self, build: Build) -> bool:
        """Whether stages were tried again in vain: what had failed failed again."""
        records, counts = self.require(build).stages, build.counts
        return records.keys() == counts.keys() and all(
            records[name].fingerprint == build.fingerprint(name)
            and records[name].outcome == dict(build.outcomes).get(name, "")
            and records[name].counts == counts[name]
            for name in counts
        )

    def distrusted_vectors(self) -> tuple[str, ...]:
        """Kinds of vectors that must not be copied from it: all in a full run, else those with damage."""
        if self.request.full and self.manifest is not None:
            return tuple(self.manifest.vectors) or tuple(self.damage.vectors)
        return tuple(self.damage.vectors)

    def check_source(self, source: Stage, build: Build) -> None:
        """Looks whether the corpus, or the graph, can be taken over.

        Raises:
            UnknownIndexError: If there is no version.
            DamagedStoreError: If it is damaged; the sentence has the command that reads the source again.
        """
        manifest = self.require(build)
        if self.damage.concerns(source.table_names, source.arrays):
            folder = build.folder.version(manifest.version)
            option = "" if build.source_kind == "corpus" else f"--{build.source_kind} "
            texts = f"--graph-sources {manifest.graph_sources} " if manifest.graph_sources else ""
            command = f"polyhop index {option}{manifest.source or 'SOURCE'} {texts}--index {build.index}"
            raise DamagedStoreError(f"The {build.source_kind} in {folder.tables}", build.index, command=command)

    def _record_to_keep(self, stage: Stage) -> StageRecord | None:
        if self.request.full or self.manifest is None:
            return None
        return self.manifest.stages.get(stage.name)
