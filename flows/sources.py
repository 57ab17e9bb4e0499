"""Which sources a request names and whether they go together; which of an index's sources a run reads, and keeps."""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from polyhop.schemas.errors import (
    ConfigurationError,
    DamagedStoreError,
    LossRefusedError,
    SourceError,
    UnknownIndexError,
)
from polyhop.schemas.manifest import Manifest, SourceState
from polyhop.schemas.records import GraphServer, Source, source_of
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.tasks.registry import source_kind
from polyhop.warehouse.build import Build, KeptSource, kept_files
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.records import place_of
from polyhop.warehouse.files.versions import latest_version, read_manifest

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
UNNAMED = "corpus"  # the name of a source whose path has none that can be one


def check_sources(request: IndexRequest) -> None:
    """Makes sure that files exist, a source's name can be one, and options about a source go with one."""
    source, texts = request.source, request.graph_sources
    for path in (source, texts):
        try:
            is_there = not isinstance(path, Path) or path.exists()
        except PermissionError as error:
            raise SourceError(f"{path} cannot be read: permission denied; allow reading it and its folders.") from error
        if not is_there:
            raise SourceError(
                f"There is no file or folder {path}; check the path, and whether its disk is mounted. No record was "
                "deleted."
            )
    if isinstance(source, GraphServer) and request.kind == "corpus":
        raise SourceError(f"{source} is a graph database, not a corpus; name it with --graph (kind: graph).")
    if texts is not None and (source is None or request.kind == "corpus"):
        raise SourceError(f"{texts} holds texts for the nodes of a knowledge graph; name the graph, too (--graph).")
    if request.source_name and not _NAME.fullmatch(request.source_name):
        raise ConfigurationError(
            f"'{request.source_name}' is not a name for a source; use letters, digits, '.', '_' and '-', and begin "
            "with a letter or digit."
        )
    if source is None and (request.is_partial or request.source_name or request.replaces):
        raise SourceError("--partial, --source-name and --replace say how SOURCE is read; name it, too.")
    if request.is_partial and request.replaces:
        raise SourceError("--partial keeps the records that SOURCE does not mention, --replace none; leave out one.")
    if request.removed_source and (source is not None or request.kind is not None):
        raise SourceError("--remove-source reads nothing; name no source beside it.")


def known_request(settings: Settings, index: str, name: str = "") -> IndexRequest | None:
    """A request to read the source of an index again from where it was read last as a whole; None if nobody knows.

    `name` says which of its sources; "" if it has only one.
    """
    folder = Layout(settings.root).index(index)
    number = latest_version(folder)
    if number is None:
        return None
    manifest = read_manifest(folder.version(number))
    if source_kind(manifest.stages) == "graph":
        texts = Path(manifest.graph_sources) if manifest.graph_sources else None
        return IndexRequest(index, source_of(manifest.source), kind="graph", graph_sources=texts)
    if not manifest.sources:
        return IndexRequest(index, Path(manifest.source)) if manifest.source else None
    if not name and len(manifest.sources) > 1:
        raise SourceError(
            f"Index '{index}' has the sources {', '.join(sorted(manifest.sources))}; say with --source-name which of "
            "them is to be read again, or name a SOURCE."
        )
    chosen = name or next(iter(manifest.sources))
    if chosen not in manifest.sources or not manifest.sources[chosen].location:
        raise SourceError(f"Nothing is known of where source '{chosen}' of index '{index}' lies; name a SOURCE.")
    return IndexRequest(index, Path(manifest.sources[chosen].location), kind="corpus", source_name=chosen)


def with_sources(build: Build, request: IndexRequest, manifest: Manifest | None, damaged: Collection[str]) -> Build:
    """The build, knowing which source it reads and whose records it takes from the current version."""
    if request.removed_source:
        return _without(build, request.removed_source, manifest, damaged)
    if request.source is None:
        return build
    if build.source_kind == "graph" and (request.is_partial or request.source_name):
        raise SourceError(
            "A knowledge graph is read whole, and an index has one: its statements have no ids that a later file "
            "could change or delete. Leave out --partial and --source-name."
        )
    known: Mapping[str, SourceState] = {}
    if manifest is not None and {build.source_kind, source_kind(manifest.stages)} == {"corpus"}:
        known = manifest.sources
        if not known and (request.is_partial or request.source_name):
            raise SourceError(
                f"Version {manifest.version} of index '{build.index}' was published by a Polyhop that kept no records "
                "of its source; index the whole source once without --partial and --source-name."
            )
    if manifest is not None and not request.replaces and not _is_unnamed_source(build, manifest):
        raise LossRefusedError(
            f"{build.source} is not what index '{build.index}' was made from ({manifest.source}), and would replace "
            "it. If it is to, say --replace; otherwise name another index."
        )
    if build.source_kind == "graph":
        return build
    if request.is_partial:
        name, replaced = request.source_name or _meant(build, known), ""
    else:
        name, replaced = _read_whole(build, request, known)
    others = [other for other in sorted(known) if other != replaced and (other != name or request.is_partial)]
    kept = tuple(_kept(build, manifest, other, damaged) for other in others) if manifest is not None else ()
    return replace(build, source_name=name, is_partial=request.is_partial, kept=kept)


