"""`polyhop versions`: what was published, and rolling back."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyhop.commands.options import IndexName, Json, Root, Strategy, settings_of
from polyhop.output import print_error, print_json, print_line, print_table
from polyhop.schemas.errors import ManifestMismatchError

if TYPE_CHECKING:
    from polyhop.schemas.settings import Settings
    from polyhop.version_diff import AnswerDifference
    from polyhop.warehouse.files.layout import IndexFolder, Layout
    from polyhop.warehouse.tables.changes import Compared

Use = Annotated[
    str | None,
    typer.Option(
        "--use",
        metavar="N|latest",
        help="Make version N the current one and pin it: later runs publish beside it. latest: the newest, unpinned.",
    ),
]
Diff = Annotated[
    tuple[int, int] | None,
    typer.Option("--diff", metavar="A B", help="What differs between versions A and B: records, entities, relations."),
]
Questions = Annotated[
    Path | None,
    typer.Option("--questions", help="With --diff: how the answers to these questions differ (as `eval` reads them)."),
]

LATEST = "latest"
_SHOWN_ANSWERS = 10  # questions; chosen: two lines or more each, and the JSON has all


def versions(
    index: IndexName,
    use: Use = None,
    diff: Diff = None,
    questions: Questions = None,
    strategy: Strategy = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """List the published versions of an index, compare two of them, or make one of them current."""
    if diff is not None:
        _print_difference(settings_of(root), index, diff, questions, strategy, json=json)
        return
    if questions is not None or strategy is not None:
        raise typer.BadParameter("say which two versions are asked (--diff A B).", param_hint="--questions")
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.files.versions import pinned_version, require_version

    layout = Layout(settings_of(root).root)
    folder = layout.index(index)
    current = require_version(layout, index)[0] if use is None else _make_current(layout, index, use)
    rows = _rows(folder, current)
    if json:
        print_json(rows)
        return
    _print_rows(rows)
    is_pinned = pinned_version(folder) is not None
    if is_pinned:
        print_line(
            f"Version {current} of '{index}' is current and pinned: runs publish beside it until: "
            f"polyhop versions --index {index} --use latest"
        )
    elif use is not None:
        print_line(f"Version {current} of '{index}' is current, and so is each version that runs publish from now on.")


def _make_current(layout: "Layout", index: str, use: str) -> int:
    """Makes the named version current; pins it unless it is the newest, which rolls nothing back."""
    from polyhop.warehouse.files.versions import (
        point_to,
        published_versions,
        read_manifest,
        remove_leftovers,
        require_version,
    )
    from polyhop.warehouse.files.writer import writer_lease

    if use != LATEST and not use.isdecimal():
        raise typer.BadParameter(f"'{use}' is neither the number of a version nor {LATEST}.", param_hint="--use")
    folder = layout.index(index)
    newest = max(published_versions(folder), default=None)
    number, version = require_version(layout, index, newest if use == LATEST else int(use))
    read_manifest(version)  # refuses what could not be asked afterwards
    with writer_lease(folder.lease, folder.name):
        remove_leftovers(folder)
        point_to(folder, number, is_pinned=number != newest)
    return number


def _rows(folder: "IndexFolder", current: int) -> list[dict[str, object]]:
    """A row per published version; what makes one unusable goes to standard error."""
    from polyhop.warehouse.files.versions import pinned_version, published_versions, read_manifest

    rows = []
    pinned = pinned_version(folder)
    for number in published_versions(folder):
        row: dict[str, object] = {"version": number, "current": number == current, "pinned": number == pinned}
        try:
            manifest = read_manifest(folder.version(number))
        except ManifestMismatchError as error:
            print_error(f"Version {number} cannot be used: {error}")
            rows.append({**row, "source": None})
        else:
            rows.append({**row, "source": manifest.source, **manifest.counts, "ratios": manifest.ratios})
    return rows


def _print_rows(rows: Sequence[Mapping[str, object]]) -> None:
    counts = ("documents", "passages", "entities", "relations", "propositions")
    print_table(
        ["version", "", *counts, "source"],
        [[row["version"], _state(row), *(row.get(name) for name in counts), row["source"]] for row in rows],
    )


def _state(row: Mapping[str, object]) -> str:
    return ", ".join(name for name in ("current", "pinned") if row[name])


def _print_difference(
    settings: "Settings", index: str, pair: tuple[int, int], questions: Path | None, strategy: str | None, *, json: bool
) -> None:
    from polyhop.version_diff import diff_versions

    diff = diff_versions(settings, index, pair, questions, strategy)
    if json:
        print_json(diff.to_json())
        return
    print_line(f"Index '{index}', version {diff.after} compared with version {diff.before}")
    for what, found in diff.compared.items():
        _print_changes(what, found)
    if diff.question_count:
        answers = sum(one.has_other_answer for one in diff.answers)
        passages = sum(one.has_other_passages for one in diff.answers)
        print_line(
            f"questions: {diff.question_count:,} asked; other answers: {answers:,}, other passages: {passages:,}"
        )
        for one in diff.answers[:_SHOWN_ANSWERS]:
            _print_answers(one)


def _print_changes(what: str, found: "Compared") -> None:
    """Counts of the changed records, entities or relations, and the first of them."""
    counts = ", ".join(f"{count:,} {kind}" for kind, count in found.counts.items() if count)
    print_line(f"{what}: {counts or 'none changed'}")
    for row in found.first:
        print_line(f"  {_sentence(what, row)}")
    if sum(found.counts.values()) > len(found.first):
        print_line("  …")


def _sentence(what: str, row: dict[str, Any]) -> str:
    """One change: `renamed  p2 (was p1)`, `merged  Mme Curie (into Marie Curie)`."""
    kind = f"{row['kind']:<8}"
    if what == "relations":
        return f"{kind} {row['source']} | {row['relation']} | {row['target']}"
    if what == "records":
        source = f" [{row['source']}]" if row["source"] else ""
        was = f" (was {row['from_id']})" if row["from_id"] else ""
        return f"{kind} {row['record_id']}{was}{source}"
    led = {"merged": "into", "split": "from"}.get(row["kind"])
    return f"{kind} {row['name']} ({led} {row['other']})" if led else f"{kind} {row['name']}"


def _print_answers(one: "AnswerDifference") -> None:
    print_line(f"  {one.question}")
    if one.has_other_answer:
        print_line(f"    {one.answers[0] or '(none)'} -> {one.answers[1] or '(none)'}")
    document = one.to_json()
    for sign, name in (("+", "passages_added"), ("-", "passages_removed")):
        if document[name]:
            print_line(f"    {sign} {', '.join(document[name])}")
