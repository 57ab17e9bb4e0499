"""What people's edits mean for resolution."""

from polyhop.schemas.records import EntityEdit, NamePair, with_edit
from polyhop.tasks.resolution.resolve import Links
from polyhop.tasks.resolution.stage import EditedEntity, edited_entities, edited_links


def test_edits_add_to_the_links_of_files() -> None:
    links = Links((NamePair("A", "B"),), (NamePair("C", "D"),))
    edits = [EntityEdit("merge", "e", "f", "line 1"), EntityEdit("split", "g", "h"), EntityEdit("delete", "i")]
    found = edited_links(links, edits, ())
    assert found.must == (NamePair("A", "B"), NamePair("e", "f", place="line 1"))
    assert found.cannot == (NamePair("C", "D"), NamePair("g", "h"))


def test_a_new_name_leads_to_the_entity_unless_passages_mention_it() -> None:
    edits = [EntityEdit("rename", "a", "B & B"), EntityEdit("rename", "c", "Dee"), EntityEdit("rename", "e", "É!")]
    assert edited_links(Links(), edits, {"dee"}).must == (NamePair("a", "B & B"),)


def test_edits_of_merged_names_are_those_of_their_entity_and_the_last_counts() -> None:
    edits = [
        EntityEdit("retype", "acme", "WORK"),
        EntityEdit("rename", "acme", "Acme!"),
        EntityEdit("retype", "acme corp", "NONE"),
        EntityEdit("delete", "zed"),
        EntityEdit("merge", "x", "y"),
    ]
    assert edited_entities(edits, {"acme": "acme corp"}) == [
        EditedEntity("acme corp", name="Acme!", is_retyped=True, type=None),
        EditedEntity("zed", is_deleted=True),
    ]


def test_merge_and_split_of_the_same_names_replace_each_other() -> None:
    merged = with_edit([EntityEdit("retype", "a", "WORK")], EntityEdit("merge", "a", "b"))
    split = with_edit(merged, EntityEdit("split", "b", "a"))
    assert split == [EntityEdit("retype", "a", "WORK"), EntityEdit("split", "b", "a")]
    assert with_edit(split, EntityEdit("split", "a", "c")) == [*split, EntityEdit("split", "a", "c")]
