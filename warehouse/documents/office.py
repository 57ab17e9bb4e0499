"""Texts of Word, PowerPoint, Excel, CSV and PDF files with headings, tables, notes, slides, rows and pages.

Of Word, python-docx reads the package and its styles, and the body is walked here: in one pass, whatever it holds.
"""

import csv
import datetime
import posixpath
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from ctypes import create_string_buffer
from itertools import pairwise
from typing import Any, BinaryIO

from polyhop.schemas.records import Document
from polyhop.warehouse.documents.building import (
    Reading,
    TextBuilder,
    clean_line,
    clean_text,
    list_number,
    open_office,
    parse_xml,
    raised,
)
from polyhop.warehouse.documents.tables import Cell, spread, table_groups
from polyhop.warehouse.files.encodings import decode, separator_of
from polyhop.warehouse.files.records import MAX_RECORD_BYTES, FaultError, damage

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_SKIPPED = frozenset(
    ("{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback", f"{_W}moveFrom", f"{_W}del")
)
"""Elements whose text stands elsewhere, too, or not any more; Fallback is for older programs."""
_NOTES = ("footnotes", "endnotes")
_PICTURES = (
    "{http://schemas.openxmlformats.org/drawingml/2006/picture}pic",
    "{urn:schemas-microsoft-com:vml}imagedata",
)
_MOST_LEVELS = 9  # Word has nine levels of headings; the tenth is text (ECMA-376, outlineLvl)
_STYLE_DEPTH = 10  # how often a style may be based on another; Word allows 11


def read_word(stream: BinaryIO, reading: Reading) -> Document:
    """The text of a Word file: paragraphs, tables, then notes; without hidden text and text deleted as a change."""
    import docx

    file = docx.Document(open_office(stream, reading.max_unpacked_mb))
    builder, body = TextBuilder(), file.element.body
    if body is None:
        raise FaultError("it is damaged (it has no body)")
    parts = {rel.reltype.rsplit("/", 1)[-1]: rel for rel in file.part.rels.values() if not rel.is_external}
    numbering = parts.get("numbering")
    _write_numbers(body, _ListNumbers(parse_xml(numbering.target_part.blob) if numbering else ()))
    _make_plain(body)
    title = _WordBody(builder, file, reading).add(body)
    for kind in _NOTES:
        for note in parse_xml(parts[kind].target_part.blob) if kind in parts else ():
            if isinstance(note.tag, str) and note.get(f"{_W}type") is None:  # no line above notes
                _make_plain(note)
                builder.add(_words(note)[0])
    for _ in body.iter(*_PICTURES):
        builder.skip("picture")
    if not builder.length:
        raise FaultError("it has no text: nothing but pictures, or nothing at all")
    stated = file.core_properties
    return builder.document(title if stated.title in {"", "Word Document"} else stated.title, {"author": stated.author})