def _without(build: Build, name: str, manifest: Manifest | None, damaged: Collection[str]) -> Build:
    """The build that takes the records of all sources but one."""
    if manifest is None:
        raise UnknownIndexError(build.index, build.layout.index_names(), str(build.layout.root))
    if name not in manifest.sources:
        has = f"has the sources {', '.join(sorted(manifest.sources))}" if manifest.sources else "has no named sources"
        raise SourceError(f"Index '{build.index}' {has}, and none called '{name}'.")
    others = sorted(manifest.sources.keys() - {name})
    if not others:
        raise SourceError(
            f"'{name}' is the only source of index '{build.index}'; nothing would be left. To be rid of the index, "
            "remove its folder."
        )
    kept = tuple(_kept(build, manifest, other, damaged) for other in others)
    return replace(build, source_name="", kept=kept)


def is_elsewhere(build: Build, manifest: Manifest) -> bool:
    """Whether the source is read as a whole from another place than a version says: it has moved, or is another one."""
    if build.source is None or build.is_partial:
        return False
    if build.source_kind == "graph" or not manifest.sources:
        return not _is_unnamed_source(build, manifest)
    state = manifest.sources.get(build.source_name)
    return state is None or not _is_place(state.location, build.source)


def _is_unnamed_source(build: Build, manifest: Manifest) -> bool:
    """Whether the source is the one that a graph's index was made from, or a version that kept no names of sources.

    Also where nobody can know, and where sources have names.
    """
    kind = source_kind(manifest.stages)
    if not manifest.source or (kind == build.source_kind == "corpus" and manifest.sources):
        return True
    texts = build.graph_sources
    has_other_texts = texts is not None and manifest.graph_sources and not _is_place(manifest.graph_sources, texts)
    return kind == build.source_kind and _is_place(manifest.source, build.source) and not has_other_texts


def _is_place(location: str, source: Source | None) -> bool:
    """Whether a source lies where another one was read, by the same path or through links."""
    known = source_of(location)
    if not location or source is None or place_of(known) == place_of(source):
        return bool(location) and source is not None
    return isinstance(known, Path) and isinstance(source, Path) and known.resolve() == source.resolve()


def _read_whole(build: Build, request: IndexRequest, known: Mapping[str, SourceState]) -> tuple[str, str]:
    """The name of the source that is read as a whole, and that of another one whose place it takes ("": none)."""
    there = [name for name, state in known.items() if _is_place(state.location, build.source)]
    asked = request.source_name
    if not known or asked in known or (asked and not there and not request.replaces):
        return asked or source_name(build.source), ""
    if len(there) == 1 and not asked:
        return there[0], ""
    replaced = there or list(known)
    if not request.replaces and (asked or not there):
        raise LossRefusedError(_ways_out(build, asked, known, there))
    if len(replaced) > 1:
        raise SourceError(
            f"Index '{build.index}' has the sources {', '.join(sorted(known))}; say with --source-name which of them "
            f"{build.source} is."
        )
    return asked or source_name(build.source), replaced[0]


def _ways_out(build: Build, asked: str, known: Mapping[str, SourceState], there: list[str]) -> str:
    """Why a source is not read, and how it can be."""
    listed = ", ".join(f"'{name}' ({state.location or 'only read in part'})" for name, state in sorted(known.items()))
    if there and asked:
        return (
            f"{build.source} is source '{there[0]}' of index '{build.index}' already; leave out --source-name "
            f"{asked} to read it again, or say --replace to give it that name."
        )
    if len(known) == 1:
        replace = f"--replace puts it in the place of '{next(iter(known))}', whose records go"
    else:
        replace = "--source-name NAME --replace puts it in the place of source NAME, whose records go"
    return (
        f"{build.source} is not a source of index '{build.index}', which has {listed}. Nothing was read: "
        f"--source-name NEW adds it as a further source, {replace}."
    )


def _meant(build: Build, known: Mapping[str, SourceState]) -> str:
    """The source that a partial one adds to: read from its path before, or called like its file; else the only one."""
    read_there = [name for name, state in known.items() if _is_place(state.location, build.source)]
    named = source_name(build.source)
    if len(read_there) == 1 or named in known:
        return read_there[0] if len(read_there) == 1 else named
    if len(known) > 1:
        raise SourceError(
            f"Index '{build.index}' has the sources {', '.join(sorted(known))}, and none of them was read from "
            f"{build.source} before; say which it is, or name a new one, with --source-name."
        )
    return next(iter(known), named)


def source_name(source: object) -> str:
    """The name of an index's first source if nobody gives it one: that of its file or folder, up to the first dot."""
    path = source.resolve() if isinstance(source, Path) else Path()
    name = _NOT_IN_A_NAME.sub("-", path.name.lstrip(".").partition(".")[0]).strip("-._")[:100]
    return name if _NAME.fullmatch(name) else UNNAMED


def _kept(build: Build, manifest: Manifest, name: str, damaged: Collection[str]) -> KeptSource:
    files = kept_files(name)
    if any(file in damaged or file not in manifest.arrays for file in files):
        where = manifest.sources[name].location or "SOURCE"
        raise DamagedStoreError(
            f"The records of source '{name}' in {build.folder.version(manifest.version).arrays}",
            build.index,
            command=f"polyhop index {where} --source-name {name} --index {build.index}",
        )
    records, refused = (build.folder.version(manifest.version).arrays / file for file in files)
    return KeptSource(name, records, refused)
