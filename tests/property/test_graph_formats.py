"""One graph in several formats gives the same tables: N-Triples, Turtle, and JSON lines that say the same."""

import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.schemas.graph import RDF_TYPE, RDFS_LABEL
from polyhop.schemas.settings import Settings
from polyhop.tasks.graph_source.stage import INGEST_GRAPH
from polyhop.tasks.publish.publish import check_invariants
from polyhop.tasks.stage import tables_of
from polyhop.warehouse.build import Build, start_build

NODES = tuple(f"http://x/node/N_{n}" for n in range(5))
PREDICATES = ("http://x/p/worksWith", "http://x/p/born%20in", "http://y/p#worksWith")
CLASSES = ("http://x/c/Person", "http://x/c/Town")
WORDS = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=8).filter(str.strip)
VALUES = st.tuples(
    st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=8),  # type: ignore[arg-type]
    st.sampled_from([("", ""), ("http://x/type", ""), ("", "en"), ("", "fr-be")]),
)
TRIPLES = st.lists(
    st.tuples(st.sampled_from(NODES), st.sampled_from(PREDICATES), st.sampled_from(NODES) | VALUES),
    min_size=1,
    max_size=12,
    unique=True,
)
LABELS = st.dictionaries(st.sampled_from((*NODES, *PREDICATES, *CLASSES)), WORDS)
TYPES = st.dictionaries(st.sampled_from(NODES), st.sets(st.sampled_from(CLASSES)))
Value = tuple[str, tuple[str, str]]


def quoted(text: str) -> str:
    return (
        '"'
        + "".join(f"\\U{ord(c):08X}" if c in '"\\' or ord(c) < 32 or ord(c) in range(127, 160) else c for c in text)
        + '"'
    )


def term(value: str | Value) -> str:
    if isinstance(value, str):
        return f"<{value}>"
    text, (datatype, language) = value
    return quoted(text) + (f"^^<{datatype}>" if datatype else "") + (f"@{language}" if language else "")


def tables(folder: Path, name: str, lines: list[str]) -> dict[str, list[tuple[object, ...]]]:
    source = folder / name
    source.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="")
    build = Build(Settings(root=folder / "root"), "g", source, (), "graph")
    start_build(build, tables_of([INGEST_GRAPH]))
    INGEST_GRAPH.run(build, 0)
    INGEST_GRAPH.finish(build)
    with build.tables() as connection:
        check_invariants(connection, [INGEST_GRAPH], tables_of([INGEST_GRAPH]))
        return {
            name: connection.execute(f"FROM {name} ORDER BY ALL").fetchall()
            for name in ("entities", "relations", "nodes", "quarantine")
        }


@settings(max_examples=10)
@given(TRIPLES, LABELS, TYPES, st.randoms(use_true_random=False))
def test_n_triples_turtle_and_json_lines_give_the_same_tables(
    triples: list[tuple[str, str, str | Value]],
    labels: dict[str, str],
    types: dict[str, set[str]],
    order: random.Random,
) -> None:
    rdf = [f"<{s}> <{p}> {term(o)} ." for s, p, o in triples]
    rdf += [f"<{own}> <{RDFS_LABEL}> {quoted(label)} ." for own, label in labels.items()]
    rdf += [f"<{own}> <{RDF_TYPE}> <{kind}> ." for own, kinds in types.items() for kind in kinds]
    order.shuffle(rdf)
    # what the readers make of an IRI without a label, written out
    plain = {PREDICATES[0]: "worksWith", PREDICATES[1]: "born in", PREDICATES[2]: "worksWith"}
    plain |= {CLASSES[0]: "Person", CLASSES[1]: "Town"}

    def called(own_id: str) -> str:
        return " ".join(labels[own_id].split()) if own_id in labels else plain[own_id]

    def node(own_id: str) -> dict[str, object]:
        kinds = sorted({called(kind) for kind in types.get(own_id, ())})
        return {"id": own_id, "name": labels.get(own_id, ""), "types": kinds, "literal": False}

    def value(found: str | Value) -> dict[str, object]:
        if isinstance(found, str):
            return node(found)
        text, (datatype, language) = found
        return {"value": text, "literal": True, "datatype": datatype or None, "language": language or None}

    stated = [json.dumps({"subject": node(s), "predicate": called(p), "object": value(o)}) for s, p, o in triples]
    with TemporaryDirectory() as folder:
        n_triples = tables(Path(folder), "g.nt", rdf)
        assert n_triples["quarantine"] == []
        assert tables(Path(folder), "g.ttl", rdf) == n_triples
        assert tables(Path(folder), "g.jsonl", stated) == n_triples
