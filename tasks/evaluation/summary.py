"""The evaluation report as a short Markdown text, for places that show one: a Prefect artifact, an issue, a terminal.

Owns no number (report_tables.py) and no sentence (findings.py); the page (page.py) says more. Invariant: names and
errors are data, and what would be markup in them is escaped.
"""

from polyhop.schemas.markdown import escaped, table_lines
from polyhop.tasks.evaluation.documents import (
    COMPARED_METRICS,
    MAIN_TRIPLE_METRICS,
    Document,
    baselines,
    fields,
    judged_metrics,
    leading_metric,
)
from polyhop.tasks.evaluation.findings import findings
from polyhop.tasks.evaluation.page import facts
from polyhop.tasks.evaluation.ranges import stored_ranges
from polyhop.tasks.evaluation.rendering import Cell, Table
from polyhop.tasks.evaluation.report_tables import (
    answers_table,
    differences_table,
    failures_table,
    group_table,
    intervals_table,
    range_table,
    results_table,
)

FAILURES_SHOWN = 10  # rows; chosen: a summary is read at a glance, and report.html has more
_DROPPED = ("recall@1", "recall@20", "recall@30", "failures")


def summary_markdown(run: Document, timings: Document) -> str:
    """A stored evaluation in Markdown: findings, what was evaluated, results, differences, ranges, answers, failures.

    Args:
        run: The document of the run.
        timings: Its timings.

    Returns:
        Text that ends with a newline; equal arguments give equal text.
    """
    title = f"# Evaluation of index {escaped(str(run.get('index')))}, version {escaped(str(run.get('version')))}"
    sentences = "\n".join(f"* {escaped(sentence)}" for sentence in findings(run, timings))
    about = " · ".join(f"{escaped(name)}: {escaped(value)}" for name, value in facts(run, timings))
    tables = [_table(table) for table in _tables(run, timings) if table.rows]
    return "\n\n".join([title, sentences, about, *tables, *_failures(run)]) + "\n"


def _tables(run: Document, timings: Document) -> list[Table]:
    """Results, differences, ranges, groups where triples are ranked, and answers where any were judged."""
    tables = [_without(results_table(run, timings), _DROPPED), intervals_table(run, COMPARED_METRICS)]
    tables += [differences_table(run, baseline, COMPARED_METRICS) for baseline in baselines(run)]
    tables += [range_table(run, timings, one) for one in stored_ranges(run)]
    if (leading := leading_metric(run)) in MAIN_TRIPLE_METRICS:
        groups = ("by_hops", *(f"by_field/{field}" for field in fields(run)))
        tables += [group_table(run, kind, str(leading)) for kind in groups]
    if judged_metrics(run, ("em", "f1")):
        tables.append(answers_table(run))
    return tables


def _failures(run: Document) -> list[str]:
    """The first failures, and how many more there are; nothing if no question failed."""
    failures = failures_table(run)
    if not failures.rows:
        return []
    shown = Table(failures.caption, failures.columns, failures.rows[:FAILURES_SHOWN], failures.name_columns)
    more = len(failures.rows) - FAILURES_SHOWN
    return [_table(shown), *([f"{more} more failures are listed in report.html."] if more > 0 else [])]


def _table(table: Table) -> str:
    header = [escaped(name) for name in table.columns]
    body = [[_cell(cell) for cell in row] for row in table.rows]
    lines = "\n".join(table_lines([header, *body], table.name_columns))
    return f"{escaped(table.caption)}:\n\n{lines}"


def _cell(cell: Cell) -> str:
    return f"**{escaped(cell.text)}**" if cell.mark else escaped(cell.text)


def _without(table: Table, names: tuple[str, ...]) -> Table:
    kept = [place for place, name in enumerate(table.columns) if name not in names]
    rows = tuple(tuple(row[place] for place in kept) for row in table.rows)
    return Table(table.caption, tuple(table.columns[place] for place in kept), rows, table.name_columns)
