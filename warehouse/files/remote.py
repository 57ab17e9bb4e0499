"""Published versions in a store elsewhere (S3 and what else fsspec reaches): pushed, pulled, and looked for.

Below URL/INDEX lie files named by their sha256, which never change, among them one list of files for each version; and
the pointer CURRENT, which names a version and its list. A push writes files, then the list, then the pointer; a pull
reads the other way round and compares every checksum. Nothing here lists a folder, so stores
with eventually consistent listings are safe.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from polyhop.schemas.errors import (
    ConfigurationError,
    DamagedStoreError,
    StoreConflictError,
    StoreError,
    StoreUnavailableError,
    import_extra,
    remember_secrets,
)
from polyhop.schemas.manifest import Manifest
from polyhop.schemas.text import plural
from polyhop.warehouse.build import Transfer
from polyhop.warehouse.files.disk import (
    file_checksum,
    link_or_copy,
    remove_paths,
    replacing,
    sync_folder,
    write_whole,
    writing,
)
from polyhop.warehouse.files.layout import IndexFolder, Layout, VersionFolder
from polyhop.warehouse.files.versions import (
    current_version,
    hold_version,
    install_folder,
    prune_versions,
    published_versions,
    read_manifest,
    remove_leftovers,
    writer_lease,
)
from polyhop.warehouse.tables.connection import foreign_objects

_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "file": "fsspec"}
_CLIENT_OPTIONS: dict[str, dict[str, Any]] = {
    # Seconds and attempts; chosen: a missing store is detected within a minute, and short outages are bridged.
    "s3": {"config_kwargs": {"connect_timeout": 5, "read_timeout": 30, "retries": {"max_attempts": 2}}},
    "file": {"auto_mkdir": True},
}
_HASH = re.compile(r"[0-9a-f]{64}")
_PATH = re.compile(r"(version|vectors)(/[A-Za-z0-9_=][A-Za-z0-9._=:+@ -]*)+")
"""A path of a list: nothing that leaves its folder, and no name that begins with a dot."""

Files = dict[str, tuple[str, int]]  # relative path below version/ or vectors/ to sha256 and bytes


@dataclass(frozen=True, slots=True)
class Moved:
    """Result of a push or pull: the version of both sides, and the transferred files and bytes."""

    version: int
    files: int = 0
    bytes: int = 0

    def __str__(self) -> str:
        return f"version {self.version}: {plural(self.files, 'file')}, {self.bytes:,} bytes"


@dataclass(frozen=True, slots=True)
class Pointer:
    """A store's current version, the sha256 of its list, and the store's tag of the pointer itself ("" if none).

    The signature is the HMAC-SHA256 of index, version and list by a key that writers and readers share; "" without one.
    A list names all files of its version by their sha256, so that the signature covers them all.
    """

    version: int
    listing: str
    tag: str = ""
    signature: str = ""


class Remote:
    """One index in a store. With a key file (setting index.key_file) pointers are signed and checked."""

    def __init__(self, url: str, index: str, key_file: str = "") -> None:
        remember_secrets([url])
        self._index, self._key_file = index, key_file
        self._key = _read_key(key_file) if key_file else b""
        self._scheme = url.partition("://")[0]
        if "://" not in url or self._scheme not in _PACKAGES:
            raise ConfigurationError(
                f"'{url}' is not the address of a store of versions; use s3://, gs://, az:// or file://."
            )
        fsspec = import_extra("A store of versions needs", "fsspec", "remote")
        package = _PACKAGES[self._scheme]
        if self._scheme in ("gs", "az"):
            try:
                import_extra("", package, "remote")
            except ConfigurationError as error:
                message = f"{self._scheme}:// needs the package {package}; install it with: pip install {package}"
                raise ConfigurationError(message) from error
        else:
            import_extra(f"{self._scheme}:// needs", package, "remote")
        self.name = f"{url.rstrip('/')}/{index}"
        with self._reaching():
            self._store, self._root = fsspec.core.url_to_fs(
                self.name, use_listings_cache=False, skip_instance_cache=True, **_CLIENT_OPTIONS.get(self._scheme, {})
            )

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Turns what a store's package raises into ours; a file that is not there stays FileNotFoundError."""
        try:
            yield
        except (StoreError, FileNotFoundError, ConfigurationError):
            raise
        except PermissionError as error:
            raise StoreError(f"The store {self.name} refuses access; check its credentials and permissions.") from error
        except Exception as error:
            name = type(error).__name__
            if "Credential" in name:
                message = (
                    f"No credentials for the store {self.name}; set those of its provider (s3: AWS_ACCESS_KEY_ID…)."
                )
                raise StoreError(message) from error
            said = " ".join(str(error).split())[:200]
            raise StoreUnavailableError(
                f"The store {self.name} cannot be reached or broke off ({name}: {said}); run the same command again."
            ) from error

    def _path(self, checksum: str) -> str:
        return f"{self._root}/files/{checksum[:2]}/{checksum}"

    def pointer(self) -> Pointer | None:
        """The current version, None if nothing was pushed yet."""
        path = f"{self._root}/CURRENT"
        with self._reaching():
            try:
                tag = str(self._store.info(path).get("ETag", "")) if self._scheme == "s3" else ""
                content = self._store.cat_file(path)
            except FileNotFoundError:
                return None
        try:
            document = json.loads(content)
            version, listing, signature = document["version"], document["files"], document.get("signature", "")
            if not isinstance(version, int) or version < 1 or not _HASH.fullmatch(listing):
                raise ValueError(listing)
            pointer = Pointer(version, listing, tag, str(signature))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            message = f"{self.name}/CURRENT is damaged; push the newest version under another name or address."
            raise StoreError(message) from error
        return pointer

    def is_signed(self, pointer: Pointer) -> bool:
        """Returns whether a pointer is signed with this reader's key; true without a key."""
        signature = self._signature(pointer.version, pointer.listing)
        return hmac.compare_digest(signature.encode(), pointer.signature.encode()) if self._key else True

    def require_signed(self, pointer: Pointer) -> None:
        """Raises a StoreError if a pointer is not signed with this reader's key."""
        if not self.is_signed(pointer):
            raise StoreError(
                f"Version {pointer.version} of {self.name} is not signed with the key in {self._key_file} "
                "(index.key_file); nothing was pulled. Push it again with that key, or check who can write to the "
                "store."
            )

    def _signature(self, version: int, listing: str) -> str:
        signed = f"{self._index}\n{version}\n{listing}".encode()
        return hmac.new(self._key, signed, hashlib.sha256).hexdigest() if self._key else ""

    def point(self, version: int, listing: str, before: Pointer | None) -> None:
        """Moves the pointer, if it is still as it was before."""
        path = f"{self._root}/CURRENT"
        document = {"version": version, "files": listing}
        if signature := self._signature(version, listing):
            document["signature"] = signature
        content = (json.dumps(document) + "\n").encode()
        moved = f"Another push changed the pointer of {self.name} at the same time; check the store and push again."
        if self._scheme != "s3":  # no condition that all of these know: compare, then write
            if self.pointer() != before:
                raise StoreConflictError(moved)
            with self._reaching():
                self._store.pipe_file(f"{path}.{listing[:12]}", content)
                self._store.mv(f"{path}.{listing[:12]}", path)
            return
        condition = {"IfMatch": before.tag} if before is not None else {"IfNoneMatch": "*"}
        with self._reaching():
            try:
                self._store.pipe_file(path, content, **condition)
            except OSError as error:
                response = getattr(error.__cause__, "response", {})
                if response.get("Error", {}).get("Code") in ("PreconditionFailed", "ConditionalRequestConflict", "412"):
                    raise StoreConflictError(moved) from error
                raise

    def has(self, checksum: str, size: int) -> bool:
        """Returns whether a file is complete; a store may hold a part of one whose upload was killed."""
        with self._reaching():
            try:
                return bool(self._store.info(self._path(checksum))["size"] == size)
            except FileNotFoundError:
                return False

    def put(self, file: Path, checksum: str) -> None:
        """Uploads a file under its checksum."""
        with self._reaching():
            self._store.put_file(str(file), self._path(checksum))

    def put_bytes(self, content: bytes, checksum: str) -> None:
        """Uploads a list under its checksum."""
        with self._reaching():
            self._store.pipe_file(self._path(checksum), content)

    def get(self, checksum: str, target: Path) -> None:
        """Downloads a file completely, verified by its checksum, or not at all."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as temporary:
            try:
                with self._reaching():
                    self._store.get_file(self._path(checksum), str(temporary))
            except FileNotFoundError as error:
                raise StoreError(f"{self._object(checksum)} is missing; push the version again.") from error
            if file_checksum(temporary) != checksum:
                raise StoreError(
                    f"{self._object(checksum)} is damaged (its checksum is wrong), and nothing was pulled; delete that "
                    "object and push the version again."
                )

    def _object(self, checksum: str) -> str:
        return f"{self.name}/files/{checksum[:2]}/{checksum}"

    def remove(self) -> None:
        """Removes all that is in the store under this name."""
        with self._reaching():
            self._store.rm(self._root, recursive=True)

    def listing(self, pointer: Pointer, target: Path) -> Files:
        """The files of the version that a pointer names."""
        self.get(pointer.listing, target)
        return read_listing(target)


def _read_key(key_file: str) -> bytes:
    """Reads the key that signs pointers, without surrounding whitespace."""
    try:
        key = Path(key_file).expanduser().read_bytes().strip()
    except OSError as error:
        raise ConfigurationError(f"index.key_file {key_file} cannot be read ({error.strerror}).") from error
    if len(key) < _SHORTEST_KEY:
        raise ConfigurationError(
            f"index.key_file {key_file} holds {plural(len(key), 'byte')}; a key needs at least {_SHORTEST_KEY}: "
            f"openssl rand -hex 32 > {key_file}"
        )
    return key


_SHORTEST_KEY = 16  # bytes; RFC 2104 section 3 discourages keys shorter than the hash, and 128 bits cannot be guessed


def read_listing(file: Path) -> Files:
    """The files of a list; a list with anything but them is refused."""
    try:
        files = {str(path): (str(c), int(size)) for path, (c, size) in json.loads(file.read_bytes())["files"].items()}
        wrong = [path for path, (c, _) in files.items() if not _PATH.fullmatch(path) or not _HASH.fullmatch(c)]
        if wrong or "version/manifest.json" not in files:
            raise ValueError(wrong)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"{file} is not the list of a version's files; push the version again with this Polyhop."
        raise StoreError(message) from error
    return files


def push_version(layout: Layout, name: str, url: str, *, again: bool = False, key_file: str = "") -> Moved:
    """Pushes the current version of an index: only files that are missing travel, and the pointer moves last.

    A version that the store names already is left at that, unless `again`: then files that it lost are sent. With a
    key file the pointer is signed, also that of a version that was pushed without a key.

    Raises:
        StoreError: If the store has a newer version, or another one of that number.
    """
    index, remote = layout.index(name), Remote(url, name, key_file)
    with hold_version(layout, name) as held, writer_lease(index.lease, name):
        before = remote.pointer()
        files = _files_of(index, held.folder, read_manifest(held.folder))
        if before is not None and before.version > held.number:
            raise StoreError(
                f"{remote.name} has version {before.version}, which is newer than version {held.number} of index "
                f"'{name}' here; nothing was pushed. Pull it with: polyhop versions pull {url} --index {name}"
            )
        content = (json.dumps({"version": held.number, "files": files}, indent=1, sort_keys=True) + "\n").encode()
        listing = hashlib.sha256(content).hexdigest()
        is_there = before is not None and before.version == held.number
        is_current = is_there and before is not None and remote.is_signed(before)
        if before is not None and is_there and before.listing != listing:
            raise StoreError(
                f"{remote.name} has another version {held.number} than index '{name}' here; nothing was pushed. "
                "Push under another address, or pull into another root."
            )
        if is_current and not again:
            return Moved(held.number)
        sent = total = 0
        for path, (checksum, size) in files.items():
            if not remote.has(checksum, size):
                local = _local(index, held.folder.path, path)
                if file_checksum(local) != checksum:
                    raise DamagedStoreError(local, name)
                remote.put(local, checksum)
                sent, total = sent + 1, total + size
        remote.put_bytes(content, listing)
        if not is_current:
            remote.point(held.number, listing, before)
    return Moved(held.number, sent, total)


def _local(index: IndexFolder, version: Path, path: str) -> Path:
    folder, _, rest = path.partition("/")
    return (version if folder == "version" else index.vectors) / rest


def _files_of(index: IndexFolder, folder: VersionFolder, manifest: Manifest) -> Files:
    """All files of a version with checksums as they were when it was published."""
    checksums = {"version/manifest.json": file_checksum(folder.manifest)}
    checksums[f"version/{folder.tables.name}"] = manifest.tables_file or file_checksum(folder.tables)
    checksums |= {f"version/{folder.arrays.name}/{name}": each for name, each in manifest.arrays.items()}
    tables = {record.table for record in manifest.vectors.values()}
    if tables:
        listed = json.loads((index.vectors / "checksums.json").read_bytes())["files"]
        checksums |= {
            f"vectors/{path}": each for path, each in listed.items() if path.partition(".lance/")[0] in tables
        }
    try:
        return {path: (c, _local(index, folder.path, path).stat().st_size) for path, c in sorted(checksums.items())}
    except FileNotFoundError as error:
        raise DamagedStoreError(error.filename, index.name, "it is missing") from error


def pull_version(layout: Layout, name: str, url: str, *, keep: int, key_file: str = "") -> Moved:
    """Makes a store's current version the current one here; only files that are not here by checksum are fetched.

    Raises:
        StoreError: If the store has no version of the index, an older one or another one of the same number.
    """
    index, remote = layout.index(name), Remote(url, name, key_file)
    pointer = remote.pointer()
    if pointer is None:
        raise StoreError(f"{remote.name} has no version yet; push one with: polyhop versions push {url} --index {name}")
    remote.require_signed(pointer)
    with writing(f"index '{name}'", index.path), writer_lease(index.lease, name):
        remove_leftovers(index)
        versions = published_versions(index)
        staged = index.pulled / "version"
        files = remote.listing(pointer, staged / "remote.json")
        newest = max(versions, default=0)
        held = index.version(pointer.version).manifest
        if pointer.version in versions and file_checksum(held) == files["version/manifest.json"][0]:
            remove_paths([index.pulled])
            return Moved(newest)
        if newest >= pointer.version:
            raise StoreError(
                f"Index '{name}' here has local versions up to {newest}, and {remote.name} has another version "
                f"{pointer.version}; nothing was pulled. Pull into another root (--root)."
            )
        got = _fetch(index, remote, files)
        manifest = read_manifest(VersionFolder(staged))
        if (manifest.index, manifest.version) != (name, pointer.version):
            raise StoreError(f"The manifest of {remote.name} is of another index or version; push the version again.")
        if foreign := _foreign_parts(index, manifest, files):
            remove_paths([index.pulled])
            raise StoreError(
                f"Version {pointer.version} of {remote.name} holds {', '.join(foreign)}, which Polyhop did not create; "
                "nothing was pulled. Check who can write to that store."
            )
        write_whole(index.pull_marker, b"")
        _install_vectors(index, [path for path in files if path.startswith("vectors/")])
        install_folder(index, staged, pointer.version)
        remove_paths([index.pulled])
        prune_versions(index, keep)
        _remove_unlisted(index)
    return Moved(pointer.version, len(got), sum(got))


def _fetch(index: IndexFolder, remote: Remote, files: Files) -> list[int]:
    """Brings all files of a version below `index.pulled` but vectors that are here; returns bytes of what travelled."""
    staged, got = index.pulled / "version", []
    wanted = {index.pulled / path for path in files} | {staged / "remote.json"}
    remove_paths([file for file in index.pulled.rglob("*") if file.is_file() and file not in wanted])  # of another pull
    known = _known_files(index, current_version(index))
    for path, (checksum, size) in files.items():
        target, held = index.pulled / path, index.path / path
        if path.startswith("vectors/") and held.is_file():
            if file_checksum(held) != checksum:
                raise StoreError(
                    f"{held} is not the file of {remote.name}; index '{index.name}' was changed here, and nothing was "
                    "pulled. Pull into another root (--root)."
                )
        elif not target.is_file() or file_checksum(target) != checksum:  # else left by a pull that was killed
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            if checksum in known and file_checksum(known[checksum]) == checksum:
                link_or_copy(known[checksum], target)
            else:
                remote.get(checksum, target)
                got.append(size)
    return got


_TABLE_NAME = re.compile(r"[A-Za-z0-9_-]+")


def _foreign_parts(index: IndexFolder, manifest: Manifest, files: Files) -> list[str]:
    """Lists what a pulled version holds besides Polyhop's own data, in words."""
    from polyhop.warehouse.index_reader import refers_elsewhere

    tables = {record.table for record in manifest.vectors.values()}
    staged = VersionFolder(index.pulled / "version")
    own = {staged.manifest, staged.tables, *(staged.arrays / name for name in manifest.arrays)}
    own_paths = {path.relative_to(index.pulled).as_posix() for path in own}
    vectors = {path for path in files if path.partition(".lance/")[0] in {f"vectors/{table}" for table in tables}}
    foreign = [f"the file {path}" for path in sorted(files.keys() - own_paths - vectors)]
    foreign += [f"a table of vectors named '{name}'" for name in sorted(tables) if not _TABLE_NAME.fullmatch(name)]
    for path in vectors:
        held = next(file for file in (index.pulled / path, index.path / path) if file.is_file())
        if path.endswith(".manifest") and refers_elsewhere(held.read_bytes()):
            foreign.append(f"vectors outside of the version ({path})")
    return foreign + [f"the {thing}" for thing in foreign_objects(staged.tables)]