class _WordBody:
    """Adds the elements of a body in their order, and counts its pages, where Word drew them."""

    def __init__(self, builder: TextBuilder, file: Any, reading: Reading) -> None:
        self._builder, self._reading, self._part = builder, reading, file.part
        self._levels = _levels(file)
        self._page = 0

    def add(self, body: Any) -> str:
        """Adds everything; returns the first paragraph in the style Title."""
        title = ""
        if next(body.iter(f"{_W}lastRenderedPageBreak"), None) is not None:
            self._turn(1, is_first=True)
        for element in _below(body, {f"{_W}p", f"{_W}tbl", f"{_W}altChunk"}):
            if element.tag == f"{_W}tbl":
                self._add_table(element)
                continue
            if element.tag == f"{_W}altChunk":
                self._add_file(element.get(f"{_R}id"))
                continue
            words, before, after = _words(element)
            self._turn(before)
            level = self._level(element)
            if level is None:
                self._builder.add(words)
            elif words.strip():
                title = title or (words if level == 0 else "")
                self._builder.heading(level, words)
            self._turn(after)
        return title

    def _turn(self, pages: int, *, is_first: bool = False) -> None:
        if pages and (self._page or is_first):
            self._page += pages
            self._builder.locate(page=self._page)

    def _level(self, paragraph: Any) -> int | None:
        """The level of a heading, 0 for the title of the file; None for text."""
        style, outline = paragraph.find(f"{_W}pPr/{_W}pStyle"), paragraph.find(f"{_W}pPr/{_W}outlineLvl")
        if outline is not None:
            return _outline_level(outline)
        return None if style is None else self._levels.get(style.get(f"{_W}val"))

    def _add_table(self, table: Any) -> None:
        pages = 0
        rows: list[list[Cell]] = []
        for row in _below(table, {f"{_W}tr"}):
            cells: list[Cell] = [("", _number(row.find(f"{_W}trPr/{_W}gridBefore"), 0), 1)]
            turns = [0]
            for cell in _below(row, {f"{_W}tc"}):
                text, before, after = _words(cell)
                merge = cell.find(f"{_W}tcPr/{_W}vMerge")
                is_merged = merge is not None and merge.get(f"{_W}val") != "restart"
                width = _number(cell.find(f"{_W}tcPr/{_W}gridSpan"), 1)
                cells.append((None if is_merged else text, width, 1))
                turns.append(before + after)
            rows.append(cells if cells[0][1] else cells[1:])
            pages += max(turns)
        self._builder.table(spread(rows))
        self._turn(pages)

    def _add_file(self, relationship: str | None) -> None:
        """A file of another format that Word shows as a part of this one."""
        part = self._part.rels[relationship].target_part if relationship in self._part.rels else None
        name = str(part.partname) if part is not None else "altChunk"
        found = self._reading.read_attached(name, part.blob) if part is not None else "it is missing"
        if isinstance(found, str):
            self._builder.unread[name.rsplit("/", 1)[-1]] = "part of a Word file in another format"
        else:
            self._builder.include(found)


def _value(element: Any) -> str:
    return (element.get(f"{_W}val") or "") if element is not None else ""


def _number(element: Any, default: int) -> int:
    stated = _value(element)
    return int(stated) if stated.isdecimal() else default


class _ListNumbers:
    """The numbers of list items, as a file's definition of its lists has them."""

    def __init__(self, numbering: Iterable[Any]) -> None:
        self._levels: dict[str, dict[int, tuple[int, str, str]]] = {}  # of a list: start, format and text by level
        self._list_of: dict[str, str] = {}
        self._counts: dict[str, dict[int, int]] = {}
        for element in numbering:
            if element.tag == f"{_W}abstractNum":
                levels: dict[int, tuple[int, str, str]] = {}
                for level in element.findall(f"{_W}lvl"):
                    kind, text = level.find(f"{_W}numFmt"), level.find(f"{_W}lvlText")
                    start = _number(level.find(f"{_W}start"), 1)
                    levels[int(level.get(f"{_W}ilvl") or 0)] = (start, _value(kind), _value(text))
                self._levels[element.get(f"{_W}abstractNumId")] = levels
            elif element.tag == f"{_W}num":
                of_list = element.find(f"{_W}abstractNumId")
                own_id = element.get(f"{_W}numId")
                self._list_of[own_id] = of_list.get(f"{_W}val") if of_list is not None else ""
                override = element.find(f"{_W}lvlOverride/{_W}startOverride")
                if override is not None:  # a list that begins again
                    levels = dict(self._levels.get(self._list_of[own_id], {}))
                    _, kind, text = levels.get(0, (1, "decimal", "%1."))
                    levels[0] = (_number(override, 1), kind, text)
                    self._levels[f"#{own_id}"], self._list_of[own_id] = levels, f"#{own_id}"

    def after(self, list_id: str, level: int) -> str:
        """The number of the next item with what stands around it; "" for a bullet."""
        of_list = self._list_of.get(list_id, "")
        levels = self._levels.get(of_list, {})
        counts = self._counts.setdefault(of_list, {})
        counts[level] = counts.get(level, levels.get(level, (1,))[0] - 1) + 1
        for deeper in [one for one in counts if one > level]:
            del counts[deeper]
        _, kind, text = levels.get(level, (1, "bullet", ""))
        if kind in {"bullet", "none", ""}:
            return ""

        def shown(match: re.Match[str]) -> str:
            at = int(match[1]) - 1
            start, of_level, _ = levels.get(at, (1, "", ""))
            return list_number(counts.get(at, start), _KINDS.get(of_level, "1"))

        return re.sub(r"%(\d)", shown, text)


