"""The stage `hubs`: texts of the paths that `hub-paths` found, by a template or a model, and what of them gets vectors.

Replies of a model are cached by the words of a path: a changed graph asks for new ones only, and what failed has the
template's text until a later run gets another. Source: algorithms.md 4.2, 4.6, 4B (units).
"""

import json
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel

from polyhop.schemas.chat import ChatRequest, ChatTask, Role
from polyhop.schemas.graph import NamedTriple
from polyhop.schemas.hubs import END_KINDS, LEVELS, HubRows
from polyhop.schemas.tables import Table, count, text_column
from polyhop.schemas.text import ID_LENGTH, content_hash
from polyhop.tasks.hubs.paths import Signature, path_json, path_text, signature_texts
from polyhop.tasks.hubs.search_stage import (
    HUB_PATH_SEARCH,
    HUB_PATHS,
    HUB_TEXTS,
    SearchedPaths,
    found_hubs,
    searched_paths,
)
from polyhop.tasks.stage import BatchResult, Counts, Stage
from polyhop.warehouse.artefacts import save_arrays, text_arrays
from polyhop.warehouse.build import (
    Build,
    batch_count,
    is_part_done,
    part_files,
    read_batch,
    row_count,
    write_batches,
    write_part,
)
from polyhop.warehouse.files.disk import writing
from polyhop.warehouse.statements import read_prompt, statement, statements

if TYPE_CHECKING:
    from polyhop.tasks.planning import PlannedStep, Planner

# Source: algorithms.md 4.6 (embedding levels), 4B (units).

_NO_TRIPLE = -1  # in rows of other levels: numbers of triples begin at 0


class DistinctTexts:
    """Texts, numbered as they first come."""

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The text's number, a new one if it has none."""
        return self._number_of.setdefault(text, len(self._number_of))

    @property
    def texts(self) -> list[str]:
        """The texts by number."""
        return list(self._number_of)


@dataclass(slots=True)
class RowCollector:
    """Takes paths one after the other and makes their rows; `texts` are the distinct ones of all rows."""

    levels: Collection[str]
    texts: DistinctTexts = field(default_factory=DistinctTexts)
    _rows: "array[int]" = field(default_factory=lambda: array("i"))
    _paths: int = 0

    def add(self, numbers: Sequence[int], triples: Sequence[NamedTriple], text: str) -> None:
        """The rows of the next path."""
        words = [(triple.subject_words, triple.predicate, triple.object_words) for triple in triples]
        of_triples = (f"({', '.join(each)})" for each in words)
        found = {
            "path": [(text, _NO_TRIPLE)],
            "triple": zip(of_triples, numbers, strict=True),
            "entity": [(label, _NO_TRIPLE) for each in words for label in each],
        }
        for level, name in enumerate(LEVELS):
            if name in self.levels:
                first: dict[str, int] = {}
                for row_text, triple in found[name]:
                    first.setdefault(row_text, triple)
                for row_text, triple in first.items():
                    self._rows.extend((self._paths, self.texts.number(row_text), level, triple))
        self._paths += 1

    def rows(self) -> HubRows:
        """All rows, in the order of their paths."""
        paths, texts, levels, triples = np.ascontiguousarray(np.frombuffer(self._rows, dtype=np.int32).reshape(-1, 4).T)
        return HubRows(paths, texts, levels.astype(np.uint8), triples)


def value_texts(signatures: Iterable[Signature], values: Iterable[str], distinct: DistinctTexts) -> NDArray[np.int32]:
    """The number of each path's text for hub-facets, shape (p,): its signature's text, then its value."""
    listed = list(signatures)
    words = signature_texts(set(listed))
    texts = (f"{words[signature]} {value}".strip() for signature, value in zip(listed, values, strict=True))
    return np.fromiter(map(distinct.number, texts), dtype=np.int32, count=len(listed))


class PathText(BaseModel):
    """The form of a reply to hub.path_text."""

    text: str


@cache
def path_text_task() -> ChatTask[PathText]:
    """The task hub.path_text with its prompt; a text is about as long as the statements that it is of."""
    prompt = read_prompt(Path(__file__).parent / "prompts" / "hub.path_text.md")
    return ChatTask("hub.path_text", prompt, PathText, max_output_tokens=512, output_per_input=1.2)


def path_lines(triples: Iterable[NamedTriple]) -> str:
    """The path as it is shown to a model: a line per triple, with labels and the predicate as stated."""
    words = ([triple.subject_words, triple.predicate, triple.object_words] for triple in triples)
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in words)


def path_request(lines: str, unit_id: str) -> ChatRequest[PathText]:
    """The question about one path."""
    return ChatRequest(path_text_task(), unit_id, (("triples", lines),))


