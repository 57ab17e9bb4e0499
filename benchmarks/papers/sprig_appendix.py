"""Tables of SPRIG's appendix that need a run of their own, each by one command, with results side by side.

Run: uv run python benchmarks/papers/sprig_appendix.py TABLE FOLDER [CORPUS QUESTIONS] [--passages 500]
TABLE is one of
  memory    A.7: peak memory of indexing and of asking, each method alone in its processes (CORPUS QUESTIONS)
  hnsw      A.11, A.12: M and efSearch against exact seeds, on a generated corpus with vectors of mixture.py
  encoders  A.13: `dense` and `graph-dense` with MiniLM, bge-small and e5-small-v2 (CORPUS QUESTIONS)
  answers   A.14: exact match and F1 of short answers by the rule reader (CORPUS QUESTIONS)
  repeats   A.16, Figure 1: median and range of repeated runs, on generated corpora
  limit     Section 4.6: indexing and asking under a limit of 4 GB that the kernel enforces, on a generated corpus
--passages takes so many of CORPUS, or generates so many. FOLDER keeps corpora and indexes. Results go to
benchmarks/results/sprig_appendix.json, with the machine and its load; a Markdown table is printed.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import encoder_sensitivity
from generated_corpus import CORPUS_FILE, QUESTIONS_FILE, write_generated
from memory import memory_rows
from mixture import NAME, install

from polyhop.warehouse.machine import machine, peak_rss_mb

RESULTS = Path(__file__).resolve().parent.parent / "results" / "sprig_appendix.json"
SEED = 13
MEMORY_METHODS = (
    *("bm25", "bm25-rm3", "bm25-2step", "dense", "rrf", "bm25-ce", "rrf-ce", "graph", "graph-hybrid", "graph-dense"),
    *("graph-rrf", "rrf-ppr", "tfidf-graph", "bridge"),
)
ANSWER_METHODS = ("bm25", "rrf", "rrf-ce", "graph", "graph-hybrid", "graph-dense", "bridge")
NEIGHBOURS, CANDIDATES = (4, 32, 48, 64), (16, 64, 128, 256, 512)
"""M and efSearch: those of A.12, and one smaller each."""
REPEATED_METHODS, SIZES, REPEATS = ("bm25", "dense", "graph", "graph-dense"), (1000, 4000), 5
LIMIT_BYTES = 4_000_000_000
LIMIT_METHODS = ("bm25", "graph-hybrid", "bridge-lexical", "dense", "graph-dense", "bridge")
Rows = list[dict[str, Any]]


def measured(order: dict[str, Any], *, limit: int = 0) -> dict[str, Any]:
    """The result of an order that a separate process carries out, under a limit of private memory in bytes (0: none).

    RLIMIT_DATA counts all private writable memory, also what is reserved but unused, so that it is the stricter limit.
    """

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    command = [sys.executable, __file__, "--here"]
    done = subprocess.run(
        command,
        input=json.dumps(order),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limited if limit else None,
    )
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def index_here(order: dict[str, Any]) -> dict[str, Any]:
    """Indexes a corpus in this process; {seconds, cpu_seconds, peak_mb}."""
    import time

    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner
    from polyhop.schemas.requests import IndexRequest
    from polyhop.schemas.settings import Settings
    from polyhop.warehouse.vectors import lance

    if order["vectors"]:
        install()
    lance.HNSW_M = order.get("m", lance.HNSW_M)
    encoder = {"encoder": {"name": NAME}} if order["vectors"] else {}
    settings = Settings.model_validate({"root": order["root"], "strategies": order["strategies"], **encoder})
    start, cpu_start = time.perf_counter(), time.process_time()
    run_index(settings, IndexRequest(order["index"], Path(order["corpus"])), DirectRunner())
    return {
        "seconds": round(time.perf_counter() - start, 3),
        "cpu_seconds": round(time.process_time() - cpu_start, 3),
        "peak_mb": peak_rss_mb(),
    }


def ask_here(order: dict[str, Any]) -> dict[str, Any]:
    """Asks each question alone, the first one once more before; {variant: recall_10, mrr, p50_ms, cpu_ms}, peak_mb."""
    import time

    from polyhop.api import open_index
    from polyhop.schemas.query import Question
    from polyhop.schemas.requests import parse_variant
    from polyhop.schemas.settings import Settings
    from polyhop.warehouse.files.questions import read_questions

    if order["vectors"]:
        install()
    records, _ = read_questions(Path(order["questions"]))
    variants: dict[str, Any] = {}
    with open_index(order["index"], settings=Settings(root=order["root"])) as opened:
        for label in order["variants"]:
            variant = parse_variant(label, {})
            answerer = opened.session.answerer(variant.strategy, variant.parameters)
            answerer.retrieve([Question(records[0].question)], limit=10)
            recalls, reciprocals, seconds = [], [], []
            cpu_start = time.process_time()
            for record in records:
                start = time.perf_counter()
                (found,) = answerer.retrieve([Question(record.question, record.id)], limit=10)
                seconds.append(time.perf_counter() - start)
                is_gold = [passage.passage_id in record.supporting for passage in found.passages]
                recalls.append(sum(is_gold) / len(record.supporting))
                reciprocals.append(next((1 / rank for rank, gold in enumerate(is_gold, 1) if gold), 0.0))
            variants[label] = {
                "recall_10": round(statistics.fmean(recalls), 4),
                "mrr_10": round(statistics.fmean(reciprocals), 4),
                "p50_ms": round(1000 * statistics.median(seconds), 3),
                "cpu_ms": round(1000 * (time.process_time() - cpu_start) / len(records), 3),
            }
    return {"variants": variants, "peak_mb": peak_rss_mb()}


def allocate_here(order: dict[str, Any]) -> dict[str, Any]:
    """Fills as much memory as the order says, to show that a limit is enforced."""
    return {"bytes": len(bytearray(order["bytes"]))}


def generated(folder: Path, passages: int, questions: int = 200) -> tuple[str, str]:
    """Corpus and questions of a size, written unless they are there."""
    made = folder / f"generated-{passages}"
    if not (made / QUESTIONS_FILE).exists():
        write_generated(made, passages, min(questions, passages), SEED)
    return str(made / CORPUS_FILE), str(made / QUESTIONS_FILE)


def first_passages(folder: Path, corpus: str, count: int | None) -> str:
    """The first passages of a corpus as a file, or the corpus."""
    if count is None:
        return corpus
    lines = Path(corpus).read_text(encoding="utf-8").splitlines(keepends=True)[:count]
    path = folder / f"first-{len(lines)}.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


def order_of(measure: str, folder: Path, name: str, **values: Any) -> dict[str, Any]:
    """An order to `measured`; indexes of one root share nothing but their folder."""
    return {"measure": measure, "root": str(folder / "root" / name), "index": name, "vectors": False, **values}


def memory_table(given: argparse.Namespace) -> Rows:
    """A.7. A method's index holds what it needs alone; texts are encoded in the same process."""
    corpus = first_passages(given.folder, given.corpus, given.passages)
    rows = []
    for method in given.methods or MEMORY_METHODS:
        order = order_of("index", given.folder, method, corpus=corpus, strategies=[method])
        index = measured(order)
        asked = memory_rows(order["root"], method, given.questions, [method])[method]
        error = index.get("error") or asked.get("error")
        found = {"index_mb": index.get("peak_mb"), "ready_mb": asked.get("ready_mb"), "query_mb": asked.get("peak_mb")}
        rows.append({"method": method, **(found if error is None else {"error": error})})
    return rows


