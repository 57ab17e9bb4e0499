"""Tables that need a language model: QASA's, PropRAG's on its propositions, HubLink's, and readers by strategy.

Run: uv run python benchmarks/papers/with_a_model.py FOLDER --model openai/gpt-4o-mini [--yes]
or:  uv run --group llama python benchmarks/papers/with_a_model.py FOLDER --local [--yes]
Without --yes it says what all of it may cost at most, and asks no model. --local starts llama.cpp's server with a model
of 1.5 billion parameters (local_model.py) and says how many hours of one core it may take. A corpus and a knowledge
graph are indexed with the model (entities, relations, propositions, resolution, texts of paths), or with --rules
without one, so that it only reads answers; then each table is one evaluation. What is done is kept:
FOLDER/tables/NAME.json and .md are not made again, and every reply is cached, so that a run that was stopped goes on
where it was. Data: ../shared/data, or --corpus, --questions, --graph, --graph-questions.
Source: algorithms.md 1.7 (QASA), 3.10 (PropRAG), 4.10 (HubLink).
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_model import MODEL, PROMPT_SPEED, REPLY_SPEED, LlamaServer, assembled

from polyhop.flows.evaluate import run_evaluation
from polyhop.flows.index import run_index
from polyhop.flows.plan import plan_index, question_costs
from polyhop.flows.runner import DirectRunner
from polyhop.output import print_error, print_line, print_table, progress, rounded
from polyhop.schemas.chat import cost_words
from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.records import SourceKind
from polyhop.schemas.requests import EvaluationRequest, IndexRequest, labels_in, parse_range, parse_variant
from polyhop.schemas.settings import Settings
from polyhop.schemas.version import VERSION
from polyhop.warehouse.files.disk import file_hash, write_whole
from polyhop.warehouse.files.questions import usable_questions
from polyhop.warehouse.models.budget import price_of
from polyhop.warehouse.user_files import load_settings
from polyhop.worker.reading.models import ANSWER_TOKENS, CHAIN_TOKENS, READ_TOKENS
from polyhop.worker.strategies.registry import STRATEGIES

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
ORKG = DATA / "orkg" / "triples.jsonl"
ORKG_HUBS = {"hubs.types": "Paper", "hubs.start": "R659055", "hubs.levels": "path,triple,entity"}
"""Settings for the graph of ../shared/data, as in benchmarks/README.md, unless --set has others."""

NAMING_TOKENS = 1_000  # prompt and reply of query.entities, once per question; chosen: the prompt has some 300
READ_STRATEGIES = "bm25,dense,rrf,bridge,proprag"
ANSWERS, PASSAGES, TRIPLES = ("em", "f1"), ("recall@2", "recall@5"), ("triple_recall@10", "triple_hit@10", "triple_mrr")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a paper: which index it asks, its strategies, the metrics that the paper gives, who reads what."""

    kind: SourceKind
    strategies: str
    metrics: tuple[str, ...]
    read_passages: int = 5
    closed_book: bool = False
    is_local: bool = False  # Read without the model, to compare with.

    @property
    def labels(self) -> list[str]:
        """Every strategy with its parameters."""
        return [label for one in labels_in(self.strategies, STRATEGIES) for label in parse_range(one).points or [one]]