_KINDS = {"lowerLetter": "a", "upperLetter": "A", "lowerRoman": "i", "upperRoman": "I"}  # as HTML calls them


def _write_numbers(body: Any, numbers: _ListNumbers) -> None:
    """Writes the number of each list item in front of it."""
    for properties in body.iter(f"{_W}numPr"):
        list_id, level = properties.find(f"{_W}numId"), _number(properties.find(f"{_W}ilvl"), 0)
        paragraph = properties.getparent().getparent()
        number = numbers.after(list_id.get(f"{_W}val"), level) if list_id is not None else ""
        if number and paragraph is not None and paragraph.tag == f"{_W}p":
            _replace_by_text(properties, f"{number} ")


def _replace_by_text(element: Any, text: str) -> None:
    written = element.makeelement(f"{_W}t")
    written.text = text
    element.getparent().replace(element, written)


def _make_plain(root: Any) -> None:
    """Writes symbols, superscripts and equations as text, and takes out what is hidden."""
    for symbol in list(root.iter(f"{_W}sym")):
        _replace_by_text(symbol, _symbol(symbol))
    for mark in list(root.iter(f"{_W}vanish", f"{_W}vertAlign")):
        run = mark.getparent().getparent()
        if run is None or run.tag != f"{_W}r" or run.getparent() is None:
            continue
        if mark.tag == f"{_W}vanish":
            if mark.get(f"{_W}val") not in {"0", "false", "off"}:
                run.getparent().remove(run)
        elif mark.get(f"{_W}val") == "superscript":
            _write_raised(run)
    for equation in list(root.iter(f"{_M}oMath")):
        _replace_by_text(equation, _equation(equation))


def _write_raised(run: Any) -> None:
    """Writes a superscript, which may go on in the next runs, as text."""
    runs = [run]
    while (following := runs[-1].getnext()) is not None and _value(following.find(_VERTICAL)) == "superscript":
        runs.append(following)
    texts = [text for one in runs for text in one.findall(f"{_W}t")]
    raw = "".join(one.text or "" for one in texts)
    if raw:
        before = run.getprevious()
        texts[0].text = raised(_words(before)[0] if before is not None else "", raw)
        for one in texts[1:]:
            one.text = ""
        for one in runs:
            one.find(_VERTICAL).set(f"{_W}val", "baseline")


_VERTICAL = f"{_W}rPr/{_W}vertAlign"


def _equation(element: Any) -> str:
    """An equation on one line: `(a + b)/2`, `x^2`, `√y`, `sin t`, `[a, b; c, d]`."""
    kind = _kind(element)
    if kind == "t":
        return element.text or ""
    children = [child for child in element if isinstance(child.tag, str) and not child.tag.endswith("Pr")]
    parts = [_equation(child) for child in children]
    properties = element.find(f"{_M}{kind}Pr")

    def stated(name: str, default: str) -> str:
        found = properties.find(f"{_M}{name}") if properties is not None else None
        return default if found is None else found.get(f"{_M}val") or ""

    if kind in _ENCLOSED:
        begin, between, end = _ENCLOSED[kind]
        joined = stated("sepChr", between).join(parts)
        return f"{stated('begChr', begin)}{joined}{stated('endChr', end)}"
    if kind in _MARKED:
        return _grouped("".join(parts)) + stated("chr", _MARKED[kind])
    if kind in _SIGNS:
        begin = stated("chr", "∫") if kind == "nary" else ""
        return begin + "".join(
            f"{sign}{_grouped(part)}" for sign, part in zip(_SIGNS[kind], parts, strict=False) if part
        )
    text = parts[0] if parts else ""
    for (before, child), part in zip(pairwise(children), parts[1:], strict=True):
        are_runs = _kind(before) == _kind(child) == "r" or kind == "r"
        text += f" {part}" if not are_runs and text[-1:].isalnum() and part[:1].isalnum() else part
    return text