def hnsw_table(given: argparse.Namespace) -> Rows:
    """A.11 and A.12."""
    corpus, questions = generated(given.folder, given.passages or 20_000)
    rows = []
    for m in NEIGHBOURS:
        values = {"corpus": corpus, "strategies": ["dense-ann", "graph-dense"], "vectors": True, "m": m}
        made = measured(order_of("index", given.folder, f"hnsw-{m}", **values))
        labels = [f"{method}:ef_search={ef}" for method in ("dense-ann", "graph-dense:search=ann") for ef in CANDIDATES]
        labels += ["dense", "graph-dense"] if m == NEIGHBOURS[0] else []
        order = order_of("ask", given.folder, f"hnsw-{m}", questions=questions, variants=labels, vectors=True)
        asked = measured(order) if "error" not in made else made
        if "error" in asked:
            rows.append({"m": m, **asked})
        for label, one in asked.get("variants", {}).items():
            rows.append({"m": m if "ef_search" in label else "exact", "method": label, **one})
    return rows


def encoders_table(given: argparse.Namespace) -> Rows:
    """A.13."""
    corpus = first_passages(given.folder, given.corpus, given.passages)
    found = encoder_sensitivity.rows(given.folder, corpus, given.questions)
    return [{"encoder": name, "method": method, **one} for name, of in found.items() for method, one in of.items()]


