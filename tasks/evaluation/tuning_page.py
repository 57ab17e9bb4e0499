"""What tuning found as one page: the setting chosen, its worth on questions it was not chosen on, all that was tried.

Owns no number (tuning.py does). Invariant: the result on the sample never stands without the one on the rest.
"""

import shlex
from collections.abc import Mapping
from dataclasses import replace

from polyhop.tasks.evaluation.documents import Document, at, interval_words, number
from polyhop.tasks.evaluation.drawing import drawing, png
from polyhop.tasks.evaluation.plots import range_figures
from polyhop.tasks.evaluation.ranges_section import ranges_section
from polyhop.tasks.evaluation.rendering import NOTHING, Cell, Page, Row, Section, Table, decimal, render, signed


def tuning_plots(run: Document) -> dict[str, bytes]:
    """Curves, maps and best values of what was tried, as PNG by file name.

    Args:
        run: The run on the sample.
    """
    with drawing():
        return {name: png(drawn) for name, drawn in range_figures(run).items()}


def tuning_page(report: Document, run: Document, timings: Document, plots: Mapping[str, bytes]) -> str:
    """The page as HTML, complete in one file.

    Args:
        report: The JSON of `polyhop tune`.
        run: The run on the sample.
        timings: Its timings.
        plots: `tuning_plots` of the run.
    """
    sections = (
        Section("parts", "Sample and rest", (_PARTS,), tables=(_parts_table(report), _rest_table(report))),
        replace(ranges_section(run, timings), title="What was tried on the sample"),
    )
    title = f"Tuning of {report['strategy']} on index {report['index']}, version {report['version']}"
    return render(Page(title, _facts(report, run), tuple(tuning_findings(report)), sections), plots)


_PARTS = (
    "A setting that was chosen on the sample looks better there than it is. What it is worth is said by the questions "
    "that were kept back; its paired difference to the default there is the test."
)


def tuning_findings(report: Document) -> list[str]:
    """What was chosen, what it is worth, and how to use it, in sentences."""
    name, chosen, rest = report["metric"], report["chosen"], report["rest"]
    if report["is_default"]:
        return [f"No setting has a higher {name} on the sample than the default; there is nothing to change."]
    found = rest["paired"]
    words = (
        f"{signed(found['difference'])} [{signed(found['low'])}, {signed(found['high'])}], {found['wins']} wins "
        f"{found['ties']} ties {found['losses']} losses, p = {found['p']:.3g}"
    )
    best, usual = (decimal(at(report, "tuning", who, "mean")) for who in ("chosen", "default"))
    return [
        f"Highest {name} on the sample: {chosen} with {best}; the default has {usual}.",
        f"On the {rest['n']} questions kept back, chosen minus default: {words}: {_verdict(found)}",
        f"Nothing was changed; to use it{'' if _is_better(found) else ' all the same'}: {use_line(report)}",
    ]


def _verdict(found: Document) -> str:
    if not found["significant"]:
        return "no more than chance, so the default is as good a choice."
    return "better by more than chance." if found["difference"] > 0 else "worse by more than chance: keep the default."


def _is_better(found: Document) -> bool:
    return bool(found["significant"]) and found["difference"] > 0


def use_line(report: Document) -> str:
    """The command that asks with the chosen setting."""
    use = report["use"]
    words = ["polyhop", "ask", "QUESTION", "--index", report["index"], "--strategy", use["strategy"]]
    return shlex.join([*words, *(word for one in use["param"] for word in ("--param", one))])


def _facts(report: Document, run: Document) -> tuple[tuple[str, str], ...]:
    of, tuned, rest = (number(report, *keys) for keys in (("questions", "of"), ("tuning", "n"), ("rest", "n")))
    common = ", ".join(f"{key}={value}" for key, value in report["parameters"].items())
    found = (
        ("Questions", f"{of:.0f} usable ones of {report['questions']['file']}"),
        ("Tuned on", f"{tuned:.0f}, random, seed {report['seed']}"),
        ("Kept back", f"{rest:.0f}"),
        ("Settings tried", str(len(report["tried"]))),
        ("Chosen by", str(report["metric"])),
        ("Parameters for all", common),
        ("Reader", str(report["reader"])),
        ("Intervals of means", interval_words(run)),
        ("Polyhop", str(at(run, "polyhop") or "")),
    )
    return tuple((name, value) for name, value in found if value)


def _parts_table(report: Document) -> Table:
    name = report["metric"]
    rows = tuple(
        (Cell(who), Cell(report[who]), *(_mean(report[part][who]) for part in ("tuning", "rest")))
        for who in ("default", "chosen")
    )
    header = ("choice", "setting", f"{name} on the sample", f"{name} on the rest")
    return Table(f"{name}: mean [95 % interval]", header, rows, name_columns=2)


def _rest_table(report: Document) -> Table:
    rest, name = report["rest"], report["metric"]
    first = {name: {"default": rest["default"]["mean"], "chosen": rest["chosen"]["mean"], "paired": rest["paired"]}}
    rows = tuple(_compared(metric, found) for metric, found in {**first, **rest["metrics"]}.items())
    header = ("metric", "default", "chosen", "chosen minus default", "wins/ties/losses", "p")
    caption = "The rest: means, paired difference [95 % interval] and p; marked where the interval excludes 0"
    return Table(caption, header, () if report["is_default"] else rows)


def _compared(name: str, found: Document) -> Row:
    means = (Cell(decimal(found["default"])), Cell(decimal(found["chosen"])))
    paired = found["paired"]
    if paired is None:
        return (Cell(name), *means, Cell(NOTHING), Cell(NOTHING), Cell(NOTHING))
    difference = f"{signed(paired['difference'])} [{signed(paired['low'])}, {signed(paired['high'])}]"
    cell = Cell(difference)
    if paired["significant"]:
        cell = Cell(difference, "better" if paired["difference"] > 0 else "worse")
    return (
        *(Cell(name), *means, cell),
        Cell("/".join(str(paired[key]) for key in ("wins", "ties", "losses"))),
        Cell(f"{paired['p']:.3g}"),
    )


def _mean(found: Document) -> Cell:
    bounds = "" if found["low"] is None else f" [{decimal(found['low'])}, {decimal(found['high'])}]"
    return Cell(f"{decimal(found['mean'])}{bounds}")
