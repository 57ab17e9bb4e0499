"""A made-up museum as a knowledge graph, and questions about it with their golden triples.

Run: uv run python benchmarks/museum.py FOLDER   (writes triples.jsonl and questions.jsonl)
90 objects with some fifteen fields each; half of the fields belong to other nodes (acquisitions, conservation reports).
benchmarks/data/museum_questions.jsonl has the questions, worded before anything was tuned on them, with what each one
asks: `where` are the values that an object must have, `ask` the fields that are asked for (none: those of `where`
alone). Golden are the triples of both, of all objects that meet the conditions.
"""

import json
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

QUESTIONS = Path(__file__).parent / "data" / "museum_questions.jsonl"
HUB_TYPE, START = "Artefact", "M1"
OBJECTS, SEED = 90, 7

KINDS = ("Vase", "Figurine", "Dagger", "Tapestry", "Astrolabe", "Mask", "Coin", "Manuscript", "Bowl", "Necklace",
         "Drum")  # fmt: skip
MEDIA = ("Earthenware", "Bronze", "Silk", "Ivory", "Jade", "Silver", "Walnut wood", "Glass", "Gold leaf", "Wool")
PLACES = ("Kyoto", "Benin City", "Isfahan", "Murano", "Cusco", "Delft", "Luxor", "Oaxaca", "Samarkand", "Nuremberg")
MOTIFS = ("Dragon", "Lotus blossom", "Hunting scene", "Enthroned saint", "Coiled serpent", "Night sky", "Grape harvest")
MAKERS = (
    "Ines Calloway", "Tomás Arriaga", "Hye-jin Noh", "Bartel Vroom", "Oluwaseun Adeyi", "Rukhsana Mirza",
    "Lorenzo Bevilacqua", "Wilhelmine Stark", "Quispe Mamani", "Haruto Ishikawa", "Nefer Aziz", "Jolanta Wrona",
)  # fmt: skip
OWNERS = (
    "Edmund Fairweather", "Countess of Hallam", "Royal Society of Antiquaries", "Josephine Marchetti", "Bishop Alder",
    "Vanderlinden & Sons", "Theodora Pell", "University of Uppsala",
)  # fmt: skip
CONSERVATORS = ("Mirela Dinu", "Callum Frost", "Aiko Tanabe", "Sofie Lindqvist", "Gerard Okafor")
TREATMENTS = ("Dry cleaning", "Consolidation", "Desalination", "Varnish removal", "Infilling of losses", "Freezing")
DAMAGE = ("Corrosion", "Insect infestation", "Cracks", "Water stains", "Soot deposits", "Flaking paint")
METHODS = ("Gift", "Purchase", "Bequest", "Archaeological excavation", "Exchange with another museum")
ROOMS = ("Hall of Rivers", "East Gallery", "Marble Court", "Upper Cabinet")
SHOWS = ("Treasures of the Silk Road", "Fire and Clay", "Gods and Monsters", "Small Wonders", "Court and Cloister")
MOODS = ("Weeping", "Silent", "Crowned", "Wandering", "Gilded", "Broken", "Laughing", "Sleeping", "Hollow", "Northern")
BEASTS = ("Heron", "Fox", "Tortoise", "Leopard", "Owl", "Salmon", "Mule", "Raven", "Cricket")

Triple = dict[str, Any]


class MadeUpGraph:
    """Collects triples; nodes are numbered in the order in which they are first named."""

    def __init__(self) -> None:
        """Without triples."""
        self.triples: list[Triple] = []
        self._entities: dict[tuple[str, str], str] = {}
        self._literals = 0

    def entity(self, label: str, kind: str) -> Triple:
        """The node of this label and type; one for all who name it."""
        own_id = self._entities.setdefault((label, kind), f"E{len(self._entities) + 1}")
        return {"id": own_id, "name": label, "types": [kind]}

    def literal(self, value: object) -> Triple:
        """A value with a node of its own."""
        self._literals += 1
        return {"id": f"L{self._literals}", "name": str(value), "types": []}

    def add(self, subject: Triple, predicate: str, value: Triple) -> None:
        """Adds a triple."""
        self.triples.append({"subject": subject, "predicate": predicate, "object": value})


def museum() -> list[Triple]:
    """The triples of all objects, the same ones every time."""
    graph, numbers = MadeUpGraph(), random.Random(SEED)
    house = {"id": START, "name": "Harbourside Museum", "types": ["Museum"]}
    names = [f"{mood} {beast}" for mood in MOODS for beast in BEASTS]
    numbers.shuffle(names)
    for number, name in enumerate(names[:OBJECTS], start=1):
        kind = numbers.choice(KINDS)
        thing = {"id": f"A{number}", "name": f"{name} {kind}", "types": [HUB_TYPE]}
        graph.add(house, "holds", thing)
        _describe(graph, thing, kind, numbers)
        _tell_history(graph, thing, number, numbers)
    return graph.triples


def _describe(graph: MadeUpGraph, thing: Triple, kind: str, numbers: random.Random) -> None:
    """What an object is and where it stands."""
    graph.add(thing, "object type", graph.entity(kind, "Kind"))
    for medium in numbers.sample(MEDIA, numbers.choice((1, 1, 2))):
        graph.add(thing, "medium", graph.entity(medium, "Material"))
    for maker in numbers.sample(MAKERS, numbers.choice((0, 1, 1, 2))):
        graph.add(thing, "crafted by", graph.entity(maker, "Person"))
    graph.add(thing, "place of origin", graph.entity(numbers.choice(PLACES), "Place"))
    graph.add(thing, "date of creation", graph.literal(numbers.randrange(1480, 1890)))
    graph.add(thing, "height in cm", graph.literal(numbers.randrange(3, 180)))
    graph.add(thing, "inventory number", graph.literal(f"HM.{numbers.randrange(1000, 9999)}"))
    graph.add(thing, "motif", graph.entity(numbers.choice(MOTIFS), "Motif"))
    is_shown = numbers.random() < 0.6
    graph.add(thing, "display status", graph.literal("On display" if is_shown else "Not on display"))
    if is_shown:
        graph.add(thing, "gallery", graph.entity(numbers.choice(ROOMS), "Room"))
    graph.add(thing, "3D scan available", graph.literal(numbers.random() < 0.3))


