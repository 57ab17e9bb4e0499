"""The registry of stages, errors of rules, and the pause of the search for reference cycles."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.records import SourceKind
from polyhop.schemas.tables import LOCATIONS, PASSAGES, TABLES, Table
from polyhop.schemas.tables import text_column as text
from polyhop.tasks import registry
from polyhop.tasks.registry import source_kind, stages_for
from polyhop.tasks.stage import Stage, fault_reason, tables_of


def raised(message: str) -> Exception:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


def test_the_reason_has_type_message_file_and_line_on_one_short_line_of_what_a_table_can_hold() -> None:
    where = f"({Path(__file__).name} line {raised.__code__.co_firstlineno + 2})"
    reason = fault_reason(raised("bad\n  value\t!"))
    assert reason.startswith("a rule failed on it, which is a defect in Polyhop: ValueError: bad value !")
    assert reason.endswith(where)
    long = fault_reason(raised("x" * 100_000))
    assert len(long) < 450
    assert long.endswith(where)
    escaped = fault_reason(raised("a\0b \ud800"))
    assert "a b \\ud800" in escaped
    escaped.encode("utf-8")
    assert fault_reason(KeyError("k")).endswith("KeyError: 'k'")  # never raised: it has no line


OWN = Table("own", "Rows of another package.", ("id",), (text("id", "an id"),))
ALL = ["graph", "graph:relations", "lexical:plain", "lexical:stems", "vectors:passage", "vectors:entity", "ann:passage"]


def names(artefacts: Sequence[str], kind: SourceKind = "corpus") -> str:
    return " ".join(stage.name for stage in stages_for(artefacts, kind))


def made(name: str, reads: tuple[str, ...] = ("passages",), writes: tuple[str, ...] = (), **more: Any) -> Stage:
    stage = Stage()
    for attribute, value in {"name": name, "reads": reads, "writes": writes or (name,), **more}.items():
        setattr(stage, attribute, value)
    return stage


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> list[Stage]:
    """Stages that installed packages bring."""
    brought: list[Stage] = []
    monkeypatch.setattr(registry, "_of_others", lambda: tuple(brought))
    return brought


BASE = "ingest extract resolve"
TAIL = "graph relations lexical-plain lexical-stems embed-entity embed-passage ann-passage"


@pytest.mark.parametrize(
    ("artefacts", "kind", "expected"),
    [
        (ALL, "corpus", f"{BASE} {TAIL}"),  # the order is that of every release so far
        (ALL[::-1], "corpus", f"{BASE} {TAIL}"),
        ([], "corpus", BASE),
        (["lexical:stems"], "corpus", f"{BASE} lexical-stems"),
        (["ann:passage"], "corpus", f"{BASE} embed-passage ann-passage"),
        (ALL, "graph", f"ingest-graph {TAIL}"),
        ([], "graph", "ingest-graph"),
    ],
)
def test_only_what_is_needed_is_built_in_one_order(artefacts: list[str], kind: SourceKind, expected: str) -> None:
    assert names(artefacts, kind) == expected
    assert source_kind([*expected.split(), "publish"]) == kind


def test_each_stage_comes_after_all_whose_results_it_reads() -> None:
    done: set[str] = set()
    for stage in stages_for(ALL):
        assert done.issuperset(stage.reads), stage.name
        done.update(stage.writes)


def test_a_stage_of_another_package_runs_after_what_it_reads_and_before_what_reads_it(others: list[Stage]) -> None:
    others += [made("second", ("first", "vectors:entity")), made("first", ("graph",))]
    assert names(["second"]) == f"{BASE} graph first embed-entity second"
    assert names(["lexical:plain"]) == f"{BASE} lexical-plain"


def test_what_nobody_can_build_is_said(others: list[Stage]) -> None:
    with pytest.raises(ConfigurationError, match=r"No stage builds 'roads' from a corpus; known are .*lexical:plain"):
        stages_for(["roads"])
    others.append(made("roads", ("road-signs",)))
    with pytest.raises(ConfigurationError, match="No stage builds 'road-signs'"):
        stages_for(["roads"])
    others += [made("hen", ("egg",)), made("egg", ("hen",))]
    with pytest.raises(ConfigurationError, match="depend on each other in a cycle"):
        stages_for(["egg"])


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ([made("graph", writes=("mine",))], "'graph' collides"),
        ([made("mine"), made("other", writes=("passages", "more"))], "writes passages"),
        ([made("mine", tables=(OWN,)), made("more", tables=(OWN,))], "'more' writes the table own"),
        ([made("mine", arrays="x"), made("more", arrays="x")], "'more' writes the arrays x"),
        ([made("mine", tables=(PASSAGES,)), made("more")], "'mine' writes the table passages"),
        ([made("mine", tables=(replace(OWN, name="entities"),)), made("more")], "'mine' writes the table entities"),
    ],
)
def test_stages_that_overwrite_others_are_refused(others: list[Stage], stages: list[Stage], words: str) -> None:
    others += stages
    with pytest.raises(ConfigurationError, match=words):
        stages_for(["mine", "more", "graph"])


@pytest.mark.parametrize("name", ["", "Two words", "a_b", "../up", "1st"])
def test_names_that_would_not_do_for_files_are_refused(others: list[Stage], name: str) -> None:
    for stage in (made(name, writes=("mine",)), made("fine", writes=("mine",), arrays=name or "_")):
        others[:] = [stage]
        with pytest.raises(ConfigurationError, match="need another name"):
            stages_for(["mine"])


def test_a_version_has_our_tables_and_those_of_its_stages() -> None:
    assert tables_of(stages_for(ALL)) == [*TABLES, LOCATIONS]
    assert tables_of([made("mine", tables=(OWN,))]) == [*TABLES, OWN]


def test_a_fingerprint_changes_with_what_is_read_settings_files_and_revision() -> None:
    def fingerprint(read: str = "r", **more: Any) -> str:
        build: Any = SimpleNamespace(hashes=lambda reads: dict.fromkeys(reads, read))
        return made("mine", **more).fingerprint(build)

    found = {fingerprint(), fingerprint("changed"), fingerprint(revision=2)}
    found |= {fingerprint(settings=lambda _, top=top: {"top": top}) for top in (1, 2)}
    found |= {fingerprint(files=lambda _, prompt=prompt: {"prompt": prompt}) for prompt in "ab"}
    assert len(found) == 7
    assert fingerprint() == fingerprint()
