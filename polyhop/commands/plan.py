"""`polyhop plan`: what a model would be asked, and what that would cost, before anything is paid."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyhop.commands.index import print_unread
from polyhop.commands.options import FollowLinks, Json, Root, Set, link_settings, settings_of
from polyhop.output import print_json, print_line, print_table
from polyhop.schemas.chat import cost_words, dollars
from polyhop.schemas.corpus import SourceKind, source_of

if TYPE_CHECKING:
    from polyhop.flows.plan import IndexPlan


def plan(
    source: Annotated[Path | None, typer.Argument(help="Corpus, as for `polyhop index`.")] = None,
    graph: Annotated[
        str | None, typer.Option("--graph", help="A knowledge graph in place of SOURCE, as for `polyhop index`.")
    ] = None,
    add_strategy: Annotated[
        list[str] | None,
        typer.Option("--add-strategy", help="Also plan what this strategy needs, besides those of the settings."),
    ] = None,
    follow_links: FollowLinks = False,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Estimate calls, tokens, cost and time of what indexing asks of the configured models, without a call."""
    from polyhop.flows.plan import plan_index
    from polyhop.flows.question_cost import question_costs
    from polyhop.schemas.strategies import strategies_for

    if (source is None) == (graph is None):
        raise typer.BadParameter("name a SOURCE or a graph: an index is made from one of them.", param_hint="SOURCE")
    settings = settings_of(root, [*(set_ or []), *link_settings(follow_links=follow_links)])
    kind: SourceKind = "corpus" if graph is None else "graph"
    made = plan_index(settings, source_of(str(graph or source)), add_strategy or (), kind)
    asked = question_costs(settings, (*strategies_for(settings, kind), *(add_strategy or ())))
    print_unread(made.unread, made.unread_files)
    if json:
        print_json({**made.to_json(), "questions": asked})
    else:
        print_plan(made)
        print_questions(settings.models.chat_reader, asked)


def print_plan(made: "IndexPlan") -> None:
    """The plan as a table and a sentence."""
    document = made.to_json()
    sizes = made.graph or {"documents": made.documents, "passages": made.passages}
    said = ", ".join(f"{count:,} {name}" for name, count in sizes.items())
    print_line(f"{made.source}: {said}; {', '.join(_asked_models(made))}")
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
    if rows:
        print_table(["step", "units", "cached", "calls", "prompt tokens", "reply tokens", "lengths from"], rows)
    print_line(f"  {_cost(made, document)}")
    for task in made.not_planned:
        what = "paths of hubs" if task.startswith("hub.") else "things"
        verb = "embeds" if task.startswith("embed-") else "is asked about"
        print_line(f"  besides, {task} {verb} {what}, which are known once relations are extracted")
    print_line(f"  about {document['seconds'] / 60:.1f} minutes; nothing was asked, nothing was changed")


def _asked_models(made: "IndexPlan") -> list[str]:
    """What would be asked: a model, an encoder behind a server, both or none."""
    asked = [f"model {made.model}"] if made.model else []
    if made.encoder:
        asked.append(f"encoder {made.encoder}")
    return asked or ["no model"]


def print_questions(model: str, asked: Mapping[str, Mapping[str, Any]]) -> None:
    """What a question asks of the model for reading at most, a line per strategy that asks it by itself."""
    for strategy, row in asked.items():
        tasks = ", ".join(f"{calls} {task}" for task, calls in row["tasks"].items())
        tokens = f"{row['prompt_tokens']:,} + {row['completion_tokens']:,} tokens, {cost_words(row['cost_usd'])}"
        print_line(f"a question by {strategy} asks {model} at most {row['calls']} times ({tasks}): {tokens}")


def _cost(made: "IndexPlan", document: dict[str, Any]) -> str:
    """What it would cost, or why no amount is given."""
    if made.graph and not made.steps:
        return "no cost: no stage asks a model"
    if not document["calls"]:
        return "no cost: every reply is cached already"
    if document["cost_usd"] is None:
        return f"cost unknown: {_prices_to_set(made)} (USD per million tokens; 0 for a server of your own)"
    if made.is_free:
        return f"no cost: the price of '{made.model or made.encoder}' is 0"
    cost = document["cost_usd"]
    return f"cost {dollars(cost['expected'])} USD ({dollars(cost['low'])} to {dollars(cost['high'])})"


def _prices_to_set(made: "IndexPlan") -> str:
    """Which prices nobody knows, and where they are set."""
    from polyhop.tasks.planning import PlannedEmbedding
    from polyhop.warehouse.models.prices import has_price_list

    lacking = {isinstance(step.planned, PlannedEmbedding) for step in made.steps if step.price is None}
    said = {
        False: f"no price of '{made.model}' is known; set models.prompt_price and models.completion_price",
        True: f"no price of '{made.encoder}' is known; set encoder.price",
    }
    prices = "; ".join(said[is_encoder] for is_encoder in sorted(lacking))
    if has_price_list():
        return prices
    return f"{prices}; or install the list of prices and the tokenizers that plan reads (pip install 'polyhop[models]')"
