"""Reads document files in a process of limited time and memory, once for each content.

The process is started with the first file and serves for the next ones, until a file ends it: by its time, its memory
or a crash of the library. The file is then of no use, with the reason; the run goes on.
"""

import base64
import contextlib
import io
import json
import math
import os
import resource
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from pkgutil import resolve_name
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from polyhop.schemas.records import Document, document_json, document_of
from polyhop.schemas.text import content_hash
from polyhop.warehouse.files.disk import file_checksum
from polyhop.warehouse.files.formats import DOCUMENTS, TEXTS, DocumentFormat, NotInstalledError, text_reader
from polyhop.warehouse.files.records import FaultError, damage
from polyhop.warehouse.machine import peak_rss_mb, status_bytes

if TYPE_CHECKING:
    from polyhop.warehouse.cache.database import DocumentCache

_MEGABYTE = 1024 * 1024  # as `max_file_mb` counts
_MODULE = "polyhop.warehouse.documents.converter"
_NEARLY_ALL = 0.8  # a library asks for blocks of some size: what was refused may have been a fifth. Chosen.
_SPARE_SECONDS = 5
"""Of processor time beyond the limit of elapsed time: the parent ends what takes long, this what lost its parent."""
_LAST_SECONDS = 5  # until a process that has closed its pipe ends; chosen
_WATCH_SECONDS = 0.1  # between two looks at the memory of a process on a system that does not limit it; chosen
_PIECE = 1 << 20  # bytes read from the pipe at once at most; any number gives the same reply
_LONGEST_REPLY = 1 << 30  # bytes; a text of the longest record with all its characters escaped stays below


@dataclass(frozen=True, slots=True)
class ConversionLimits:
    """Limits of conversion: size of a file, packed and unpacked, memory, seconds, and the longest passage.

    The defaults are chosen; memory is twice the unpacked size.
    """

    max_file_mb: int = 256
    max_unpacked_mb: int = 1024
    seconds: float = 60.0
    memory_mb: int = 2048
    passage_characters: int = 2000


