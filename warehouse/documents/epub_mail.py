"""Texts of EPUB books, chapter by chapter, and of e-mail messages.

ebooklib, the package that everybody names, is under the AGPL; a book is zipped XHTML with one list of what to read.
"""

import base64
import mimetypes
import posixpath
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from email import policy
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from pathlib import PurePosixPath
from typing import Any, BinaryIO
from urllib.parse import unquote

from polyhop.schemas.records import Document
from polyhop.warehouse.documents.building import (
    Reading,
    TextBuilder,
    clean_line,
    clean_name,
    open_container,
    parse_xml,
    read_member,
)
from polyhop.warehouse.files.encodings import UTF16, decode
from polyhop.warehouse.files.formats import ATTACHED
from polyhop.warehouse.files.records import FaultError, damage
from polyhop.warehouse.files.web_pages import declared_encoding, parse_page

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_TEXTS = frozenset(("application/xhtml+xml", "text/html", "application/xml", "text/x-oeb1-document"))


def read_epub(stream: BinaryIO, reading: Reading) -> Document:
    """The text of a book: what its spine lists, in that order, chapters named as in its table of contents."""
    with open_container(stream, reading.max_unpacked_mb, allows_doctype=True) as archive:
        container = parse_xml(read_member(archive, _CONTAINER))
        root = next((found.get("full-path") for found in _named(container, "rootfile")), None)
        if not root:
            raise FaultError("it is damaged (it does not say where its list of contents is)")
        package = parse_xml(read_member(archive, root))
        items = {item.get("id"): item for item in _named(package, "item") if item.get("href")}
        member_of = {own_id: _joined(posixpath.dirname(root), item.get("href")) for own_id, item in items.items()}
        texts = {own_id: member_of[own_id] for own_id, item in items.items() if item.get("media-type") in _TEXTS}
        # Fonts may be scrambled; a text that is, belongs to a shop.
        if _ENCRYPTION in archive.namelist():
            found = _named(parse_xml(read_member(archive, _ENCRYPTION)), "CipherReference")
            if not {unquote(reference.get("URI") or "") for reference in found}.isdisjoint(texts.values()):
                raise FaultError("it is encrypted (digital rights management)")
        chapters = _chapters(archive, [(member_of[own_id], item) for own_id, item in items.items()])
        listed = [found.get("idref") for found in _named(package, "itemref")]
        spine = dict.fromkeys(texts[own_id] for own_id in listed if own_id in texts)
        if not spine:
            raise FaultError("it is damaged (it has no spine: nothing says what to read in which order)")
        builder = TextBuilder()
        chapter = ""
        for name in spine:
            data = read_member(archive, name)
            page = parse_page(decode(data, declared_encoding(data)))
            chapter = chapters.get(name, "" if not chapters else chapter)
            builder.locate(chapter=chapter or page.heading("h1") or page.heading("title"))
            builder.include(page.document("", is_whole=True))
    if not builder.length:
        raise FaultError("it has no text: nothing but pictures, or nothing at all")
    title, author, language = (
        next((clean_line(found.text or "") for found in _named(package, name)), "")
        for name in ("title", "creator", "language")
    )
    return builder.document(title, {"author": author, "language": language})


def _chapters(archive: zipfile.ZipFile, items: Sequence[tuple[str, Any]]) -> Mapping[str, str]:
    """Member to the title of the chapter that begins there.

    From the table of contents of EPUB 3, else that of EPUB 2; a damaged one counts as none.
    """
    for member, item in items:
        is_navigation = "nav" in (item.get("properties") or "").split()
        if is_navigation or item.get("media-type") == "application/x-dtbncx+xml":
            try:
                entries = _links(parse_xml(read_member(archive, member)), is_ncx=not is_navigation)
            except FaultError:
                continue
            found: dict[str, str] = {}
            for href, title in entries:
                if title:
                    found.setdefault(_joined(posixpath.dirname(member), href), title)
            if found:
                return found
    return {}


def _links(root: Any, *, is_ncx: bool) -> Iterator[tuple[str, str]]:
    """(link, title) of the entries of a table of contents."""
    if not is_ncx:
        for link in _named(root, "a"):
            yield link.get("href") or "", clean_line("".join(link.itertext()))
        return
    for point in _named(root, "navPoint"):
        label = next(_named(point, "text"), None)
        content = next(_named(point, "content"), None)
        if label is not None and content is not None:
            yield content.get("src") or "", clean_line(label.text or "")


def _named(root: Any, name: str) -> Iterator[Any]:
    """Elements of a name, in whatever namespace."""
    found: Iterator[Any] = root.iter(f"{{*}}{name}")
    return found


def _joined(folder: str, href: str) -> str:
    return posixpath.normpath(posixpath.join(folder, unquote(href.split("#", 1)[0])))


_HEADERS = ("From", "To", "Cc", "Date")
_MOST_PARTS = 10_000  # chosen: far more than real messages have; bounds what a crafted one costs
_DEEPEST = 5  # messages inside messages whose attached files are read; chosen: forwarding four times is rare
_FORWARDED = ("message/rfc822", "message/global")


