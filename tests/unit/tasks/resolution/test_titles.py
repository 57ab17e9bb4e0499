from polyhop.tasks.resolution.stage import title_aliases


def test_golden_title_aliases() -> None:
    """G-SPRIG-6: two Mercury titles make `mercury` ambiguous; Blur and Blur (band) make `blur` so."""
    titles = ["Mercury (planet)", "Mercury (element)", "Ada Lovelace", "Paris (Texas)", "Blur (band)", "Blur"]
    found: dict[str, set[str]] = {}
    for alias, key in title_aliases(titles):
        found.setdefault(alias, set()).add(key)
    kept = {alias: next(iter(keys)) for alias, keys in found.items() if len(keys) == 1}
    assert kept == {
        "ada lovelace": "ada lovelace",
        "blur band": "blur band",
        "mercury element": "mercury element",
        "mercury planet": "mercury planet",
        "paris texas": "paris texas",
        "paris": "paris texas",
    }
    assert {alias for alias, keys in found.items() if len(keys) > 1} == {"mercury", "blur"}


def test_equal_titles_count_once_and_order_does_not_matter() -> None:
    assert title_aliases(["B", "Ax (y)", "Ax (y)"]) == title_aliases(["Ax (y)", "B"])