class Converter:
    """Document files to documents, kept in a cache by the content of their files if there is one; to be closed."""

    def __init__(self, limits: ConversionLimits | None = None, cache: Path | None = None) -> None:
        self._limits = limits or ConversionLimits()
        self._cache_path = cache
        self._opened_cache: DocumentCache | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Converter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def convert(self, path: Path) -> Document:
        """The document that a file holds; what its content is counts for more than its ending.

        Raises:
            FaultError: If it is too large, encrypted or damaged, has no text, or takes too long or too much memory.
            NotInstalledError: If the package that reads it is not installed.
        """
        size = path.stat().st_size
        if size > self._limits.max_file_mb * _MEGABYTE:
            raise FaultError(f"the file is larger than {self._limits.max_file_mb:,} MB; split it")
        if not size:
            raise FaultError("the file is empty")
        ending = path.suffix.lower()
        DOCUMENTS[ending].require()
        key = document_key(DOCUMENTS[ending], file_checksum(path), self._limits.passage_characters)
        if self._opened_cache is None and self._cache_path is not None:  # a corpus without documents has no such cache
            from polyhop.warehouse.cache.database import DocumentCache

            self._opened_cache = DocumentCache(self._cache_path)
        kept = self._opened_cache
        found = kept.get(key) if kept is not None else None
        if found is None:
            found = self._read(path, ending)
            if kept is not None and not any(isinstance(one, str) for one in found.attached.values()):
                kept.put(key, found)
        return replace(found, title=found.title or path.stem)

    def picture(self, path: Path, pages: Sequence[int], sentence: str) -> bytes:
        """A PNG picture of that of some pages of a PDF file which holds most of a sentence, with a box around it.

        Raises:
            FaultError: If the page cannot be drawn, or that takes too long or too much memory.
        """
        DOCUMENTS[".pdf"].require()
        request = {"path": str(path.resolve()), "pages": list(pages), "sentence": sentence, **asdict(self._limits)}
        reply = self._asked(request)
        if "fault" in reply:
            raise FaultError(str(reply["fault"]))
        return base64.b64decode(reply["picture"])

    def close(self) -> None:
        """Ends the process and closes the cache."""
        self._end()
        if self._opened_cache is not None:
            self._opened_cache.close()
            self._opened_cache = None

    def _read(self, path: Path, ending: str) -> Document:
        request = {"path": str(path.resolve()), "ending": ending, "attached_fault": "", **asdict(self._limits)}
        try:
            reply = self._asked(request)
        except FaultError as fault:
            if ending != ".eml":
                raise
            # an attached file may be what ended the process: the message itself is read all the same
            reply = self._asked({**request, "attached_fault": str(fault)})
        if "missing" in reply:
            raise NotInstalledError(str(reply["missing"]))
        if "fault" in reply:
            raise FaultError(str(reply["fault"]))
        return document_of(reply["document"])

    def _asked(self, request: Mapping[str, object]) -> Mapping[str, Any]:
        """The reply of the process, which is ended if it gives none."""
        if self._process is None or self._process.poll() is not None:
            self._end()
            command = [sys.executable, "-P", "-m", _MODULE]
            self._process = subprocess.Popen(  # noqa: S603 - our own module, by this very interpreter
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
            )
        process = self._process
        try:
            stdin, stdout = _pipes(process)
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
            found: Mapping[str, Any] = json.loads(self._line(process.pid, stdout))
        except (TimeoutError, MemoryError, BrokenPipeError, ValueError) as error:
            status = self._end(is_over=not isinstance(error, (TimeoutError, MemoryError)))
            if isinstance(error, MemoryError):
                raise FaultError(f"reading it takes more than {self._limits.memory_mb:,} MB of memory") from error
            if isinstance(error, TimeoutError):
                raise FaultError(f"reading it takes longer than {self._limits.seconds:g} s") from error
            ended = f"signal {-status}" if status is not None and status < 0 else f"exit code {status}"
            raise FaultError(
                f"the package that reads it crashed ({ended}): it is damaged, or takes more than "
                f"{self._limits.memory_mb:,} MB of memory"
            ) from error
        except BaseException:  # Ctrl-C: the reply of this file must not be taken for that of the next
            self._end()
            raise
        if found.get("is_last"):
            self._end()
        return found

    def _line(self, process_id: int, stream: IO[bytes]) -> bytes:
        deadline = time.monotonic() + self._limits.seconds
        # Linux holds the process to its limit of memory; macOS refuses to, so that here is looked at what it takes
        pause = math.inf if sys.platform == "linux" else _WATCH_SECONDS
        pieces: list[bytes] = []
        length = 0
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if not select.select([stream], [], [], min(left, pause))[0]:
                if pause < math.inf:
                    import psutil

                    with contextlib.suppress(psutil.NoSuchProcess):  # it has ended
                        if psutil.Process(process_id).memory_info().rss > self._limits.memory_mb * _MEGABYTE:
                            raise MemoryError
                continue
            piece = os.read(stream.fileno(), _PIECE)
            length += len(piece)
            if not piece or length > _LONGEST_REPLY:
                raise BrokenPipeError
            pieces.append(piece)
            if piece.endswith(b"\n"):
                return b"".join(pieces)

    def _end(self, *, is_over: bool = False) -> int | None:
        """Ends the process; returns how it ended. If it is over, it announced its end."""
        process, self._process = self._process, None
        if process is None:
            return None
        status = process.poll()
        if is_over:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(timeout=_LAST_SECONDS)
        process.kill()
        process.wait()
        for pipe in _pipes(process):
            pipe.close()
        return status if status is not None else process.returncode


def document_key(format_: DocumentFormat, checksum: str, passage_characters: int) -> str:
    """sha256 of all that determines what a file is read as: its content, and the revision of what reads it.

    Of a message also those of what may be attached; of sheets, that say where passages end, also their length.
    """
    reader = format_.reader
    readers = DOCUMENTS.values() if reader == DOCUMENTS[".eml"].reader else [format_]
    has_rows = any(one in (DOCUMENTS[".xlsx"], DOCUMENTS[".csv"]) for one in readers)
    parts = [part for one in readers for part in (one.reader, str(one.revision), _library(one.package))]
    return content_hash("document", *parts, *([str(passage_characters)] if has_rows else []), checksum)