def _kind(element: Any) -> str:
    return str(element.tag).rsplit("}", 1)[-1]


_ENCLOSED = {"d": ("(", "|", ")"), "m": ("[", "; ", "]"), "mr": ("", ", ", ""), "eqArr": ("", "; ", "")}
"""Characters before, between and after the parts of brackets, of a matrix and its rows, and of equations."""
_MARKED = {"acc": "\u0302", "bar": "\u0305", "groupChr": "\u23df"}
"""The sign over or under a part, unless it is stated."""
_SIGNS = {
    "f": ("", "/"),
    "sSup": ("", "^"),
    "sSub": ("", "_"),
    "sSubSup": ("", "_", "^"),
    "sPre": ("_", "^", " "),
    "rad": ("", "√"),
    "nary": ("_", "^", " "),
    "func": ("", " "),
    "limLow": ("", "_"),
    "limUpp": ("", "^"),
}
"""Signs before the parts of a fraction, a power, an index, a root (after its degree), a sum, a function, a limit."""


def _grouped(text: str) -> str:
    return text if len(text) < 2 or text.isalnum() or _IN_BRACKETS.fullmatch(text) else f"({text})"


_IN_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")


def _symbol(element: Any) -> str:
    """The character of a symbol, in Symbol's own encoding that of Unicode."""
    code = element.get(f"{_W}char") or ""
    number = int(code, 16) if re.fullmatch(r"[0-9A-Fa-f]{1,4}", code) else 0
    if element.get(f"{_W}font") == "Symbol" and number & 0xFF00 in {0, 0xF000}:
        return chr(number & 0xFF).translate(_SYMBOLS)
    return chr(number)


_SYMBOLS = str.maketrans(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz\xa3\xa5\xae\xb3\xb4\xb7\xb8\xb9\xbb\xb6\xd6\xe5",
    "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖαβχδεφγηιϕκλμνοπθρστυϖωξψζ≤∞→≥×•÷≠≈∂√∑",
)
"""The letters of the font Symbol, and its signs that formulas use (Unicode's mapping table of it, SYMBOL.TXT)."""


def _words(element: Any) -> tuple[str, int, int]:
    """The text of an element, and how many pages begin in it: before its first words, and after them."""
    pieces: list[str] = []
    before = after = 0
    for part in _below(element, _WORDS):
        if part.tag == f"{_W}t":
            pieces.append(part.text or "")
        elif part.tag != f"{_W}lastRenderedPageBreak":
            pieces.append(_MARKS[part.tag])
        elif any(not piece.isspace() for piece in pieces):
            after += 1
        else:
            before += 1
    return "".join(pieces), before, after


