"""Bad input and places that cannot be written: one clear sentence, the exit code, the published version as it was."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from small_indexes import Call, Run, printed, publish, town_records, write_rows
from typer.testing import CliRunner

from polyhop.cli import app

GOOD = town_records()
T = "--index towns"


@pytest.fixture(scope="module")
def published(published_towns: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a root to copy, and files to name."""
    folder = tmp_path_factory.mktemp("bad-input")
    shutil.copytree(published_towns, folder / "root")
    write_rows(folder / "good.jsonl", GOOD)
    write_rows(folder / "half.jsonl", GOOD[:10], *['{"text": '] * 10)
    write_rows(folder / "questions.jsonl", [{"id": "q1", "question": "Which river does Town 1 lie on?"}])
    (folder / "blank.jsonl").write_bytes(b"\n\n")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
    return folder


def _current(root: Path) -> tuple[str, list[str]]:
    index = root / "indexes" / "towns"
    return (index / "CURRENT").read_text(), sorted(path.name for path in (index / "versions").iterdir())


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        *((f"ask {empty} {T}", 2, "The question is empty") for empty in ("''", "' ?! '")),
        (f"ask Who? {T} --strategy brigde", 2, "did you mean 'bridge'"),
        ("ask Who? --index none", 1, "Unknown index 'none'"),
        ("index --index none --add-strategy dense", 1, "Unknown index 'none'"),
        (f"ask Who? {T} --param seedz=3", 2, "seedz"),
        (f"ask Who? {T} --param seeds=-3", 2, "seeds"),
        (f"ask Who? {T} --param seeds", 2, "name=value"),
        ("ask Who? --index ../x", 2, "is not a name for an index"),
        (f"index nothere.jsonl {T}", 1, "There is no file or folder nothere.jsonl"),
        (
            f"index https://a.example/b.html {T}",
            1,
            "https://a.example/b.html is a URL, and URLs are not read; ",
        ),
        (f"index --graph https://a.example/b.ttl {T}", 1, "https://a.example/b.ttl is a URL, and URLs are not read"),
        ("plan s3://bucket/c.jsonl", 1, "s3://bucket/c.jsonl is a URL, and URLs are not read"),
        (f"submit https://a.example/q.jsonl {T}", 1, "https://a.example/q.jsonl is a URL, and URLs are not read"),
        *((f"index {file} {T} --replace", 1, file) for file in ("blank.jsonl", "picture.png")),
        (f"index half.jsonl {T} --replace", 1, "10 of 20 records in"),
        ("index --index none", 2, "SOURCE"),
        (f"index {T} --partial", 1, "--partial, --source-name and --replace need a SOURCE"),
        (f"index . {T} --set batch_sise=3", 2, "did you mean 'batch_size'"),
        (f"index good.jsonl {T} --set corpus.language=xx", 2, "there is no language 'xx'"),
        (f"index good.jsonl {T} --graph g.jsonl", 2, "name a SOURCE or a graph (--graph)"),
        (f"index good.jsonl {T} --graph-sources t.jsonl", 2, "--graph-sources needs --graph"),
        (f"index {T} --graph g.jsonl --extractor rules", 2, "nothing is extracted from a knowledge graph"),
        ("index good.jsonl --index new --set extraction.extractor=import:none.jsonl", 1, "none.jsonl"),
        (f"index good.jsonl {T} --root /proc/polyhop", 1, "/proc/polyhop"),
        (f"index {T} --root good.jsonl", 1, "a file is where a folder is needed"),
        (f"sql 'SELEC 1' {T}", 1, "syntax error"),
        (
            f"entities edit undo x {T}",
            2,
            "'undo' takes the number of an edit from `polyhop entities edit list`, not 'x'",
        ),
        ("frobnicate", 2, "frobnicate"),
        (f"versions {T} --use 99", 1, "no version 99"),
        (f"--log-level loud versions {T}", 2, "Unknown log level 'loud'; choose debug, info, warning, error."),
        ("cache evict", 2, "Choose what to remove: --older-than-days N, --model M or --failures."),
        (f"submit questions.jsonl {T} --strategy naive-vector", 1, "--add-strategy naive-vector"),
        (f"submit questions.jsonl {T} --strategy bm25 --deadline -5", 1, "it must be positive"),
        (f"submit questions.jsonl {T} --strategy bm25 --set queue.url=oracle://x", 2, "not on 'oracle'"),
        *((f"{line} 99999", 1, "There is no job 99999") for line in ("results", "cancel", "retry")),
        ("explain 99999 q1", 1, "There is no job 99999"),
        ("worker --queues ' , '", 2, "--queues takes names"),
    ],
)
def test_a_wrong_command_gives_one_sentence_and_its_exit_code_and_changes_no_version(
    root: Path, said: Call, monkeypatch: pytest.MonkeyPatch, line: str, code: int, sentence: str
) -> None:
    monkeypatch.chdir(root.parent)
    monkeypatch.setenv("POLYHOP_ROOT", str(root))
    before = _current(root)
    ended, out, told = said(line)
    assert (ended, out) == (code, "")
    assert sentence in " ".join(told.replace("│", " ").split())  # in a frame, lines are broken
    # one sentence, below which bad records are listed; typer frames what it finds itself
    others = [row for row in told.strip().splitlines()[1:] if not row.startswith("  ")]
    assert others == [] or told.startswith("Usage:"), told
    assert _current(root) == before