def read_mail(stream: BinaryIO, reading: Reading) -> Document:
    """A message: its plain text, else that of its HTML, its headers as metadata, and what is attached."""
    data = stream.read()
    message = BytesParser(policy=_MailPolicy()).parsebytes(decode(data).encode() if data.startswith(UTF16) else data)
    subject = _header(message, "Subject")
    metadata: dict[str, object] = {name.lower(): _header(message, name) for name in _HEADERS}
    with suppress(ValueError, TypeError, IndexError, OverflowError):  # then it stays as it is written
        metadata["date"] = parsedate_to_datetime(str(metadata["date"])).isoformat()
    if not subject and not any(metadata.values()):
        raise FaultError("it is not an e-mail message: it has neither sender nor date nor subject")
    builder = TextBuilder()
    files = _AttachedFiles(reading)
    for number, part in enumerate(_parts(message)):
        if number >= _MOST_PARTS:
            raise FaultError(f"it has more than {_MOST_PARTS:,} parts")
        # a file beside the text: named, marked as an attachment, or no text
        is_attached = part.get_filename() or part.get_content_disposition() == "attachment"
        if part.get_content_type() != "text/calendar" and (is_attached or part.get_content_maintype() != "text"):
            files.add(part)
            continue
        try:
            builder.add(_text(part))
        except FaultError:
            builder.skip("text in an unknown encoding")
    if not builder.length and not files.attached:
        if message.get_content_type() in {"multipart/encrypted", "application/pkcs7-mime"}:
            raise FaultError("it is encrypted; save it in clear text")
        raise FaultError("it has no text: nothing but attachments, or nothing at all")
    names = [*files.attached, *files.unread]
    return builder.document(subject, {**metadata, "attachments": names}, files.attached, files.unread)


