"""The process that reads document files for another one: a request a line on standard input, a reply a line.

Run as a module. It limits its own memory, processor time and files before it reads anything, since a hostile file may
lead a library to take all there is.
"""

import contextlib
import io
import json
import math
import os
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, BinaryIO

from polyhop.warehouse.machine import peak_rss_mb

if TYPE_CHECKING:
    from polyhop.schemas.records import Document

_NEARLY_ALL = 0.8  # A library asks for blocks of some size: what was refused may have been a fifth. Chosen.
_SPARE_SECONDS = 5
"""Of processor time beyond the limit of elapsed time: the parent ends what takes long, this what lost its parent."""


def main() -> None:
    """Answers requests until there are no more: sets the limits, reads the file, gives it or why there is none."""
    from polyhop.schemas.records import document_json
    from polyhop.warehouse.files.formats import NotInstalledError

    replies = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)  # what a library prints must not end up among the replies
    os.dup2(silence, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # it reads only
    for line in sys.stdin.buffer:
        request = json.loads(line)
        memory = int(request["memory_mb"]) * 1024 * 1024
        with contextlib.suppress(ValueError, OSError):  # macOS refuses this: there the parent watches (converter.py)
            resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
        seconds = math.ceil(time.process_time() + float(request["seconds"])) + _SPARE_SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        reply: dict[str, Any]
        try:
            with Path(request["path"]).open("rb") as stream:
                reply = {"document": document_json(_read(stream, str(request["ending"]), request))}
        except NotInstalledError as missing:
            reply = {"missing": str(missing)}
        except Exception as error:  # noqa: BLE001 - a library may fail in any way on a file of any content
            reply = {"fault": _fault_words(error, request)}
        # the most that it ever took would be held against the next file: that needs another process
        reply["is_last"] = _has_taken(_NEARLY_ALL * memory)
        replies.write(json.dumps(reply).encode() + b"\n")
        replies.flush()


def _read(stream: BinaryIO, stated: str, request: Mapping[str, Any], depth: int = 0) -> "Document":
    """The document that a file holds; what is attached to it is read likewise, unless `attached_fault` says why not."""
    from polyhop.warehouse.documents.building import Reading, kind_of_content
    from polyhop.warehouse.files.formats import DOCUMENTS, TEXTS, text_reader
    from polyhop.warehouse.files.records import FaultError

    def read_attached(name: str, data: bytes) -> "Document | str":
        if request["attached_fault"]:
            return str(request["attached_fault"])
        try:
            ending = Path(name).suffix.lower()
            if ending in TEXTS:
                return text_reader(ending)(data, "")
            return _read(io.BytesIO(data), ending, request, depth + 1)
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
    from polyhop.warehouse.files.records import FaultError, damage

    if isinstance(error, FaultError):
        return str(error)
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    # libxml2 says "unknown error" where it gets no memory
    if isinstance(error, MemoryError) or _has_taken(_NEARLY_ALL * int(request["memory_mb"]) * 1024 * 1024):
        memory_mb = request["memory_mb"]
        return f"reading it takes more than {memory_mb:,} MB of memory"
    return f"it is damaged ({damage(error)})"


def _has_taken(most: float) -> bool:
    """Whether this process has ever had so many bytes of memory.

    Of its address space, which Linux limits, and tells in /proc; elsewhere of what it held.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmPeak:"):
                return most <= int(line.split()[1]) * 1024
    return most <= peak_rss_mb() * 1e6


if __name__ == "__main__":
    main()