def _tell_history(graph: MadeUpGraph, thing: Triple, number: int, numbers: random.Random) -> None:
    """How an object came to the museum, and what happened to it there."""
    bought = {"id": f"Q{number}", "name": f"Acquisition {number}", "types": ["Acquisition"]}
    graph.add(thing, "acquisition", bought)
    graph.add(bought, "acquisition method", graph.entity(numbers.choice(METHODS), "Method"))
    graph.add(bought, "year of acquisition", graph.literal(numbers.randrange(1890, 2021)))
    graph.add(bought, "previous owner", graph.entity(numbers.choice(OWNERS), "Owner"))
    if numbers.random() < 0.7:
        report = {"id": f"R{number}", "name": f"Conservation report {number}", "types": ["Report"]}
        graph.add(thing, "conservation report", report)
        graph.add(report, "conservator", graph.entity(numbers.choice(CONSERVATORS), "Person"))
        graph.add(report, "damage found", graph.entity(numbers.choice(DAMAGE), "Damage"))
        for treatment in numbers.sample(TREATMENTS, numbers.choice((1, 2))):
            graph.add(report, "treatment", graph.entity(treatment, "Treatment"))
    for show in numbers.sample(SHOWS, numbers.choice((0, 1, 1, 2))):
        graph.add(thing, "exhibition history", graph.entity(show, "Exhibition"))


def written(triple: Triple) -> str:
    """A triple as questions write it."""
    ends = [f"{triple[end]['id']}:{triple[end]['name']}" for end in ("subject", "object")]
    return f"({ends[0]}, {triple['predicate']}, {ends[1]})"


def golden_triples(triples: Iterable[Triple], where: Mapping[str, Any], ask: Sequence[str], start: str) -> list[str]:
    """Triples of all objects that meet every condition: those of the conditions, and of the fields asked for.

    Args:
        triples: Of a graph whose `start` leads to all objects; their fields are theirs or those of nodes they lead to.
        where: By field: the value, the least and the largest number ({"from", "to"}), or a list of which one must be
            met; `name` is the object's own name.
        ask: Fields.
        start: Id of the node that leads to the objects.
    """
    fields: dict[str, list[Triple]] = {}
    owner: dict[str, str] = {}
    names: dict[str, str] = {}
    for triple in triples:
        begin, end = triple["subject"], triple["object"]
        if begin["id"] == start:
            names[end["id"]] = end["name"]
            continue
        owner[end["id"]] = begin["id"]
        hub = begin["id"] if begin["id"] in names else owner[begin["id"]]
        fields.setdefault(hub, []).append(triple)
    met = {
        hub: {field: _meeting(own, field, wanted, names[hub]) for field, wanted in where.items()}
        for hub, own in fields.items()
    }
    met = {hub: hits for hub, hits in met.items() if None not in hits.values()}
    found = []
    for hub in _extreme(met, where):
        kept = [triple for hits in met[hub].values() for triple in hits or ()]
        found += [written(triple) for triple in fields[hub] if triple in kept or triple["predicate"] in ask]
    return found


def _extreme(met: Mapping[str, Mapping[str, list[Triple] | None]], where: Mapping[str, Any]) -> Iterable[str]:
    """Of objects that meet the conditions those with the largest or the smallest number, where one is asked for."""
    for field, wanted in where.items():
        if isinstance(wanted, dict) and "extreme" in wanted:
            of_hub = {hub: int(triple["object"]["name"]) for hub, hits in met.items() for triple in hits[field] or ()}
            best = max(of_hub.values()) if wanted["extreme"] == "max" else min(of_hub.values())
            return [hub for hub, number in of_hub.items() if number == best]
    return met


def _meeting(triples: Iterable[Triple], field: str, wanted: Any, name: str) -> list[Triple] | None:
    """Triples that meet a condition, none for a name; None if the object fails it."""
    accepted = wanted if isinstance(wanted, list) else [wanted]
    if field == "name":
        return [] if name in accepted else None
    values = [triple for triple in triples if triple["predicate"] == field]
    if isinstance(wanted, dict):
        low, high = wanted.get("from", 0), wanted.get("to", 10_000)
        return [triple for triple in values if low <= int(triple["object"]["name"]) <= high] or None
    return [triple for triple in values if triple["object"]["name"] in accepted] or None


def questions(path: Path, triples: Sequence[Triple], start: str) -> list[dict[str, Any]]:
    """All questions of a file with their golden triples, which some files have."""
    asked = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        row
        if "golden_triples" in row
        else row | {"golden_triples": golden_triples(triples, row["where"], row["ask"], start)}
        for row in asked
    ]


def write_folder(folder: Path, triples: Sequence[Triple], start: str, path: Path) -> None:
    """Writes triples.jsonl and questions.jsonl, whose questions are those of `path`."""
    for name, rows in (("triples", triples), ("questions", questions(path, triples, start))):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write_folder(Path(sys.argv[1]), museum(), START, QUESTIONS)
