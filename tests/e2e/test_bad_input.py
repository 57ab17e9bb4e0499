"""Bad input and places that cannot be written: one clear sentence, the exit code, the published version as it was.

Reading commands need no place to write: a root that may only be read is asked, shown and checked as any other.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest
from small_indexes import Run, indexed, printed, publish, write_rows
from typer.testing import CliRunner

from polyhop.cli import app
from polyhop.schemas.settings import Settings

WriteCorpus = Callable[..., Path]
GOOD: list[dict[str, object]] = [
    {"id": f"p{n}", "title": f"Town {n}", "text": f"Town {n} lies on the River {n % 7} in Country {n % 3}."}
    for n in range(100)
]
TINY = ("--index", "tiny")
DEMO = str(Path(__file__).resolve().parents[2] / "polyhop" / "demo" / "corpus.jsonl")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with one small index; the tests of this module leave it as it is."""
    folder = tmp_path_factory.mktemp("bad-input")
    indexed(Settings(root=folder / "root"), write_rows(folder / "corpus.jsonl", GOOD), "tiny")
    return folder / "root"


def _current(root: Path) -> tuple[str, list[str]]:
    index = root / "indexes" / "tiny"
    return (index / "CURRENT").read_text(), sorted(path.name for path in (index / "versions").iterdir())


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("ask", "", *TINY), 2, "The question is empty"),
        (("ask", " ?! ", *TINY), 2, "The question is empty"),
        (("ask", "Who?", *TINY, "--strategy", "brigde"), 2, "did you mean 'bridge'"),
        (("ask", "Who?", "--index", "none"), 1, "Unknown index 'none'"),
        (("ask", "Who?", *TINY, "--param", "seedz=3"), 2, "seedz"),
        (("ask", "Who?", *TINY, "--param", "seeds=-3"), 2, "seeds"),
        (("ask", "Who?", *TINY, "--param", "seeds"), 2, "name=value"),
        (("ask", "Who?", "--index", "../x"), 2, "is not a name for an index"),
        (("index", "nothere.jsonl", *TINY), 1, "There is no file or folder nothere.jsonl"),
        (("index", "--index", "none"), 2, "SOURCE"),
        (("index", "--index", "none", "--add-strategy", "dense"), 1, "Unknown index 'none'"),
        (("index", ".", *TINY, "--set", "batch_sise=3"), 2, "did you mean 'batch_size'"),
        (("index", DEMO, *TINY, "--graph", "g.jsonl"), 2, "an index is made from one of them"),
        (("index", DEMO, *TINY, "--graph-sources", "t.jsonl"), 2, "texts for nodes need their graph"),
        (("index", *TINY, "--graph", "g.jsonl", "--extractor", "rules"), 2, "nothing is extracted from it"),
        (("index", DEMO, "--index", "new", "--set", "extraction.extractor=import:none.jsonl"), 1, "none.jsonl"),
        (("index", DEMO, *TINY, "--root", "/proc/polyhop"), 1, "/proc/polyhop"),
        (("index", *TINY, "--root", __file__), 1, "a file is where a folder is needed"),
        (("maintain", "--root", __file__), 1, "a file is where a folder is needed"),
        (("sql", "SELEC 1", *TINY), 1, "syntax error"),
        (("eval", "nothere.jsonl", *TINY), 1, "nothere.jsonl"),
        (("entities", "edit", "list", "--index", "nowhere"), 1, "nowhere"),
        (("frobnicate",), 2, "frobnicate"),
        (("versions", *TINY, "--use", "99"), 1, "no version 99"),
        (
            ("--log-level", "loud", "versions", *TINY),
            2,
            "Unknown log level 'loud'; choose debug, info, warning, error.",
        ),
        (("cache", "evict"), 2, "Say what to remove: --older-than-days N, --model M or --failures."),
    ],
)
def test_a_wrong_command_gives_one_sentence_and_its_exit_code(
    polyhop: Run, root: Path, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    done = polyhop(*arguments, env={"POLYHOP_ROOT": str(root)})
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in " ".join(done.stderr.replace("│", " ").split())  # in a frame, lines are broken
    assert "Traceback" not in done.stderr


PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("nothing.jsonl", b"", "nothing.jsonl"),
        ("blank.jsonl", b"\n\n", "blank.jsonl"),
        ("picture.jsonl", PICTURE, "picture.jsonl"),
        ("picture.png", PICTURE, "picture.png"),
        ("broken.jsonl.gz", b"\x1f\x8b\x08\x00broken", "broken.jsonl.gz"),
        ("broken.parquet", b"PAR1nonsense", "broken.parquet"),
        ("half.jsonl", b'{"text": "x"}\n{"text": \n', "1 of 2 records in"),
    ],
)
def test_an_unusable_corpus_is_named_and_nothing_is_published(
    polyhop: Run, root: Path, tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    before = _current(root)
    (tmp_path / name).write_bytes(content)
    done = polyhop("index", name, *TINY, "--replace", env={"POLYHOP_ROOT": str(root)})
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence in done.stderr
    # one sentence, below which bad records are listed
    assert [line.startswith("  ") for line in done.stderr.strip().splitlines()][:2] in ([False], [False, True])
    assert _current(root) == before


@pytest.mark.parametrize(("broken", "code"), [(5, 0), (6, 1)])
def test_broken_lines_are_quarantined_up_to_the_allowed_share(
    polyhop: Run, tmp_path: Path, broken: int, code: int
) -> None:
    corpus = write_rows(tmp_path / "corpus.jsonl", GOOD[: 100 - broken], *["{broken"] * broken)
    done = polyhop("index", corpus, *TINY, "--set", "strategies=bm25", "--json")
    assert done.returncode == code, done.stderr
    if code == 0:
        assert json.loads(done.stdout)["counts"]["quarantined"] == broken
        rows = printed(polyhop("sql", "FROM quarantine ORDER BY line", *TINY, "--json"))
        assert [row["line"] for row in rows] == list(range(96, 101))
        assert all("JSON" in row["reason"] for row in rows)
    else:
        assert "6 of 100 records" in done.stderr
        assert "line 95" in done.stderr
        assert not (tmp_path / "polyhop-data/indexes/tiny/CURRENT").exists()


def test_an_id_used_twice_with_other_text_or_for_a_piece_of_a_longer_record_is_quarantined(
    polyhop: Run, write_corpus: WriteCorpus
) -> None:
    twice: list[dict[str, object]] = [GOOD[0], {"id": "p1", "title": "Town 1", "text": "Something else."}]
    pieces: list[dict[str, object]] = [
        {"id": "long", "title": "Long", "text": "A sentence. " * 400},
        {**GOOD[0], "id": "long#1"},
    ]
    corpus = write_corpus([*GOOD, *twice, *pieces])
    counts = printed(polyhop("index", corpus, *TINY, "--set", "strategies=bm25", "--json"))["counts"]
    assert (counts["passages"], counts["quarantined"]) == (103, 2)
    one, other = printed(polyhop("sql", "FROM quarantine ORDER BY line", *TINY, "--json"))
    assert (one["line"], one["reason"]) == (102, "id 'p1' was already used with other text in corpus.jsonl line 2")
    assert "id 'long#1' is also the id of a piece" in other["reason"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        if os.environ.get("CI"):
            pytest.fail(f"CI must be able to mount a tmpfs: {mounted.stderr!r}")
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.rare
def test_a_full_disk_leaves_the_published_version_intact(
    polyhop: Run, write_corpus: WriteCorpus, small_disk: Path
) -> None:
    """Filled step by step, the disk runs full in several stages of a first run and of a later one."""
    settings = ("--set", "strategies=bridge-lexical,bm25", "--root", small_disk)
    assert polyhop("index", write_corpus(GOOD[:20]), *TINY, *settings).returncode == 0
    before = _current(small_disk)
    filler = small_disk / "filler"
    corpus = write_corpus(GOOD)
    sentences = set()
    for name, free in product(("new", "tiny"), (0, 50, 100, 200, 400, 800, 3000, 10000)):
        filler.write_bytes(b"")
        status = os.statvfs(small_disk)
        size = max(0, status.f_bavail * status.f_frsize - free * 1024)
        filler.write_bytes(b"x" * size)
        done = polyhop("index", corpus, "--index", name, *settings)
        if done.returncode == 0:
            continue
        assert (done.returncode, done.stdout) == (1, "")
        assert "Traceback" not in done.stderr
        assert "disk is full" in done.stderr, (free, done.stderr)
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert _current(small_disk) == before
        sentences.add(done.stderr.replace(f"/{name}/", "/"))
    assert len(sentences) >= 2
    filler.unlink()
    assert polyhop("index", corpus, *TINY, *settings).returncode == 0
    assert _current(small_disk)[0] != before[0]


WRITING = {
    "index {folder}/small.jsonl --index small": "no permission|read-only",
    "submit {folder}/questions.jsonl --index small": "may only be read",
}


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder whose `root` holds an index, a cache and an answered job, and may not be written."""
    folder = tmp_path_factory.mktemp("read-only")
    pages = [
        {"id": "ada", "title": "Ada", "text": "Ada lived in London with Charles Babbage."},
        {"id": "bo", "title": "Charles Babbage", "text": "Charles Babbage was born in London."},
    ]
    root = publish(folder, pages, "small", "bridge,graph,dense")
    write_rows(folder / "questions.jsonl", [{"id": "q1", "question": "Where did Ada live?"}])
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
    "ask 'Who lived in London?' --index small --strategy dense",
    "explain 1 q1",
    "jobs",
    "results 1",
    "sql 'SELECT count(*) FROM results' --index small",
    "verify --index small",
)


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may write everywhere")
def test_commands_that_read_need_no_place_to_write_and_those_that_write_say_that_they_cannot(read_only: Path) -> None:
    """In a process of a user whom modes of files bind; root loses its right to pass them over."""
    lines = [line.format(folder=read_only) + f" --root {read_only}/root" for line in (*READING, *WRITING)]
    bound = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"] if os.geteuid() == 0 else []
    ran = subprocess.run([*bound, sys.executable, "-c", PROGRAM, *lines], check=True, capture_output=True, text=True)
    ends = dict(zip((*READING, *WRITING), map(json.loads, ran.stdout.splitlines()), strict=True))
    assert {line: end for line, end in ends.items() if line in READING and (end[0] or "annot" in end[1])} == {}
    assert "annot" not in ran.stderr
    for line, said in WRITING.items():
        assert ends[line][0] == 1
        assert any(words in ends[line][1] for words in said.split("|")), ends[line]