class _MailPolicy(policy.EmailPolicy):
    """The standard library's reading of messages, with the encodings of headers read as those of texts are."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        with suppress(FaultError):
            value = value if value.isascii() else decode(value.encode("utf-8", "surrogateescape"))
        return name, _ENCODED_WORDS.sub(_in_utf8, value)


_ENCODED_WORDS = re.compile(r"=\?[^?\s]+\?[bq]\?[^?\s]*\?=(?:\s+=\?[^?\s]+\?[bq]\?[^?\s]*\?=)*", re.IGNORECASE)


def _in_utf8(words: re.Match[str]) -> str:
    """Encoded words (RFC 2047) as one of UTF-8; those that cannot be decoded as they are."""
    text = ""
    try:
        for data, charset in decode_header(words[0]):
            text += data if isinstance(data, str) else decode(data, (charset or "").partition("*")[0])
    except (HeaderParseError, FaultError):
        return words[0]
    return f"=?utf-8?b?{base64.b64encode(text.encode()).decode()}?="


class _AttachedFiles:
    """Attachments of a message, by name: documents, reasons for missing ones, and kinds of skipped files."""

    def __init__(self, reading: Reading) -> None:
        self.attached: dict[str, Document | str] = {}
        self.unread: dict[str, str] = {}
        self._reading = reading
        self._left = reading.max_unpacked_mb * 1024 * 1024

    def add(self, part: Message) -> None:
        """Reads a part; two of one name are distinguished by a number."""
        payload = part.get_payload() if part.is_multipart() else ()  # of a forwarded message, which is a file, too
        inner = next((one for one in payload if isinstance(one, Message)), None)
        stated = str(part.get_filename() or "")
        if part.get_content_type() in _FORWARDED and not stated.lower().endswith(".eml"):
            stated = f"{stated or (_header(inner, 'Subject') if inner is not None else '') or 'message'}.eml"
        stated = clean_name(stated).replace("/", "_")
        stated = stated or f"attachment{mimetypes.guess_extension(part.get_content_type()) or ''}"
        name, count = stated, 1
        while name in self.attached or name in self.unread:
            count += 1
            name = f"{PurePosixPath(stated).stem} ({count}){PurePosixPath(stated).suffix}"
        ending = PurePosixPath(name).suffix.lower()
        try:
            data = part.get_payload(decode=True) if inner is None else inner.as_bytes(policy=policy.compat32)
        except Exception as error:  # noqa: BLE001 - the standard library may fail in any way on a part of any content
            self.attached[name] = f"it is damaged ({damage(error)})"
            return
        data = data if isinstance(data, bytes) else b""
        self._left -= len(data)
        if ending not in ATTACHED:
            self.unread[name] = f"attached {ending or 'file without suffix'}"
        elif self._reading.depth >= _DEEPEST:
            self.unread[name] = "attached file nested too deeply"
        elif self._left < 0:
            self.unread[name] = "attached file beyond the largest unpacked size"
        elif data.strip():
            self.attached[name] = self._reading.read_attached(name, data)


def _parts(message: Message) -> Iterator[Message]:
    """The texts and attached files of a message; of alternatives one, and its invitation."""
    waiting = [message]
    while waiting:
        part = waiting.pop()
        if part.is_multipart() and part.get_content_maintype() != "message":
            inner = [one for one in part.get_payload() if isinstance(one, Message)]
            if part.get_content_type() == "multipart/alternative":
                events = [one for one in inner if one.get_content_type() == "text/calendar"]
                inner = [*_chosen([one for one in inner if one not in events]), *events]
            waiting.extend(reversed(inner))
        else:
            yield part


def _chosen(alternatives: Sequence[Message]) -> Sequence[Message]:
    """The first plain text unless the HTML, which comes last, says something else; else the last."""
    plain = [one for one in alternatives if one.get_content_type() == "text/plain"][:1]
    html = next((one for last in alternatives[-1:] for one in last.walk() if one.get_content_subtype() == "html"), None)
    if not plain or html is None:
        return plain or alternatives[-1:]
    try:
        in_plain, in_html = (set(_WORD.findall(_text(one).lower())) for one in (*plain, html))
    except FaultError:
        return plain
    is_stub = in_html and len(in_plain & in_html) <= _STUB_SHARE * len(in_plain)
    return alternatives[-1:] if is_stub else plain


_WORD = re.compile(r"\w+")
_STUB_SHARE = 0.5  # of the words of a plain text: if the HTML has no more of them, it is another text. Chosen.


def _header(part: Message, name: str) -> str:
    """A header on one line, "" without one; what the standard library cannot take apart is given as it is."""
    try:
        value = part.get(name)
    except (ValueError, IndexError, AttributeError, TypeError, LookupError):  # bugs of its parser of headers
        value = next((raw for key, raw in part.raw_items() if key.lower() == name.lower()), "")
    return clean_line(str(value)) if value else ""


def _text(part: Message) -> str:
    """The text of a part, without the line ends that only wrap it; of an invitation what, when and where."""
    data = part.get_payload(decode=True)
    data = data if isinstance(data, bytes) else b""
    charset, kind = part.get_content_charset() or "", part.get_content_subtype()
    if kind == "html":
        markup = decode(data, charset or declared_encoding(data)).encode("utf-8", "replace").decode()
        document: Document = parse_page(markup).document("", is_whole=True)
        return document.text
    text = decode(data, charset)
    if kind == "calendar":
        return "\n".join(map(_event, _EVENT.finditer(_FOLD.sub("", text))))
    if str(part.get_param("format")).lower() == "flowed":  # RFC 3676: a space at the end of a line goes on
        is_kept = str(part.get_param("delsp")).lower() != "yes"
        lines = re.sub(r"^ ", "", text.replace("\r\n", "\n"), flags=re.MULTILINE)
        return re.sub(r"(?<!^--) \n(?=[^>\n])", " " if is_kept else "", lines, flags=re.MULTILINE)
    return text


_FOLD = re.compile(r"\r?\n[ \t]")  # RFC 5545, 3.1
_EVENT = re.compile(r"^BEGIN:V(EVENT|TODO|JOURNAL)\s*$(.*?)^END:V\1", re.MULTILINE | re.DOTALL)
_ALARM = re.compile(r"^BEGIN:VALARM\s*$.*?^END:VALARM", re.MULTILINE | re.DOTALL)
_PROPERTY = re.compile(r"""^([A-Z-]+)((?:;(?:"[^"\r\n]*"|[^":\r\n])*)?):(.*?)\r?$""", re.MULTILINE)
_ZONE = re.compile(r";TZID=\"?([^\";]+)")
_LABELS = {
    "SUMMARY": "",
    "STATUS": "status: ",
    "DTSTART": "start: ",
    "DTEND": "end: ",
    "DUE": "due: ",
    "DURATION": "duration: ",
    "RRULE": "repeats: ",
    "LOCATION": "location: ",
    "DESCRIPTION": "description: ",
}
"""The properties of an event or task that are read (RFC 5545, 3.8), and what stands before each."""
_MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?")


def _event(event: re.Match[str]) -> str:
    """An event or task of a calendar as a line: `Dam walk; start: 2026-03-10 09:00 UTC; location: Weir`."""
    stated: dict[str, str] = {}
    for name, parameters, value in _PROPERTY.findall(_ALARM.sub("", event[2])):
        shown = value.lower().strip() if name == "STATUS" else _moment(value.strip())
        zone = _ZONE.search(parameters)
        stated.setdefault(name, f"{shown} {zone[1]}" if zone and shown else shown)
    line = "; ".join(f"{label}{stated[name]}" for name, label in _LABELS.items() if stated.get(name))
    return re.sub(r"\\([,;\\])", r"\1", re.sub(r"\\[nN]", " ", line))


def _moment(value: str) -> str:
    found = _MOMENT.fullmatch(value)
    if found is None:
        return value
    year, month, day, hour, minute, universal = found.groups()
    return f"{year}-{month}-{day}" + (f" {hour}:{minute}{' UTC' if universal else ''}" if hour else "")
