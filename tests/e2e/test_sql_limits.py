"""SQL of a server's callers: limits of time, memory and bytes, whatever a statement does and where it does it."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from small_indexes import Call, wait_for

from polyhop.schemas.errors import StatementRejectedError
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.tables.query import TOO_MUCH_MEMORY
from polyhop.warehouse.tables.query_processes import Query, QueryLimits, QueryProcesses, QueryResult

MEMORY = "takes more memory than sql_memory_mb allows"
HOLDING = """WITH x AS MATERIALIZED (SELECT repeat('y', 30) || range AS t FROM range(3000000))
SELECT sum(length(a.t) * b.range) AS s FROM x AS a, range(1000000000) AS b"""
"""Takes 175 MB within two seconds and goes on for hours."""


@pytest.fixture(scope="module")
def processes() -> Iterator[QueryProcesses]:
    running = QueryProcesses(300)
    yield running
    running.close()


def ran(processes: QueryProcesses, root: Path, statement: str, **limits: float) -> QueryResult:
    chosen = QueryLimits(int(limits.get("rows", 100)), limits.get("seconds", 20.0), int(limits.get("bytes", 1_000_000)))
    return processes.run(Query(Layout(root), "demo", 1, statement, chosen))


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("SELECT range(60000000)", MEMORY),
        ("SELECT range(100000000)", MEMORY),
        ("SELECT string_agg(repeat('x', 1000), '') FROM range(10000000)", MEMORY),
        ("SELECT DISTINCT range FROM range(100000000) ORDER BY range DESC", MEMORY),
        ("SELECT repeat('x', 1000001)", "The first row is larger than"),
        ("SELECT sum(a.range * b.range) FROM range(10000000) AS a, range(1000000) AS b", "was stopped after 3 s"),
    ],
)
def test_a_statement_beyond_a_limit_is_ended_within_it(
    processes: QueryProcesses, demo_root: Path, statement: str, sentence: str
) -> None:
    assert ran(processes, demo_root, "SELECT 1 AS x").rows == [{"x": 1}]  # a process has started
    seconds = 3.0 if "stopped" in sentence else 30.0  # the machine may be busy
    begin = time.monotonic()
    with pytest.raises(StatementRejectedError, match=sentence):
        ran(processes, demo_root, statement, seconds=seconds)
    assert time.monotonic() - begin < seconds + 3.0


def test_a_step_of_duckdb_that_no_interrupt_reaches_is_ended(demo_root: Path) -> None:
    processes = QueryProcesses(8_000)
    ran(processes, demo_root, "SELECT 1")
    begin = time.monotonic()
    with pytest.raises(StatementRejectedError, match="was stopped after 1 s"):
        ran(processes, demo_root, "SELECT range(60000000)", seconds=1.0)
    assert time.monotonic() - begin < 3.0
    processes.close()


@pytest.mark.parametrize("statement", ["SELECT repeat('x', 100000) AS x FROM range(50)", f"SELECT 1 AS {'y' * 50_000}"])
def test_rows_beyond_the_bytes_are_left_out(processes: QueryProcesses, demo_root: Path, statement: str) -> None:
    found = ran(processes, demo_root, f"FROM ({statement}), range(50)", bytes=300_000)
    assert found.is_truncated
    assert 200_000 < len(json.dumps(found.rows)) <= 300_000


def test_all_queries_at_once_share_one_limit_of_memory(processes: QueryProcesses, demo_root: Path) -> None:
    def outcome(_: int) -> str:
        with pytest.raises(StatementRejectedError) as raised:
            ran(processes, demo_root, HOLDING, seconds=8.0)
        return "memory" if MEMORY in str(raised.value) else "time"

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(outcome, range(2))) == ["memory", "time"]


def test_no_process_outlives_a_server_that_was_killed(serve: Call, demo_root: Path) -> None:
    window = serve(demo_root)
    assert httpx.post(f"{window.url}/api/v1/indexes/demo/sql", json={"query": "SELECT 1"}).status_code == 200
    children = psutil.Process(window.process.pid).children(recursive=True)
    window.process.kill()
    wait_for(lambda: not any(child.is_running() and child.status() != "zombie" for child in children))
    assert children != []


@pytest.mark.parametrize(
    ("site", "is_run"), [("cross-site", False), ("same-site", False), ("same-origin", True), ("none", True)]
)
def test_a_link_from_another_site_shows_a_query_and_does_not_run_it(window: str, site: str, is_run: bool) -> None:
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Accept": "text/html"}
    page = httpx.get(f"{window}/sql?index=demo&query=SELECT+6*7+AS+x", headers=headers, timeout=60).text
    assert ("SELECT 6*7 AS x" in page, "<td>42</td>" in page or ">42<" in page) == (True, is_run)


def test_an_agent_gets_at_most_a_megabyte(demo_root: Path) -> None:
    words = ["-m", "polyhop.cli", "mcp", "--root", str(demo_root)]
    query = {"index": "demo", "query": "SELECT repeat('x', 200000) AS x FROM range(200)"}

    async def ask() -> int:
        async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=words))) as client:
            return len((await client.call_tool("sql", query)).structured_content["rows"])

    assert asyncio.run(ask()) == 2


def test_the_memory_of_a_command_is_limited_by_the_setting(said: Call, demo_root: Path) -> None:
    query = "SELECT string_agg(repeat('x', 1000), '') FROM range(1000000)"
    code, _, told = said("sql --index demo --set sql_memory_mb=100 --root", demo_root, query)
    assert (code, MEMORY in told) == (1, True), told


def test_a_command_ends_when_it_takes_memory_that_duckdb_does_not_count(demo_root: Path) -> None:
    words = [sys.executable, "-m", "polyhop.cli", "sql", "--index", "demo", "--root", str(demo_root)]
    done = subprocess.run([*words, "SELECT range(60000000)"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, f"polyhop: {TOO_MUCH_MEMORY}\n")


def test_an_interval_comes_out_of_a_process(processes: QueryProcesses, demo_root: Path) -> None:
    assert ran(processes, demo_root, "SELECT interval 1 day AS x").rows == [{"x": "1 day"}]
