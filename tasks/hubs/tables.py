"""Tables of the hub stages: hubs, their candidates and paths, distinct texts, and what of a graph they cover.

Fills none. Columns follow algorithms.md 7.2.
"""

from polyhop.schemas.columns import Table, count, real, text

_HUB_ID = text("hub_id", "entity that is the hub")
_PATH = "[[subject id, subject, predicate, object id, object], …] from the hub on, as JSON; ids are the graph's own"

HUBS = Table(
    "hubs",
    "Hubs: entities of special interest, whose information is the paths that leave them.",
    ("hub_id",),
    (
        _HUB_ID,
        text("definition", "rules of the settings that it meets: types, edges, types and edges, or split"),
        count("index_level", "level of the search that found it, from 0; NULL if none did, so it has no paths",
              nullable=True),
        count("path_count", "paths of it in hub_paths"),
        count("left_out_count", "further paths, beyond hubs.max_paths_per_hub"),
        text("graph_hash", "sha256 of its paths' hashes: the same while none of its paths changes"),
    ),
)  # fmt: skip
HUB_CANDIDATES = Table(
    "hub_candidates",
    "Nodes from which search goes on from a hub: other hubs, and where paths end for their length.",
    ("hub_id", "next_entity_id"),
    (
        _HUB_ID,
        text("next_entity_id", "entity where search goes on"),
        text("kind", "hub or limit"),
        text("path_json", _PATH),
    ),
)
HUB_COVERAGE = Table(
    "hub_coverage",
    "Which part of the graph is in some path of a hub, and how many hubs and paths there are.",
    ("what", "part"),
    (
        text("what", "nodes, nodes of type, triples, triples of predicate: in a path or in none. hubs: with paths or "
             "without. paths: kept, or left out by hubs.max_paths_per_hub. hubs with paths (by their number), paths of "
             "length, paths that end in: kept ones only"),
        text("part", "type, predicate, number or kind; (all) for all of them"),
        count("covered", "in a path; hubs with paths; paths kept"),
        count("uncovered", "in no path; hubs without a path; paths left out"),
        real("share", "covered part, 0 to 1; NULL of nothing", nullable=True),
    ),
)  # fmt: skip
HUB_UNCOVERED = Table(
    "hub_uncovered",
    "Relations in no path of a hub: FROM neighbours SEMI JOIN hub_uncovered USING (relation_id) shows them.",
    ("relation_id",),
    (text("relation_id", "relation"),),
)
HUB_PATHS = Table(
    "hub_paths",
    "Paths of hubs, with their texts.",
    ("hub_id", "path_hash"),
    (
        _HUB_ID,
        text("path_hash", "sha256 of triples_json"),
        count("ordinal", "position among the hub's paths, from 0"),
        count("length", "number of its triples"),
        text("triples_json", _PATH),
        text("text", "the path in words"),
        text("textualiser", "template, or the model that wrote the text"),
        text("end_kind", "leaf (no relation goes on), hub, limit (longest path), revisit (a node that was passed)"),
        text("end_entity_id", "entity at which it ends"),
    ),
)
HUB_TEXTS = Table(
    "hub_texts",
    "Distinct texts of hubs and paths that have vectors, in the order of their vectors.",
    ("kind", "ordinal"),
    (
        text("kind", "hubpath (what hublink compares), hubvalue (what hub-facets compares), hubname (labels of hubs)"),
        count("ordinal", "number of the text in its kind, from 0"),
        text("text_id", "sha256-derived from the text"),
        text("text", "the text"),
    ),
)
