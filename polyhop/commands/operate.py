"""`polyhop deploy`, `serve`, `doctor`, `maintain` and `verify`: operation."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from polyhop.commands.options import IndexName, Json, Root, Set, settings_of
from polyhop.output import print_error, print_json, print_line, print_table
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.text import plural

if TYPE_CHECKING:
    from polyhop.flows.maintain import VerifyReport
    from polyhop.flows.prefect_deploy import DeployedIndex
    from polyhop.schemas.requests import MaintenanceReport
    from polyhop.schemas.settings import Settings

Indexes = Annotated[
    list[str] | None, Option("--index", help="Index to deploy; may be repeated (default: all under the root, or main).")
]
SourceFile = Annotated[
    str | None,
    Option("--source", help="Source of the index (default: its last source, or corpus.jsonl)."),
]
Questions = Annotated[
    Path | None, Option("--questions", help="Question file for answers and evaluations (questions.jsonl).")
]
Notify = Annotated[
    str, Option("--notify", help="Notification block to send failures to, TYPE/NAME like slack-webhook/ops.")
]
AfterPublish = Annotated[
    list[str] | None,
    Option("--after-publish", help="Run this after a version is published: export, evaluation; repeatable."),
]
Schedule = Annotated[
    list[str] | None,
    Option("--schedule", help="Enable a schedule: incremental, check, evaluation, maintenance; repeatable."),
]


def deploy(
    index: Indexes = None,
    pool: Annotated[str, Option("--pool", help="Work pool; created if it is missing.")] = "polyhop",
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
    indexes = _deployed(settings, index, source, questions, notify, after_publish, schedule)
    from polyhop.flows.prefect_deploy import deploy as deploy_all

    deployments, is_new_pool, automations = deploy_all(indexes, pool, notify, after_publish or (), schedule or ())
    if json:
        print_json({"pool": pool, "deployments": deployments, "automations": automations})
        return
    print_line(f"{plural(len(deployments), 'deployment')} in work pool '{pool}'{' (new)' if is_new_pool else ''}:")
    for name in deployments:
        print_line(f"  {name}")
    print_line(f"{plural(len(automations), 'automation')}:")
    for name in automations:
        print_line(f"  {name}")
    print_line("Next:")
    print_line(
        f"  start a process that runs them:  POLYHOP_ROOT={settings.root.resolve()} prefect worker start --pool {pool}"
    )
    print_line(f"  run one now:  prefect deployment run {deployments[0]}")
    print_line("  enable schedules: polyhop deploy --schedule KIND, or on the dashboard, as automations")


def serve(
    index: Indexes = None,
    source: SourceFile = None,
    questions: Questions = None,
    notify: Notify = "",
    after_publish: AfterPublish = None,
    schedule: Schedule = None,
    set_: Set = None,
    root: Root = None,
) -> None:
    """Serve the deployments from this process, without a work pool, until it is stopped."""
    settings = settings_of(root, set_)
    indexes = _deployed(settings, index, source, questions, notify, after_publish, schedule)
    from polyhop.flows.prefect_deploy import serve_all

    names = ", ".join(each.name for each in indexes)
    print_error(f"Serving the deployments of {names}; schedules run once they are enabled. Stop with Ctrl-C.")
    serve_all(indexes, notify, after_publish or (), schedule or ())


def _deployed(
    settings: "Settings",
    names: list[str] | None,
    source: str | None,
    questions: Path | None,
    notify: str,
    after_publish: list[str] | None,
    schedule: list[str] | None,
) -> "list[DeployedIndex]":
    """The indexes that `deploy` and `serve` register; kinds to start or to schedule must exist."""
    from polyhop.flows.prefect_deploy import AFTER_PUBLISH, FIRST_INDEX, SCHEDULED, deployed_index
    from polyhop.warehouse.files.layout import Layout

    given = (("--after-publish", AFTER_PUBLISH, after_publish), ("--schedule", SCHEDULED, schedule))
    for option, known, kinds in given:
        for kind in kinds or ():
            if kind not in known:
                raise ConfigurationError(f"{option} takes {', '.join(known[:-1])} or {known[-1]}, not '{kind}'.")
    chosen = list(dict.fromkeys(names or Layout(settings.root).index_names() or [FIRST_INDEX]))
    if source is not None and len(chosen) > 1:
        raise ConfigurationError(f"--source needs a single index, and there are {len(chosen)}; name one with --index.")
    indexes = [deployed_index(settings, name, source, questions) for name in chosen]
    if notify and not all(notify.partition("/")):
        raise ConfigurationError(
            f"--notify takes TYPE/NAME of a notification block (slack-webhook/ops), not '{notify}'."
        )
    return indexes


def doctor(root: Root = None, json: Json = False) -> None:
    """Check packages, disk, stores, encoder, indexes, writers, queue, Prefect and Neo4j, and say what to fix."""
    from polyhop.doctor import run_checks

    checks = run_checks(settings_of(root))
    healthy = all(check.ok for check in checks)
    if json:
        print_json({"ok": healthy, "checks": [asdict(check) for check in checks]})
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            print_line(f"{'ok  ' if check.ok else 'FAIL'}  {check.name:<{width}}  {check.message}")
        print_line("Everything works." if healthy else "Fix the checks marked FAIL and run `polyhop doctor` again.")
    if not healthy:
        raise typer.Exit(1)


def maintain(
    index: Annotated[str | None, Option("--index", help="Only this index; default: all.")] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Print what would be removed without removing it.")] = False,
    queue_days: Annotated[
        float | None,
        Option("--queue-days", min=0, help="Also delete jobs that ended at least this many days ago; default: none."),
    ] = None,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Prune versions beyond keep_versions, free vectors, vacuum caches and queue, remove what killed runs left."""
    from polyhop.flows.maintain import run_maintenance
    from polyhop.schemas.requests import MaintenanceRequest

    report = run_maintenance(settings_of(root, set_), MaintenanceRequest(index, dry_run, queue_days))
    print_json(report.to_json()) if json else print_report(report)