@pytest.mark.parametrize(("broken", "code"), [(5, 0), (6, 1)])
def test_broken_lines_and_ids_used_twice_are_set_aside_up_to_the_allowed_share(
    said: Call, tmp_path: Path, broken: int, code: int
) -> None:
    """Also an id of a record that is the id of a piece of a longer one."""
    twice = {**GOOD[1], "text": "Something else."}
    long: dict[str, object] = {"id": "long", "title": "Long", "text": "A sentence. " * 400}
    records = [*GOOD[:96], twice, long, {**GOOD[0], "id": "long#1"}]
    corpus = write_rows(tmp_path / "corpus.jsonl", records, *["{broken"] * (broken - 2))
    own = ("--root", tmp_path / "root")
    ended, out, told = said(f"index {corpus} {T} --set strategies=bm25 --json", *own)
    assert ended == code, told
    if code:
        assert ("of 103 records" in told, (tmp_path / "root/indexes/towns/CURRENT").exists()) == (True, False)
        return
    counts = json.loads(out)["counts"]
    assert (counts["passages"], counts["quarantined"]) == (99, broken)
    rows = json.loads(said(f"sql 'FROM quarantine ORDER BY line' {T} --json", *own)[1])
    assert [row["line"] for row in rows] == [97, 99, 100, 101, 102]
    assert rows[0]["reason"] == "id 'p001' was already used with other text in corpus.jsonl line 2"
    assert "id 'long#1' is also the id of a piece" in rows[1]["reason"]
    assert all("JSON" in row["reason"] for row in rows[2:])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    (folder := tmp_path / "disk").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode:
        if os.environ.get("CI"):
            pytest.fail(f"CI must be able to mount a tmpfs: {mounted.stderr!r}")
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.rare
def test_a_full_disk_leaves_the_published_version_intact(polyhop: Run, small_disk: Path, tmp_path: Path) -> None:
    """Filled step by step, the disk runs full in several stages of a first run and of a later one."""
    settings = ("--set", "strategies=bridge-lexical,bm25", "--root", small_disk)
    corpus, filler = tmp_path / "corpus.jsonl", small_disk / "filler"
    printed(polyhop("index", write_rows(corpus, GOOD[:20]), "--index", "towns", "--json", *settings))
    before = _current(small_disk)
    write_rows(corpus, GOOD)
    sentences = set()
    for name, free in product(("new", "towns"), (0, 50, 100, 200, 400, 800, 3000, 10000)):
        filler.write_bytes(b"")
        status = os.statvfs(small_disk)
        filler.write_bytes(b"x" * max(0, status.f_bavail * status.f_frsize - free * 1024))
        done = polyhop("index", corpus, "--index", name, *settings)
        if done.returncode == 0:
            continue
        assert (done.returncode, done.stdout, len(done.stderr.strip().splitlines())) == (1, "", 1), done.stderr
        assert "disk is full" in done.stderr, (free, done.stderr)
        assert _current(small_disk) == before
        sentences.add(done.stderr.replace(f"/{name}/", "/"))
    assert len(sentences) >= 2
    filler.unlink()
    printed(polyhop("index", corpus, "--index", "towns", "--json", *settings))
    assert _current(small_disk)[0] != before[0]


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder whose `root` holds an index, a cache and an answered job, and may not be written."""
    folder = tmp_path_factory.mktemp("read-only")
    root = publish(folder, GOOD[:2], "small", "bridge,graph,dense")
    write_rows(folder / "questions.jsonl", [{"id": "q1", "question": "Where does Town 1 lie?"}])
    for line in (f"submit {folder}/questions.jsonl --index small --strategy bm25", "worker --until-empty"):
        done = CliRunner().invoke(app, [*line.split(), "--root", str(root)])
        assert done.exit_code == 0, done.output
    modes = {path: path.stat().st_mode for path in (root, *root.rglob("*"))}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    yield folder
    for path, mode in modes.items():
        path.chmod(mode)


PROGRAM = """
import json, shlex, sys
from typer.testing import CliRunner
from polyhop.cli import app
for line in sys.argv[1:]:
    done = CliRunner().invoke(app, shlex.split(line))
    print(json.dumps([done.exit_code, f"{done.output}{done.exception or ''}"]))
"""
READING = (
    *("explain 1 q1", "jobs", "results 1", "sql 'SELECT count(*) FROM results' --index small", "verify --index small"),
    "ask 'Which town lies on a river?' --index small --strategy dense",
)
WRITING = {
    "index {folder}/small.jsonl --index small": "no permission|read-only",
    "submit {folder}/questions.jsonl --index small": "is read-only",
}


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may write everywhere")
def test_commands_that_read_need_no_place_to_write_and_the_others_say_that_they_cannot(read_only: Path) -> None:
    """In a process of a user whom modes of files bind; root loses its right to pass them over."""
    lines = [line.format(folder=read_only) + f" --root {read_only}/root" for line in (*READING, *WRITING)]
    bound = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"] if os.geteuid() == 0 else []
    ran = subprocess.run([*bound, sys.executable, "-c", PROGRAM, *lines], check=True, capture_output=True, text=True)
    ends = dict(zip((*READING, *WRITING), map(json.loads, ran.stdout.splitlines()), strict=True))
    assert {line: end for line, end in ends.items() if line in READING and (end[0] or "annot" in end[1])} == {}
    assert "annot" not in ran.stderr
    for line, words in WRITING.items():
        assert (ends[line][0], any(word in ends[line][1] for word in words.split("|"))) == (1, True), ends[line]
