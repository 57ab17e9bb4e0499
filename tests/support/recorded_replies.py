"""Every step that asks a chat model, over 12 passages and 6 questions, by recorded replies of a real model.

The model also reads answers to all questions of the demo, from its whole corpus, which rules have indexed.
To record what is lacking (two hours of one core; a run that was stopped goes on where it was):
uv run --group llama python tests/support/recorded_replies.py
"""

import gzip
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from pydantic import BaseModel

from polyhop.doctor import check_encoder
from polyhop.flows.evaluate import run_evaluation
from polyhop.flows.index import run_index
from polyhop.flows.reports import IndexReport
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.chat import Repair, Usage
from polyhop.schemas.requests import EvaluationRequest, IndexRequest
from polyhop.schemas.settings import Settings, parse_settings
from polyhop.schemas.text import content_hash
from polyhop.warehouse.cache.replies import ReplyCache, export_replies
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.models import chat
from polyhop.warehouse.models.completions import Completions
from polyhop.warehouse.models.endpoints import Completion, EndpointReply
from polyhop.warehouse.open_models import current_run

PROJECT = Path(__file__).resolve().parents[2]
RECORDED = PROJECT / "tests" / "golden" / "recorded"
CALLS, REPLIES = RECORDED / "calls.jsonl.gz", RECORDED / "replies.parquet"
DEMO = PROJECT / "polyhop" / "demo"
PASSAGES, QUESTIONS = 12, 6
MODEL = "openai/qwen2.5-coder-1.5b"
_ONE_HUB = "hublink:number_of_hubs=1:top_paths_to_keep=3:n_source_chunks=1"
HUBS = (
    f"{_ONE_HUB}:question_components=model,"
    f"{_ONE_HUB}:partial_answers=rules,"
    f"{_ONE_HUB}:partial_answers=rules:final_answer=rules:output_filter=true"
)
"""Each step of HubLink by the model, on partial answers by rules where the model's hold nothing to go on with."""

BY_RULES: dict[str, object] = {
    "extraction.extractor": "rules",
    "resolution.method": "rules",
    "hubs.textualiser": "template",
    "strategies": "bridge-lexical",
    "models.name_questions": False,
    "models.read_passages": 5,
}


class Recording:
    """What a model said, by what it was asked; used in place of `chat.Completions`."""

    def __init__(self, server: Completions | None = None) -> None:
        self.calls: dict[str, dict[str, Any]] = {}  # what was answered, in order: {task, asked, text, is_cut, tokens}
        self._server = server
        self._lock = Lock()
        self._known: dict[str, dict[str, Any]] = {}
        if CALLS.is_file():
            with gzip.open(CALLS, "rt", encoding="utf-8") as file:
                self._known = {row["asked"]: row for row in map(json.loads, file)}

    def call(
        self,
        messages: Sequence[Mapping[str, str]],
        name: str,
        reply: type[BaseModel],
        max_output_tokens: int,
        _on_text: object = None,
    ) -> EndpointReply[Completion]:
        """What the model said to these messages."""
        asked = content_hash(name, str(max_output_tokens), *(message["content"] for message in messages))
        with self._lock:
            if asked not in self._known:
                # no error of ours, so that nobody takes it for a failed call of a model
                assert self._server is not None, f"the recording lacks a call of {name}: {messages[-1]['content']}"
                answer = self._server.call(messages, name, reply, max_output_tokens)
                said, counts = answer.value, (answer.prompt_tokens, answer.completion_tokens)
                new = {"task": name, "asked": asked, "text": said.text, "is_cut": said.is_cut, "tokens": counts}
                with gzip.open(CALLS, "at", encoding="utf-8") as file:
                    file.write(_line(new))
                self._known[asked] = new
            row = self.calls[asked] = self._known[asked]
        return EndpointReply(Completion(row["text"], "", row["is_cut"]), row["text"], *row["tokens"])


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def settings_in(root: Path, **more: object) -> Settings:
    """Settings with which every step is the model's."""
    index = {"root": str(root), "strategies": "bridge-lexical,qasa,hublink"}
    steps = dict.fromkeys(("extraction.extractor", "resolution.method", "hubs.textualiser"), "model")
    hubs = {"hubs.types": "WORK,ORGANIZATION", "hubs.max_paths_per_hub": 1}
    models = {"extract": MODEL, "read": MODEL, "name_questions": True, "read_passages": 2, "max_reply_tokens": 450}
    models |= {"max_attempts": 2, "timeout_seconds": 1800, "concurrency": 1, "price": "0,0,0"}
    of_models = {f"models.{name}": value for name, value in models.items()}
    return parse_settings({"recording": {**index, **steps, **hubs, **of_models, **more}})


