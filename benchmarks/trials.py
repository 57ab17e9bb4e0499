"""A made-up register of clinical trials as a knowledge graph, and questions about it with their golden triples.

Run: uv run python benchmarks/trials.py FOLDER   (writes triples.jsonl and questions.jsonl)
80 trials with some twenty fields each; a third of the fields belong to other nodes (designs, safety reports).
benchmarks/data/trials_questions.jsonl has the questions, worded before anything was tuned on them, in the form of those
of museum.py.
"""

import random
import sys
from pathlib import Path

from museum import MadeUpGraph, Triple, write_folder

QUESTIONS = Path(__file__).parent / "data" / "trials_questions.jsonl"
HUB_TYPE, START = "Trial", "REG1"
TRIALS, SEED = 80, 11

WORDS = ("LANTERN", "HARBOUR", "MERIDIAN", "SPARROW", "COBALT", "ORCHARD", "TEMPO", "GRANITE", "WILLOW", "ZEPHYR",
         "AMBER", "CASCADE", "PILGRIM", "QUARTZ", "SUMMIT", "TUNDRA")  # fmt: skip
ILLNESSES = ("Migraine", "Type 2 diabetes", "Asthma", "Rheumatoid arthritis", "Psoriasis", "Heart failure",
             "Major depression", "High blood pressure", "Insomnia")  # fmt: skip
TREATMENTS = ("Dapanolol", "Virestatin", "Omelizumab", "Tarnazole", "Cognitive behavioural therapy",
              "Supervised exercise", "Bright light therapy", "Low-salt diet", "Acupuncture")  # fmt: skip
SPONSORS = (
    "Corvane Pharma", "Nordhaven University Hospital", "Heliant Therapeutics", "Saint Brigid Foundation",
    "Medical Council of Tasmania", "Orsolya Biologics", "University of Coimbra",
)  # fmt: skip
PEOPLE = (
    "Adaeze Nwosu", "Piotr Zielinski", "Marguerite Lavoie", "Kenji Morimoto", "Rosalind Ashcroft", "Tariq Haddad",
    "Sunniva Berg", "Emeka Obi", "Clara Weissmann", "Devika Raman", "Lucas Ferreira",
)  # fmt: skip
STATUSES = ("Completed", "Recruiting", "Terminated early", "Not yet recruiting")
COUNTRIES = ("Norway", "Portugal", "Kenya", "Canada", "Japan", "Brazil", "Poland", "Australia")
MASKING = ("Double blind", "Single blind", "Open label")
COMPARATORS = ("Placebo", "Standard care", "Waiting list", "Another dose")
OUTCOMES = ("Pain intensity", "Blood pressure", "Quality of life", "Relapse rate", "Lung function", "Sleep duration",
            "Body weight")  # fmt: skip
FRAMES = ("6 weeks", "12 weeks", "6 months", "1 year")
EVENTS = ("Nausea", "Headache", "Dizziness", "Skin rash", "Fatigue", "Dry mouth")
FUNDERS = ("Industry", "Charity", "Government grant", "University funds")


def trials() -> list[Triple]:
    """The triples of all trials, the same ones every time."""
    graph, numbers = MadeUpGraph(), random.Random(SEED)
    register = {"id": START, "name": "Open Trials Register", "types": ["Register"]}
    names = [f"{word}-{number}" for word in WORDS for number in range(1, 6)]
    numbers.shuffle(names)
    for number, name in enumerate(names[:TRIALS], start=1):
        trial = {"id": f"T{number}", "name": name, "types": [HUB_TYPE]}
        graph.add(register, "lists", trial)
        _describe(graph, trial, numbers)
        _plan(graph, trial, number, numbers)
        _report(graph, trial, number, numbers)
    return graph.triples


def _describe(graph: MadeUpGraph, trial: Triple, numbers: random.Random) -> None:
    """What is tried, on whom, by whom."""
    graph.add(trial, "condition studied", graph.entity(numbers.choice(ILLNESSES), "Illness"))
    for treatment in numbers.sample(TREATMENTS, numbers.choice((1, 1, 2))):
        graph.add(trial, "intervention", graph.entity(treatment, "Treatment"))
    graph.add(trial, "lead sponsor", graph.entity(numbers.choice(SPONSORS), "Organisation"))
    graph.add(trial, "principal investigator", graph.entity(numbers.choice(PEOPLE), "Person"))
    for funder in numbers.sample(FUNDERS, numbers.choice((1, 1, 2))):
        graph.add(trial, "funding source", graph.entity(funder, "Funding"))
    graph.add(trial, "trial phase", graph.literal(f"Phase {numbers.randrange(1, 5)}"))
    graph.add(trial, "enrolment", graph.literal(numbers.randrange(12, 2400)))
    begun = numbers.randrange(1998, 2024)
    graph.add(trial, "start year", graph.literal(begun))
    status = numbers.choices(STATUSES, (6, 2, 2, 1))[0]
    graph.add(trial, "recruitment status", graph.literal(status))
    if status == "Completed":
        graph.add(trial, "completion year", graph.literal(begun + numbers.randrange(1, 6)))
    for country in numbers.sample(COUNTRIES, numbers.choice((1, 1, 2, 3))):
        graph.add(trial, "country", graph.entity(country, "Country"))


def _plan(graph: MadeUpGraph, trial: Triple, number: int, numbers: random.Random) -> None:
    """How a trial is done."""
    design = {"id": f"D{number}", "name": f"Design {number}", "types": ["Design"]}
    graph.add(trial, "study design", design)
    graph.add(design, "allocation", graph.literal("Randomised" if numbers.random() < 0.7 else "Not randomised"))
    graph.add(design, "masking", graph.entity(numbers.choice(MASKING), "Masking"))
    graph.add(design, "comparator", graph.entity(numbers.choice(COMPARATORS), "Comparator"))
    for outcome in numbers.sample(OUTCOMES, numbers.choice((1, 1, 2))):
        graph.add(design, "primary outcome", graph.entity(outcome, "Outcome"))
    graph.add(design, "time frame", graph.literal(numbers.choice(FRAMES)))
    graph.add(design, "minimum age", graph.literal(numbers.choice((6, 12, 18, 21, 40, 65))))


def _report(graph: MadeUpGraph, trial: Triple, number: int, numbers: random.Random) -> None:
    """What came out of a trial."""
    if numbers.random() < 0.6:
        report = {"id": f"S{number}", "name": f"Safety report {number}", "types": ["Report"]}
        graph.add(trial, "safety report", report)
        for event in numbers.sample(EVENTS, numbers.choice((1, 2, 2, 3))):
            graph.add(report, "adverse event", graph.entity(event, "Event"))
        graph.add(report, "withdrawals", graph.literal(numbers.randrange(0, 60)))
        graph.add(report, "serious harm", graph.literal("Reported" if numbers.random() < 0.3 else "None reported"))
    graph.add(trial, "results posted", graph.literal(numbers.random() < 0.5))
    shares = numbers.random() < 0.4
    graph.add(trial, "data sharing", graph.literal("Patient data shared" if shares else "Patient data not shared"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write_folder(Path(sys.argv[1]), trials(), START, QUESTIONS)
