"""Encoding and separator of text files that do not name them, or name them wrongly."""

import codecs
import csv
import re
from collections import Counter
from contextlib import suppress
from itertools import islice

import webencodings

from polyhop.warehouse.files.records import FaultError, encoding_fault

UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_WESTERN = "windows-1252"  # HTML standard, section 13.2.3.2: what a page is in that says nothing
_UTF8 = "utf-8-sig"
_DAMAGED = "polyhop-damaged-utf8"  # how bytes are read that are no UTF-8, as Python's codecs call it
_ACCENTS = 3  # one letter of so many may be none of a to z; chosen: French has one of 25, Russian or Greek only such
_BINARY = re.compile(r"[\x00-\x08\x0e-\x1a]")
_SEPARATORS = ",;\t|"
_SAMPLED_ROWS = 50  # chosen: a separator that occurs in texts, too, shows itself in fewer


def decode(data: bytes, label: str = "") -> str:
    """The text of a file: UTF-16 with its mark, UTF-8 whatever its label says, its label, else windows-1252.

    A label means what the WHATWG Encoding Standard says: iso-8859-1 is windows-1252, gb2312 is GBK. Windows-1252, which
    browsers take without a label, counts only if the text is a Western one then: read so, Russian or Chinese would be a
    text of accents. UTF-8 may be damaged: a stray byte in it is one of windows-1252, half a character is U+FFFD.

    Raises:
        FaultError: If it is none of these.
    """
    encoding = encoding_of(data, label)
    return data.decode(encoding, _DAMAGED if encoding == _UTF8 else "replace")


def encoding_of(data: bytes, label: str = "") -> str:
    """Python's name of the encoding that `decode` takes.

    Raises:
        FaultError: If it is none of these.
    """
    if data.startswith(UTF16):
        return "utf-16"
    known = webencodings.lookup(label)
    labelled: str = known.codec_info.name if known is not None else label
    # 7-bit encodings such as iso-2022-jp look like ASCII, UTF-16 holds zero bytes
    is_certain = (b"\0" in data) if labelled.startswith("utf-16") else data.isascii()
    for name in filter(None, (labelled if is_certain else "", _UTF8, labelled, _WESTERN)):
        with suppress(LookupError, ValueError):  # a label may name what is no encoding of texts
            if name == _UTF8 and (labelled == "utf-8" or _is_nearly_utf8(data)):
                return name
            text = data.decode(name)
            if name != _WESTERN or labelled or _is_western(text):
                return name
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise FaultError(f"the file is {encoding_fault(error)}; save it as UTF-8") from error
    return _UTF8


def _is_nearly_utf8(data: bytes) -> bool:
    """Returns whether at least as many characters outside ASCII are whole ones of UTF-8 as are damaged."""
    text = data.decode(_UTF8, "replace")
    damaged = text.count("\ufffd")
    return 0 < damaged * 2 <= sum(character > "\x7f" for character in text)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    damaged = error.object[error.start : error.end]
    is_half = len(damaged) > 1 or error.end == len(error.object)
    return "\ufffd" if is_half else damaged.decode(_WESTERN, "replace"), error.end


codecs.register_error(_DAMAGED, _replaced)


def _is_western(text: str) -> bool:
    letters = sum(map(str.isalpha, text))
    accented = sum(letter > "\x7f" and letter.isalpha() for letter in text)
    return accented * _ACCENTS <= letters and not _BINARY.search(text)


def separator_of(text: str) -> tuple[str, int]:
    """The separator of a CSV text, and how many lines before the first row say so (`sep=;`).

    That is comma, semicolon, tab or bar, whichever divides most of the first rows into equally many cells, two or more;
    of several the one with the most cells.
    """
    if text[:4].lower() == "sep=" and len(text) > 4:
        return text[4], 1
    lines = text.splitlines(keepends=True)

    def evenness(separator: str) -> tuple[float, int]:
        try:
            rows = [len(row) for row in islice(csv.reader(lines, delimiter=separator), _SAMPLED_ROWS) if row]
        except csv.Error:
            return 0, 0
        width, count = Counter(rows).most_common(1)[0] if rows else (0, 1)
        return (count / len(rows), width) if width > 1 else (0, 0)

    return max(_SEPARATORS, key=evenness), 0