def distinct_lines(paths: Iterable[Sequence[NamedTriple]]) -> dict[str, int]:
    """Different lines of paths, with the number of the first path that has them, in the order of the paths."""
    first: dict[str, int] = {}
    for number, path in enumerate(paths):
        first.setdefault(path_lines(path), number)
    return first


CHUNK = 20_000  # paths put into words at once; chosen: some 20 MB
TEMPLATE = "template"


def path_tables(
    searched: SearchedPaths, written: Mapping[str, tuple[str, str]], rows: RowCollector
) -> Iterator[pa.Table]:
    """The rows of the table of paths, in emission order."""
    hub_of = np.repeat(np.arange(len(searched.hubs)), np.diff(searched.path_starts))
    numbers, words = searched.numbers(), searched.words()
    for first in range(0, searched.path_count, CHUNK):
        paths = list(islice(words, CHUNK))
        # Text of each path and who wrote it: a model, else the template.
        told = [(path_text(path), TEMPLATE) for path in paths]
        if written:
            told = [written.get(path_lines(path), own) for path, own in zip(paths, told, strict=True)]
        for path, (text, _) in zip(paths, told, strict=True):
            rows.add(next(numbers), path, text)
        hubs, ends = hub_of[first : first + CHUNK], searched.ends()[first : first + CHUNK]
        columns = {
            "hub_id": [searched.entity_ids[node] for node in searched.hubs[hubs].tolist()],
            "path_hash": [each.tobytes().hex() for each in searched.hashes[first : first + CHUNK]],
            "ordinal": (np.arange(first, first + len(paths)) - searched.path_starts[hubs]).tolist(),
            "length": list(map(len, paths)),
            "triples_json": list(map(path_json, paths)),
            "text": [text for text, _ in told],
            "textualiser": [by for _, by in told],
            "end_kind": [END_KINDS[kind] for kind in searched.end_kinds[first : first + CHUNK].tolist()],
            "end_entity_id": [searched.entity_ids[node] for node in ends.tolist()],
        }
        yield pa.Table.from_pydict(columns, schema=HUB_PATHS.arrow)


ARRAYS = "hubs"
_REPLIES = Table(
    "path_replies",
    "Paths that a model was asked about, by the words that it was shown.",
    ("lines",),
    (
        text_column("lines", "words of the path"),
        text_column("text", "the usable reply; empty if there is none"),
        text_column("model", "model asked"),
        count("prompt_tokens", "tokens sent for it"),
        count("completion_tokens", "tokens received for it"),
    ),
)
"""Columns of the parts of the batches."""
_ASKED = pa.schema([("lines", pa.string()), ("unit_id", pa.string())])


def _asks(build: Build) -> bool:
    return build.settings.hubs.textualiser == "model"


def _requests(searched: SearchedPaths, build: Build) -> Iterator[list[ChatRequest[PathText]]]:
    """One per path of different words, in the order of the paths, a batch at a time."""
    lines = distinct_lines(searched.words()).items()
    asked = [path_request(each, searched.hash_of(path)) for each, path in lines]
    size = build.settings.batch_size
    return (asked[first : first + size] for first in range(0, len(asked), size))


def _asked(build: Build) -> Path:
    """The list of what the model is asked, by batch: putting all paths into words for each batch would be quadratic."""
    return _replies_folder(build) / "asked.parquet"


def _replies_folder(build: Build) -> Path:
    return build.parts("hubs") / "replies"


