"""The settings of hubs: which nodes are hubs, how far their paths go, and how paths become texts.

Parameters of retrieval are parameters of strategies. Source: algorithms.md 4.3 to 4.7.
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from polyhop.schemas.setting_section import Section

HubMode = Literal["auto", "types", "edges", "both", "either"]
Level = Literal["path", "triple", "entity"]
Textualiser = Literal["template", "model"]

DOCUMENT = "document"
"""The type of a text corpus's title entities."""


def _listed(value: object) -> object:
    """A comma list as the environment and flags give it; a list of a settings file may hold commas in its entries."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Listed = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class HubSettings(Section):
    """What hubs are, and what is indexed of them (strategies hublink, hublink-topic, hub-facets)."""

    types: Listed = Field(
        (),
        description="Types of hubs, separated by commas: names of types (Paper), or predicate=label (rdf:type=Paper: "
        "nodes with a relation of that predicate to or from a node of that label). Of texts: types of entities, or "
        "document for the entities that documents are named after (the default there).",
    )
    mode: HubMode = Field(
        "auto",
        description="What makes a node a hub: types (hubs.types), edges (hubs.min_edges), both, either; auto (default) "
        "is types if there are any, else edges.",
    )
    min_edges: int = Field(
        10, ge=1, description="Relations from which on a node is a hub, those that leave and enter it, default 10."
    )
    split: bool = Field(
        default=False, description="Make nodes at which paths end for hubs.max_path_length hubs of the next level."
    )
    max_path_length: int | None = Field(
        None,
        ge=0,
        description="Relations of the longest path; 0: any number. Default 10 in a knowledge graph, and 2 in texts, "
        "where longer ones leave the document.",
    )
    max_paths_per_hub: int = Field(
        1000,
        ge=0,
        description="Paths kept per hub, in order of search, default 1000; 0: all. hub_coverage counts the rest.",
    )
    start: Listed = Field(
        (),
        description="Where the search for hubs starts: ids or types of nodes (of texts: keys or types of entities), "
        "separated by commas; empty (default): every hub.",
    )
    search_until_hub: bool = Field(
        default=True,
        description="Search on along every path until a hub is met (the thesis' eta; default); false: a level is one "
        "relation.",
    )
    max_depth: int = Field(
        -1, ge=-1, description="Levels of the search after the first one; -1 (default): until nothing new is found."
    )
    textualiser: Textualiser = Field(
        "template", description="Who puts paths into words: template (default), or model (models.extract)."
    )
    levels: Annotated[tuple[Level, ...], BeforeValidator(_listed)] = Field(
        ("path",),
        min_length=1,
        description="What of a path is embedded for hublink: path (its text; default), triple, entity, or several.",
    )
