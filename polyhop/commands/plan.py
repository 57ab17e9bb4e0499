"""`polyhop plan`: what a model would be asked, and what that would cost, before anything is paid."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyhop.commands.options import Json, Root, Set, settings_of
from polyhop.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from flows.plan import IndexPlan


def plan(
    source: Annotated[Path, typer.Argument(help="Corpus, as for `polyhop index`.")],
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Estimate calls, tokens, cost and time of extraction by the configured model, without a call."""
    from flows.plan import plan_index

    made = plan_index(settings_of(root, set_), source)
    if json:
        print_json(made.to_json())
    else:
        print_plan(made)


def print_plan(made: "IndexPlan") -> None:
    """The plan as a table and a sentence."""
    document = made.to_json()
    print_line(f"{made.source}: {made.documents:,} documents, {made.passages:,} passages; model {made.model}")
    rows = [
        [
            step,
            f"{row['units']:,}",
            f"{row['cached']:,}",
            f"{row['calls']:,}",
            f"{row['prompt_tokens']:,}",
            f"{row['completion_tokens']:,} ({row['completion_range'][0]:,} to {row['completion_range'][1]:,})",
            "this project" if row["has_history"] else "typical",
        ]
        for step, row in document["steps"].items()
    ]
    print_table(["step", "units", "cached", "calls", "prompt tokens", "reply tokens", "lengths from"], rows)
    cost = document["cost_usd"]
    if cost is None:
        print_line("  cost unknown: set models.prompt_price and models.completion_price (USD per million tokens)")
    else:
        print_line(f"  cost {cost['expected']:.2f} USD ({cost['low']:.2f} to {cost['high']:.2f})")
    print_line(f"  about {document['seconds'] / 60:.1f} minutes; nothing was asked, nothing was changed")