class HubStage(Stage):
    """Texts of paths, by a template or a model."""

    name = "hubs"
    reads = ("hub-paths",)
    writes = ("hubs",)
    tables = (HUB_PATHS, HUB_TEXTS)
    arrays = ARRAYS
    unit = "paths"
    invariants = statements("hub_path_invariants")

    def settings(self, build: Build) -> dict[str, object]:
        """Who writes the texts, and what of a path is embedded."""
        chosen = build.settings.hubs
        said: dict[str, object] = {"levels": list(chosen.levels), "textualiser": chosen.textualiser}
        if _asks(build):
            from polyhop.warehouse.open_models import model_name

            said["model"] = model_name(build.settings.models, Role.EXTRACT)
        return said

    def files(self, build: Build) -> dict[str, str]:
        """The prompt."""
        return {"prompt": path_text_task().prompt.hash} if _asks(build) else {}

    def plan(self, build: Build, planner: "Planner") -> "Iterator[PlannedStep]":
        """One request per path of different words. What a text corpus relates is known only when it is extracted."""
        from polyhop.tasks.planning import planned_step

        if not _asks(build) or build.source_kind == "corpus":
            return
        with build.tables(read_only=True) as connection:
            searched = searched_paths(*found_hubs(build, connection))
        for requests in _requests(searched, build):
            yield planned_step(path_text_task(), requests, planner)

    def batches(self, build: Build) -> list[int]:
        """Batches of paths without a finished part, none if a template writes; the paths are listed first, once."""
        if not _asks(build):
            return []
        folder, path = _replies_folder(build), _asked(build)
        if not path.is_file():

            def row(one: ChatRequest[PathText]) -> dict[str, str]:
                return {"lines": dict(one.inputs)["triples"], "unit_id": one.unit_id}

            requests = _requests(SearchedPaths.open(build.staging.arrays), build)
            with writing("the list of paths to ask about", folder):
                write_batches(path, _ASKED, (pa.Table.from_pylist(list(map(row, some)), _ASKED) for some in requests))
        return [number for number in range(batch_count(path)) if not is_part_done(folder, number)]

    def run(self, build: Build, batch: int) -> BatchResult:
        """Asks about one batch of paths; what fails is asked again by the next run."""
        from polyhop.warehouse.open_models import open_chat

        asked = read_batch(_asked(build), batch).to_pylist()
        requests = [path_request(row["lines"], row["unit_id"]) for row in asked]
        outcomes = open_chat(build.settings, Role.EXTRACT).ask(requests)
        rows = [
            {
                "lines": dict(request.inputs)["triples"],
                "text": " ".join(outcome.reply.text.split()),
                "model": outcome.model,
                "prompt_tokens": outcome.usage.prompt_tokens,
                "completion_tokens": outcome.usage.completion_tokens,
            }
            for request, outcome in zip(requests, outcomes, strict=True)
            if outcome.reply is not None
        ]
        table = pa.Table.from_pylist(rows, schema=_REPLIES.arrow)
        write_part(_replies_folder(build), batch, {"replies": table}, is_complete=len(rows) == len(requests))
        return BatchResult(len(requests), sum(not outcome.is_cached for outcome in outcomes))

    def finish(self, build: Build) -> Counts:
        """Fills the tables of paths and texts, and writes the arrays."""
        import pyarrow.parquet as pq

        searched = SearchedPaths.open(build.staging.arrays)
        parts = part_files(_replies_folder(build), "replies") if _asks(build) else []
        replies = [row for part in parts for row in pq.read_table(part).to_pylist()]
        written = {row["lines"]: (row["text"], row["model"]) for row in replies if row["text"]}
        texts, rows = DistinctTexts(), RowCollector(build.settings.hubs.levels)
        numbers: list[int] = []
        folder = build.parts("hubs") / "rows"
        for chunk, table in enumerate(path_tables(searched, written, rows)):
            numbers += map(texts.number, table.column("text").to_pylist())
            write_part(folder, chunk, {"paths": table})
        values = DistinctTexts()
        value_numbers = value_texts(
            searched.signatures(), (searched.named.labels[node] for node in searched.ends().tolist()), values
        )
        distinct = {"hubpath": rows.texts.texts, "hubvalue": values.texts}
        hub_texts = [
            {"kind": kind, "ordinal": number, "text_id": content_hash("hub text", text)[:ID_LENGTH], "text": text}
            for kind, of_kind in distinct.items()
            for number, text in enumerate(of_kind)
        ]
        with build.tables() as connection:
            if paths := part_files(folder, "paths"):
                connection.execute(statement("hubs", "fill_hub_paths"), {"paths": paths})
            incoming = connection.from_arrow(pa.Table.from_pylist(hub_texts, schema=HUB_TEXTS.arrow))
            incoming.order("kind, ordinal").insert_into("hub_texts")
        saved = {"path-texts": np.array(numbers, dtype=np.int32), "values": value_numbers}
        save_arrays(build.staging.arrays, ARRAYS, {**saved, **rows.rows().arrays, **text_arrays(texts.texts)})
        counts = {
            "paths": searched.path_count,
            "path_texts": len(texts.texts),
            "row_texts": len(rows.texts.texts),
            "value_texts": len(values.texts),
        }
        if _asks(build):
            counts["failed_path_texts"] = row_count(_asked(build)) - len(replies)
            counts |= {name: sum(row[name] for row in replies) for name in ("prompt_tokens", "completion_tokens")}
        return counts

    def outcome(self, build: Build) -> str:
        """Hash of what came out: a model's replies are not determined by the fingerprint."""
        if not _asks(build):
            return build.fingerprint("hubs")
        with build.tables(read_only=True) as connection:
            row = connection.execute(statement("hubs", "content_of_paths")).fetchone() or ()
        return content_hash("hubs", build.fingerprint("hubs"), *map(str, row))


HUBS = HubStage()
HUB_STAGES = (HUB_PATH_SEARCH, HUBS)