TABLES: Mapping[str, Table] = {
    "qasa-ablations": Table("corpus", "qasa,qasa:gate=none,naive-vector", ANSWERS, 0, closed_book=True),
    "qasa-steps": Table("corpus", "qasa:steps=1..4", ANSWERS, 0),
    "qasa-decay": Table("corpus", "qasa:decay=.3,.5,.7,.9,1", ANSWERS, 0),
    "proprag-length": Table("corpus", "proprag:max_length=1..4", (*PASSAGES, *ANSWERS)),
    "proprag-beam": Table("corpus", "proprag:beam_width=1..6", (*PASSAGES, *ANSWERS)),
    "proprag-parts": Table(
        "corpus",
        "proprag,proprag:seeds=explore_only,proprag:seeds=exploit_only,proprag:allow_unconnected=true,"
        "proprag:stage1_only=true,triple-ppr",
        (*PASSAGES, *ANSWERS),
    ),
    "readers": Table("corpus", READ_STRATEGIES, ANSWERS),
    "readers-local": Table("corpus", READ_STRATEGIES, ANSWERS, is_local=True),
    "hublink-final": Table(
        "graph", "hublink:partial_answers=rules,hublink-topic:partial_answers=rules", (*TRIPLES, *ANSWERS)
    ),
    "hublink": Table(
        "graph",
        "hublink,hublink:question_components=model,hublink:output_filter=true,hublink:partial_answers=rules,"
        "hublink-topic",
        (*TRIPLES, *ANSWERS),
    ),
}
STRATEGIES_OF: Mapping[SourceKind, tuple[str, ...]] = {
    "corpus": ("qasa", "naive-vector", "proprag", "triple-ppr", "bm25", "dense", "rrf", "bridge"),
    "graph": ("hublink", "hublink-topic"),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """The tables to make, their data and their folder."""

    folder: Path
    settings: Settings
    sources: Mapping[SourceKind, tuple[Path, Path]]  # Corpus or graph, and its questions.
    tables: Sequence[str]
    sample: int | None

    def settings_of(self, kind: SourceKind, read_passages: int = 5, *, is_local: bool = False) -> Settings:
        """Those of an index, and of a table that asks it."""
        changed: dict[str, Any] = {"read_passages": read_passages} | ({"read": ""} if is_local else {})
        models = self.settings.models.model_copy(update=changed)
        return self.settings.model_copy(update={"strategies": STRATEGIES_OF[kind], "models": models})

    def task(self, name: str) -> dict[str, Any]:
        """All that a table depends on; one with another task is made again."""
        table = TABLES[name]
        source, questions = self.sources[table.kind]
        shown = {"strategies": table.strategies, "closed_book": table.closed_book, "read_passages": table.read_passages}
        shown["is_local"] = table.is_local
        files = {"source": file_hash(source, "the source"), "questions": file_hash(questions, "the questions")}
        sections = {"models", "encoder", "hubs", "corpus", "extraction", "resolution"}
        known = self.settings.model_dump(mode="json", include=sections)
        chosen = {name: known["models"].pop(name) for name in ("extract", "read", "max_reply_tokens")} | known
        del chosen["models"]  # addresses, limits and prices are in no answer
        return {"table": shown, **files, "settings": chosen, "sample": self.sample, "polyhop": VERSION}

    def missing(self) -> list[str]:
        """The tables that are not there."""
        return [name for name in self.tables if _kept(self.folder / "tables" / f"{name}.json") != self.task(name)]


def _kept(path: Path) -> Any:
    """The task of a table that was made; None if there is none."""
    try:
        return json.loads(path.read_bytes())["task"]
    except (OSError, ValueError, KeyError):
        return None


@dataclass(frozen=True, slots=True)
class Price:
    """Calls, tokens and USD (None: no price is known) that an index or a table takes at most."""

    what: str
    calls: int
    prompt_tokens: int
    reply_tokens: int
    cost: float | None

    @property
    def hours(self) -> float:
        """Hours of one core with the local model."""
        return (self.prompt_tokens / PROMPT_SPEED + self.reply_tokens / REPLY_SPEED) / 3600


def prices(recipe: Recipe, names: Sequence[str]) -> list[Price]:
    """Prices of the indexes and tables that are missing, readers at their longest prompts.

    What is cached costs less; what is asked about only once names are extracted is in none of them (`polyhop plan`).
    """
    rows: list[Price] = []
    by_model = recipe.settings.extraction.extractor == "model"
    for kind in dict.fromkeys(TABLES[name].kind for name in names) if by_model else ():
        planned = plan_index(recipe.settings_of(kind), recipe.sources[kind][0], kind=kind).to_json()
        high = None if planned["cost_usd"] is None else planned["cost_usd"]["high"]
        tokens = planned["prompt_tokens"], planned["completion_tokens"]
        rows.append(Price(f"index of the {kind}", planned["calls"], *tokens, high))
    price = price_of(recipe.settings.models.read, recipe.settings.models)
    for name in names:
        table = TABLES[name]
        if table.is_local:
            rows.append(Price(name, 0, 0, 0, 0.0))
            continue
        count = min(recipe.sample or sys.maxsize, len(usable_questions(recipe.sources[table.kind][1])[0]))
        calls = prompt = reply = 0
        for label in [*table.labels, *(["closed-book"] if table.closed_book else [])]:
            own = question_costs(recipe.settings, [parse_variant(label, {}).strategy]) if label in table.labels else {}
            bounds = next(iter(own.values()), None)
            shown = READ_TOKENS if table.read_passages else CHAIN_TOKENS
            calls += count * (bounds["calls"] if bounds else 1)
            prompt += count * (bounds["prompt_tokens"] if bounds else shown)
            reply += count * (bounds["completion_tokens"] if bounds else ANSWER_TOKENS)
        calls, prompt = calls + count, prompt + count * NAMING_TOKENS
        cost = None if price is None else (prompt * price[0] + reply * price[1]) / 1_000_000
        rows.append(Price(name, calls, prompt, reply, cost))
    return rows


def make(recipe: Recipe, names: Sequence[str]) -> None:
    """Indexes what these tables ask, and makes each of them."""
    for kind in dict.fromkeys(TABLES[name].kind for name in names):
        with progress() as update:
            runner = DirectRunner(update, print_error)
            report = run_index(recipe.settings_of(kind), IndexRequest(kind, recipe.sources[kind][0], kind=kind), runner)
        print_error(f"index of the {kind}: version {report.version}; {' '.join(report.model_sentences())}")
    for name in names:
        table = TABLES[name]
        request = EvaluationRequest(
            recipe.sources[table.kind][1],
            table.kind,
            (table.strategies,),
            closed_book=table.closed_book,
            sample=recipe.sample,
        )
        with progress() as update:
            settings = recipe.settings_of(table.kind, table.read_passages, is_local=table.is_local)
            said = run_evaluation(settings, request, update).report
        document = {"task": recipe.task(name), "version": said["version"], "n": said["n"], "rows": rows_of(said)}
        folder = recipe.folder / "tables"
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / f"{name}.md", markdown(name, document).encode())
        write_whole(
            folder / f"{name}.json", (json.dumps(rounded(document), indent=1) + "\n").encode()
        )  # last: it counts
        for line in markdown(name, document).splitlines():
            print_line(line)