def answers_table(given: argparse.Namespace) -> Rows:
    """A.14, by the rule reader instead of DistilBERT."""
    corpus, root = first_passages(given.folder, given.corpus, given.passages), str(given.folder / "root" / "answers")
    methods = given.methods or ANSWER_METHODS
    polyhop = (sys.executable, "-m", "polyhop.cli")
    common = ("--index", "answers", "--root", root, "--json")
    index = (*polyhop, "index", corpus, *common, "--set", f"strategies={','.join(methods)}")
    subprocess.run(index, stdout=subprocess.PIPE, check=True)
    asked = (*polyhop, "eval", given.questions, *common, "--reader", "spans", "--no-store")
    done = subprocess.run((*asked, "--strategies", ",".join(methods)), stdout=subprocess.PIPE, check=True)
    report = json.loads(done.stdout)["strategies"]
    keys = ("em", "f1", "recall@10")
    return [{"method": method, **{key: report[method][key] for key in keys}} for method in methods]


def repeats_table(given: argparse.Namespace) -> Rows:
    """A.16 and Figure 1: an index from nothing each time; processor time is what a busy machine leaves comparable."""
    rows = []
    for passages in SIZES if given.passages is None else (given.passages,):
        corpus, questions = generated(given.folder, passages)
        for method in given.methods or REPEATED_METHODS:
            index, asked = [], []
            for number in range(given.repeats):
                name = f"repeat-{passages}-{method}-{number}"
                values = {"corpus": corpus, "strategies": [method], "vectors": True}
                index.append(measured(order_of("index", given.folder, name, **values)))
                order = order_of("ask", given.folder, name, questions=questions, variants=[method], vectors=True)
                asked.append(measured(order))
            per_passage = {key: [1000 * one[key] / passages for one in index] for key in ("seconds", "cpu_seconds")}
            rows.append(
                {
                    "passages": passages,
                    "method": method,
                    "index_ms": spread(per_passage["seconds"]),
                    "index_cpu_ms": spread(per_passage["cpu_seconds"]),
                    "query_p50_ms": spread([one["variants"][method]["p50_ms"] for one in asked]),
                    "query_cpu_ms": spread([one["variants"][method]["cpu_ms"] for one in asked]),
                }
            )
    return rows


def spread(values: Sequence[float]) -> list[float]:
    """Median, least and largest."""
    return [round(value, 3) for value in (statistics.median(values), min(values), max(values))]


def limit_table(given: argparse.Namespace) -> Rows:
    """Section 4.6; the first row shows that the limit stops a process that asks for more."""
    passages = given.passages or 20_000
    corpus, questions = generated(given.folder, passages)
    methods = list(given.methods or LIMIT_METHODS)
    more = measured({"measure": "allocate", "bytes": LIMIT_BYTES}, limit=LIMIT_BYTES)
    values = {"corpus": corpus, "strategies": methods, "vectors": True}
    index = measured(order_of("index", given.folder, f"limit-{passages}", **values), limit=LIMIT_BYTES)
    rows: Rows = [
        {"step": f"allocate {LIMIT_BYTES:,} bytes", **more},
        {"step": f"index {passages:,} passages", **index},
    ]
    for method in methods:
        order = order_of("ask", given.folder, f"limit-{passages}", questions=questions, variants=[method], vectors=True)
        asked = measured(order, limit=LIMIT_BYTES)
        rows.append({"step": f"ask {method}", **asked.pop("variants", {}).get(method, {}), **asked})
    return rows


TABLES: dict[str, Callable[[argparse.Namespace], Rows]] = {
    "memory": memory_table,
    "hnsw": hnsw_table,
    "encoders": encoders_table,
    "answers": answers_table,
    "repeats": repeats_table,
    "limit": limit_table,
}
MEASURES = {"index": index_here, "ask": ask_here, "allocate": allocate_here}


def markdown(rows: Rows) -> str:
    """Rows as a table; an empty cell where a row lacks a value."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(cell(row.get(name)) for name in names)} |" for row in rows)])


def cell(value: Any) -> str:
    """A value as a table shows it; a median with its range."""
    if isinstance(value, list):
        return f"{value[0]:g} [{value[1]:g}, {value[2]:g}]"
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Makes one table."""
    if sys.argv[1:] == ["--here"]:
        order = json.load(sys.stdin)
        print(json.dumps(MEASURES[order["measure"]](order)))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("corpus", nargs="?")
    parser.add_argument("questions", nargs="?")
    parser.add_argument("--passages", type=int)
    parser.add_argument("--methods", type=lambda names: names.split(","))
    parser.add_argument("--repeats", type=int, default=REPEATS)
    given = parser.parse_args()
    given.folder = given.folder.resolve()
    given.folder.mkdir(parents=True, exist_ok=True)
    rows = TABLES[given.table](given)
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    command = " ".join((given.table, *sys.argv[3:]))
    load = [round(value, 1) for value in os.getloadavg()]
    results[given.table] = {"command": command, "machine": machine(), "load": load, "rows": rows}
    RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n", encoding="utf-8")
    print(markdown(rows))


if __name__ == "__main__":
    main()
