"""`polyhop deploy` and `polyhop serve`: schedules, forms and automations on a Prefect server."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyhop.commands.options import Json, Root, Set, settings_of
from polyhop.output import print_error, print_json, print_line
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.printable import plural

if TYPE_CHECKING:
    from polyhop.flows.deployments import DeployedIndex
    from polyhop.flows.prefect_automations import AutomationRequest
    from polyhop.schemas.settings import Settings

Indexes = Annotated[
    list[str] | None,
    typer.Option("--index", help="Index to deploy; may be repeated (default: all under the root, or main)."),
]
SourceFile = Annotated[
    str | None,
    typer.Option("--source", help="What the index is made from (default: what it was made from, or corpus.jsonl)."),
]
Questions = Annotated[
    Path | None, typer.Option("--questions", help="Question file for answers and evaluations (questions.jsonl).")
]
Notify = Annotated[
    str, typer.Option("--notify", help="Notification block to send failures to, TYPE/NAME like slack-webhook/ops.")
]
AfterPublish = Annotated[
    list[str] | None,
    typer.Option("--after-publish", help="Start this when a version is published: export, evaluation; repeatable."),
]
Schedule = Annotated[
    list[str] | None,
    typer.Option("--schedule", help="Switch on: incremental, check, evaluation, maintenance; repeatable."),
]


def deploy(
    index: Indexes = None,
    pool: Annotated[str, typer.Option("--pool", help="Work pool; made if it is missing.")] = "polyhop",
    source: SourceFile = None,
    questions: Questions = None,
    notify: Notify = "",
    after_publish: AfterPublish = None,
    schedule: Schedule = None,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Register deployments and automations on the Prefect server; run again after changes."""
    settings = settings_of(root, set_)
    indexes, request = _indexes(settings, index, source, questions), _automations(notify, after_publish)
    switched_on = _scheduled(schedule)
    from polyhop.flows.prefect_deploy import deploy as deploy_all

    done = deploy_all(indexes, pool, request, switched_on)
    if json:
        print_json({"pool": pool, "deployments": done.deployments, "automations": done.automations})
        return
    print_line(
        f"{plural(len(done.deployments), 'deployment')} in work pool '{pool}'{' (new)' if done.is_new_pool else ''}:"
    )
    for name in done.deployments:
        print_line(f"  {name}")
    print_line(f"{plural(len(done.automations), 'automation')}:")
    for name in done.automations:
        print_line(f"  {name}")
    print_line("Next:")
    print_line(
        f"  start a process that runs them:  POLYHOP_ROOT={settings.root.resolve()} prefect worker start --pool {pool}"
    )
    print_line(f"  run one now:  prefect deployment run {done.deployments[0]}")
    print_line("  switch schedules on: polyhop deploy --schedule KIND, or on the dashboard, as automations")


def serve(
    index: Indexes = None,
    source: SourceFile = None,
    questions: Questions = None,
    notify: Notify = "",
    after_publish: AfterPublish = None,
    schedule: Schedule = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Runs at the same time at most.")] = 4,
    set_: Set = None,
    root: Root = None,
) -> None:
    """Serve the deployments from this process, without a work pool, until it is stopped."""
    settings = settings_of(root, set_)
    indexes, request = _indexes(settings, index, source, questions), _automations(notify, after_publish)
    switched_on = _scheduled(schedule)
    from polyhop.flows.prefect_deploy import serve_all

    names = ", ".join(each.name for each in indexes)
    print_error(f"Serving the deployments of {names}; schedules run once they are switched on. Stop with Ctrl-C.")
    serve_all(indexes, request, limit, switched_on)


def _automations(notify: str, after_publish: list[str] | None) -> "AutomationRequest":
    from polyhop.flows.deployments import AFTER_PUBLISH

    for kind in after_publish or []:
        if kind not in AFTER_PUBLISH:
            raise ConfigurationError(f"--after-publish takes {' or '.join(AFTER_PUBLISH)}, not '{kind}'.")
    from polyhop.flows.prefect_automations import AutomationRequest

    return AutomationRequest(notify, frozenset(after_publish or ()))


def _scheduled(kinds: list[str] | None) -> frozenset[str]:
    from polyhop.flows.deployments import SCHEDULED

    for kind in kinds or []:
        if kind not in SCHEDULED:
            raise ConfigurationError(f"--schedule takes {', '.join(SCHEDULED[:-1])} or {SCHEDULED[-1]}, not '{kind}'.")
    return frozenset(kinds or ())


def _indexes(
    settings: "Settings", names: list[str] | None, source: str | None, questions: Path | None
) -> "list[DeployedIndex]":
    from polyhop.flows.deployed_indexes import deployed_index
    from polyhop.flows.deployments import FIRST_INDEX
    from polyhop.warehouse.files.layout import Layout

    chosen = list(dict.fromkeys(names or Layout(settings.root).index_names() or [FIRST_INDEX]))
    if source is not None and len(chosen) > 1:
        raise ConfigurationError(f"--source belongs to one index, and there are {len(chosen)}; name one with --index.")
    return [deployed_index(settings, name, source, questions) for name in chosen]
