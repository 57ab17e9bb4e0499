"""All pages of `polyhop ui` in a real browser: widths and colours, axe-core, hostile texts, what a person does."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import axe_playwright_python
import httpx
import pytest
from browser_process import Browser
from command_processes import Commands
from small_indexes import Call, indexed, record, write_rows

from polyhop.schemas.settings import Settings

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
FACTS = {
    "wide": "document.documentElement.scrollWidth - innerWidth",
    "scripts": "[...document.scripts].filter(s => !s.src).length",
    "foreign": "[...document.querySelectorAll('[src], link[href]')].map(e => e.src || e.href)"
    ".filter(a => !a.startsWith('data:') && new URL(a).origin !== location.origin)",
    "paper": "getComputedStyle(document.documentElement).backgroundColor",
    "headings": "document.querySelectorAll('h1').length",
    "axe": AXE + ";axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'best-practice']}).then(found => found.violations"
    ".filter(v => ['serious', 'critical'].includes(v.impact)).map(v => v.id + ': ' + v.nodes[0].html.slice(0, 200)"
    " + ' ' + v.nodes[0].failureSummary))",
}
HOSTILE = (
    "<script>alert(1)</script><img src=http://example.org/x onerror=alert(2)></title></style></svg>"
    "<svg onload=alert(3)>\"'`{{ 7*7 }}{% raw %}&lt;b&gt;<!-- ]]> javascript:alert(4) "
    "\u202etxt.exe\u202c \x1b[31m\x07\x00 \u05d0\u05d1\u05d2"
)
ASKED = HOSTILE.replace("\x00", "")  # which no text may hold
RECORDS = [
    record("p1", "Ada Lovelace", "Ada Lovelace worked with Charles Babbage in London in 1843."),
    record("p2", "Charles Babbage", "Charles Babbage was born in London. He designed the Analytical Engine."),
    record("p3/<b>&?#%", ASKED, f"{ASKED} was seen by Ada Lovelace in London.", metadata={"x": ASKED}),
    record("p4", "Long " * 200_000, "A title of a million characters lies in London."),
]
QUESTIONS: list[dict[str, object]] = [
    {"id": "q1", "question": "Where was Charles Babbage born?", "answers": ["London"], "supporting": ["p2"]},
    {"id": "q2", "question": f"Who saw {ASKED}?", "answers": ["Ada Lovelace"], "supporting": ["p3/<b>&?#%"]},
]
WRONG = ("/nothing", "/jobs/99999999999999999999", "/sql?index=mine&query=SELECT")  # their pages say why
SIZES = [(360, "light"), (1920, "dark")]


@pytest.fixture(scope="module")
def site(serve: Call, polyhop_module: Call, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A server over an index of two versions, with a job, dead questions and evaluations."""
    folder = tmp_path_factory.mktemp("site")
    root = folder / "root"
    corpus = Settings().corpus.model_copy(update={"max_quarantine_share": 0.5})
    settings = Settings(root=root, strategies=("bridge", "bm25", "dense"), corpus=corpus)
    indexed(settings, write_rows(folder / "corpus.jsonl", RECORDS[:2], '{"id": "bad"}'), "mine")
    indexed(settings, write_rows(folder / "corpus.jsonl", RECORDS, '{"id": "bad"}'), "mine")
    file = write_rows(folder / "questions.jsonl", QUESTIONS)
    for line in (
        "eval {file} --index mine --strategies bridge,bm25",
        "eval {file} --index mine --strategies bm25",
        "submit {file} --index mine",
        "worker --until-empty",
        "submit {file} --index mine --deadline 0.001 --name late",
        "worker --until-empty",
    ):
        done = polyhop_module(*(str(file) if word == "{file}" else word for word in line.split()), "--root", root)
        assert done.returncode == 0, done.stderr
    return str(serve(root, "--allow-changes").url)