def rows_of(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Means of a table's metrics by strategy with their intervals, and what a question costs: tokens and seconds."""
    rows: dict[str, dict[str, Any]] = {}
    for label, result in report["strategies"].items():
        reading, parts = report["reading"][label], result["parts_ms"]
        is_timed = "reading" in parts and 2 * reading["cached"] <= report["n"]
        rows[label] = {
            "metrics": {name: result[name] for name in result["intervals"]},
            "intervals": result["intervals"],
            "reading": reading,
            "prompt_tokens": result["tokens"]["prompt_per_question"],
            "reply_tokens": result["tokens"]["completion_per_question"],
            "retrieval_seconds": sum(ms["mean"] for part, ms in parts.items() if part != "reading") / 1000,
            "reading_seconds": parts["reading"]["p50"] / 1000 if is_timed else None,
        }
    return rows


COSTS = {"prompt_tokens": ".0f", "reply_tokens": ".0f", "retrieval_seconds": ".3f", "reading_seconds": ".1f"}
"""Columns of what a question costs, and their formats. Reading is the median; empty if most replies were cached."""


def markdown(name: str, document: Mapping[str, Any]) -> str:
    """A table as people read it: the paper's metrics with 95 % intervals, then what a question costs."""
    metrics = TABLES[name].metrics
    columns = [*metrics, *(cost.replace("_", " ") for cost in COSTS)]
    lines = [
        f"{name}: {document['n']} questions",
        "",
        f"| strategy | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for label, row in document["rows"].items():
        cells = [_cell(row["metrics"].get(metric), row["intervals"].get(metric)) for metric in metrics]
        cells += ["" if row[cost] is None else format(row[cost], form) for cost, form in COSTS.items()]
        lines.append(f"| `{label}` | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _cell(mean: float | None, bounds: Mapping[str, float] | None) -> str:
    if mean is None:
        return ""
    return f"{mean:.3f}" + (f" [{bounds['low']:.3f}, {bounds['high']:.3f}]" if bounds else "")


def small_corpus(folder: Path, corpus: Path, questions: Path, size: int, asked: int) -> tuple[Path, Path]:
    """The first `asked` questions, and their supporting passages with the first others of the corpus, `size` in all."""
    rows = [json.loads(line) for line in corpus.read_text("utf-8").splitlines()]
    chosen = [json.loads(line) for line in questions.read_text("utf-8").splitlines()][:asked]
    needed = {passage for row in chosen for passage in row["supporting"]}
    others = [row["id"] for row in rows if row["id"] not in needed][: max(size - len(needed), 0)]
    kept = [row for row in rows if row["id"] in needed.union(others)]
    paths = folder / f"corpus-{size}.jsonl", folder / f"questions-{asked}.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    for path, own in zip(paths, (kept, chosen), strict=True):
        write_whole(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in own).encode())
    return paths


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--model", help="as litellm names it; for every step")
    model.add_argument("--local", action="store_true", help="the model of local_model.py, on one core")
    parser.add_argument("--rules", action="store_true", help="index without the model, which then reads answers only")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--sample", type=int, help="ask that many of the questions, chosen at random")
    parser.add_argument("--passages", type=int, help="index so many: of the first questions, --sample of them")
    parser.add_argument("--corpus", type=Path, default=DATA / "musique100" / "corpus.jsonl")
    parser.add_argument("--questions", type=Path, default=DATA / "musique100" / "questions.jsonl")
    parser.add_argument("--graph", type=Path, default=ORKG)
    parser.add_argument("--graph-questions", type=Path, default=DATA / "orkg" / "questions.jsonl")
    parser.add_argument("--set", action="append", default=[], help="a setting, name=value; may be repeated")
    parser.add_argument("--yes", action="store_true", help="spend it")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.tables.split(",") if name not in TABLES]
    if unknown:
        parser.error(f"unknown tables: {', '.join(unknown)}; known are {', '.join(TABLES)}")
    if given.passages and not given.sample:
        parser.error("--passages needs --sample")
    return given


def recipe_of(given: argparse.Namespace, server: LlamaServer | None) -> Recipe:
    """The recipe of a command line, with the server's address as the model's."""
    model = MODEL if given.local else given.model
    names: dict[str, object] = {"models.extract": model, "models.read": model, "models.name_questions": not given.rules}
    kind, writer = ("rules", "template") if given.rules else ("model", "model")
    steps = {"extraction.extractor": kind, "resolution.method": kind, "hubs.textualiser": writer}
    local = (
        {
            "models.price": "0,0,0",
            "models.concurrency": 1,
            "models.timeout_seconds": 1800,
            "models.max_reply_tokens": 450,
        }
        if given.local
        else {}
    )
    address = {"models.api_base": server.url} if server is not None else {}
    hubs = ORKG_HUBS if given.graph.resolve() == ORKG.resolve() else {}
    more = dict(one.split("=", 1) for one in given.set)
    settings = load_settings({**steps, **names, **local, **hubs, **address, **more, "root": str(given.folder / "root")})
    files = given.corpus, given.questions
    if given.passages:
        files = small_corpus(given.folder, *files, given.passages, given.sample)
    sources: dict[SourceKind, tuple[Path, Path]] = {"corpus": files, "graph": (given.graph, given.graph_questions)}
    return Recipe(given.folder, settings, sources, given.tables.split(","), given.sample)


def print_prices(rows: Sequence[Price], *, is_local: bool) -> None:
    """Prints what each index and table takes at most, and all of them."""
    table = [[one.what, one.calls, one.prompt_tokens + one.reply_tokens, cost_words(one.cost)] for one in rows]
    print_table(["at most", "calls", "tokens", "cost"], table)
    known = [one.cost for one in rows if one.cost is not None]
    total = sum(known) if len(known) == len(rows) else None
    print_line(f"In all {cost_words(total)}, besides resolution.")
    if is_local:
        print_line(f"At most {sum(one.hours for one in rows):.1f} hours of one core.")
    else:
        print_line("--set max_cost_usd=N bounds each index run, and the tables together.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Says what it costs, and with --yes makes what is missing."""
    given = parsed(arguments)
    recipe = recipe_of(given, None)
    missing = recipe.missing()
    for name in recipe.tables:
        if name not in missing:
            print_line(f"{name} is there: {given.folder / 'tables' / name}.md")
    if not missing:
        return 0
    print_prices(prices(recipe, missing), is_local=given.local)
    if not given.yes:
        print_line("Nothing was asked. Run it again with --yes.")
        return 2
    server = LlamaServer(given.folder, assembled(given.folder)) if given.local else None
    try:
        make(recipe_of(given, server), missing)
    finally:
        if server is not None:
            server.stop()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PolyhopError as error:
        sys.exit(f"{error}")
