"""Bad input: one clear sentence, the right exit code, and the published version as it was."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
WriteCorpus = Callable[..., Path]

GOOD: list[dict[str, object]] = [
    {"id": f"p{n}", "title": f"Town {n}", "text": f"Town {n} lies on the River {n % 7} in Country {n % 3}."}
    for n in range(100)
]


def _index(root: Path, corpus: Path) -> None:
    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner
    from polyhop.schemas.requests import IndexRequest
    from polyhop.schemas.settings import Settings

    run_index(Settings(root=root), IndexRequest("tiny", corpus), DirectRunner())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with one small index; the tests of this module leave it as it is."""
    folder = tmp_path_factory.mktemp("bad-input")
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(record) + "\n" for record in GOOD), encoding="utf-8")
    _index(folder / "root", corpus)
    return folder / "root"


def _current(root: Path) -> tuple[str, list[str]]:
    index = root / "indexes" / "tiny"
    return (index / "CURRENT").read_text(), sorted(path.name for path in (index / "versions").iterdir())


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("ask", "", "--index", "tiny"), 2, "The question is empty"),
        (("ask", " ?! ", "--index", "tiny"), 2, "The question is empty"),
        (("ask", "Who?", "--index", "tiny", "--strategy", "brigde"), 2, "did you mean 'bridge'"),
        (("ask", "Who?", "--index", "none"), 1, "Unknown index 'none'"),
        (("ask", "Who?", "--index", "tiny", "--param", "seedz=3"), 2, "seedz"),
        (("ask", "Who?", "--index", "tiny", "--param", "seeds=-3"), 2, "seeds"),
        (("ask", "Who?", "--index", "tiny", "--param", "seeds"), 2, "name=value"),
        (("ask", "Who?", "--index", "../x"), 2, "is not a name for an index"),
        (("index", "nothere.jsonl", "--index", "tiny"), 1, "There is no file or folder nothere.jsonl"),
        (("index", "--index", "none"), 2, "SOURCE"),
        (("index", "--index", "none", "--add-strategy", "dense"), 1, "Unknown index 'none'"),
        (("index", ".", "--index", "tiny", "--set", "batch_sise=3"), 2, "did you mean 'batch_size'"),
        (("sql", "SELEC 1", "--index", "tiny"), 1, "syntax error"),
        (("eval", "nothere.jsonl", "--index", "tiny"), 1, "nothere.jsonl"),
        (("frobnicate",), 2, "frobnicate"),
        (("versions", "--index", "tiny", "--use", "99"), 1, "no version 99"),
    ],
)
def test_a_wrong_command_gives_one_sentence_and_its_exit_code(
    polyhop: Run, root: Path, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    done = polyhop(*arguments, env={"POLYHOP_ROOT": str(root)})
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("empty.jsonl", b"", "empty"),
        ("blank.jsonl", b"\n\n", "empty.jsonl"),
        ("picture.jsonl", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20, "picture.jsonl"),
        ("picture.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20, "picture.png"),
        ("broken.jsonl.gz", b"\x1f\x8b\x08\x00broken", "broken.jsonl.gz"),
        ("broken.parquet", b"PAR1nonsense", "broken.parquet"),
        ("half.jsonl", b'{"text": "x"}\n{"text": \n', "1 of 2 records in"),
    ],
)
def test_an_unusable_corpus_is_named_and_nothing_is_published(
    polyhop: Run, root: Path, tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    before = _current(root)
    if name == "blank.jsonl":
        sentence = "blank.jsonl"
    path = tmp_path / name.replace("empty.jsonl", "nothing.jsonl")
    path.write_bytes(content)
    done = polyhop("index", path, "--index", "tiny", "--replace", env={"POLYHOP_ROOT": str(root)})
    assert (done.returncode, done.stdout) == (1, "")
    assert (sentence if name != "empty.jsonl" else "nothing.jsonl") in done.stderr
    # one sentence, below which bad records are listed
    assert [line.startswith("  ") for line in done.stderr.strip().splitlines()][:2] in ([False], [False, True])
    assert _current(root) == before


@pytest.mark.parametrize(("broken", "code"), [(5, 0), (6, 1)])
def test_broken_lines_are_quarantined_up_to_the_allowed_share(
    polyhop: Run, tmp_path: Path, broken: int, code: int
) -> None:
    lines = [json.dumps(record) for record in GOOD[: 100 - broken]] + ["{broken"] * broken
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = polyhop("index", corpus, "--index", "tiny", "--json")
    assert done.returncode == code, done.stderr
    if code == 0:
        assert json.loads(done.stdout)["counts"]["quarantined"] == broken
        rows = json.loads(polyhop("sql", "FROM quarantine ORDER BY line", "--index", "tiny", "--json").stdout)
        assert [row["line"] for row in rows] == list(range(96, 101))
        assert all("JSON" in row["reason"] for row in rows)
    else:
        assert "6 of 100 records" in done.stderr
        assert "line 95" in done.stderr
        assert not (tmp_path / "polyhop-data/indexes/tiny/CURRENT").exists()


def test_an_id_used_twice_with_other_text_is_quarantined(polyhop: Run, write_corpus: WriteCorpus) -> None:
    records = [*GOOD, GOOD[0], {"id": "p1", "title": "Town 1", "text": "Something else."}]
    done = polyhop("index", write_corpus(records), "--index", "tiny", "--json")
    assert json.loads(done.stdout)["counts"]["passages"] == 100
    rows = json.loads(polyhop("sql", "FROM quarantine", "--index", "tiny", "--json").stdout)
    assert [(row["line"], row["reason"]) for row in rows] == [
        (102, "id 'p1' was already used with other text in corpus.jsonl line 2")
    ]


def test_an_id_that_a_piece_of_a_longer_record_has_is_quarantined(polyhop: Run, write_corpus: WriteCorpus) -> None:
    records = [*GOOD, {"id": "long", "title": "Long", "text": "A sentence. " * 400}, {**GOOD[0], "id": "long#1"}]
    done = polyhop("index", write_corpus(records), "--index", "tiny", "--set", "strategies=bm25", "--json")
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)["counts"]
    assert (counts["passages"], counts["quarantined"]) == (103, 1)
    rows = json.loads(polyhop("sql", "FROM quarantine", "--index", "tiny", "--json").stdout)
    assert "id 'long#1' is also the id of a piece" in rows[0]["reason"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        if os.environ.get("CI"):
            pytest.fail(f"CI must be able to mount a tmpfs: {mounted.stderr!r}")
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_leaves_the_published_version_intact(
    polyhop: Run, write_corpus: WriteCorpus, small_disk: Path
) -> None:
    """Filled step by step, the disk runs full in several stages of a first run and of a later one."""
    settings = ("--set", "strategies=bridge-lexical,bm25", "--root", small_disk)
    assert polyhop("index", write_corpus(GOOD[:20]), "--index", "tiny", *settings).returncode == 0
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
    assert polyhop("index", corpus, "--index", "tiny", *settings).returncode == 0
    assert _current(small_disk)[0] != before[0]


def test_a_root_that_cannot_be_written_is_named(polyhop: Run, write_corpus: WriteCorpus, tmp_path: Path) -> None:
    corpus = write_corpus(GOOD)
    (tmp_path / "file").write_text("x")
    done = polyhop("index", corpus, "--index", "tiny", "--root", tmp_path / "file")
    assert (done.returncode, done.stdout) == (1, "")
    assert "a file is where a folder is needed" in done.stderr
    done = polyhop("index", corpus, "--index", "tiny", "--root", "/proc/polyhop")
    assert (done.returncode, done.stdout) == (1, "")
    assert "/proc/polyhop" in done.stderr


def test_no_permission_to_write_is_said_in_words(write_corpus: WriteCorpus, tmp_path: Path) -> None:
    """As another user: root may write everywhere."""
    corpus = write_corpus(GOOD)
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    script = (
        "import os, sys\n"
        "from polyhop.flows.index import run_index\n"
        "from polyhop.flows.runner import DirectRunner\n"
        "from polyhop.schemas.requests import IndexRequest\n"
        "from polyhop.schemas.errors import StoreError\n"
        "from polyhop.schemas.settings import Settings\n"
        "from polyhop.worker.strategies.registry import STRATEGIES\n"
        "from pathlib import Path\n"
        "list(STRATEGIES.values())  # modules that load when used, as long as they may be read\n"
        "os.geteuid() == 0 and os.seteuid(65534)\n"
        "try:\n"
        "    run_index(Settings(root=Path(sys.argv[1])), IndexRequest('tiny', Path(sys.argv[2])), DirectRunner())\n"
        "except StoreError as error:\n"
        "    print(error)\n"
    )
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    done = subprocess.run(
        [sys.executable, "-c", script, str(locked / "root"), str(corpus)], capture_output=True, text=True, check=False
    )
    assert "no permission to write there" in done.stdout, done.stderr
