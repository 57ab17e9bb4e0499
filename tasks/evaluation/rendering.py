"""Pages of an evaluation as one file: sections of text, plots and tables, rendered without network or script.

Invariant: every text is escaped, whatever it holds; plots are embedded as data URIs, and the page's own policy forbids
it to load anything.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table, and what sets it off: "best" of its column, or "better" or "worse" beyond chance."""

    text: str
    mark: Literal["", "best", "better", "worse"] = ""


Row = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose first columns are names, the others numbers.

    Attributes:
        caption: What it shows, and what marked cells are.
        columns: Header, one per cell of a row.
        rows: In the order shown.
        name_columns: How many columns at the left hold words.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    name_columns: int = 1


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot by its file name, and what it shows, for those who do not see it and those who wonder how to read it."""

    name: str
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: sentences, plots, tables, and tables that are folded away.

    A plot that was not drawn is left out; `absent` is said if that leaves nothing.
    """

    id: str
    title: str
    texts: tuple[str, ...] = ()
    plots: tuple[Plot, ...] = ()
    tables: tuple[Table, ...] = ()
    folded: tuple[Table, ...] = ()
    absent: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page: its title, facts as (name, value), findings as sentences, sections."""

    title: str
    facts: tuple[tuple[str, str], ...]
    findings: tuple[str, ...]
    sections: tuple[Section, ...]


def render(page: Page, plots: Mapping[str, bytes]) -> str:
    """The page as HTML, complete in itself.

    Returns:
        A document without script, frames and references to anything outside it.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("polyhop.tasks.evaluation", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("report.html.jinja")
    return template.render(page=page, sections=[_drawn(section, plots) for section in page.sections])


def _drawn(section: Section, plots: Mapping[str, bytes]) -> dict[str, object]:
    images = [
        (f"data:image/png;base64,{b64encode(plots[plot.name]).decode('ascii')}", plot.caption)
        for plot in section.plots
        if plot.name in plots
    ]
    tables, folded = _filled(section.tables), _filled(section.folded)
    is_empty = not (images or tables or folded)
    return {
        "id": section.id,
        "title": section.title,
        "texts": [section.absent] if is_empty and section.absent else section.texts,
        "images": images,
        "tables": tables,
        "folded": folded,
    }


def _filled(tables: Sequence[Table]) -> list[Table]:
    return [table for table in tables if table.rows]


def decimal(value: float | None, places: int = 3) -> str:
    """A number with fixed decimals, a dash if there is none."""
    return NOTHING if value is None else f"{value:.{places}f}"


def signed(value: float | None) -> str:
    """A difference with its sign."""
    return NOTHING if value is None else f"{value:+.3f}"


def milliseconds(value: float | None) -> str:
    """Three significant digits or whole milliseconds: 0.51, 7.73, 16.2, 250."""
    if value is None:
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """Names as in a sentence: a, b and c; beyond `most` only their number is said."""
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
