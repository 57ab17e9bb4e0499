"""One cache of replies, several processes: nothing lost, nothing doubled, whatever is killed."""

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_processes import line_of, remaining_output

from polyhop.schemas.chat import Rung, Usage
from polyhop.schemas.text import content_hash
from polyhop.warehouse.cache.replies import ReplyCache

pytestmark = pytest.mark.slow

CHAT = """
import sys, time
from pathlib import Path
from pydantic import BaseModel
from polyhop.schemas.chat import ChatRequest, ChatTask, Prompt
from polyhop.schemas.settings import ModelSettings
from polyhop.warehouse.cache.replies import ReplyCache
from polyhop.warehouse.models.budget import Budget
from polyhop.warehouse.models.chat import Chat
from polyhop.warehouse.models.litellm_client import Answer, Completion

class Reply(BaseModel):
    text: str

TASK = ChatTask("kg.extract", Prompt("p", "{{text}}"), Reply)

class Echo:
    def call(self, messages, name, reply, longest):
        time.sleep(0.002)
        text = Reply(text=messages[0]["content"]).model_dump_json()
        return Answer(Completion(text, "", False), text, 4, 4)

cache = ReplyCache(Path(sys.argv[1]))
chat = Chat("fake/model", ModelSettings(concurrency=4), cache, Budget(None, None, (2, 3)), completions=Echo())
for start in range(int(sys.argv[2]), int(sys.argv[3]), 10):
    texts = [str(n) for n in range(start, start + 10)]
    outcomes = chat.ask([ChatRequest(TASK, text, (("text", text),)) for text in texts])
    assert [outcome.reply.text for outcome in outcomes] == texts
    print(*texts, sep="\\n", flush=True)
print("calls", chat.spent.calls, flush=True)
"""
HANG = CHAT.replace("time.sleep(0.002)", 'sys.stdout.write("sent\\n"); sys.stdout.flush(); time.sleep(600)')
WRITE_FOR_EVER = """
import sys
from pathlib import Path
from polyhop.schemas.chat import Rung, Usage
from polyhop.schemas.text import content_hash
from polyhop.warehouse.cache.replies import ReplyCache, ReplySource
cache, n = ReplyCache(Path(sys.argv[1])), 0
while True:
    source = ReplySource(content_hash(f"{sys.argv[2]} {n}"), "m", "t", "p", 1)
    cache.put_call(source, f"raw {n}", Usage(1, 1, 1), "")
    cache.put_reply(source, f'{{"n":{n}}}', Rung.AS_IS, 1, Usage(1, 1, 1))
    print(n, flush=True)
    n += 1
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "replies.sqlite"


def journal(path: Path) -> tuple[int, ...]:
    """(calls that ended, replies, raw replies, failures) as SQLite sees them; the file is whole."""
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    tables = ("calls", "replies", "raw_replies", "failures")
    ended = {"calls": "WHERE error NOT IN ('InFlight', 'OutcomeUnknown')"}
    counts = tuple(
        connection.execute(f"SELECT count(*) FROM {table} {ended.get(table, '')}").fetchone()[0] for table in tables
    )
    connection.close()
    return counts


def test_processes_with_overlapping_requests_lose_and_double_nothing(path: Path) -> None:
    processes = [start(CHAT, path, first, last) for first, last in ((0, 120), (40, 160), (0, 160))]
    calls = 0
    for process in processes:
        out, errors = process.communicate(timeout=120)
        assert errors == ""
        calls += int(out.split()[-1])
    assert calls == 160
    assert journal(path) == (160, 160, 160, 0)


def test_an_acknowledged_reply_survives_a_kill_at_any_moment(path: Path) -> None:
    chance = random.Random(13)
    for run in range(5):
        process = start(WRITE_FOR_EVER, path, run)
        first = line_of(process)
        time.sleep(chance.random() * 0.3)
        process.send_signal(signal.SIGKILL)
        rest, errors = remaining_output(process)
        assert errors == ""
        acknowledged = [int(line) for line in (first + rest).split("\n")[:-1]]
        cache = ReplyCache(path)
        replies = cache.replies([content_hash(f"{run} {n}") for n in acknowledged])
        assert [replies[content_hash(f"{run} {n}")].text for n in acknowledged] == [
            f'{{"n":{n}}}' for n in acknowledged
        ]
        assert {reply.rung for reply in replies.values()} == {Rung.AS_IS}
        assert {reply.usage for reply in replies.values()} == {Usage(1, 1, 1)}
        cache.close()
        calls, reply_count, raw_count, _ = journal(path)
        assert calls == raw_count
        assert 0 <= calls - reply_count <= run + 1


def test_a_killed_run_that_is_repeated_pays_at_most_for_the_calls_in_flight_again(path: Path) -> None:
    chance = random.Random(7)
    kills = 4
    for _ in range(kills):
        process = start(CHAT, path, 0, 400)
        line_of(process)
        time.sleep(chance.random() * 0.2)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    process = start(CHAT, path, 0, 400)
    _, errors = process.communicate(timeout=120)
    assert errors == ""
    calls, replies, raw_replies, failures = journal(path)
    assert (replies, failures) == (400, 0)
    assert calls == raw_replies
    assert 400 <= calls <= 400 + 4 * kills


def test_calls_of_a_killed_process_are_booked_at_their_worst_case_and_those_of_a_live_one_are_left_alone(
    path: Path,
) -> None:
    dead, alive = start(HANG, path, 0, 10), start(HANG, path, 10, 20)
    for process in (dead, alive):
        assert line_of(process) == "sent\n"  # one call goes alone until there is a reply
    dead.kill()
    dead.wait()
    cache = ReplyCache(path)
    found = cache.abandon_dead_calls()
    assert found == Usage(1, 8, 4096, (8 * 2 + 4096 * 3) / 1e6)
    assert cache.abandon_dead_calls() == Usage()
    alive.kill()
    alive.wait()
    assert cache.abandon_dead_calls().calls == 1
    (counts,) = cache.by_task()
    assert (counts.spent.calls, counts.unknown_calls, counts.spent.completion_tokens) == (2, 2, 2 * 4096)
    assert cache.answered_calls("fake/model") == {}
    cache.close()
    for process in (dead, alive):
        process.communicate()
