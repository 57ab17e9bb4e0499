"""IRIs, the ids of RDF graphs: the name that one gives a node, and the order of labels by language.

Resolves nothing. Source: RDF 1.1 Concepts (2014), sections 3.2 and 3.3.
"""

import re
import unicodedata
from collections.abc import Sequence
from urllib.parse import unquote

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
XSD = "http://www.w3.org/2001/XMLSchema#"

_IRI = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://|urn:)\S+")
_SEPARATORS = "/#:"


def name_without_label(own_id: str) -> str:
    """The name of a node that no statement names: of an IRI its last part in words, else the id itself.

    `http://dbpedia.org/resource/Ada_Lovelace` is called `Ada Lovelace`.
    """
    if not _IRI.fullmatch(own_id):
        return own_id
    last = re.split(f"[{_SEPARATORS}]", own_id.rstrip(_SEPARATORS))[-1]
    name = unquote(last).replace("_", " ").strip()
    is_printable = not any(unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in name)
    return name if name and is_printable else own_id


def label_preference(language: str, languages: Sequence[str]) -> str:
    """The rank of a label among those of one thing, as text: smaller is preferred.

    First the wanted languages in their order (`en` also means `en-GB`), then labels without a language, then the other
    languages alphabetically.

    Args:
        language: Tag of the label's language, empty if it has none.
        languages: Wanted languages, lower case.
    """
    tag = language.lower()
    for rank, wanted in enumerate(languages):
        if tag == wanted or tag.startswith(f"{wanted}-"):
            return f"{rank:03d} {tag}"
    return f"{len(languages) + 1:03d} {tag}" if tag else f"{len(languages):03d}"