@cache
def _library(package: str) -> str:
    try:
        return f"{package} {version(package)}" if package else ""
    except PackageNotFoundError:
        return package


def _pipes(process: "subprocess.Popen[bytes]") -> tuple[IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None:  # both were asked for
        raise BrokenPipeError
    return process.stdin, process.stdout


def main() -> None:
    """Answers requests until there are no more: sets the limits, reads the file, gives it or why there is none.

    This is the process, run as a module: a request a line on standard input, a reply a line. It limits its own memory,
    processor time and files before it reads anything, since a hostile file may lead a library to take all there is.
    """
    replies = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)  # what a library prints must not end up among the replies
    os.dup2(silence, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # it reads only
    for line in sys.stdin.buffer:
        request = json.loads(line)
        memory = int(request["memory_mb"]) * _MEGABYTE
        with contextlib.suppress(ValueError, OSError):  # macOS refuses this: there the parent watches
            resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
        seconds = math.ceil(time.process_time() + float(request["seconds"])) + _SPARE_SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        reply: dict[str, Any]
        try:
            with Path(request["path"]).open("rb") as stream:
                if "pages" in request:
                    from polyhop.warehouse.documents.pictures import page_picture

                    reply = {"picture": page_picture(stream, request["pages"], str(request["sentence"]))}
                else:
                    reply = {"document": document_json(_document(stream, str(request["ending"]), request))}
        except NotInstalledError as missing:
            reply = {"missing": str(missing)}
        except Exception as error:  # noqa: BLE001 - a library may fail in any way on a file of any content
            reply = {"fault": _fault_words(error, request)}
        # the most that it ever took would be held against the next file: that needs another process
        reply["is_last"] = _has_taken(_NEARLY_ALL * memory)
        replies.write(json.dumps(reply).encode() + b"\n")
        replies.flush()


def _document(stream: BinaryIO, stated: str, request: Mapping[str, Any], depth: int = 0) -> Document:
    """The document that a file holds; what is attached to it is read likewise, unless `attached_fault` says why not."""
    from polyhop.warehouse.documents.building import Reading, kind_of_content

    def read_attached(name: str, data: bytes) -> Document | str:
        if request["attached_fault"]:
            return str(request["attached_fault"])
        try:
            ending = Path(name).suffix.lower()
            if ending in TEXTS:
                return text_reader(ending)(data, "")
            return _document(io.BytesIO(data), ending, request, depth + 1)
        except Exception as error:  # noqa: BLE001 - as above: the message itself can be read
            return _fault_words(error, request)

    kind = kind_of_content(stream)
    if not kind and DOCUMENTS[stated].has_signature:
        raise FaultError(f"it is not a {stated} file: its content is something else, or damaged")
    format_ = DOCUMENTS[kind or stated]
    format_.require()
    stream.seek(0)
    read = resolve_name(f"polyhop.warehouse.documents.{format_.reader}")
    reading = Reading(int(request["max_unpacked_mb"]), int(request["passage_characters"]), depth, read_attached)
    document: Document = read(stream, reading)
    return document


def _fault_words(error: Exception, request: Mapping[str, Any]) -> str:
    if isinstance(error, FaultError):
        return str(error)
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    # libxml2 says "unknown error" where it gets no memory
    if isinstance(error, MemoryError) or _has_taken(_NEARLY_ALL * int(request["memory_mb"]) * _MEGABYTE):
        memory_mb = request["memory_mb"]
        return f"reading it takes more than {memory_mb:,} MB of memory"
    return f"it is damaged ({damage(error)})"


def _has_taken(most: float) -> bool:
    """Returns whether this process has ever used this many bytes of memory.

    Of its address space, which Linux limits and reports in /proc; elsewhere of what it held.
    """
    return most <= (status_bytes("VmPeak") or peak_rss_mb() * 1e6)


if __name__ == "__main__":
    main()
