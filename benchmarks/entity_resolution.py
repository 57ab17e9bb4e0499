"""Seconds of entity resolution by rules on synthetic names, for three sizes: is it near linear?

Run: uv run python benchmarks/entity_resolution.py [sizes, 50000,100000,200000]
"""

import sys
import time
from random import Random

from machine import describe_machine

from polyhop.tasks.resolution.candidates import Name, candidate_pairs, clusters_of, words_of_names
from polyhop.tasks.resolution.resolve import Links, accept, groups_of, in_order, resolve

SIZES = "50000,100000,200000"
TYPES = ("PERSON", "ORGANIZATION", "LOCATION", "EVENT", "WORK")
EXTRAS = ("the", "inc", "corp", "dr", "king", "film", "of france", "jr")
MAX_CLUSTER = 40


def synthetic_names(count: int, seed: int = 13) -> list[Name]:
    """Distinct names of one to four words; words are Zipf-like, as given names and surnames are, one in five varies."""
    random = Random(seed)
    vocabulary = [f"w{n}" for n in range(count)]
    weights = [1 / (rank + 10) for rank in range(count)]
    kinds: dict[str, str] = {}
    forms: list[str] = []
    while len(kinds) < count:
        words = iter(random.choices(vocabulary, weights, k=100_000))
        for first in words:
            name, kind = first, random.choice(TYPES)
            for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3))):
                name = f"{name} {next(words, first)}"
            if forms and random.random() < 0.2:
                base = random.choice(forms[-1000:])
                name, kind = f"{base} {random.choice(EXTRAS)}", kinds[base]
            if name not in kinds and len(kinds) < count:
                kinds[name] = kind
                forms.append(name)
    return [Name(name, name, kind, 1 + random.randrange(20)) for name, kind in kinds.items()]


def measure(count: int) -> str:
    """One row of the table."""
    names = synthetic_names(count)
    start = time.perf_counter()
    found = candidate_pairs(words_of_names(names))
    searched = time.perf_counter()
    clusters_of(len(names), found.pairs, MAX_CLUSTER)
    clustered = time.perf_counter()
    fresh = [Name(name.key, name.name, name.type, name.mention_count) for name in names]
    begun = time.perf_counter()
    fresh = in_order(fresh, Links())
    groups = groups_of(words_of_names(fresh))
    resolution = resolve(fresh, Links(), groups, lambda every, pairs, _: accept(every, pairs))
    seconds = time.perf_counter() - begun
    return (
        f"| {count:,} | {found.comparisons:,} | {len(found.pairs):,} | {resolution.cluster_count:,} "
        f"| {len(resolution.canonical_of):,} | {searched - start:.2f} | {clustered - searched:.2f} | {seconds:.2f} "
        f"| {1e6 * seconds / count:.0f} |"
    )


def main(sizes: str = SIZES) -> None:
    """Prints a Markdown table."""
    print(f"{describe_machine()}; clusters of at most {MAX_CLUSTER}\n")
    print("| names | comparisons | candidate pairs | clusters | merged | s pairs | s clusters | s all | µs per name |")
    print("|---|---|---|---|---|---|---|---|---|")
    for size in sizes.split(","):
        print(measure(int(size)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
