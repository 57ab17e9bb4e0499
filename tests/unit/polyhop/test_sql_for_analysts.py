"""What an analyst would write is right, and every table, view and column says what it holds."""

import json
import shutil
from pathlib import Path

import duckdb
import pytest

import polyhop
from polyhop.commands.stores import sql
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings
from polyhop.schemas.tables import VIEWS, View

PAGES = (
    {"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace wrote for Charles Babbage."},
    {"id": "babbage", "title": "Charles Babbage", "text": "Charles Babbage lived in London."},
    {"id": "nobody", "title": "", "text": "it rained all day and nothing else was written down."},
)
OBVIOUS = "SELECT passage_id FROM passages WHERE passage_id NOT IN (SELECT passage_id FROM mentions)"
STRATEGIES = ("bm25", "graph", "graph-search")


def index_pages(root: Path, pages: tuple[dict[str, str], ...] = PAGES) -> list[str]:
    """Indexes the pages and returns the stages that were taken over."""
    corpus = root.parent / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(page) + "\n" for page in pages), encoding="utf-8")
    return run_index(Settings(root=root, strategies=STRATEGIES), IndexRequest("small", corpus), DirectRunner()).reused


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("analysts") / "root"
    index_pages(path)
    return path


def test_passages_without_a_mention_are_found_by_the_obvious_query(root: Path) -> None:
    with polyhop.open_index("small", root=root) as index:
        assert index.sql(OBVIOUS).to_pylist() == [{"passage_id": "nobody"}]
        assert index.sql("SELECT count(*) AS n FROM mentions WHERE passage_id <> unit_id").to_pylist() == [{"n": 0}]
        plain = duckdb.connect(str(index.session.published.tables_file), read_only=True)
        assert plain.execute(OBVIOUS).fetchall() == [("nobody",)]
        plain.close()


def test_a_version_is_built_on(root: Path, tmp_path: Path) -> None:
    place = tmp_path / "root"
    shutil.copytree(root, place)
    request = IndexRequest("small", None, ("bm25-rm3",))
    settings = Settings(root=place, strategies=(*STRATEGIES, "bridge-lexical"))
    report = run_index(settings, request, DirectRunner())
    assert (report.version, report.changed) == (2, True)
    assert {"extract", "resolve"} <= set(report.reused)
    with polyhop.open_index("small", root=place) as index:
        assert index.sql(OBVIOUS).to_pylist() == [{"passage_id": "nobody"}]


def test_every_table_view_and_column_has_a_comment(root: Path) -> None:
    with polyhop.open_index("small", root=root) as index:
        without = index.sql(
            "SELECT view_name AS name, '' AS part FROM duckdb_views() WHERE NOT internal AND comment IS NULL UNION ALL "
            "SELECT table_name, '' FROM duckdb_tables() WHERE NOT internal AND comment IS NULL UNION ALL "
            "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND comment IS NULL"
        )
        assert without.to_pylist() == []
        shown = index.sql(
            "SELECT comment FROM duckdb_columns() WHERE table_name = 'neighbours' AND column_name = 'entity'"
        )
        assert shown.to_pylist() == [{"comment": "name of the entity"}]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_view_has_the_columns_that_are_described(root: Path, view: View) -> None:
    with polyhop.open_index("small", root=root) as index:
        assert index.sql(f"FROM {view.name} LIMIT 0").column_names == [column.name for column in view.columns]


def test_every_view_is_described(root: Path) -> None:
    with polyhop.open_index("small", root=root) as index:
        names = index.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY ALL")
        further = ("index_runs", "index_stages", "results", "result_passages")
        assert names.column("view_name").to_pylist() == sorted([*further, *(view.name for view in VIEWS)])


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ("1 AS n, 2 AS n, 3 AS n_1, 4 AS n", {"n": 1, "n_1": 2, "n_1_1": 3, "n_2": 4}),
        ("'-infinity'::date AS v", {"v": "-infinity"}),
        ("'99999-01-01'::date AS v", {"v": "99999-01-01"}),
        ("'infinity'::timestamptz AS v", {"v": "infinity"}),
        ("'2020-01-01 00:00:00.123456789'::timestamp_ns AS v", {"v": "2020-01-01 00:00:00.123456789"}),
        ("{'a': ['infinity'::date]} AS v", {"v": "{'a': [infinity]}"}),
        ("'2020-01-01'::date AS v", {"v": "2020-01-01"}),
        ("'nan'::double AS v", {"v": "nan"}),
        ("1 AS v, [2, 3] AS v", {"v": 1, "v_1": [2, 3]}),
    ],
)
def test_every_value_and_column_of_a_result_is_shown(
    root: Path, capsys: pytest.CaptureFixture[str], values: str, row: dict[str, object]
) -> None:
    sql("small", f"SELECT {values}", root=root, json=True)
    assert json.loads(capsys.readouterr().out) == [row]
    sql("small", f"SELECT {values}", root=root)
    names, cells, _ = capsys.readouterr().out.splitlines()
    assert names.split() == list(row)
    assert cells.strip().startswith(str(next(iter(row.values()))))
    with polyhop.open_index("small", root=root) as index:
        assert [*index.sql(f"SELECT {values}").to_pylist()[0]] == list(row)


def test_the_columns_of_a_table_are_listed_with_comments_and_what_they_join(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sql("small", "Entities", tables=True, root=root, json=True)
    rows = {row["column"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["df"]["comment"] == "passages that mention it"
    joined = rows["entity_id"]["joins_with"].split(", ")
    assert {"mentions.entity_id", "aliases.entity_id", "relations.source_id", "relations.target_id"} <= {*joined}
    assert rows["name"]["joins_with"] == ""
    with pytest.raises(ConfigurationError, match="Unknown table 'entites'; did you mean 'entities'"):
        sql("small", "entites", tables=True, root=root)
