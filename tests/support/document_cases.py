"""Small files of tests/golden/documents, each with what a person reads in it: patterns that its text holds or lacks.

The files called `own` are ours; the others were made by the customer after public bug reports.
"""

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "documents"

CREW = r"Depot: Lindau; Name: Jonas Egli; Role: welder|Lindau ?\| ?Jonas Egli ?\| ?welder"
MILL = "Meyer’s heirs ran 1998–2003 and cost 40 €"
QUAY = r"The quay was paved by Otto Rehm\."
SOUTH = r"South ?\| ?(NaN)? ?\| ?5(\.0)? ?\| ?7|Region: South; 2022: 5; 2023: 7"
WEIR = r"The weir of Flums was built by Johann Tinner in 1890\."


@dataclass(frozen=True)
class DocumentCase:
    """A file, and regular expressions of which all occur in its text, and none."""

    file: str
    holds: tuple[str, ...]
    lacks: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return FOLDER / self.file

    def faults(self, text: str) -> list[str]:
        """The patterns that a text breaks; Markdown's bars, stars and backslashes do not count."""
        plain = re.sub(r"\\|\*\*?|^\s*\||\|\s*$", "", text, flags=re.MULTILINE)
        plain = re.sub(r"[ \t\xa0]+", " ", plain)
        missing = [pattern for pattern in self.holds if not re.search(pattern, plain)]
        return missing + [pattern for pattern in self.lacks if re.search(pattern, plain)]


