"""Zipped document files: opened only if what they claim to unpack to is within limits, and what they are.

Nothing is unpacked to the disk: members are read by name, so a name that leads out of a folder leads nowhere. zipfile
reads of a member no more than its entry claims, hence the claims are limits.
"""

import zipfile
from typing import Any, BinaryIO

from lxml import etree

from polyhop.warehouse.files.records import FaultError, damage

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""How files of Microsoft's older container begin: Office before 2007, and any Office file with a password."""
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
"""A member, or of an empty file the end of its list (ZIP's APPNOTE, 4.3.6); a CSV file may begin with PK."""
_HEAD_BYTES = 1024  # in which Acrobat looks for `%PDF-` (PDF Reference 1.7, appendix H); DOCTYPEs stand there, too
_MOST_MEMBERS = 20_000
"""Chosen: a book of 5,000 pictures has some 6,000."""
_MEGABYTE = 1024 * 1024  # as `max_unpacked_mb` counts
_KINDS = (("word/", ".docx"), ("ppt/", ".pptx"), ("xl/", ".xlsx"))
_ENCRYPTED_FLAG = 1  # bit 0 of a member's flags (ZIP's APPNOTE, 4.4.4)


def kind_of_content(stream: BinaryIO) -> str:
    """What a file is by its content, as the ending of its format; "" if it is none of those with a signature.

    Raises:
        FaultError: If it is protected by a password, or an Office file of before 2007.
    """
    head = stream.read(_HEAD_BYTES)
    if b"%PDF-" in head:
        return ".pdf"
    if head.startswith(OLE):
        raise FaultError(_why_ole_is_refused(head + stream.read()))
    return _kind_of_zip(stream) if head.startswith(_ZIP) else ""


def _why_ole_is_refused(data: bytes) -> str:
    if _ENCRYPTED in data:
        return "it is encrypted with a password; save it without one"
    return "it is in the format of Office 97 to 2003; save it in a format of today (.docx, .pptx, .xlsx)"


def _kind_of_zip(stream: BinaryIO) -> str:
    try:
        with zipfile.ZipFile(stream) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise FaultError(f"it is damaged ({damage(error)})") from error
    if "META-INF/container.xml" in names or "mimetype" in names:
        return ".epub"
    return next((ending for folder, ending in _KINDS if any(name.startswith(folder) for name in names)), "")


def open_container(stream: BinaryIO, max_unpacked_mb: int, *, allows_doctype: bool = False) -> zipfile.ZipFile:
    """Opens a zipped document whose members are few and small enough, and not encrypted.

    Args:
        stream: The file.
        max_unpacked_mb: Most megabytes of all members together, unpacked.
        allows_doctype: Whether its XML may declare a document type (EPUB may; Office never does).

    Raises:
        FaultError: If it is too large, encrypted or damaged, or defines entities.
    """
    try:
        archive = zipfile.ZipFile(stream)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise FaultError(f"it is damaged ({damage(error)})") from error
    try:
        members = archive.infolist()
        if len(members) > _MOST_MEMBERS:
            raise FaultError(f"it holds {len(members):,} files, more than {_MOST_MEMBERS:,}")
        size = sum(member.file_size for member in members)
        if size > max_unpacked_mb * _MEGABYTE:
            raise FaultError(
                f"it would unpack to {size / _MEGABYTE:,.0f} MB, more than {max_unpacked_mb:,} (corpus.max_unpacked_mb)"
            )
        if any(member.flag_bits & _ENCRYPTED_FLAG for member in members):
            raise FaultError("it is encrypted with a password; save it without one")
        if not allows_doctype:
            _refuse_doctypes(archive)
    except BaseException:
        archive.close()
        raise
    return archive


def _refuse_doctypes(archive: zipfile.ZipFile) -> None:
    for member in archive.infolist():
        if member.filename.endswith((".xml", ".rels")):
            with archive.open(member) as file:
                head = file.read(_HEAD_BYTES)
            # UTF-16 has a zero byte beside each letter
            if b"<!DOCTYPE" in head.replace(b"\0", b""):
                raise FaultError(f"{member.filename[:100]} in it declares a document type, which Office files never do")


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """The content of a member.

    Raises:
        FaultError: If it is missing or damaged.
    """
    try:
        return archive.read(name)
    except KeyError as error:
        raise FaultError(f"it is damaged ({name[:100]} is missing in it)") from error


def parse_xml(data: bytes) -> Any:
    """The root of an XML file; no entity of its own is resolved, nothing else is read.

    Raises:
        FaultError: If it is not XML.
    """
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise FaultError(f"it is damaged ({damage(error)})") from error
