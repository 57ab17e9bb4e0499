"""The table of docs/scale.md: what 1, 10 and 100 million passages cost, by the slopes that benchmarks/README.md states.

Run: uv run python benchmarks/scale.py
Only the first column was measured; the others are the slopes times the size.
"""

MILLIONS = (1, 10, 100)
SLOPES = (
    # What, its unit, how much per million passages, and decimals. Sources: benchmarks/README.md, the sections named.
    ("index without encoding or a model", "core hours", 1192 / 3600, 1),  # A million passages: processor seconds
    ("encode by the local encoder", "core hours", 2 * 13.9e3 / 3600, 1),  # Indexing: 13.9 ms per passage on two cores
    ("disk, one version with vectors", "GB", 8.1, 0),  # A million passages
    ("memory of an index run", "GB", 4.2, 0),  # A million passages
    ("memory of a worker with `bridge`", "GB", 1.8, 0),  # A million passages
    ("extraction by a model, single calls", "USD", 1.34 / 1890 * 1e6, 0),  # Indexing: musique100 by gpt-4o-mini
    ("extraction by a model, batches", "USD", 0.67 / 1890 * 1e6, 0),  # Indexing
)


def main() -> None:
    """Prints the table."""
    print(f"| | {' | '.join(f'{size} million' for size in MILLIONS)} |\n|---|{'--:|' * len(MILLIONS)}")
    for what, unit, slope, decimals in SLOPES:
        print(f"| {what}, {unit} | {' | '.join(f'{slope * size:,.{decimals}f}' for size in MILLIONS)} |")


if __name__ == "__main__":
    main()