_MARKS = {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-", f"{_W}p": "\n"}
_WORDS = frozenset((*_MARKS, f"{_W}t", f"{_W}lastRenderedPageBreak"))


def _below(root: Any, wanted: Collection[str]) -> Iterator[Any]:
    """The wanted elements below an element, in order; of all but `_WORDS` not those that are in one of them.

    So text boxes and inner tables are words of their container.
    """
    is_whole = wanted is not _WORDS
    waiting = list(reversed(root))
    while waiting:
        element = waiting.pop()
        if not isinstance(element.tag, str) or element.tag in _SKIPPED:
            continue
        if element.tag in wanted:
            yield element
            if is_whole:
                continue
        waiting.extend(reversed(element))


def _levels(file: Any) -> Mapping[str, int]:
    """Id of each style of headings to its level; a style based on one of them is one, too."""
    found = {}
    for style in file.styles:
        base = style
        for _ in range(_STYLE_DEPTH):
            level = _own_level(base)
            if level is not None:
                found[style.style_id] = level
            base = getattr(base, "base_style", None)
            if level is not None or base is None:
                break
    return found


def _own_level(style: Any) -> int | None:
    name = str(style.name or "").lower()
    if name == "title":
        return 0
    kind, _, number = name.rpartition(" ")
    if kind == "heading" and number.isdigit() and 1 <= int(number) <= _MOST_LEVELS:
        return int(number)
    outline = style.element.find(f"{_W}pPr/{_W}outlineLvl")
    return None if outline is None else _outline_level(outline)


def _outline_level(outline: Any) -> int | None:
    """Levels are counted from 0 in the file; the tenth is text."""
    level = _number(outline, _MOST_LEVELS)
    return level + 1 if level < _MOST_LEVELS else None


def read_slides(stream: BinaryIO, reading: Reading) -> Document:
    """The text of a PowerPoint file: of each slide its title, its other texts in their order, and its notes."""
    import pptx

    file = pptx.Presentation(open_office(stream, reading.max_unpacked_mb))
    builder = TextBuilder()
    for number, slide in enumerate(file.slides, start=1):
        builder.locate(slide=number)
        title = slide.shapes.title
        if title is not None and title.has_text_frame:
            builder.heading(1, title.text_frame.text)
        others = (shape for shape in slide.shapes if title is None or shape.element is not title.element)
        _add_shapes(builder, others)
        notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
        if notes is not None:
            builder.add(notes.text)
    if not builder.length:
        count = len(file.slides)
        raise FaultError(f"it has no text: {count} slide{'' if count == 1 else 's'} of pictures, or nothing at all")
    stated = file.core_properties
    metadata = {"author": stated.author, "slides": len(file.slides)}
    return builder.document("" if stated.title == "PowerPoint Presentation" else stated.title, metadata)


def _add_shapes(builder: TextBuilder, shapes: Iterable[Any]) -> None:
    """Adds texts and tables; groups are opened. XML of more than 256 levels is refused when it is parsed."""
    for shape in shapes:
        if hasattr(shape, "shapes"):
            _add_shapes(builder, shape.shapes)
        elif getattr(shape, "has_table", False):
            cells = ([cell for cell in row.cells if not cell.is_spanned] for row in shape.table.rows)
            rows = ([(cell.text, cell.span_width, cell.span_height) for cell in row] for row in cells)
            builder.table(spread(rows))
        elif shape.has_text_frame:
            builder.add(shape.text_frame.text)
        elif hasattr(shape, "image") or getattr(shape, "has_chart", False):
            builder.skip("picture" if hasattr(shape, "image") else "chart")


_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\b[^<>]*\bref="([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})"')
_NO_VALUE = re.compile(
    rb'<(?:\w+:)?c r="(\w{1,10})"[^<>]*>\s*<(?:\w+:)?f\b[^<>]*(?:/>|>[^<>]*</(?:\w+:)?f>)\s*(?:<v></v>|<v ?/>)?</'
)
_SEARCHED_BYTES = 128 * 1024 * 1024  # of a sheet in which merged cells are looked for; chosen
_MOST_MERGED = 10_000  # cells of one merged range that repeat its value; chosen


def read_sheets(stream: BinaryIO, reading: Reading) -> Document:
    """The text of an Excel file; rows without a value are passed over, whatever size a sheet claims to have.

    Rows are grouped into passages that begin with the names of the columns, each a section with its rows.
    """
    import openpyxl

    stream = open_office(stream, reading.max_unpacked_mb)
    file = openpyxl.load_workbook(stream, read_only=True, data_only=True, keep_links=False)
    builder = TextBuilder()
    for sheet, content in zip(file.worksheets, _sheet_contents(stream), strict=False):
        sheet.reset_dimensions()  # what a sheet claims would be filled up with empty cells
        _add(builder, sheet.title, _merged(sheet.iter_rows(), _MERGED.finditer(content)), reading)
        for match in _NO_VALUE.finditer(content):
            builder.unread[f"{sheet.title}!{match[1].decode()}"] = "formula without a value"
    if not builder.length:
        raise FaultError("it has no text: no cell has a value")
    stated = file.properties
    return builder.document(stated.title or "", {"author": stated.creator, "sheets": len(file.worksheets)})


def _sheet_contents(stream: BinaryIO) -> Iterator[bytes]:
    """The XML of each sheet with cells, in the order of the workbook; b"" of one that is too large to search."""
    with zipfile.ZipFile(stream) as archive:
        book = next(name for name in archive.namelist() if name.endswith("xl/workbook.xml"))
        folder, name = posixpath.split(book)
        targets = {one.get("Id"): one.get("Target") for one in parse_xml(archive.read(f"{folder}/_rels/{name}.rels"))}
        for sheet in parse_xml(archive.read(book)).iter("{*}sheet"):
            target = posixpath.join(folder, targets.get(sheet.get(f"{_R}id")) or "").lstrip("/")
            if "/worksheets/" in f"/{target}":
                yield archive.read(target) if archive.getinfo(target).file_size <= _SEARCHED_BYTES else b""


def _merged(rows: Iterable[Sequence[Any]], ranges: Iterable[re.Match[bytes]]) -> Iterator[list[str]]:
    """The rows of a sheet as it shows them, in which merged cells repeat their value."""
    from openpyxl.utils import column_index_from_string

    spans: dict[int, list[tuple[int, int, int]]] = {}  # first row to first and last column, and rows
    for first, top, last, bottom in (match.groups() for match in ranges):
        left, right = (column_index_from_string(name.decode()) - 1 for name in (first, last))
        height = int(bottom) - int(top) + 1
        if 0 < (right - left + 1) * height <= _MOST_MERGED:
            spans.setdefault(int(top), []).append((left, right, height))
    going_on: list[tuple[int, int, int, str]] = []
    for number, row in enumerate(rows, start=1):
        cells = [_shown(cell) for cell in row] if any(cell.value is not None for cell in row) else []
        going_on = [one for one in going_on if one[2] >= number]
        for left, right, height in spans.get(number, ()):
            going_on.append((left, right, number + height - 1, cells[left] if left < len(cells) else ""))
        for left, right, _, text in going_on if cells else ():
            cells += [""] * (right + 1 - len(cells))
            cells[left : right + 1] = [text] * (right + 1 - left)
        yield cells


def _shown(cell: Any) -> str:
    """A value as its sheet shows it: percentages, leading zeros and durations by their format."""
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        format_ = str(cell.number_format)
        if _PERCENT.search(format_):
            decimals = _PERCENT.search(format_)
            return f"{value:.{len(decimals[1] or '') if decimals else 0}%}"
        if _ZEROS.fullmatch(format_):
            return f"{value:0{len(format_)}.0f}"
        return f"{value:.15g}" if isinstance(value, float) else str(value)  # what Excel itself computes with
    if isinstance(value, datetime.timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")
    if isinstance(value, datetime.datetime):
        is_date = value.time() == datetime.time()
        return value.date().isoformat() if is_date else value.isoformat(sep=" ", timespec="seconds")
    return str(value)


_PERCENT = re.compile(r"(?:\.(0+))?%")
_ZEROS = re.compile(r"0{2,}")


def read_csv(stream: BinaryIO, reading: Reading) -> Document:
    """The text of a CSV file as that of a sheet."""
    csv.field_size_limit(MAX_RECORD_BYTES)
    builder = TextBuilder()
    text = decode(stream.read())
    separator, skipped = separator_of(text)
    lines = text.splitlines(keepends=True)[skipped:]
    try:
        _add(builder, "", csv.reader(lines, delimiter=separator, strict=True), reading)
    except csv.Error as error:
        raise FaultError(f"not CSV: {error}") from error
    if not builder.length:
        raise FaultError("it has no text: no cell has a value")
    return builder.document("")


def _add(builder: TextBuilder, sheet: str, rows: Iterable[Sequence[str]], reading: Reading) -> None:
    for text, numbers in table_groups(rows, reading.passage_characters):
        builder.locate(sheet=sheet, rows=numbers)
        builder.add(text)


_HYPHEN = re.compile(r"([^\W_]*)[\ufffe\x02]\r?\n?(\w*)")
"""A word with what pdfium writes for a hyphen at the end of a line; it goes on in the next one."""
_COMPOUND = re.compile(r"[^\W_]+(?:-[^\W_]+)+")
_HYPHENATED = frozenset(("half", "ill", "self", "well"))
"""Words that form compounds with a hyphen rather than closed ones; a break inside a word seldom leaves them."""
_NO_TITLE = re.compile(
    r"(?:untitled|microsoft (?:word|powerpoint|excel) ?-.*|.*\.(?:docx?|pptx?|xlsx?|pdf|tex|indd))", re.I
)
_DEEPEST_OUTLINE = 15  # levels; pypdfium2's own default
_WRONG_PASSWORD = 4  # FPDF_ERR_PASSWORD of pdfium's fpdfview.h
_ARABIC = re.compile("[\u0622\u0623\u0625\u0627]\u0644")
"""Alef before lam: the article, or a glyph of both letters that was turned round."""
_LONG_LINE = 0.8  # of the longest line of a page: the sentence goes on in the next one. Chosen.


def read_pdf(stream: BinaryIO, _reading: Reading) -> Document:
    """The text of a PDF file, in the order in which the file draws it; a sentence goes on over the end of a page."""
    import pypdfium2

    try:
        file = pypdfium2.PdfDocument(stream)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _WRONG_PASSWORD or "password" in str(error).lower():
            raise FaultError("it is encrypted with a password; save it without one") from error
        raise FaultError(f"it is damaged ({damage(error)})") from error
    if file.get_formtype():
        file.init_forms()
    builder = TextBuilder()
    texts = list(_page_texts(file, builder.unread))
    compounds = {word.lower() for text, _ in texts for word in _COMPOUND.findall(text)}
    outline = _outline(file)
    for number, (text, fields) in enumerate(texts):
        headings = outline.get(number, ())
        alone = {_folded(heading) for _, heading in headings}
        _add_page(builder, number + 1, _without_breaks(text, compounds, alone), headings)
        builder.add("\n".join(fields))
        if not text.strip() and not fields:
            builder.unread.setdefault(f"page {number + 1}", "page without text")
    damaged = sum(kind == _DAMAGED for kind in builder.unread.values())
    if not builder.length:
        pages = f"{len(file)} page{'' if len(file) == 1 else 's'}"
        if damaged:
            raise FaultError(f"it is damaged (none of its {pages} can be read)")
        raise FaultError(f"it has no text: {pages} of pictures or drawings; recognise its text first (OCR)")
    stated = {name: clean_line(value) for name, value in file.get_metadata_dict(skip_empty=True).items()}
    title = stated.get("Title", "").strip("()")
    metadata = {"author": stated.get("Author"), "pages": len(file), "damaged_pages": damaged or None}
    return builder.document("" if _NO_TITLE.fullmatch(title) else title, metadata)


_DAMAGED = "damaged page"


def _outline(file: Any) -> Mapping[int, list[tuple[int, str]]]:
    """Page from 0 to levels from 1 and headings of the entries there."""
    outline: dict[int, list[tuple[int, str]]] = {}
    for entry in file.get_toc(max_depth=_DEEPEST_OUTLINE):
        destination, heading = entry.get_dest(), clean_line(entry.get_title() or "")
        page = destination.get_index() if destination is not None else None
        if page is not None and heading:
            outline.setdefault(page, []).append((entry.level + 1, heading))
    return outline


def _page_texts(file: Any, unread: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """The text of each page, and its fields that have a value."""
    import pypdfium2

    for number in range(len(file)):
        try:
            with closing(file[number]) as drawn:
                drawn.set_rotation(0)  # else pdfium orders lines by the page as it is turned
                with closing(drawn.get_textpage()) as text_page:
                    text = _turned_back(text_page, text_page.get_text_range())
                    fields = list(_form_values(file, drawn, text_page))
        except pypdfium2.PdfiumError:
            unread[f"page {number + 1}"] = _DAMAGED
            text, fields = "", []
        yield text, fields


def _turned_back(text_page: Any, text: str) -> str:
    """The text with the two letters of one Arabic glyph in their order; pdfium turns a line round letter by letter."""
    import pypdfium2.raw as pdfium

    letters = list(text)
    for match in _ARABIC.finditer(text):
        start = match.start()
        first, second = (pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, at) for at in (start, start + 1))
        if min(first, second) >= 0 and text_page.get_charbox(first) == text_page.get_charbox(second):
            letters[start], letters[start + 1] = letters[start + 1], letters[start]
    return "".join(letters)


def _form_values(file: Any, page: Any, text_page: Any) -> Iterator[str]:
    """A line for each field of a form that has a value, named by the text to its left."""
    import pypdfium2.raw as pdfium

    if file.formenv is None:
        return

    def stated(read: Any, annotation: Any) -> str:
        size = read(file.formenv, annotation, None, 0)
        buffer = create_string_buffer(size)
        read(file.formenv, annotation, pdfium.cast(buffer, pdfium.POINTER(pdfium.FPDF_WCHAR)), size)
        return clean_line(buffer.raw.decode("utf-16-le", "replace").rstrip("\0"))

    for number in range(pdfium.FPDFPage_GetAnnotCount(page)):
        annotation = pdfium.FPDFPage_GetAnnot(page, number)
        value = stated(pdfium.FPDFAnnot_GetFormFieldValue, annotation)
        if value and value != "Off":
            box = pdfium.FS_RECTF()
            pdfium.FPDFAnnot_GetRect(annotation, box)
            label = clean_line(text_page.get_text_bounded(0, box.bottom, box.left, box.top)).rstrip(": ")
            names = (pdfium.FPDFAnnot_GetFormFieldAlternateName, pdfium.FPDFAnnot_GetFormFieldName)
            name = label or next(filter(None, (stated(read, annotation) for read in names)), "")
            yield f"{name}: {value}"
        pdfium.FPDFPage_CloseAnnot(annotation)


def _without_breaks(text: str, compounds: set[str], alone: set[str]) -> str:
    """The text without hyphens that only end a line, and with the lines of a paragraph as one; headings stay alone."""

    def joined(match: re.Match[str]) -> str:
        first, second = match.groups()
        is_compound = not second[:1].islower() or f"{first}-{second}".lower() in compounds
        return f"{first}-{second}" if is_compound or first.lower() in _HYPHENATED else f"{first}{second}"

    lines = clean_text(_HYPHEN.sub(joined, text)).split("\n")
    long = _LONG_LINE * max(map(len, lines))
    pieces = [lines[0]]
    for before, line in pairwise(lines):
        ends_open = before[-1:].isalpha() or before[-1:] == ","
        goes_on = ends_open and line and (line[:1].islower() or len(before) >= long)
        is_heading = not alone.isdisjoint((_folded(before), _folded(line)))
        pieces += [" " if goes_on and not is_heading else "\n", line]
    return "".join(pieces)


def _add_page(builder: TextBuilder, page: int, text: str, headings: Sequence[tuple[int, str]]) -> None:
    """Adds a page; the part below a heading begins at the line that says it, or else where the one before does."""
    lines = text.split("\n")
    line_of = {_folded(line): number for number, line in reversed(list(enumerate(lines)))}
    separator = "\n\n" if not builder.goes_on else " " if text[:1].islower() else "\n"
    builder.locate(page=page)
    reached = 0
    for level, heading in headings:
        line = line_of.get(_folded(heading), reached)
        if line > reached:
            builder.add("\n".join(lines[reached:line]), separator)
            separator, reached = "\n\n", line
        builder.below(level, heading)
    builder.add("\n".join(lines[reached:]), separator)


def _folded(line: str) -> str:
    return " ".join(line.split()).casefold()
