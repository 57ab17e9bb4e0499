"""The retrievers for LangChain, LlamaIndex and Haystack, each with its real package, over a real index."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from haystack import Pipeline
from small_indexes import publish

import polyhop
from polyhop.integrations import haystack, langchain, llama_index
from polyhop.schemas.errors import ConfigurationError, FilterError, UnknownStrategyError

RECORDS: list[dict[str, object]] = [
    {
        "id": f"p{n:02d}",
        "title": f"Town {n}",
        "text": f"Town {n} lies on the River {n % 5} in Country {n % 3}.",
        "year": 1900 + n,
        "rank": "a record's own, which ours hides",
    }
    for n in range(30)
]
QUERIES = ["Which river does Town 7 lie on?", "What lies in Country 2?", "Is there a River 4?"] * 4
WHERE = "metadata.year >= 1920"
OPTIONS: dict[str, Any] = {"strategy": "bm25", "limit": 7, "parameters": {"k1": 1.2}}


@dataclass(frozen=True)
class Found:
    """A document of any of the frameworks."""

    id: str
    text: str
    score: float | None
    metadata: dict[str, Any]


@dataclass(frozen=True)
class Framework:
    """How the retriever of one is made and asked."""

    make: Callable[..., Any]
    ask: Callable[[Any, str], list[Found]]
    aask: Callable[[Any, str], Coroutine[Any, Any, list[Found]]]
    ask_where: Callable[[Any, str, str], list[Found]] | None = None


def of_langchain(documents: Sequence[Any]) -> list[Found]:
    return [
        Found(d.id, d.page_content, d.metadata["score"], {k: v for k, v in d.metadata.items() if k != "score"})
        for d in documents
    ]


def of_llama_index(nodes: Sequence[Any]) -> list[Found]:
    return [Found(n.node.node_id, n.node.get_content(), n.score, n.node.metadata) for n in nodes]


def of_haystack(reply: dict[str, Any]) -> list[Found]:
    return [Found(d.id, d.content, d.score, d.meta) for d in reply["documents"]]


async def ask_langchain(retriever: Any, query: str) -> list[Found]:
    return of_langchain(await retriever.ainvoke(query))


async def ask_llama_index(retriever: Any, query: str) -> list[Found]:
    return of_llama_index(await retriever.aretrieve(query))


async def ask_haystack(retriever: Any, query: str) -> list[Found]:
    return of_haystack(await retriever.run_async(query))


FRAMEWORKS = {
    "langchain": Framework(
        langchain.PolyhopRetriever,
        lambda retriever, query: of_langchain(retriever.invoke(query)),
        ask_langchain,
        lambda retriever, query, where: of_langchain(retriever.invoke(query, where=where)),
    ),
    "llama-index": Framework(
        llama_index.PolyhopRetriever,
        lambda retriever, query: of_llama_index(retriever.retrieve(query)),
        ask_llama_index,
    ),
    "haystack": Framework(
        haystack.PolyhopRetriever,
        lambda retriever, query: of_haystack(retriever.run(query)),
        ask_haystack,
        lambda retriever, query, where: of_haystack(retriever.run(query, where=where)),
    ),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("retrievers"), RECORDS)


@pytest.fixture(scope="module")
def index(root: Path) -> Iterator[polyhop.Index]:
    with polyhop.open_index("towns", root=root) as opened:
        yield opened


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> Framework:
    return FRAMEWORKS[request.param]


def expected(index: polyhop.Index, query: str, **changed: Any) -> list[Found]:
    """What `Index.search` finds, in the form of the tests; `ask` ranks the same."""
    answer = index.search(query, **{**OPTIONS, **changed})
    asked = index.ask(query, **{**OPTIONS, **changed})
    assert (answer.answer, answer.reading["by"]) == ("", "none")
    assert answer.passages == asked.passages != []
    ours = {"index": "towns", "version": 1, "strategy": "bm25"}
    return [
        Found(row["id"], row["text"], row["score"], row["metadata"] | without(row, "id", "text", "score") | ours)
        for row in answer.passages
    ]


def without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in {*names, "metadata"}}


@pytest.mark.parametrize("is_named", [False, True])
def test_documents_are_the_passages_of_a_search_alone_in_threads_and_in_asyncio(
    framework: Framework, index: polyhop.Index, root: Path, is_named: bool
) -> None:
    one_by_one = [expected(index, query) for query in QUERIES]
    first = one_by_one[0][0]
    assert (first.id, *(first.metadata[name] for name in ("title", "year", "rank"))) == ("p07", "Town 7", 1907, 1)
    retriever = framework.make("towns", root=root, **OPTIONS) if is_named else framework.make(index, **OPTIONS)
    with ThreadPoolExecutor(4) as threads:  # which open the index that is only named
        assert list(threads.map(lambda query: framework.ask(retriever, query), QUERIES)) == one_by_one

    async def all_at_once() -> list[list[Found]]:
        return await asyncio.gather(*(framework.aask(retriever, query) for query in QUERIES))

    assert asyncio.run(all_at_once()) == one_by_one


def test_a_filter_is_passed_on_and_one_of_a_single_call_goes_before_it(
    framework: Framework, index: polyhop.Index
) -> None:
    retriever = framework.make(index, where=WHERE, **OPTIONS)
    filtered = expected(index, QUERIES[0], where=WHERE)
    assert framework.ask(retriever, QUERIES[0]) == filtered != expected(index, QUERIES[0])
    if framework.ask_where is not None:
        other = "metadata.year < 1905"
        assert framework.ask_where(retriever, QUERIES[0], other) == expected(index, QUERIES[0], where=other)
    assert framework.ask(retriever, QUERIES[0]) == filtered


@pytest.mark.parametrize(
    ("options", "kind", "sentence"),
    [
        ({"strategy": "bm26"}, UnknownStrategyError, "Unknown strategy 'bm26'; did you mean 'bm25'?"),
        ({"where": "metadata.yeer > 3"}, FilterError, "The filter is wrong at column 1"),
        ({"limit": 0}, ConfigurationError, "The limit is 0; ask for at least 1 passage."),
    ],
)
def test_an_error_of_ours_comes_through(
    framework: Framework, index: polyhop.Index, options: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    retriever = framework.make(index, **options)
    with pytest.raises(kind, match=sentence):
        framework.ask(retriever, QUERIES[0])
    with pytest.raises(kind, match=sentence):
        asyncio.run(framework.aask(retriever, QUERIES[0]))


def test_a_batch_of_langchain_is_its_single_calls_and_takes_a_filter(index: polyhop.Index) -> None:
    retriever = langchain.PolyhopRetriever(index, **OPTIONS)
    singles = [expected(index, query, where=WHERE) for query in QUERIES]
    assert [of_langchain(one) for one in retriever.batch(QUERIES, where=WHERE)] == singles
    assert [of_langchain(one) for one in asyncio.run(retriever.abatch(QUERIES, where=WHERE))] == singles


def test_a_pipeline_of_haystack_is_saved_loaded_and_run(index: polyhop.Index, root: Path) -> None:
    pipeline = Pipeline()
    pipeline.add_component("passages", haystack.PolyhopRetriever("towns", root=root, **OPTIONS))
    asked = {"passages": {"query": QUERIES[0]}}
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=[haystack.__name__])
    assert of_haystack(loaded.run(asked)["passages"]) == expected(index, QUERIES[0])
    assert loaded.dumps() == pipeline.dumps()
    with pytest.raises(ConfigurationError, match="give the retriever its name"):
        haystack.PolyhopRetriever(index).to_dict()


def test_a_search_never_asks_the_model_that_would_read(
    root: Path, model_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    models: Any = {"read": "openai/scripted", "api_base": model_server.url, "price": [1, 2]}
    with polyhop.open_index("towns", settings=polyhop.Settings(root=root, models=models)) as reading:
        assert len(FRAMEWORKS["langchain"].ask(langchain.PolyhopRetriever(reading, **OPTIONS), QUERIES[0])) == 7
        assert model_server.count() == 0
        assert reading.ask(QUERIES[0], **OPTIONS).reading["by"] == "model"
        assert model_server.count() == 1
