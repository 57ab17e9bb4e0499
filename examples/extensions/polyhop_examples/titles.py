"""A command in one file: `polyhop titles --index NAME` lists the titles of an index."""

from polyhop.commands.options import IndexName, Json, Root, settings_of
from polyhop.output import print_json, print_line


def titles(index: IndexName, root: Root = None, json: Json = False) -> None:
    """List the titles of the passages of an index."""
    from polyhop.api import open_index

    with open_index(index, settings=settings_of(root, None)) as opened:
        found = sorted(set(opened.session.published.passage_titles))
    if json:
        print_json(found)
        return
    for title in found:
        print_line(title)
