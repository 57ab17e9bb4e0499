"""Pages for people: an answer with its evidence as one self-contained HTML file, no network, no script."""
