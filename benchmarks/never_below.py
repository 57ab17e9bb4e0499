"""Compares `bridge` with dense, BM25 and RRF on corpora in which a graph of names says little.

Run: uv run python benchmarks/never_below.py FOLDER [--sets qamr,news] [--encoders local,bge] [--data SHARED_DATA]
FOLDER keeps sets, indexes and rows, so that a run that was stopped goes on. Questions of even number are the tuning
half, on which rules and constants of `bridge` were chosen; those of odd number are held out (decision 0038). Prints a
Markdown table and writes benchmarks/results/never_below.json.
"""

import argparse
import ast
import importlib.util
import json
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import encoders
import numpy as np
from encoders import METRICS, PROJECT, SEED, STRATEGIES, Maker, Records, rows_of, training_questions, with_passages

from polyhop.flows.evaluation.bootstrap import bootstrap_columns
from polyhop.schemas.names import split_sentences

RESULTS = PROJECT / "benchmarks" / "results" / "never_below.json"
QUESTIONS = 300
SUMMARY_WORDS, BODY_WORDS = 5, (25, 250)  # least words of a summary line; words of the text below it
TAIL_SENTENCES = 8
NOT_PUBLIC = frozenset(("site-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "_vendor"))


def docstrings(folder: Path) -> Iterator[tuple[str, str, str]]:
    """(name, summary line, text below it) of each docstring in a folder of Python files."""
    for path in sorted(folder.rglob("*.py")):
        if NOT_PUBLIC & set(path.relative_to(folder).parts):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            summary, _, body = (ast.get_docstring(node) or "").partition("\n\n")
            if len(summary.split()) >= SUMMARY_WORDS and BODY_WORDS[0] <= len(body.split()) <= BODY_WORDS[1]:
                yield f"{path.stem}.{node.name}", " ".join(summary.split()), body


def known_items(found: Iterator[tuple[str, str, str]], count: int, *, titled: bool) -> tuple[Records, Records]:
    """Texts below summary lines; each question is a summary line, whose words the passages do not have as such."""
    distinct = {body: (name, summary) for name, summary, body in found}
    items = [(name, summary, body) for body, (name, summary) in distinct.items()]
    summaries = [summary for _, summary, _ in items]
    random.Random(SEED).shuffle(items)
    items = items[:count]
    corpus = [
        {"id": f"p{number:05d}", "title": name * titled, "text": body} for number, (name, _, body) in enumerate(items)
    ]
    asked = [
        {"id": f"q{number:03d}", "question": summary, "answers": [], "supporting": [f"p{number:05d}"]}
        for number, (_, summary, _) in enumerate(items)
        if summaries.count(summary) == 1
    ]
    return corpus, asked[:QUESTIONS]


def package(name: str) -> Path:
    """The folder of an installed package, which is not imported."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise FileNotFoundError(f"Package {name} is not installed; run uv sync.")
    return Path(found.origin).parent


def standard_library() -> tuple[Records, Records]:
    """Docstrings of the standard library: lower-case words, few names, no titles."""
    return known_items(docstrings(Path(sysconfig.get_path("stdlib"))), 1000, titled=False)


def manual() -> tuple[Records, Records]:
    """Reference pages of SciPy, titled by function."""
    return known_items(docstrings(package("scipy")), 1000, titled=True)


def sentences(source: str, count: int) -> tuple[Records, Records]:
    """Passages of one sentence without titles; gold is the sentence that holds the answer."""
    ids: dict[str, str] = {}
    asked = []
    for row, *_ in training_questions(source):
        gold = ""
        for start, end in split_sentences(row["text"]):
            text = row["text"][start:end]
            ids.setdefault(text, f"p{len(ids):05d}")
            if start <= row["spans"][0][0] < end:
                gold = ids[text]
        question = {"question": row["question"], "answers": row["answers"], "supporting": [gold]}
        asked.append({"id": f"q{len(asked):03d}", **question})
        if len(ids) >= count:
            break
    return [{"id": one, "title": "", "text": text} for text, one in ids.items()], asked[:QUESTIONS]


def untitled() -> tuple[Records, Records]:
    """Paragraphs of Wikipedia without titles."""
    questions = training_questions("squad1.1-train-part")
    corpus, asked = with_passages(questions[:QUESTIONS], questions[QUESTIONS:], titled=False)
    return corpus[:1000], asked


def first_sentences() -> tuple[Records, Records]:
    """HotpotQA with the first sentence of each paragraph alone, without titles; two of them are gold."""
    questions = [rows for rows in training_questions("hotpotqa") if sum(row.get("gold", False) for row in rows) == 2]
    chosen = [rows for rows in questions if len(rows) == 10][300:] + [rows for rows in questions if len(rows) == 2]
    for row in (row for rows in chosen for row in rows):
        start, end = split_sentences(row["text"])[0]
        row["text"] = row["text"][start:end]
    return with_passages(chosen[:QUESTIONS], chosen[QUESTIONS:], titled=False)


def long_pages() -> tuple[Records, Records]:
    """Natural Questions; after a page's passage come sentences of others, so that words and names are everywhere."""
    questions = training_questions("nq-open-oracle")
    draw = random.Random(SEED)
    texts = sorted({row["text"] for rows in questions for row in rows})
    tails: dict[str, str] = {}
    for row in (row for rows in questions for row in rows):
        others = (draw.choice(texts) for _ in range(TAIL_SENTENCES))
        sentences_after = [draw.choice([text[start:end] for start, end in split_sentences(text)]) for text in others]
        row["text"] = tails.setdefault(row["text"], f"{row['text']} {' '.join(sentences_after)}")
    corpus, asked = with_passages(questions[:QUESTIONS], questions[QUESTIONS:], titled=False)
    return corpus[:1000], asked


WRAPPINGS = (
    "Give a response to the question by relying on the details shown in the document. {q}",
    "{q} Answer in one sentence, state the amount or the name only, and say so if the figure is not disclosed.",
    "Assume that you are a public equities analyst. Use primarily information shown in the statement: {q}",
    "We prepare a summary for management. {q} Please explain your reasoning step by step and quote the relevant part.",
    "If we exclude the impact of other factors, what can be said about this: {q} If nothing can be inferred, say why.",
    "{q} Take the perspective of an investor who can only use the details shown within the report.",
)
"""Instructions around a question, as analysts write them; their words are rarer in a corpus than they deserve."""


def verbose() -> tuple[Records, Records]:
    """`long-pages` with instructions around each question, which mislead BM25 more than an encoder."""
    corpus, asked = long_pages()
    draw = random.Random(SEED)
    return corpus, [row | {"question": draw.choice(WRAPPINGS).format(q=row["question"].strip())} for row in asked]


COMPANIES = (
    *("Alder Holdings", "Birchfield Group", "Castellan Energy", "Dunmore Logistics", "Everline Foods"),
    *("Farrow Chemicals", "Greystone Bank", "Halden Motors", "Ironwood Media", "Juniper Health"),
)


def headers() -> tuple[Records, Records]:
    """Paragraphs under the running head of one manual, so that the same names are in every passage."""
    questions = training_questions("xquad-en") + training_questions("expmrc-squad-dev")
    draw = random.Random(SEED)
    draw.shuffle(questions)
    head: dict[str, str] = {}
    for row in (row for rows in questions for row in rows):
        partners = ", ".join(draw.sample(COMPANIES, 3))
        head.setdefault(row["text"], f"Alder Holdings Reference Manual, published for {partners}. ")
        row["text"] = head[row["text"]] + row["text"]
    return with_passages(questions[:QUESTIONS], questions[QUESTIONS:], titled=False)


LINES = {
    "Income statement": (
        ("Revenue", "What were the total sales of {c} in {y}?"),
        ("Cost of sales", "How much did the goods that {c} sold in {y} cost to make?"),
        ("Research and development expense", "How much did {c} spend on developing new products in {y}?"),
        ("Income tax expense", "What did {c} owe the tax authorities on its profit of {y}?"),
        ("Interest payable and similar charges", "What did borrowing cost {c} during {y}?"),
    ),
    "Balance sheet": (
        ("Property, plant and equipment", "What were the buildings and machines of {c} worth at the end of {y}?"),
        ("Inventories", "How much unsold stock did {c} hold at the end of {y}?"),
        ("Trade receivables", "How much did customers still owe {c} when {y} closed?"),
        ("Cash and cash equivalents", "How much money did {c} have in the bank at the close of {y}?"),
        ("Retained earnings", "What profits of earlier years had {c} kept in the business by {y}?"),
    ),
    "Cash flow statement": (
        ("Dividends paid to shareholders", "How much did {c} pay out to its owners in {y}?"),
        ("Purchase of intangible assets", "What did {c} spend on software and licences in {y}?"),
        ("Repayment of borrowings", "How much of its loans did {c} pay back in {y}?"),
        ("Acquisition of subsidiaries, net of cash acquired", "What did {c} spend on buying other businesses in {y}?"),
    ),
    "Employees and remuneration": (
        ("Average number of employees", "How many people worked for {c} in {y}?"),
        ("Wages and salaries", "What did {c} pay its staff in {y}?"),
        ("Contributions to pension schemes", "What did {c} put aside for the retirement of its workers in {y}?"),
    ),
    "Environment": (
        ("Direct greenhouse gas emissions, tonnes", "How much carbon did the sites of {c} release in {y}?"),
        ("Water withdrawn, cubic metres", "How much water did {c} use in {y}?"),
        ("Hazardous waste, tonnes", "How much dangerous refuse did {c} produce in {y}?"),
    ),
}
"""Pages of a report, their lines, and a question about each line in other words."""


def reports() -> tuple[Records, Records]:
    """Annual reports of competitors: a page is a table of one year, between paragraphs that name all companies."""
    draw = random.Random(SEED)
    corpus, asked = [], []
    for company in COMPANIES:
        for year in range(2017, 2023):
            for page, lines in LINES.items():
                one = f"p{len(corpus):05d}"
                rivals = ", ".join(draw.sample([other for other in COMPANIES if other != company], 6))
                figures = [(line, draw.randrange(1000, 900_000), draw.randrange(1000, 900_000)) for line, _ in lines]
                rows = "\n".join(f"{line} | {now:,} | {before:,}" for line, now, before in figures)
                text = (
                    f"{company} Annual Report {year}. This page forms part of the audited consolidated accounts of "
                    f"{company} and its subsidiary undertakings and should be read together with the notes. The "
                    f"principal competitors of {company} are {rivals}. Amounts are in thousands unless stated "
                    f"otherwise.\n{page} for the year ended 31 December {year}\nItem | This year | Prior year\n{rows}\n"
                    f"The directors of {company} are responsible for these figures. Comparisons with {rivals} are "
                    "unaudited and rest on public filings, which may apply other accounting policies."
                )
                corpus.append({"id": one, "title": f"{company}: {page} {year}", "text": text})
                asked += [
                    {"question": ask.format(c=company, y=year), "answers": [f"{now:,}"], "supporting": [one]}
                    for (_, ask), (_, now, _) in zip(lines, figures, strict=True)
                ]
    draw.shuffle(asked)
    return corpus, [{"id": f"q{number:03d}", **one} for number, one in enumerate(asked[:QUESTIONS])]


OUTLETS = ("The Courier", "Harbour Times", "Market Wire", "Evening Ledger", "Tech Parade", "The Northern Post")
CITIES = (
    *("Porto", "Leeds", "Ghent", "Tampere", "Brno", "Graz", "Turin", "Malmo", "Cork", "Gdansk", "Lyon", "Utrecht"),
    *("Bergen", "Seville", "Basel", "Riga", "Split", "Aarhus", "Nantes", "Kosice"),
)
GOODS = (
    *("heat pumps", "cargo bikes", "hearing aids", "oat drinks", "drone batteries", "solar tiles", "sleep trackers"),
    *("garden robots", "water filters", "school tablets", "wind turbines", "running shoes", "electric ferries"),
    *("contact lenses", "coffee machines", "folding tents"),
)
EVENTS = (
    ("{c} will close its factory in {x} by the summer.", "shuts its works in {x}", CITIES),
    ("A court in {x} fined {c} for misleading advertisements.", "was punished by judges in {x}", CITIES),
    ("{c} has moved its head office to {x}.", "relocated its headquarters to {x}", CITIES),
    ("{c} recalled thousands of {x} after customers complained.", "took faulty {x} back from buyers", GOODS),
    ("Shares of {c} rose after it unveiled a new line of {x}.", "gained on the stock market with {x}", GOODS),
    ("{c} stopped selling {x}, citing weak demand.", "gave up its business in {x}", GOODS),
    ("Workers of {c} in {x} went on strike over pay.", "faced a walkout in {x}", CITIES),
    ("{c} bought a small rival that makes {x}.", "took over a producer of {x}", GOODS),
)
"""News of one sentence, and the same in other words."""


def news() -> tuple[Records, Records]:
    """Facts of one sentence about 120 firms; a question tells two facts in other words and asks for the firm."""
    draw = random.Random(SEED)
    starts, ends = (
        ("Alto", "Bel", "Cor", "Dex", "Ever", "Fin", "Glo", "Hex", "Ori", "Ley", "Mon", "Nor"),
        (*("vance", "tria", "mark", "line", "wick", "dale", "nova", "port", "gard", "sen"),),
    )
    corpus, asked = [], []
    for start in starts:
        for end in ends:
            firm, facts = start + end, []
            for text, other, values in draw.sample(EVENTS, 6):
                outlet, value = draw.choice(OUTLETS), draw.choice(values)
                one = f"p{len(corpus):05d}"
                corpus.append({"id": one, "title": "", "text": f"{outlet}: {text.format(c=firm, x=value)}"})
                facts.append((one, outlet, other.format(x=value)))
            for pair in (facts[:2], facts[2:4], facts[4:]):
                (_, outlet, first), (_, other, second) = pair
                subject = f"Which firm {first}, as {outlet} wrote, and {second}, according to {other}?"
                if draw.random() < 1 / 2:
                    subject = f"Is it true that {firm} {first}, as {outlet} wrote, and {second}, according to {other}?"
                asked.append({"question": subject, "answers": [firm], "supporting": [one for one, *_ in pair]})
    draw.shuffle(asked)
    return corpus, [{"id": f"q{number:03d}", **one} for number, one in enumerate(asked[:QUESTIONS])]


SETS: dict[str, Maker] = {
    "docstrings": standard_library,
    "manual": manual,
    "squad-sentences": lambda: sentences("squadshifts-new_wiki", 2000),
    "qamr": lambda: sentences("qamr", 2500),
    "hotpot-sentences": first_sentences,
    "squad-untitled": untitled,
    "long-pages": long_pages,
    "verbose": verbose,
    "headers": headers,
    "reports": reports,
    "news": news,
}
HALVES = ("tuning", "held-out")


def halves(rows: dict[str, dict[str, dict[str, float]]]) -> dict[str, dict[str, object]]:
    """{half: means of each strategy, and `bridge` compared with the best of the three} of one set and encoder."""
    found = {}
    ids = sorted(rows["dense"])
    for half, chosen in zip(HALVES, (ids[::2], ids[1::2]), strict=True):
        values = {
            strategy: np.array([[rows[strategy][one][metric] for metric in METRICS] for one in chosen])
            for strategy in STRATEGIES
        }
        best = max(("dense", "bm25", "rrf"), key=lambda strategy: float(values[strategy][:, 0].mean()))
        difference = bootstrap_columns(values["bridge"] - values[best])[0].as_row()
        means = {s: dict(zip(METRICS, v.mean(axis=0).round(4).tolist(), strict=True)) for s, v in values.items()}
        found[half] = {"questions": len(chosen), "means": means, "best": best, "difference": difference}
    return found


def table(results: dict[str, dict[str, object]]) -> str:
    """The comparison in Markdown: recall@5 of each strategy, and `bridge` less the best of three with its interval."""
    lines = [f"| set, encoder | half | {' | '.join(STRATEGIES)} | bridge - best |", "|---|---|" + "---|" * 6]
    for name, result in results.items():
        for half in HALVES:
            one = result[half]
            means = " | ".join(f"{one['means'][s]['recall@5']:.3f}" for s in STRATEGIES)
            at = one["difference"]
            interval = f"{at['difference']:+.3f} [{at['low']:.3f}, {at['high']:.3f}] ({one['best']})"
            lines.append(f"| {name} | {half} ({one['questions']}) | {means} | {interval} |")
    return "\n".join(lines)


def main() -> None:
    """Measures one set after the other; keeps the results of sets that are not asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--encoders", default="local")
    parser.add_argument("--data", type=Path, default=encoders.DATA)
    arguments = parser.parse_args()
    encoders.DATA = arguments.data
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for encoder in arguments.encoders.split(","):
        for name in arguments.sets.split(","):
            results[f"{name}, {encoder}"] = halves(rows_of(arguments.folder, name, SETS[name], encoder))
    ordered = {key: results[key] for key in sorted(results)}
    RESULTS.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    print(table(ordered))


if __name__ == "__main__":
    main()
