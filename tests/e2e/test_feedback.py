"""The page Ask: what people say of an answer becomes a labelled question, and a follow-up carries names."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from small_indexes import Call, publish, record
from starlette.testclient import TestClient

from polyhop.schemas.settings import Settings
from polyhop.server.app import make_app
from polyhop.server.guard import csrf_token
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.questions import usable_questions
from polyhop.warehouse.user_files import save_feedback

QUESTION = "Where was the builder of Ostley Bridge born?"
PAGES = [
    record("p1", "Ostley Bridge", "Ostley Bridge was built by Edith Carrow in 1931."),
    record("p2", "Edith Carrow", "Edith Carrow was born in Harrow. She studied in Lenn."),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("feedback"), PAGES)


def sent(root: Path, method: str, path: str, *, allows_changes: bool = True, **given: Any) -> Any:
    app = make_app(Settings(root=root), allows_changes=allows_changes)
    with TestClient(app, "http://127.0.0.1", headers={"accept": "text/html"}, follow_redirects=False) as client:
        return client.request(method, path, **given)


def test_a_judged_answer_is_a_question_that_eval_reads(root: Path, said: Call) -> None:
    page = sent(root, "GET", "/ask", params={"index": "towns", "question": QUESTION}).text
    back = page.split('name="back" value="')[1].split('"')[0].replace("&amp;", "&")
    data = {"csrf": csrf_token(), "question": QUESTION, "answer": "Lenn", "right": "Harrow", "passage": "p2"}
    data |= {"verdict": "wrong", "back": back}
    reply = sent(root, "POST", "/indexes/towns/feedback", data=data)
    assert (reply.status_code, reply.headers["location"]) == (303, f"{back}&judged=yes")
    assert "Thank you" in sent(root, "GET", f"{back}&judged=yes").text
    path = Layout(root).index("towns").feedback
    [row] = map(json.loads, path.read_text("utf-8").splitlines())
    assert (row["answers"], row["rejected"], row["supporting"]) == (["Harrow"], ["Lenn"], ["p2"])
    ended, told, _ = said("eval", path, "--index", "towns", "--strategies", "bm25", "--json", "--root", root)
    assert (ended, json.loads(told)["n"]) == (0, 1)


def test_the_last_word_on_an_answer_counts_and_others_stay(tmp_path: Path) -> None:
    folder = Layout(tmp_path).index("x")
    folder.path.mkdir(parents=True)
    save_feedback(folder, "Who?", right=["Ada"], wrong=[], supporting=["p1"])
    save_feedback(folder, "Where?", right=["Lenn"], wrong=[], supporting=[])
    save_feedback(folder, "Who?", right=["Ben"], wrong=["Ada"], supporting=["p2", "p1"])
    first, second = usable_questions(folder.feedback)[0]
    assert (first.question, first.answers, first.supporting) == ("Who?", ("Ben",), ("p1", "p2"))
    assert (second.question, second.answers) == ("Where?", ("Lenn",))


@pytest.mark.parametrize(
    ("allows_changes", "change", "status"),
    [
        (False, {}, 403),
        (True, {"csrf": "x"}, 403),
        (True, {"question": ""}, 422),
        (True, {"question": "x" * 10_001}, 422),
    ],
)
def test_feedback_that_is_not_taken_leaves_no_file(
    root: Path, allows_changes: bool, change: dict[str, str], status: int
) -> None:
    path = Layout(root).index("towns").feedback
    path.unlink(missing_ok=True)
    data = {"csrf": csrf_token(), "question": QUESTION, "answer": "Lenn", "verdict": "right", **change}
    reply = sent(root, "POST", "/indexes/towns/feedback", allows_changes=allows_changes, data=data)
    assert (reply.status_code, path.exists()) == (status, False)


def test_feedback_leads_back_to_our_own_pages_only(root: Path) -> None:
    data = {"csrf": csrf_token(), "question": QUESTION, "answer": "Harrow", "verdict": "right"}
    for back in ("https://evil.example/ask?", "//evil.example", ""):
        reply = sent(root, "POST", "/indexes/towns/feedback", data={**data, "back": back})
        assert reply.headers["location"] == "/ask"


def test_a_follow_up_asks_with_the_names_of_the_question_before_and_says_so(root: Path) -> None:
    page = sent(root, "GET", "/ask", params={"index": "towns", "question": "Who built Ostley Bridge?"}).text
    context = page.split('name="context" value="')[1].split('"')[0]
    assert context.startswith("Ostley Bridge")
    follow = {"index": "towns", "question": "When was it built?", "context": context}
    told = sent(root, "GET", "/ask", params=follow).text
    assert "Asked with names of the question before: " in told
    assert "1931" in told.split('id="answer1-graph"')[0]
    link = told.split('<a href="/ask?')[2].split('"')[0].replace("&amp;", "&")
    assert parse_qs(urlsplit(f"/ask?{link}").query)["context"] == [context]
