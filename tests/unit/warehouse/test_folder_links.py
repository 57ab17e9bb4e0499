"""Symbolic links in a folder corpus, and what is said of files that are not read."""

import json
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from polyhop import cli
from polyhop.schemas.errors import SourceError
from polyhop.schemas.records import SourceRecord, Unread
from polyhop.warehouse.files.corpora import read_corpus

INDEX = ("--index", "linked", "--set", "strategies=bm25")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with one page of its own; beside it, a secret and another folder."""
    for name in ("corpus/below", "corpus/.hidden", "outside/deep"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "corpus" / "own.txt").write_text("Ada Lovelace wrote for Charles Babbage.")
    (tmp_path / "corpus" / ".hidden" / "kept.txt").write_text("Charles Babbage lived in London.")
    (tmp_path / "passwd").write_text("root:x:0:0")
    (tmp_path / "outside" / "deep" / "secret.txt").write_text("hunter2")
    return tmp_path / "corpus"


def read(folder: Path, *, follow_links: bool = False) -> tuple[dict[str, str], dict[str, int]]:
    """Text by id of what is read, and what is not by kind."""
    unread = Unread()
    records = list(read_corpus(folder, follow_links=follow_links, unread=unread))
    return {r.id: r.text for r in records if isinstance(r, SourceRecord)}, dict(unread)


def test_links_out_of_the_folder_are_not_read_but_counted(corpus: Path) -> None:
    (corpus / "passwd.txt").symlink_to(corpus.parent / "passwd")
    (corpus / "relative.md").symlink_to("../passwd")
    (corpus / "below" / "outside").symlink_to(corpus.parent / "outside")
    texts, unread = read(corpus)
    assert list(texts) == ["own.txt"]
    assert unread == {"link out of the folder": 3}


def test_links_out_of_the_folder_are_read_if_asked(corpus: Path) -> None:
    (corpus / "passwd.txt").symlink_to(corpus.parent / "passwd")
    (corpus / "below" / "outside").symlink_to(corpus.parent / "outside")
    texts, unread = read(corpus, follow_links=True)
    assert texts == {
        "below/outside/deep/secret.txt": "hunter2",
        "own.txt": "Ada Lovelace wrote for Charles Babbage.",
        "passwd.txt": "root:x:0:0",
    }
    assert unread == {}


@pytest.mark.parametrize("follow_links", [False, True])
def test_a_link_that_stays_inside_is_read_once(corpus: Path, follow_links: bool) -> None:
    (corpus / "a.txt").symlink_to(corpus / "own.txt")
    (corpus / "below" / "b.txt").symlink_to("../own.txt")
    (corpus / "hidden.txt").symlink_to(corpus / ".hidden" / "kept.txt")
    (corpus / "later.txt").symlink_to(corpus / ".hidden" / "kept.txt")
    (corpus / "again").symlink_to(corpus / "below")
    texts, unread = read(corpus, follow_links=follow_links)
    assert list(texts) == ["hidden.txt", "own.txt"]
    assert unread == {}


@pytest.mark.parametrize("follow_links", [False, True])
def test_circles_of_links_end(corpus: Path, follow_links: bool) -> None:
    (corpus / "below" / "up").symlink_to(corpus)
    (corpus / "self.txt").symlink_to("self.txt")
    (corpus.parent / "outside" / "back").symlink_to(corpus)
    (corpus.parent / "outside" / "round").symlink_to(corpus.parent / "outside")
    (corpus / "out").symlink_to(corpus.parent / "outside")
    texts, unread = read(corpus, follow_links=follow_links)
    assert list(texts) == (["out/deep/secret.txt", "own.txt"] if follow_links else ["own.txt"])
    assert unread == {"broken link": 1} | ({} if follow_links else {"link out of the folder": 1})


def test_a_folder_that_is_named_by_a_link_is_read(corpus: Path) -> None:
    (corpus.parent / "link").symlink_to(corpus)
    assert list(read(corpus.parent / "link")[0]) == ["own.txt"]


def test_kinds_that_cannot_be_read_are_counted(corpus: Path) -> None:
    for name in ("a.zip", "b.ZIP", "below/c.png", "LICENSE"):
        (corpus / name).write_bytes(b"x")
    assert read(corpus)[1] == {".zip": 2, ".png": 1, "no suffix": 1}


def test_a_folder_of_links_alone_says_how_to_read_them(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "one.txt").write_text("text")
    (tmp_path / "pages" / "one.txt").symlink_to(tmp_path / "one.txt")
    with pytest.raises(SourceError, match=r"1 link out of the folder.*corpus.follow_links=true"):
        list(read_corpus(tmp_path / "pages"))


def run(*arguments: str | Path) -> None:
    """A command in this process."""
    sys.argv = ["polyhop", *map(str, arguments)]
    with suppress(SystemExit):
        cli.main()


def test_an_index_run_says_what_it_did_not_read(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [])
    root = ("--root", corpus.parent / "root")
    (corpus / "passwd.txt").symlink_to(corpus.parent / "passwd")
    for name in ("a.zip", "b.zip", "c.png"):
        (corpus / name).write_bytes(b"%PDF-1.7")
    run("index", corpus, *INDEX, *root, "--json")
    first = capsys.readouterr()
    said = (
        "4 files were not read: 2 .zip, 1 .png, 1 link out of the folder (--set corpus.follow_links=true reads it): "
        "a.zip, b.zip, c.png, passwd.txt."
    )
    assert first.err.strip() == said
    document = json.loads(first.out)
    assert (document["counts"]["passages"], document["unread"]) == (
        1,
        {".png": 1, ".zip": 2, "link out of the folder": 1},
    )
    run("index", corpus, *INDEX, *root)
    again = capsys.readouterr()
    assert "nothing has changed" in again.out
    assert again.err.strip() == said
    run("index", corpus, *INDEX, *root, "--set", "corpus.follow_links=true", "--json")
    followed = capsys.readouterr()
    assert json.loads(followed.out)["counts"]["passages"] == 2
    assert followed.err.strip() == "3 files were not read: 2 .zip, 1 .png: a.zip, b.zip, c.png."
