"""What holds for every command: its line in architecture.md, Ctrl-C, damage, extensions that cannot be used."""

import re
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import typer

from polyhop import cli
from polyhop.cli import OURS, Commands, app
from polyhop.commands.index import print_report
from polyhop.commands.operate import _print
from polyhop.flows.maintain import VerifyReport
from polyhop.flows.reports import IndexReport
from polyhop.schemas import errors as extensions
from polyhop.schemas.errors import ConfigurationError
from polyhop.tasks import registry
from polyhop.tasks.registry import stages_for
from polyhop.warehouse.files import questions as predictions
from polyhop.warehouse.files.formats import records_of_others
from polyhop.warehouse.vectors.kinds import kind_of
from polyhop.worker.strategies.registry import spec_of

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "architecture.md").read_text(encoding="utf-8")
TABLE = TEXT[TEXT.index("| command | what it does | JSON |") : TEXT.index("### Experiments by")]
ROWS = [re.split(r"(?<!\\)\|", line)[1:-1] for line in TABLE.splitlines()[2:] if line.startswith("|")]


def _names(cell: str) -> list[str]:
    """The commands in the first cell of a row: `polyhop cache stats|evict`, or several in backticks."""
    words = [part.removeprefix("polyhop ").split()[0] for part in re.findall(r"`([^`]+)`", cell)]
    return [word.partition("\\")[0] for word in words]


def _options(name: str) -> set[str]:
    command = typer.main.get_command(app).get_command(None, name)  # type: ignore[attr-defined]
    parts = [command, *getattr(command, "commands", {}).values()]
    return {option for part in parts for parameter in part.params for option in parameter.opts}


def test_every_command_has_a_row() -> None:
    assert sorted({name for row in ROWS for name in _names(row[0])}) == sorted(OURS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(_names(row[0])))
def test_a_row_names_options_that_its_commands_have(row: list[str]) -> None:
    known = set().union(*map(_options, _names(row[0])))
    named = {option for part in re.findall(r"`([^`]+)`", row[0] + row[1]) for option in re.findall(r"--[a-z-]+", part)}
    assert named <= known | {"--root", "--json"}


def test_an_interrupted_command_says_that_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(path: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(predictions, "read_predictions", interrupted)
    monkeypatch.setattr(sys, "argv", ["polyhop", "score", str(tmp_path / "any.jsonl")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out, printed.err) == (130, "", "polyhop: stopped; what was finished is kept.\n")


def test_an_index_run_says_what_it_made_again(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(IndexReport("towns", 2, changed=True, damaged=["table 'mentions' cannot be read", "3 cached vectors"]))
    said = capsys.readouterr().out
    assert "  damaged, made again: table 'mentions' cannot be read\n  damaged, made again: 3 cached vectors\n" in said


def test_verify_names_the_command_that_fixes_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    report = VerifyReport("towns", 2, {"tables": [], "older_versions": ["version 1: file 'x' is missing"]})
    _print(report, "version 2")
    assert capsys.readouterr().out.splitlines()[1:] == [
        "ok    tables",
        "FAIL  older versions",
        "      version 1: file 'x' is missing",
        "Fix it with: polyhop verify --index towns --repair",
    ]


USES: dict[str, tuple[str, Callable[[], Any]]] = {
    "polyhop.commands": ("command", lambda: Commands().get_command(None, ".theirs")),
    "polyhop.formats": ("format", lambda: records_of_others(Path("a.theirs"), ".theirs", "a.theirs")),
    "polyhop.stages": ("stage", lambda: stages_for(["theirs"])),
    "polyhop.strategies": ("strategy", lambda: spec_of(".theirs")),
    "polyhop.vectors": ("vector kind", lambda: kind_of(".theirs")),
}
WRONG = {
    "polyhop.formats": "is polyhop.schemas.text:__doc__, which is not a function",
    "polyhop.stages": "is polyhop.schemas.text:__doc__, which is not a Stage of that name",
    "polyhop.strategies": "is missing: its module polyhop.schemas.text declares none of that name with @strategy",
    "polyhop.vectors": "is polyhop.schemas.text:__doc__, which is not a VectorKind of that name",
}


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Makes entry points known as if their package were installed."""

    def known(*points: EntryPoint) -> None:
        monkeypatch.setattr(
            extensions, "entry_points", lambda group: [point for point in points if point.group == group]
        )
        extensions.extensions.cache_clear()
        registry._of_others.cache_clear()

    yield known
    extensions.extensions.cache_clear()
    registry._of_others.cache_clear()


def refusal(group: str, install: Callable[..., None], module: str) -> str:
    install(EntryPoint(".theirs", module, group))
    with pytest.raises(ConfigurationError) as raised:
        USES[group][1]()
    return str(raised.value)


@pytest.mark.parametrize("group", USES)
def test_an_extension_that_does_not_load_or_is_of_another_type_is_named_with_its_package(
    group: str, install: Callable[..., None]
) -> None:
    said, then = f"The {USES[group][0]} '.theirs' of the package", "Update or uninstall that package."
    missing = "does not load: ModuleNotFoundError: No module named 'polyhop_nowhere'"
    assert refusal(group, install, "polyhop_nowhere:thing") == f"{said} 'polyhop_nowhere' {missing}. {then}"
    if group in WRONG:
        wrong = f"{said} 'polyhop.schemas.text' {WRONG[group]}. {then}"
        assert refusal(group, install, "polyhop.schemas.text:__doc__") == wrong


def test_extensions_are_listed_by_name_and_searched_once(install: Callable[..., None]) -> None:
    first, second = (EntryPoint(name, "polyhop_nowhere", "polyhop.commands") for name in "ab")
    install(second, first, EntryPoint("c", "polyhop_nowhere", "polyhop.stages"))
    assert list(extensions.extensions("polyhop.commands").items()) == [("a", first), ("b", second)]
    assert extensions.extensions("polyhop.commands") is extensions.extensions("polyhop.commands")
