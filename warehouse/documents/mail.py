"""Texts of e-mail messages (.eml), with forwarded ones. Attached files are named, not read."""

from collections.abc import Iterator
from email import policy
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

from polyhop.schemas.sections import Document
from polyhop.warehouse.documents.building import TextBuilder, clean_line, clean_name
from polyhop.warehouse.files.records import FaultError
from polyhop.warehouse.files.web_pages import parse_page

_SHOWN = ("From", "To", "Cc", "Date", "Subject")
_MOST_PARTS = 10_000  # chosen: far more than real messages have; bounds what a crafted one costs


def read_mail(path: Path, _max_unpacked_mb: int) -> Document:
    """The text of a message: who, to whom and when, then its text, else that of its HTML.

    Raises:
        FaultError: If it is no message, is encrypted, or has no text.
    """
    with path.open("rb") as file:
        message = BytesParser(policy=policy.default).parse(file)
    if not _heading(message):
        raise FaultError("it is not an e-mail message: it has neither sender nor date nor subject")
    builder = TextBuilder()
    attached: list[str] = []
    has_text = False
    for number, (part, begins_message) in enumerate(_parts(message)):
        if number >= _MOST_PARTS:
            raise FaultError(f"it has more than {_MOST_PARTS:,} parts")
        if begins_message:
            builder.add(_heading(part))
            continue
        if _is_attached(part):
            attached.append(clean_name(str(part.get_filename() or part.get_content_type())))
            continue
        text = _text(part)
        has_text = has_text or bool(text.strip())
        builder.add(text)
    if not has_text:
        raise FaultError(_why_no_text(message))
    metadata: dict[str, object] = {name.lower(): _header(message, name) for name in ("From", "To", "Cc", "Date")}
    return builder.document(_header(message, "Subject"), {**metadata, "attachments": attached})


def _is_attached(part: Message) -> bool:
    """Whether a part is a file beside the text: named, marked as an attachment, or no text."""
    if part.get_filename() or part.get_content_disposition() == "attachment":
        return True
    return part.get_content_maintype() != "text"


def _why_no_text(message: Message) -> str:
    if message.get_content_type() in {"multipart/encrypted", "application/pkcs7-mime"}:
        return "it is encrypted; save it in clear text"
    return "it has no text: nothing but attachments, or nothing at all"


def _parts(message: Message) -> Iterator[tuple[Message, bool]]:
    """Every message, marked as one, then its texts and attachments; of alternatives the plain one, or the last."""
    waiting = [(message, True)]
    while waiting:
        part, is_message = waiting.pop()
        if is_message:
            yield part, True
        if not part.is_multipart():
            yield part, False
            continue
        is_forwarded = part.get_content_maintype() == "message"
        waiting.extend((one, is_forwarded) for one in reversed(_read_parts_of(part)))


def _read_parts_of(part: Message) -> list[Message]:
    """The parts in a part that are read: all, but of alternatives the first plain one, or the last."""
    inner = [one for one in part.get_payload() if isinstance(one, Message)]
    if part.get_content_type() == "multipart/alternative":
        return [one for one in inner if one.get_content_type() == "text/plain"][:1] or inner[-1:]
    return inner


def _heading(message: Message) -> str:
    """The headers that are shown of a message, one a line; "" if it has none of them."""
    return "\n".join(f"{name}: {_header(message, name)}" for name in _SHOWN if _header(message, name))


def _header(part: Message, name: str) -> str:
    """A header on one line, "" without one; what the standard library cannot take apart is given as it is."""
    try:
        value = part.get(name)
    except (ValueError, IndexError, AttributeError, TypeError, LookupError):  # bugs of its parser of headers
        value = next((raw for key, raw in part.raw_items() if key.lower() == name.lower()), "")
    return clean_line(str(value)) if value else ""


def _text(part: Message) -> str:
    data = part.get_payload(decode=True)
    text = _decoded(data, part.get_content_charset() or "utf-8") if isinstance(data, bytes) else ""
    if part.get_content_subtype() == "html":
        return parse_page(text.encode("utf-8", "replace").decode()).document("", is_whole=True).text
    return text


def _decoded(data: bytes, charset: str) -> str:
    """In the charset that the part states; in another one that reads anything if it is unknown, or wrong."""
    for name in (charset, "utf-8"):
        try:
            return data.decode(name)
        except (LookupError, UnicodeError, ValueError):
            continue
    return data.decode("windows-1252", "replace")
