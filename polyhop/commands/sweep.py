"""`polyhop sweep`: what indexing and asking cost against the size of a corpus."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from polyhop.commands.options import Json, Root, Set, settings_of
from polyhop.output import print_json, print_line, print_table, progress
from polyhop.schemas.errors import ConfigurationError

_SIZES = "1000,5000,20000,80000"
_STRATEGIES = "bm25,bridge-lexical,graph,graph-hybrid"


def sweep(
    out: Annotated[Path, typer.Option("--out", help="Folder for corpora, indexes, sweep.json, plots and page.")],
    sizes: Annotated[str, typer.Option("--sizes", help="Passages of the generated corpora.")] = _SIZES,
    strategies: Annotated[
        str,
        typer.Option(
            "--strategies",
            help="Strategies to ask. The default ones encode no passage; those that do (bridge, dense, …) "
            "take some 12 ms per passage more on two cores.",
        ),
    ] = _STRATEGIES,
    questions: Annotated[int, typer.Option("--questions", min=1, help="Questions per size and strategy.")] = 200,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the corpora.")] = 13,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Measure index time, query time, memory and disk on generated corpora; run again, it measures what is missing."""
    from polyhop.schemas.requests import names_in
    from polyhop.sweep import PAGE_FILE, SweepRequest, run_sweep

    request = SweepRequest(
        folder=out,
        sizes=_parse_sizes(sizes),
        strategies=tuple(dict.fromkeys(names_in(strategies))),
        questions=questions,
        seed=seed,
    )
    with progress() as update:
        document = run_sweep(settings_of(root, set_), request, update)
    if json:
        print_json(document)
        return
    print_sweep(document)
    print_line(f"Plots and tables: {out / PAGE_FILE}")


def _parse_sizes(text: str) -> tuple[int, ...]:
    """The sizes, ascending and each once.

    Raises:
        ConfigurationError: If one is not a whole number, or too small to generate.
    """
    from polyhop.tasks.evaluation.generator import MIN_PASSAGES

    words = [word.strip().replace("_", "") for word in text.split(",") if word.strip()]
    if not words or not all(word.isascii() and word.isdecimal() and int(word) >= MIN_PASSAGES for word in words):
        raise ConfigurationError(
            f"--sizes takes whole numbers of at least {MIN_PASSAGES}, separated by commas, not '{text}'."
        )
    return tuple(sorted({int(word) for word in words}))


def print_sweep(document: dict[str, Any]) -> None:
    """Two tables: what indexing cost, and what asking cost; numbers of milliseconds and megabytes."""
    _print_index_costs(document["index"])
    print_line()
    _print_question_costs(document["query"])
    if len(document["sizes"]) > 1:
        print_line()
        print_growth(document)


def _print_index_costs(rows: Sequence[Mapping[str, Any]]) -> None:
    stages = list(dict.fromkeys(stage for row in rows for stage in row["stages"]))
    print_table(
        ["passages", "index s", "ms/passage", "CPU s", *(f"{stage} s" for stage in stages), "peak MB", "disk MB"],
        [
            [
                *(row[name] for name in ("passages", "seconds", "ms_per_passage", "cpu_seconds")),
                *(row["stages"].get(stage, 0.0) for stage in stages),
                *(row[name] for name in ("peak_rss_mb", "disk_mb")),
            ]
            for row in rows
        ],
    )


def _print_question_costs(by_strategy: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    names = ("passages", "p50_ms", "p95_ms", "p99_ms", "peak_rss_mb")
    print_table(
        ["strategy", "passages", "p50 ms", "p95 ms", "p99 ms", "peak MB"],
        [[strategy, *(row[name] for name in names)] for strategy, rows in by_strategy.items() for row in rows],
    )


def print_growth(document: dict[str, Any]) -> None:
    """How the largest corpus compares with the smallest."""
    first, last = document["index"][0], document["index"][-1]
    times = last["passages"] / first["passages"]
    per_passage = last["ms_per_passage"] / first["ms_per_passage"]
    print_line(f"From {first['passages']:,} to {last['passages']:,} passages ({times:.0f} times as many):")
    cpu = last["cpu_seconds"] / first["cpu_seconds"] / times
    print_line(f"  index time per passage {per_passage:.2f} times, CPU time {cpu:.2f} times")
    for strategy, rows in document["query"].items():
        print_line(f"  p95 of {strategy} {rows[-1]['p95_ms'] / rows[0]['p95_ms']:.1f} times")
