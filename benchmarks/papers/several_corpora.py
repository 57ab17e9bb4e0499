"""Strategies on several corpora in one run, as one table: PropRAG's Table 1 (recall@5), SPRIG's Tables 1 and 2.

Run: uv run python benchmarks/papers/several_corpora.py FOLDER [SET or NAME=CORPUS,QUESTIONS …] [--metrics LIST]
QUESTIONS may be left out if the corpus file has them (MuSiQue, 2Wiki, HotpotQA). Each corpus is an index under
FOLDER/root, which a later run takes over if nothing has changed; FOLDER/several_corpora.md and .json have the table.
A SET is one of encoders.py, which are made from ../shared/data; without any, five of them. Source: algorithms.md 3.10.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from encoders import SETS, files_of

from polyhop.flows.evaluate import labels_of, run_evaluation
from polyhop.flows.evaluation.report import RETRIEVAL_METRICS
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.output import print_error, print_line, progress
from polyhop.schemas.errors import PolyhopError, SourceError
from polyhop.schemas.requests import EvaluationRequest, IndexRequest, parse_variant
from polyhop.warehouse.files.disk import write_whole
from polyhop.warehouse.user_files import load_settings

DEFAULT_SETS = "musique100", "wiki2", "hotpot", "nq", "squad"
STRATEGIES = "bm25,dense,triple-ppr,proprag:stage1_only=true,proprag:max_length=1..3"


def corpus_of(folder: Path, argument: str) -> tuple[str, Path, Path]:
    """Name, corpus and questions of an argument; the files of a set are made in the folder."""
    name, _, given = argument.partition("=")
    if not given:
        return name, *files_of(folder, name, SETS[name])
    corpus, _, questions = given.partition(",")
    return name, Path(corpus), Path(questions or corpus)


def evaluated(
    root: Path, name: str, corpus: Path, request: EvaluationRequest, metrics: Sequence[str]
) -> dict[str, Any]:
    """Indexes a corpus for the strategies of a request, and evaluates them: {questions, strategies{label: metrics}}."""
    needed = dict.fromkeys(parse_variant(label, {}).strategy for label in labels_of(request))
    settings = load_settings({"root": str(root), "strategies": ",".join(needed), "reader.name": "none"})
    with progress() as update:
        run_index(settings, IndexRequest(name, corpus), DirectRunner(update, print_error))
    with progress() as update:
        report = run_evaluation(settings, request, update).report
    if report["excluded"] == report["n"]:
        raise SourceError(f"{name}: no question names supporting passages.")
    means = {label: {one: result[one] for one in metrics} for label, result in report["strategies"].items()}
    return {"questions": report["n"], "strategies": means}


def markdown(columns: Mapping[str, Mapping[str, Any]], metrics: Sequence[str]) -> str:
    """The table: a row for each strategy, a column for each corpus, and the mean over the corpora."""
    counts = [f"{name} ({column['questions']})" for name, column in columns.items()]
    lines = [f"| {', '.join(metrics)} | {' | '.join(counts)} | mean |", "|---" * (len(columns) + 2) + "|"]
    for label in next(iter(columns.values()))["strategies"]:
        values = [[column["strategies"][label][one] for one in metrics] for column in columns.values()]
        means = [sum(of_one) / len(of_one) for of_one in zip(*values, strict=True)]
        cells = " | ".join(", ".join(f"{value:.3f}" for value in row) for row in (*values, means))
        lines.append(f"| `{label}` | {cells} |")
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str] | None = None) -> None:
    """Makes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("corpora", nargs="*", metavar="SET or NAME=CORPUS,QUESTIONS")
    parser.add_argument("--strategies", default=STRATEGIES)
    parser.add_argument("--first", type=int, help="ask the first N questions of each corpus")
    parser.add_argument("--metrics", default="recall@5", help="separated by commas")
    given = parser.parse_args(arguments)
    metrics = given.metrics.split(",")
    sets = [one for one in given.corpora if "=" not in one]
    for kind, names, known in (("set", sets, SETS), ("metric", metrics, RETRIEVAL_METRICS)):
        for name in names:
            if name not in known:
                parser.error(f"unknown {kind}: {name}; known are {', '.join(known)}")
    columns = {}
    for one in given.corpora or DEFAULT_SETS:
        name, corpus, questions = corpus_of(given.folder / "sets", one)
        request = EvaluationRequest(questions, name, (given.strategies,), first=given.first)
        columns[name] = evaluated(given.folder / "root", name, corpus, request, metrics)
    table = markdown(columns, metrics)
    write_whole(given.folder / "several_corpora.md", table.encode())
    write_whole(given.folder / "several_corpora.json", (json.dumps(columns, indent=1) + "\n").encode())
    for line in table.splitlines():
        print_line(line)


if __name__ == "__main__":
    try:
        main()
    except PolyhopError as error:
        sys.exit(f"{error}")