CASES = (
    DocumentCase("01-epub-chapter-without-heading/book.epub", ("sister", "The lock of Nidau was kept by Werner Bang")),
    DocumentCase(
        "01-epub-chapter-without-heading/own.epub", ("Chur", "The ferry of Rueun was run by Luzia"), ("Cover",)
    ),
    DocumentCase("02-sheet-year-columns/sales.csv", (SOUTH,)),
    DocumentCase("02-sheet-year-columns/sales.xlsx", (SOUTH,)),
    DocumentCase("02-sheet-year-columns/sales.docx", (SOUTH,)),
    DocumentCase("02-sheet-year-columns/own.xlsx", (r"Barley ?\| ?\| ?\| ?31", "Rye; 1999: 14; 2000: 15")),
    DocumentCase(
        "03-docx-spanned-cells/prices.docx",
        (r"Route: Romanshorn;( Adult: Romanshorn;)? Child: 7; Bicycle: 5|Romanshorn ?\| ?(Romanshorn)? ?\| ?7 ?\| ?5",),
    ),
    DocumentCase("03-docx-spanned-cells/own.docx", (r"Ferry \| Summer \| Summer \| Winter", "8; Summer: 9; Winter: 4")),
    DocumentCase("04-merged-rows/crew.docx", (CREW,)),
    DocumentCase("04-merged-rows/crew.html", (CREW,)),
    DocumentCase("04-merged-rows/crew.xlsx", (CREW,)),
    DocumentCase("04-merged-rows/own.docx", ("Name: Lea Good; Role: cook; Depot: Buchs",)),
    DocumentCase("04-merged-rows/own.html", ("Day: Tuesday; Guard: Nina Caduff; Post: Weir; Hour: 7",)),
    DocumentCase(
        "05-html-cells-with-blocks/pumps.html",
        (r"Pump ?\| ?Maker", r"P-101 ?\| ?Sulzer", r"P-102 ?\| ?Grundfos", r"P-103 ?\| ?KSB Frankenthal"),
    ),
    DocumentCase("05-html-cells-with-blocks/own.html", (r"Möve \| Horn Arbon\nStar II \| Rorschach",)),
    DocumentCase("06-html-class-words/no_sidebar.html", (WEIR,)),
    DocumentCase("06-html-class-words/category_social.html", (WEIR,)),
    DocumentCase("06-html-class-words/own.html", ("The bakery of Dora Wyss sells biscuits",), ("Imprint",)),
    DocumentCase(
        "07-html-linked-lists/mayors.html",
        ("Carl Stoop", r"Anton Zeller[^\n]*\|[^\n]*1901", r"Berta Good[^\n]*\|[^\n]*1950"),
    ),
    DocumentCase("07-html-linked-lists/own.html", ("Chair\nRita Hug\nClerk\nBeat Kern", "3. Gossau")),
    DocumentCase("08-csv-separators/orders.csv", (r"Brauerei Locher ?\| ?1\.234,50 ?\| ?Appenzell",)),
    DocumentCase("08-csv-separators/sep_line.csv", (r"Kunde ?\| ?Ort", r"Seilerei Mels ?\| ?Mels"), ("sep=",)),
    DocumentCase("08-csv-separators/tabs.csv", (r"Kunde ?\| ?Ort", r"Seilerei Mels ?\| ?Mels")),
    DocumentCase("08-csv-separators/records.csv", ("The weir of Flums was built by", "The mill belongs to Vreni Good")),
    DocumentCase("08-csv-separators/own.csv", (r"Straße \| Länge \| Jahr\nSeegasse \| 1,5 \| 1890",)),
    DocumentCase("08-csv-separators/own_records.csv", ("Die Fähre fährt, wenn Käthe Müller es will.",), ("7",)),
    DocumentCase("09-latin1-is-windows-1252/mail.eml", (MILL,)),
    DocumentCase("09-latin1-is-windows-1252/page.html", (MILL,)),
    DocumentCase("09-latin1-is-windows-1252/own.eml", ("The “Bear” cost 12 € in 1950–60",)),
    DocumentCase("10-gb2312-is-gbk/mail.eml", ("会议在镕基大厦举行，由朱镕先生主持。",)),
    DocumentCase("10-gb2312-is-gbk/own.html", ("朱镕基先生住在喆园。",)),
    DocumentCase("11-utf8-labelled-latin1/mail.eml", ("Zürich’s Müller family ran 1998–2003",)),
    DocumentCase("11-utf8-labelled-latin1/own.html", ("Die Säge gehört Jörg Bühler – seit 1920.",)),
    DocumentCase("12-mail-blank-plain/blank.eml", ("balance of the Kestrel account is 912 francs",)),
    DocumentCase("12-mail-blank-plain/stub.eml", ("The new crane of Rorschach was opened by Flavia Gantner",)),
    DocumentCase("12-mail-blank-plain/own.eml", ("The bill of Ilanz is 77 francs",)),
    DocumentCase("13-docx-relationship-without-part/image.docx", (QUAY,)),
    DocumentCase("13-docx-relationship-without-part/thumbnail.docx", (QUAY,)),
    DocumentCase("13-docx-relationship-without-part/own.pptx", ("The bridge was drawn by Gion Cadosch",)),
    DocumentCase("14-docx-strict/strict.docx", (QUAY,)),
    DocumentCase("14-docx-strict/own.xlsx", (r"Brig ?\| ?Anni Zen",)),
    DocumentCase("15-docx-equation/drag.docx", (r"F ?= ?k ?v ?\+ ?7",)),
    DocumentCase("15-docx-equation/own.docx", (r"The mean is x=\(a\+b\)/2\+c\^3 for all",)),
    DocumentCase(
        "16-docx-moved-text/clause.docx", (r"(?s)roof tight.*The deposit is 4000",), (r"(?s)deposit.*deposit",)
    ),
    DocumentCase("16-docx-moved-text/own.docx", (r"The rent is 55 francs\.\s+Pets are",), ("40", r"(?s)Pets.*Pets")),
    DocumentCase("17-docx-altchunk/chunk.docx", ("The chunk was written by Nora Senn",)),
    DocumentCase("17-docx-altchunk/own.docx", (r"(?s)Before.*Sils ?\| ?Curdin Buol.*After",), ("hidden",)),
    DocumentCase("18-pptx-same-id/slides.pptx", ("The quay is built by Nadja Suter", "Plan of the quay")),
    DocumentCase("18-pptx-same-id/own.pptx", (r"Silvan Jost ?\| ?pilot", "Crew of the barge")),
    DocumentCase("19-superscripts/volume.html", (r"10(\^6|⁶)", r"m(\^3|³)", r"1998 ?(\[+\^?12|\^\[?12)")),
    DocumentCase("19-superscripts/volume.docx", (r"10(\^6|⁶)", r"m(\^3|³)", r"1998 ?(\[+\^?12|\^\[?12)")),
    DocumentCase("19-superscripts/own.html", (r"1st pump lifts 5 cm\^2 by 10\^-3 m in Basel \[3\] since 1950 \[7\]",)),
    DocumentCase("20-soft-hyphens/page.html", ("Donaudampfschiffgesellschaft", "Kraftwerk Birsfelden")),
    DocumentCase("20-soft-hyphens/own.jsonl", ("Kraftwerksgesellschaft hired Selina",)),
    DocumentCase("21-pdf-lam-alef/salaam.pdf", ("السلام",)),
    DocumentCase("21-pdf-lam-alef/own.pdf", ("الأدوات",)),
    DocumentCase("22-pdf-form-values/form.pdf", (r"Name of applicant:?\s*Rosalind Pfister", r"City:?\s*Wattwil")),
    DocumentCase("22-pdf-form-values/own.pdf", ("Canton: Uri", "Place of birth: Trun"), ("empty",)),
    DocumentCase("23-pdf-line-end-hyphen/hyphens.pdf", ("well-known", "COVID-19", "A-320", "contractor")),
    DocumentCase(
        "23-pdf-line-end-hyphen/own.pdf", ("left the self-made", "U-Boot", "international", "report of Lausanne")
    ),
    DocumentCase("24-xlsx-values/budget.xlsx", (r"15\.5 ?%", "00123", "36:05")),
    DocumentCase("24-xlsx-values/own.xlsx", (r"Dig \| 125% \| 007 \| 24:00:01", r"Fill \| -50\.00% \| 012 \| 6:00")),
    DocumentCase("25-xlsx-two-tables/two.xlsx", (r"(?m)^ ?Pump ?\| ?Maker",), ("Guard: P-", "Guard: Pump")),
    DocumentCase("25-xlsx-two-tables/own.xlsx", ("Station: Davos; Height: 1560 m",), ("Year: Davos",)),
    DocumentCase("26-markdown-lost-text/notes.md", ("Vec<String>", "List<Pump>", "Walensee")),
    DocumentCase(
        "26-markdown-lost-text/own.md", ("Map<K>", "Optional<Weir> and Set<T>", r"\[1\] Written by Fadri Tall")
    ),
    DocumentCase("27-list-numbers/steps.md", (r"3\. Close the sluice",)),
    DocumentCase("27-list-numbers/steps.html", (r"3\. Warranty of two years",)),
    DocumentCase("27-list-numbers/own.docx", (r"IV\. Warranty\s+IV\.a\) Two years\s+IV\.b\)", r"V\. Court of Chur")),
    DocumentCase("27-list-numbers/own.html", (r"a\. Open\n7\. Turn\n8\. Wait\nb\. Close\s+dot",)),
    DocumentCase("32-records-of-other-tools/page_content.jsonl", ("The weir was built by Ada Roth",)),
    DocumentCase("32-records-of-other-tools/float_ids.parquet", ("The mill belongs to Vreni Good",)),
    DocumentCase("32-records-of-other-tools/own.jsonl", ("The mill was built by Reto Cavelti",)),
    DocumentCase("32-records-of-other-tools/own.parquet", ("The weir is old",), ("The mill is new",)),
    DocumentCase("33-hidden-text/page.html", ("The weir is old",), ("Ignore",)),
    DocumentCase("33-hidden-text/vanish.docx", ("The weir is old",), ("Ignore",)),
    DocumentCase("33-hidden-text/own.html", ("The mill is new",), ("Obey",)),
    DocumentCase("33-hidden-text/own.docx", ("The mill is new. It turns",), ("Obey",)),
    DocumentCase("36-mail-calendar/walk.eml", ("Gustav Hefti", r"2026-?03-?10")),
    DocumentCase("36-mail-calendar/own.eml", ("Board of the ferry", "2026-04-05 14:00", "Town hall, Wil")),
    DocumentCase("38-pdf-page-rotated/rotated.pdf", (r"(?s)First.*Second.*Third",)),
    DocumentCase("38-pdf-page-rotated/own.pdf", (r"(?s)Alpha.*Beta.*Gamma",)),
    DocumentCase("40-pdf-drawn-twice/line.pdf", ("Fake bold heading of Nidau", "Next line"), ("(?s)Fake.*Fake",)),
    DocumentCase("40-pdf-drawn-twice/own.pdf", (r"built by Leo Imhof\.", "It grinds rye"), ("(?s)mill.*mill",)),
)
