"""The chat endpoint of a real `polyhop ui`, asked by the `openai` package."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from small_indexes import publish
from typer.testing import CliRunner

from polyhop.api import open_index
from polyhop.cli import app
from polyhop.schemas.settings import Settings

QUESTION = "Who designed the Statue of Liberty?"


def client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def ask(url: str, question: Any = QUESTION, model: str = "demo", **options: Any) -> Any:
    messages: Any = [
        {"role": "system", "content": "Answer shortly."},
        {"role": "user", "content": "Which river flows through Paris?"},
        {"role": "assistant", "content": "The Seine."},
        {"role": "user", "content": question},
    ]
    return client(url).chat.completions.create(model=model, messages=messages, **options)


def test_each_index_and_each_strategy_it_was_built_for_is_a_model(window: str) -> None:
    names = [one.id for one in client(window).models.list()]
    assert names == ["demo", *(f"demo:{strategy}" for strategy in Settings().strategies)]
    assert client(window).models.retrieve("demo:bm25").id == "demo:bm25"


@pytest.mark.parametrize(("question", "strategy"), [(QUESTION, ""), (QUESTION, "bm25"), ("Why do zebras sing?", "")])
def test_the_last_message_is_answered_as_the_command_answers_it(
    window: str, demo_root: Path, question: str, strategy: str
) -> None:
    options = ["--strategy", strategy] if strategy else []
    words = ["ask", question, "--index", "demo", "--root", str(demo_root), *options]
    said, document = (CliRunner().invoke(app, [*words, *more]).stdout for more in ([], ["--json"]))
    answer = json.loads(document)
    parts = [{"type": "text", "text": question}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    reply = ask(window, parts, f"demo:{strategy}" if strategy else "demo", temperature=0.2, seed=3)
    message = reply.choices[0].message
    shown = message.content.replace("\\", "")
    first = shown.split("\n\n")[0]
    assert first in " ".join(said.split())
    extra = message.polyhop
    with open_index("demo", root=demo_root) as index:
        texts = {row["id"]: row["text"] for row in index.ask(question, strategy=strategy or None).passages}
    own = ("id", "title", "score", "rank")
    passages = [{**{name: row[name] for name in own}, "text": texts[row["id"]]} for row in answer["passages"]]
    assert extra == {
        "index": "demo",
        "confidence": answer["reading"]["confidence"],
        "passages": passages,
        **{name: answer[name] for name in ("version", "strategy", "answer", "sentences")},
    }
    sources = [f"[{row['rank']}] {row['title']} — {row['id']}" for row in passages]
    assert [line.rstrip() for line in shown.split("Sources:\n\n")[1].splitlines()] == sources
    assert (reply.usage.total_tokens, reply.choices[0].finish_reason) == (0, "stop")


def test_a_streamed_reply_is_the_same_reply(window: str) -> None:
    whole = ask(window)
    parts = list(ask(window, stream=True))
    deltas = [part.choices[0].delta for part in parts]
    assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content
    assert [delta.polyhop for delta in deltas if hasattr(delta, "polyhop")] == [whole.choices[0].message.polyhop]
    assert len(deltas) > 3
    *others, last = ask(window, stream=True, stream_options={"include_usage": True})
    assert (len(others), len(last.choices), last.usage.total_tokens) == (len(parts), 0, 0)


@pytest.mark.parametrize(
    ("model", "question", "status", "code", "sentence"),
    [
        ("nothing", QUESTION, 404, "model_not_found", "Unknown model 'nothing'; known are: demo, demo:"),
        ("demo", " ", 400, "EmptyQuestionError", "The last message of the user is empty"),
        ("demo", 7, 400, "invalid_request", "messages.3.content"),
    ],
)
def test_an_error_has_the_form_of_openai(
    window: str, model: str, question: Any, status: int, code: str, sentence: str
) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        ask(window, question, model)
    error: Any = caught.value.body
    assert (caught.value.status_code, error["type"], error["code"]) == (status, "invalid_request_error", code)
    assert sentence in error["message"]


def test_no_markup_is_made_from_what_a_corpus_says(serve: Callable[..., Any], tmp_path: Path) -> None:
    title = "![x](http://example.org/x.png) <img src=x> [a](b)\n# `Halvorsen`"
    records = [{"id": "p<1>", "title": title, "text": f"{title} designed the *Tower* of Oslo."}]
    reply = ask(serve(publish(tmp_path, records)).url, "Who designed the Tower of Oslo?", "towns:bm25")
    message = reply.choices[0].message
    assert message.polyhop["passages"][0]["text"].startswith("![x](http")
    unescaped = re.sub(r"\\.", "", message.content)
    assert re.findall(r"[\[\]<>`*#]", unescaped.replace("[1]", "")) == []
    assert "!\\[x\\](http://example.org/x.png) \\<img src=x\\>" in message.content


def test_a_model_that_read_is_quoted_with_its_tokens(
    serve: Callable[..., Any], demo_root: Path, model_server: Any
) -> None:
    reading = {"reasoning": "It was Bartholdi of *Colmar*.", "answer": "Bartholdi", "citations": []}
    model_server.respond(lambda asked: {"kind": "reply", "content": json.dumps(reading)})
    values = ("read=openai/scripted", f"api_base={model_server.url}", "price=1,2")
    options = [word for value in values for word in ("--set", f"models.{value}")]
    reply = ask(serve(demo_root, *options, OPENAI_API_KEY="not-a-key").url)
    assert reply.choices[0].message.content.startswith("Bartholdi\n\nIt was Bartholdi of \\*Colmar\\*.\n\n")
    assert reply.usage.prompt_tokens > 0
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
