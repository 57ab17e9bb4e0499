"""The documentation builds into a site without a dead link, which asks no other server for anything."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

import polyhop

PROJECT = Path(__file__).resolve().parents[2]
ABOUT_US = ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md")
OUTSIDE = ("README.md", *ABOUT_US, "benchmarks/README.md", "weights/README.md")
"""Pages that link to files of the repository."""
LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href"}
"""Elements that a browser fetches by itself, and the attribute that says from where; a canonical link is none."""
MARKS = re.compile(r"\n(?:\* |- |\d+\. )|\|---|```|\]\(")
"""What Markdown leaves as text where an empty line is missing before a list or a table."""


def build(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """`mkdocs build --strict` into a folder."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder), *options]
    own = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=PROJECT, env=own, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, BeautifulSoup]:
    """Every page of the site, parsed, by its path."""
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    paths = sorted(folder.rglob("*.html"))
    return {str(path.relative_to(folder)): BeautifulSoup(path.read_text(encoding="utf-8"), "lxml") for path in paths}


def test_every_document_is_a_page_and_asks_no_other_server_for_anything(pages: dict[str, BeautifulSoup]) -> None:
    written = {str(path.relative_to(PROJECT / "docs").with_suffix(".html")) for path in PROJECT.glob("docs/**/*.md")}
    assert written <= set(pages)
    fetched = [
        (name, element[attribute])
        for name, page in pages.items()
        for tag, attribute in LOADED.items()
        for element in page.find_all(tag)
        if str(element.get(attribute, "")).startswith(("http:", "https:", "//")) and element.get("rel") != ["canonical"]
    ]
    assert fetched == []


def test_no_page_shows_marks_of_markdown_as_text(pages: dict[str, BeautifulSoup]) -> None:
    shown = []
    for name, page in pages.items():
        for part in page.select("article p, article li, article td"):
            text = "".join(piece for piece in part.strings if piece.find_parent(["pre", "code"]) is None)
            if MARKS.search(text):
                shown.append((name, text[:80]))
    assert shown == []


def test_the_reference_shows_the_public_api_with_its_docstrings(pages: dict[str, BeautifulSoup]) -> None:
    text = pages["reference/python.html"].get_text(" ")
    assert [name for name in polyhop.__all__ if name != "__version__" and name not in text] == []
    assert "Opens the current (or the named) version of an index." in text


def test_dead_links_and_anchors_fail_the_build(tmp_path: Path) -> None:
    dead = ("missing.md", "other.md#no-heading", "../missing.py", "/docs/other.md")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "other.md").write_text("# Other\n\n## A heading\n", encoding="utf-8")
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"INHERIT: {PROJECT / 'mkdocs.yml'}\ndocs_dir: docs\nnav: [index.md, other.md]\nplugins: []\n")

    links = (f"[page]({link})" for link in ("other.md#a-heading", *dead))
    (tmp_path / "docs" / "index.md").write_text("\n\n".join(["# Index", *links]), encoding="utf-8")
    done = build(tmp_path / "site", "--config-file", str(config))
    assert done.returncode != 0
    assert [link for link in dead if link.rpartition("#")[2] not in done.stderr] == []
    assert done.stderr.count("WARNING") == len(dead)


@pytest.mark.parametrize("name", OUTSIDE)
def test_links_outside_the_site_lead_to_files_and_headings(name: str) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(PROJECT / name))
    assert [target for target in targets if not leads_somewhere(PROJECT / name, target)] == []


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def leads_somewhere(page: Path, target: str) -> bool:
    if target.startswith(("http://", "https://", "mailto:")):
        return True
    path, _, heading = target.partition("#")
    found = (page.parent / path).resolve() if path else page
    if not heading or not found.exists():
        return found.exists()
    titles = re.findall(r"^#+ (.*)$", prose(found), re.MULTILINE)  # whose anchors are as GitHub makes them
    return heading in {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_figures_quoted_on_several_pages_are_the_same() -> None:
    """README's tables and bridge-masked.md."""
    texts = ((PROJECT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/bridge-masked.md"))
    readme, masked = ([line for line in text.splitlines() if line.startswith("|")] for text in texts)
    measured = [row for row in readme if re.fullmatch(r"\| `[\w-]+` (\| \d\.\d{3} ){4}\|", row)]
    assert len(measured) > 20
    unseen = [row for row in masked if "unseen)" in row]
    assert len(unseen) == 8
    assert [row for row in readme if "unseen)" in row] == unseen
    (design,) = (row for row in masked if "used in design" in row)
    cells = [[cell.strip(" `") for cell in row.strip("|").split("|")] for row in measured]
    by_name = {name: f"{five.lstrip('0')}/{ten.lstrip('0')}" for name, _, five, ten, _ in cells}
    assert design.split(" | ")[1:5] == [by_name[name] for name in ("dense", "rrf", "bridge", "bridge-masked")]


@pytest.mark.parametrize("page", ["README.md", "docs/reference/strategies.md"])
def test_the_table_of_the_design_s_own_questions_says_so(page: str) -> None:
    """With the figure of the unseen set beside it."""
    told = (PROJECT / page).read_text(encoding="utf-8").partition("<!-- musique table")[0].rpartition("##")[2]
    assert "designed on" in told
    assert ".714" in (PROJECT / page).read_text(encoding="utf-8")


ROOMS = ("polyhop", "flows", "tasks", "schemas", "warehouse", "worker")
SCREEN = 50  # lines


@pytest.mark.parametrize("room", ROOMS)
def test_a_rooms_page_names_its_modules_and_fits_one_screen(room: str) -> None:
    text = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    page = text.split(f"\n### {room}/: ", 1)[1].split("\n### ", 1)[0]
    assert page.count("\n") <= SCREEN
    named = set(re.findall(r"\w+", page))
    modules = {path.stem for path in (PROJECT / room).rglob("*.py") if path.stem != "__init__"}
    assert modules - named == set()


def test_no_page_and_no_message_asks_an_index_for_an_extra() -> None:
    """No package index has Polyhop: `pip install 'polyhop[ui]'` cannot work before docs/install.md was followed."""
    rooms = ("docs", "polyhop", "flows", "worker", "tasks", "warehouse", "schemas", "examples")
    files = [PROJECT / "README.md", *(path for room in rooms for path in PROJECT.glob(f"{room}/**/*"))]
    read = [path for path in files if path.suffix in {".md", ".py", ".jinja"}]
    assert [str(path) for path in read if re.search(r"pip install\s+['\"]?polyhop\[", path.read_text("utf-8"))] == []