@pytest.fixture(scope="module")
def polyhop_module(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Call:
    folder = tmp_path_factory.mktemp("commands")
    return lambda *arguments: commands.run(arguments, folder, {})


def paths(url: str) -> Iterator[str]:
    """Every page there is, found by following each kind of link from the first page once."""
    seen: set[str] = set()
    waiting = ["/", "/ask?index=mine&question=Where+was+Charles+Babbage+born%3F&other=bm25", "/login"]
    waiting += ["/ask?index=mine&question=" + quote(str(QUESTIONS[1]["question"])), *WRONG]
    waiting += [
        "/indexes/mine/entities?name=Ada",
        "/indexes/mine/words?words=London",
        "/jobs/1",
        "/jobs/1/questions/q2",
    ]
    waiting += ["/evaluations/compare?a=1&b=2", "/indexes/mine/diff?before=1&after=2"]
    waiting += ["/indexes/mine/passages/" + quote("p3/<b>&?#%"), "/indexes/mine/passages/p4"]
    first, kinds = list(waiting), set[str]()
    with httpx.Client(base_url=url, timeout=60) as client:
        while waiting:
            path = waiting.pop(0)
            kind = re.sub(r"(?<=/)(\d+|p\d[^/?]*|q\d[^/?]*|[0-9a-f]{16,})(?=/|\?|$)", "ID", path.split("#")[0])
            kind = kind.partition("=")[0]
            if path in seen or (kind in kinds and path not in first) or path.startswith(("/api/", "/static/")):
                continue
            seen.add(path)
            reply = client.get(path, headers={"Accept": "text/html"})
            assert reply.status_code in {200, 303} or path in WRONG, (path, reply.text[:2_000])
            if reply.is_redirect:
                waiting.append(reply.headers["location"])
            elif reply.headers["content-type"].startswith("text/html"):
                kinds.add(kind)
                yield path
                waiting += [link.replace("&amp;", "&") for link in re.findall(r'href="(/[^"#]*)', reply.text)]


def test_every_page_is_readable_at_every_width_and_loads_nothing_from_elsewhere(
    site: str, browser: Browser, request: pytest.FixtureRequest
) -> None:
    faults: list[str] = []
    found = list(paths(site))
    for kind in ("/jobs/", "/indexes/mine", "/evaluations/", "/entities/", "/documents/", "/sql", "/health"):
        assert any(kind in path for path in found), kind
    is_all = request.config.getoption("--everything")
    for number, path in enumerate(found):
        papers = set()
        for width, scheme in SIZES if is_all else [SIZES[number % 2]]:
            look = browser.look(f"{site}{path}", evaluate=FACTS, width=width, scheme=scheme)
            values, where = look.values, f"{path} ({width}, {scheme})"
            papers.add(values.pop("paper"))
            if values != {"wide": 0, "scripts": 0, "foreign": [], "headings": 1, "axe": []}:
                faults.append(f"{where}: {values}")
            other = [one for one in look.requests if not one.startswith((site, "data:"))]
            said = [one for one in look.messages if "status of 4" not in one]
            if other or said or look.dialogs:
                faults.append(f"{where}: {other} {said} {look.dialogs}")
        if is_all and len(papers) < 2 and not path.endswith("/report"):
            faults.append(f"{path}: light and dark look alike")
    assert faults == []


def test_a_person_uploads_questions_and_downloads_the_answers_of_a_worker(
    site: str, browser: Browser, polyhop_module: Call, tmp_path: Path
) -> None:
    upload = ["upload", "input[type=file]", str(write_rows(tmp_path / "mine.jsonl", QUESTIONS))]
    submit = [["choose", "select[name=index]", "mine"], ["click", "form[enctype] button"]]
    made = browser.look(f"{site}/jobs", steps=[upload, *submit])
    job = re.fullmatch(rf"{site}/jobs/(\d+)", made.url)
    assert job, made.text
    root = httpx.get(f"{site}/").text.partition("root <code>")[2].partition("</code>")[0]
    assert polyhop_module("worker", "--until-empty", "--root", root).returncode == 0
    done = browser.look(made.url, steps=[["download", "a[href*='format=jsonl']"]])
    command = polyhop_module("jobs", "results", job[1], "--root", root).stdout
    results, expected = ([json.loads(line) for line in text.splitlines()] for text in (done.downloads[0], command))
    assert results == expected
    assert [row["state"] for row in results] == ["done", "done"]
    assert results[0]["answer"] in done.text


def test_without_javascript_a_question_is_asked_with_the_keyboard_alone(site: str, browser: Browser) -> None:
    box = "input[name=question]"
    steps = [["fill", box, "Where was Charles Babbage born?"], ["press", box, "Enter"]]
    look = browser.look(site, steps=steps, has_scripts=False)
    assert [part for part in ("London", "Link that reproduces this answer") if part not in look.text] == []
