"""RDF triples as lines of a graph: labels and types describe nodes, everything else is a statement.

Parses nothing: ntriples.py and turtle.py do. Predicates and classes are called by their labels.
Source: decisions/0016-rdf-and-neo4j-graphs.md; RDF Schema 1.1 (2014), sections 3.3 and 3.6.
"""

from collections.abc import Iterable, Sequence

from polyhop.schemas.iris import RDF_TYPE, RDFS_LABEL, XSD, label_preference, name_without_label
from polyhop.schemas.statements import Description, GraphLine, Node, Statement
from polyhop.warehouse.files.records import FaultError, check_characters, checked_name

Triple = tuple[str, str, Node]
"""Subject and predicate by id (an IRI, or `_:` and the name of a blank node), and an object; literals have no id."""


def literal(value: str, datatype: str, language: str) -> Node:
    """A literal; a plain one and one of xsd:string are the same. Source: RDF 1.1 Concepts (2014), section 3.3."""
    return Node(
        "", value, (), is_literal=True, datatype="" if datatype == f"{XSD}string" else datatype, language=language
    )


def node(own_id: str) -> Node:
    """An IRI or a blank node."""
    return Node(own_id, "", (), is_literal=False)


def is_label(triple: Triple) -> bool:
    """Whether a triple says what its subject is called."""
    return triple[1] == RDFS_LABEL and triple[2].is_literal is True


def is_type(triple: Triple) -> bool:
    """Whether a triple says of which class its subject is."""
    return triple[1] == RDF_TYPE and not triple[2].is_literal


class Vocabulary:
    """What predicates and classes are called: by their label, in the most preferred language, or by their IRI."""

    def __init__(self, languages: Sequence[str]) -> None:
        self._languages = languages
        self._labels: dict[str, tuple[str, str]] = {}

    def add(self, triples: Iterable[Triple]) -> None:
        """Takes up the labels among these triples; their order does not matter."""
        for own_id, _, label in filter(is_label, triples):
            try:
                name = checked_name("label", " ".join(label.name.split()))
            except FaultError:
                continue  # the triple itself is refused when it is read
            found = (label_preference(label.language, self._languages), name)
            if name and found < self._labels.get(own_id, (chr(0x10FFFF), "")):
                self._labels[own_id] = found

    def name_of(self, own_id: str) -> str:
        """The name of a predicate or class."""
        return self._labels[own_id][1] if own_id in self._labels else name_without_label(own_id)

    def line(self, triple: Triple) -> GraphLine:
        """What a triple says.

        Raises:
            FaultError: If an id, a name or a value cannot be stored.
        """
        subject, predicate, value = triple
        checked_name("subject", subject)
        if is_label(triple):
            check_characters("label", value.name)
            named = Node(subject, value.name)
            return Description(named, label_preference(value.language, self._languages))
        if not value.is_literal:
            checked_name("object", value.id)
        if is_type(triple):
            return Description(Node(subject, "", (checked_name("type", self.name_of(value.id)),)))
        check_characters("value", value.name)
        return Statement(node(subject), checked_name("predicate", self.name_of(predicate)), value)
