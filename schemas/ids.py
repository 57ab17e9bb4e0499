"""Ids and content hashes: sha256 over what a thing is, never over when or where it was seen.

Python's own `hash()` differs between processes and is not used.
"""

from hashlib import sha256

# hexadecimal digits, 128 bits: that any two of 10**9 rows share an id has a probability near 10**-21 (birthday bound).
ID_LENGTH = 32


def content_hash(*parts: str) -> str:
    """sha256 of the parts joined by newlines, 64 hexadecimal digits. Source: algorithms.md 0.3(5), 0.6."""
    return sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _short(kind: str, *parts: str) -> str:
    return content_hash(kind, *parts)[:ID_LENGTH]


def record_id(title: str, text: str) -> str:
    """Id of a record that came without one."""
    return _short("record", title, text)


def document_id(title: str) -> str:
    """Id of a document: passages with one title are one document. `title` is already `norm_ws`-ed."""
    return _short("document", title)


def entity_id(key: str) -> str:
    """Id of the entity with this name key."""
    return _short("entity", key)


def node_id(own_id: str) -> str:
    """Entity id of a graph's node, from the id that the graph gave it: equal names stay different entities."""
    return _short("node", own_id)


def literal_id(subject_id: str, predicate: str, datatype: str, value: str) -> str:
    """Entity id of a value that a graph gave no id: every statement has a literal of its own.

    Nothing but the value may contain newlines. Source: algorithms.md 4.3.
    """
    return _short("literal", subject_id, predicate, datatype, value)


def proposition_id(text: str) -> str:
    """Id of a proposition: `text` is already `norm_ws`-ed, so equal texts are one proposition."""
    return _short("proposition", text)
