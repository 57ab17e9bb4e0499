"""A corpus format in one file: `polyhop index corpus.xml --index NAME` reads `<passage id= title=>text</passage>`.

A passage may be anywhere in the file; its other attributes become metadata. Entities and DTDs are never resolved.
"""

from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from polyhop.schemas.errors import SourceError
from polyhop.schemas.records import BadRecord
from polyhop.warehouse.files.records import Row, bad_record


def records(path: Path) -> Iterator[Row | BadRecord]:
    """The passages of an XML file, one at a time; Polyhop itself checks their ids, titles and texts.

    Raises:
        SourceError: If the file is not XML: where the next passage begins cannot be known.
    """
    found = etree.iterparse(str(path), tag="passage", resolve_entities=False, no_network=True, load_dtd=False)
    try:
        for _, passage in found:
            yield _row(passage, path.name)
            passage.clear()  # so that memory does not grow with the file
            while passage.getprevious() is not None:
                del passage.getparent()[0]
    except etree.XMLSyntaxError as error:
        raise SourceError(f"{path} is not XML: {error.msg}; fix it.") from error


def _row(passage: etree._Element, name: str) -> Row | BadRecord:
    line = passage.sourceline or 0
    if any(part.tag is etree.Entity for part in passage.iter()):
        return bad_record(name, line, "the passage uses an entity; write its text out", passage.get("title", ""))
    return Row(line, {**passage.attrib, "text": "".join(passage.itertext())})
