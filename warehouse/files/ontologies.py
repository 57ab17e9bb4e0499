"""Classes and properties of OWL and RDFS files, by pyoxigraph, as a schema for extraction.

Source: RDF Schema 1.1 (2014), OWL 2 (2012), SKOS (2009).
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyoxigraph import Literal, NamedNode, RdfFormat, parse

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.extraction_schema import ExtractionSchema, SchemaRelation, SchemaType, type_name
from polyhop.schemas.graph import RDF_TYPE, RDFS_LABEL, name_without_label
from polyhop.schemas.text import norm_ws

_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_OWL = "http://www.w3.org/2002/07/owl#"
_SKOS = "http://www.w3.org/2004/02/skos/core#"
_CLASSES = (f"{_RDFS}Class", f"{_OWL}Class")
_PROPERTIES = ("http://www.w3.org/1999/02/22-rdf-syntax-ns#Property", f"{_OWL}ObjectProperty")
FORMATS = {
    ".ttl": RdfFormat.TURTLE,
    ".nt": RdfFormat.N_TRIPLES,
    ".rdf": RdfFormat.RDF_XML,
    ".owl": RdfFormat.RDF_XML,
    ".jsonld": RdfFormat.JSON_LD,
}

Values = Mapping[str, list[str]]  # of a predicate, by subject
Facts = Mapping[str, Values]  # by predicate


def read_ontology(path: Path) -> ExtractionSchema:
    """The named classes of a file as types, its properties between them as relations; other triples are not read."""
    facts: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    try:
        for quad in parse(path=str(path), format=FORMATS[path.suffix.lower()], base_iri="file:///"):
            if isinstance(quad.subject, NamedNode) and isinstance(quad.object, NamedNode | Literal):
                facts[quad.predicate.value][quad.subject.value].append(quad.object.value)
    except (SyntaxError, OSError) as error:
        raise ConfigurationError(f"Cannot read the schema {path}: {error}.") from error
    kinds = facts[RDF_TYPE]
    classes = [own for own, types in kinds.items() if not set(types).isdisjoint(_CLASSES)]
    properties = [own for own, types in kinds.items() if not set(types).isdisjoint(_PROPERTIES)]
    names = {own: type_name(_label(own, facts)) for own in classes}
    types = [SchemaType(names[own], (), _first(names, facts[f"{_RDFS}subClassOf"].get(own, ()))) for own in classes]
    relations = [_relation(own, facts, names) for own in properties]
    return ExtractionSchema(tuple(types), tuple(relations))


def _first(names: Mapping[str, str], values: Sequence[str]) -> str:
    return next((names[value] for value in values if value in names), "")


def _label(own: str, facts: Facts) -> str:
    labels = facts[RDFS_LABEL].get(own)
    return labels[0] if labels else _CAMEL.sub(" ", name_without_label(own))


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _relation(own: str, facts: Facts, names: Mapping[str, str]) -> SchemaRelation:
    ends = [
        tuple(names[value] for value in facts[f"{_RDFS}{end}"].get(own, ()) if value in names)
        for end in ("domain", "range")
    ]
    others = facts[f"{_OWL}inverseOf"].get(own, [])
    synonyms = facts[f"{_SKOS}altLabel"].get(own, [])
    inverse = [norm_ws(_label(other, facts)) for other in others]
    return SchemaRelation(norm_ws(_label(own, facts)), ends[0], ends[1], tuple(synonyms), tuple(inverse))
