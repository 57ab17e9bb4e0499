"""The page of what a run changed: counts, the first records as data, and how to see the others."""

from pathlib import Path

import pytest

from polyhop.flows.index import run_index
from polyhop.flows.reports import SHOWN_CHANGES, IndexReport, change_lines, counts_of_current
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings

HOSTILE = "<img src=x onerror=alert(1)>|`[a](javascript:b)"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """The pages of a first run, of one with every kind of change, and of one of other settings."""
    folder = tmp_path_factory.mktemp("changed")
    settings = Settings(root=folder / "root", strategies=("bm25",))
    corpus = folder / "lakes.csv"
    ids = [f"p{n:02}" for n in range(SHOWN_CHANGES + 3)]
    pages = []
    for number, names in enumerate((ids, ["moved", *ids[2:], HOSTILE])):
        texts = {name: f"Lake {name} is deep." for name in names} | {ids[2]: f"Version {number}."}
        texts["moved"] = "Lake p00 is deep."
        rows = [f'"{name}","Lake","{texts[name]}"' for name in names]
        corpus.write_text("\n".join(["id,title,text", *rows]) + "\n")
        pages.append(_page(settings, corpus))
    pages.append(_page(settings.model_copy(update={"strategies": ("bm25", "bridge-lexical")}), corpus))
    return pages


def _page(settings: Settings, corpus: Path) -> list[str]:
    before = counts_of_current(settings, "lakes")
    report: IndexReport = run_index(settings, IndexRequest("lakes", corpus), DirectRunner())
    return change_lines(settings, before, report)


def test_the_first_records_are_shown_with_how_many_more_there_are_and_how_to_list_them(runs: list[list[str]]) -> None:
    page = runs[0]
    assert page[0] == "# Version 1 of lakes: 53 added"
    assert "| passages | 0 | 53 | +53 |" in page
    assert [line for line in page if "| added |" in line] == [
        f"| p{n:02} | added |  | lakes |" for n in range(SHOWN_CHANGES)
    ]
    assert "3 more records changed." in page
    command = 'polyhop sql "SELECT record_id, kind, from_id, source FROM changes ORDER BY record_id" --index lakes'
    assert page[-3:] == ["```", command, "```"]


def test_each_kind_of_change_is_a_row_and_an_id_is_data(runs: list[list[str]]) -> None:
    page = runs[1]
    assert page[0] == "# Version 2 of lakes: 1 added, 1 changed, 1 deleted, 1 renamed"
    rows = [line for line in page if line.endswith("| lakes |")]
    assert rows == [
        r"| &lt;img src=x onerror=alert(1)&gt;\|\`\[a\](javascript:b) | added |  | lakes |",
        "| moved | renamed | p00 | lakes |",
        "| p01 | deleted |  | lakes |",
        "| p02 | changed |  | lakes |",
    ]
    assert not any("more records" in line for line in page)


def test_a_version_whose_records_are_those_of_before_says_so(runs: list[list[str]]) -> None:
    assert runs[2][0] == "# Version 3 of lakes: no record changed"
    assert "| passages | 53 | 53 | +0 |" in runs[2]
    assert not any("polyhop sql" in line for line in runs[2])