def print_report(report: "MaintenanceReport") -> None:
    """Prints removed items, and the size of each part before and after."""
    verb = "would be removed" if report.dry_run else "removed"
    for name, numbers in report.removed_versions.items():
        if numbers:
            print_line(f"Index '{name}': versions {', '.join(map(str, numbers))} {verb}")
    for what, count in report.removed.items():
        if count:
            print_line(f"{count:,} {what} {verb}")
    for part, freed in report.compacted.items():
        print_line(f"{part}: {freed / 1e6:.1f} MB of empty pages {verb}")
    for sentence in report.skipped:
        print_line(sentence)
    rows = [
        [part.part, part.before.files, part.after.files, part.before.bytes / 1e6, part.after.bytes / 1e6]
        for part in report.parts
        if part.before.files or part.after.files
    ]
    before, after = report.before, report.after
    rows.append(["all", before.files, after.files, before.bytes / 1e6, after.bytes / 1e6])
    print_table(["part", "files before", "after", "MB before", "after"], rows)


def verify(
    index: IndexName,
    neo4j: Annotated[
        bool, Option("--neo4j", help="Also compare with the Neo4j of NEO4J_URI, NEO4J_USER, NEO4J_PASSWORD.")
    ] = False,
    repair: Annotated[bool, Option("--repair", help="Repair the differences, then compare again.")] = False,
    set_: Set = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Compare what is stored with what was published, and Neo4j with it; exit code 1 if something differs."""
    from polyhop.flows.maintain import repair as repair_stores
    from polyhop.flows.maintain import run_verify
    from polyhop.warehouse.open import find_address

    settings = settings_of(root, set_)
    address = find_address(None, None, None, named_by="NEO4J_URI") if neo4j else None
    report = run_verify(settings, index, address)
    if repair and not report.ok:
        if not json:
            _print(report, "before the repair", is_repaired=True)
        repair_stores(settings, report, address)
        report = run_verify(settings, index, address)
    print_json(report.to_json()) if json else _print(report, f"version {report.version}")
    if not report.ok:
        raise typer.Exit(1)


def _print(report: "VerifyReport", when: str, *, is_repaired: bool = False) -> None:
    print_line(f"Index '{report.index}', {when}:")
    for name, found in report.differences.items():
        print_line(f"{'ok  ' if not found else 'FAIL'}  {name.replace('_', ' ')}")
        for sentence in found:
            print_line(f"      {sentence}")
    if not report.ok and not is_repaired:
        database = " --neo4j" if report.differences.get("neo4j") else ""
        print_line(f"Fix it with: polyhop verify --index {report.index}{database} --repair")
