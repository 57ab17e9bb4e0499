"""What pages of docs/ with files and commands show, and whether a command printed it.

A line of the page that is only … stands for any lines, one that ends with " …" for any rest of a line; numbers with a
unit of time may differ.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL
)
TIME = re.compile(r" *\d[\d,.]* ?(?:ms|s)\b")


class Command(NamedTuple):
    """A command of a page and what the page shows of its output."""

    line: str
    shown: str


def blocks(page: Path) -> Iterator[re.Match[str]]:
    """Fenced blocks with their `language`, `title` and `text`."""
    return _BLOCK.finditer(page.read_text(encoding="utf-8"))


def commands(page: Path) -> list[Command]:
    """Every command of the page's console blocks, in order."""
    texts = [block["text"] for block in blocks(page) if block["language"] == "console"]
    parts = [part for text in texts for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]]
    return [Command(*part.partition("\n")[::2]) for part in parts]


def write_files(page: Path, folder: Path, own: Sequence[str] = ("",)) -> None:
    """Writes the blocks whose title begins with one of `own`, as a reader would."""
    for block in blocks(page):
        if block["title"] and block["title"].startswith(tuple(own)):
            path = folder / block["title"]
            path.parent.mkdir(exist_ok=True)
            path.write_text(block["text"], encoding="utf-8")


def plain(output: str, folder: Path) -> str:
    """Output without the folder's path and without spaces at the ends of lines."""
    return "".join(f"{line.rstrip()}\n" for line in output.replace(f"{folder}/", "").splitlines())


def is_shown(printed: str, shown: str) -> bool:
    """Whether a page shows what was printed, but for times and what it leaves out."""
    pattern = "".join(map(_pattern, TIME.sub("TIME", shown).splitlines()))
    return re.fullmatch(pattern, TIME.sub("TIME", printed)) is not None


def _pattern(line: str) -> str:
    if line == "…":
        return r"(?:.*\n)*"
    if line.endswith(" …"):
        return re.escape(line.removesuffix(" …")) + r".*\n"
    return re.escape(line) + r"\n"


def write(page: Path, printed: Sequence[str]) -> None:
    """Puts what the commands printed into the page, where it shows something else."""
    text, start = page.read_text(encoding="utf-8"), 0
    for command, output in zip(commands(page), printed, strict=True):
        start = text.index(f"$ {command.line}\n{command.shown}", start)
        if not is_shown(output, command.shown):
            end = start + len(f"$ {command.line}\n{command.shown}")
            text = f"{text[:start]}$ {command.line}\n{output}{text[end:]}"
        start += 1
    page.write_text(text, encoding="utf-8")