def _known_files(index: IndexFolder, number: int | None) -> dict[str, Path]:
    """Files of the version that is here by their checksums."""
    if number is None:
        return {}
    folder = index.version(number)
    known = {checksum: folder.arrays / name for name, checksum in read_manifest(folder).arrays.items()}
    return {checksum: path for checksum, path in known.items() if path.is_file()}


def _install_vectors(index: IndexFolder, paths: list[str]) -> None:
    """Moves fetched files of vectors among those that are here, which stay as they are."""
    from polyhop.warehouse.index_reader import open_vector_store

    if not paths:
        return
    store = open_vector_store(index)
    store.begin_changes()
    for path in paths:
        fetched, target = index.pulled / path, index.path / path
        if fetched.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            fetched.replace(target)
            sync_folder(target.parent)
    store.end_changes()


def _remove_unlisted(index: IndexFolder) -> None:
    """Removes files of vectors that no version here lists, unless one was built here; LanceDB would write its own."""
    lists = [index.version(number).path / "remote.json" for number in published_versions(index)]
    if not index.vectors.is_dir() or not all(file.is_file() for file in lists):
        return
    from polyhop.warehouse.index_reader import open_vector_store

    listed = {path for file in lists for path in read_listing(file)}
    store = open_vector_store(index)
    store.begin_changes()
    for file in index.vectors.glob("*.lance/**/*"):
        if file.is_file() and file.relative_to(index.path).as_posix() not in listed:
            file.unlink()
    store.end_changes()


def has_newer(layout: Layout, name: str, url: str) -> bool:
    """Returns whether a store has a newer version than the newest one here."""
    pointer = Remote(url, name).pointer()
    return pointer is not None and pointer.version > max(published_versions(layout.index(name)), default=0)


# Files of a run on their way between hosts that share no disk.


_opened = lru_cache(maxsize=4)(Remote)
"""Stores of runs: opening one for each batch would take longer than many a batch."""


def send_files(index: IndexFolder, url: str, folder: str, paths: Iterable[Path]) -> Transfer:
    """Puts files of an index's folder into a store; only what is missing there travels."""
    remote, files = _opened(url, folder), []
    for path in paths:
        checksum = file_checksum(path)
        if not remote.has(checksum, path.stat().st_size):
            remote.put(path, checksum)
        files.append((path.relative_to(index.path).as_posix(), checksum))
    return Transfer(url, folder, tuple(files))


def receive_files(index: IndexFolder, transfer: Transfer) -> None:
    """Fetches the files that an index's folder does not have like that, each whole or not at all."""
    remote = _opened(transfer.url, transfer.folder)
    for path, checksum in transfer.files:
        target = index.path / path
        if not target.is_file() or file_checksum(target) != checksum:
            remote.get(checksum, target)