def _first(name: str, count: int, folder: Path) -> Path:
    lines = (DEMO / f"{name}.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (path := folder / f"{name}.jsonl").write_text("".join(lines[:count]), encoding="utf-8")
    return path


def index_by_model(settings: Settings) -> IndexReport:
    """Extraction, propositions, resolution and texts of paths."""
    corpus = _first("corpus", PASSAGES, settings.root.parent)
    return run_index(settings, IndexRequest("recorded", corpus), DirectRunner())


def ask_by_model(settings: Settings) -> dict[str, dict[str, Any]]:
    """Questions: names, passages, chains and closed books read, and HubLink's four steps; `reading` by strategy."""
    questions = _first("questions", QUESTIONS, settings.root.parent)
    more = {"read_passages": 0}
    chains = settings.model_copy(update={"models": settings.models.model_copy(update=more)})
    read: dict[str, dict[str, Any]] = {}
    for each, strategy, closed_book in (
        (settings, "bridge-lexical", True),
        (chains, "qasa", False),
        (settings, HUBS, False),
    ):
        request = EvaluationRequest(questions, "recorded", (strategy,), is_stored=False, closed_book=closed_book)
        read |= run_evaluation(each, request).report["reading"]
    return read


def read_by_model(settings: Settings) -> dict[str, dict[str, Any]]:
    """Answers to all questions of the demo, read by the model from an index that rules have made; `reading` of it."""
    whole = settings_in(settings.root, **BY_RULES)
    run_index(whole, IndexRequest("demo", DEMO / "corpus.jsonl"), DirectRunner())
    request = EvaluationRequest(DEMO / "questions.jsonl", "demo", ("bridge-lexical",), is_stored=False)
    return {"whole corpus": run_evaluation(whole, request).report["reading"]["bridge-lexical"]}


@dataclass
class StepUnits:
    """Units of a step by the repair that their reply needed, and what these took; `failed` have no usable reply."""

    repairs: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    usage: Usage = field(default_factory=Usage)


def usable_units(cache: ReplyCache) -> dict[str, StepUnits]:
    """Units of each step."""
    units: defaultdict[str, StepUnits] = defaultdict(StepUnits)
    for source, reply in (pair for page in cache.pages() for pair in page):
        units[source.task].repairs[reply.repair.value] += 1
        units[source.task].usage += reply.usage
    for counts in cache.by_task():
        units[counts.task].failed = counts.failure_count
    return dict(sorted(units.items()))


def table(units: Mapping[str, StepUnits]) -> str:
    """Units of each step as a Markdown table; tokens are means of the units with a usable reply."""
    kinds = [repair.value for repair in Repair]
    lines = [
        f"| step | units | {' | '.join(kinds)} | failed | usable | prompt tokens | reply tokens |",
        "|---" * (len(kinds) + 6) + "|",
    ]
    for step, one in units.items():
        cells = " | ".join(str(one.repairs[kind]) for kind in kinds)
        usable = one.repairs.total()
        tokens = f"{one.usage.prompt_tokens / usable:.0f} | {one.usage.completion_tokens / usable:.0f}"
        count = usable + one.failed
        lines.append(f"| `{step}` | {count} | {cells} | {one.failed} | {usable / count:.2f} | {tokens} |")
    return "\n".join(lines)


def record() -> None:
    """Asks for what is missing, and exports the valid replies."""
    sys.path.insert(0, str(PROJECT / "benchmarks" / "papers"))
    from local_model import LlamaServer, assembled

    with tempfile.TemporaryDirectory() as folder:
        # the model's file (1.1 GB) is kept for the next run
        server = LlamaServer(Path(folder), assembled(Path(tempfile.gettempdir())), embeds=True)
        try:
            settings = settings_in(Path(folder) / "root", **{"models.api_base": server.url})
            vectors = {"models.api_base": server.url, "encoder.name": f"litellm:{MODEL}"}
            print(check_encoder(settings_in(Path(folder) / "vectors", **vectors)))  # noqa: T201 - not recorded
            recording = Recording(Completions(MODEL, settings.models))
            chat.Completions = lambda *_: recording  # type: ignore[assignment, attr-defined]
            print(index_by_model(settings).to_json())  # noqa: T201 - for whoever records
            print(json.dumps(ask_by_model(settings) | read_by_model(settings), indent=1))  # noqa: T201
            current_run().close()
            used = "".join(map(_line, recording.calls.values()))
            CALLS.write_bytes(gzip.compress(used.encode(), mtime=0))  # the same bytes for the same calls
            with closing(ReplyCache(Layout(settings.root).reply_cache)) as cache:
                print(len(recording.calls), export_replies(cache, REPLIES))  # noqa: T201
                print(table(usable_units(cache)))  # noqa: T201
        finally:
            server.stop()


if __name__ == "__main__":
    record()
