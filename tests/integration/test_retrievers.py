"""The retrievers for LangChain, LlamaIndex and Haystack, each with its real package, over a real index."""

import asyncio
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from small_indexes import publish

import polyhop
from polyhop.schemas.errors import ConfigurationError, FilterError, UnknownStrategyError

TEXTS = [f"Town {n} lies on the River {n % 5} in Country {n % 3}." for n in range(30)]
HIDDEN = {"rank": "hidden"}
RECORDS = [{"id": f"p{n}", "title": f"Town {n}", "text": TEXTS[n], "year": 1900 + n} | HIDDEN for n in range(30)]
QUERIES = ["Which river does Town 7 lie on?", "What lies in Country 2?", "Is there a River 4?"] * 4
WHERE, OTHER = "metadata.year >= 1920", "metadata.year < 1905"
OPTIONS: dict[str, Any] = {"strategy": "bm25", "limit": 7, "parameters": {"k1": 1.2}}
Found = list[tuple[Any, ...]]
"""Id, text, score and metadata of a document of any framework."""


def of_langchain(documents: Sequence[Any]) -> Found:
    return [(d.id, d.page_content, d.metadata.pop("score"), d.metadata) for d in documents]


def of_llama_index(nodes: Sequence[Any]) -> Found:
    return [(n.node.node_id, n.node.get_content(), n.score, n.node.metadata) for n in nodes]


def of_haystack(reply: dict[str, Any]) -> Found:
    return [(d.id, d.content, d.score, d.meta) for d in reply["documents"]]


CALLS: dict[str, tuple[str, str, Callable[[Any], Found]]] = {
    "langchain": ("invoke", "ainvoke", of_langchain),
    "llama-index": ("retrieve", "aretrieve", of_llama_index),
    "haystack": ("run", "run_async", of_haystack),
}
"""What asks at once, what in asyncio, and what a reply holds."""


def made_for(name: str) -> Any:
    """Our module, imported when a test runs: the frameworks take seconds, and each test process collects all tests."""
    return importlib.import_module(f"polyhop.integrations.{name.replace('-', '_')}")


class Framework:
    def __init__(self, name: str) -> None:
        self.name = name
        self.make = made_for(name).PolyhopRetriever
        self._call, self._async_call, self._read = CALLS[name]

    def ask(self, retriever: Any, query: str, **asked: Any) -> Found:
        return self._read(getattr(retriever, self._call)(query, **asked))

    async def aask(self, retriever: Any, query: str, **asked: Any) -> Found:
        return self._read(await getattr(retriever, self._async_call)(query, **asked))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("retrievers"), RECORDS)


@pytest.fixture(scope="module")
def index(root: Path) -> Iterator[polyhop.Index]:
    with polyhop.open_index("towns", root=root) as opened:
        yield opened


@pytest.fixture(params=CALLS)
def framework(request: pytest.FixtureRequest) -> Framework:
    return Framework(request.param)


def expected(index: polyhop.Index, query: str, where: str | None = None) -> Found:
    """What `Index.search` finds, which ranks as `ask` does and reads nothing."""
    found, asked = index.search(query, where=where, **OPTIONS), index.ask(query, where=where, **OPTIONS)
    assert (found.answer, found.reading["by"], found.passages) == ("", "none", asked.passages)
    ours = {"index": "towns", "version": 1, "strategy": "bm25"}
    rows = []
    for row in found.passages:
        names = row.keys() - {"id", "text", "score", "metadata"}
        metadata = row["metadata"] | {name: row[name] for name in names} | ours
        rows.append((row["id"], row["text"], row["score"], metadata))
    return rows


@pytest.mark.parametrize("is_named", [False, True])
def test_documents_are_the_passages_of_a_search_alone_in_threads_and_in_asyncio(
    framework: Framework, index: polyhop.Index, root: Path, is_named: bool
) -> None:
    one_by_one = [expected(index, query) for query in QUERIES]
    (first, _, _, metadata), *_ = one_by_one[0]
    assert (first, *(metadata[name] for name in ("title", "year", "rank"))) == ("p7", "Town 7", 1907, 1)
    retriever = framework.make("towns", root=root, **OPTIONS) if is_named else framework.make(index, **OPTIONS)
    with ThreadPoolExecutor(4) as threads:  # which open the index that is only named
        assert list(threads.map(lambda query: framework.ask(retriever, query), QUERIES)) == one_by_one

    async def all_at_once() -> list[Found]:
        return await asyncio.gather(*(framework.aask(retriever, query) for query in QUERIES))

    assert asyncio.run(all_at_once()) == one_by_one


def test_a_filter_is_passed_on_and_one_of_a_single_call_comes_first(framework: Framework, index: polyhop.Index) -> None:
    retriever, query = framework.make(index, where=WHERE, **OPTIONS), QUERIES[0]
    assert framework.ask(retriever, query) == expected(index, query, WHERE) != expected(index, query)
    if framework.name != "llama-index":
        assert framework.ask(retriever, query, where=OTHER, limit=3) == expected(index, query, OTHER)[:3]
        assert asyncio.run(framework.aask(retriever, query, where=OTHER)) == expected(index, query, OTHER)
        assert framework.ask(retriever, query) == expected(index, query, WHERE)


@pytest.mark.parametrize(
    ("options", "kind", "sentence"),
    [
        ({"strategy": "bm26"}, UnknownStrategyError, "Unknown strategy 'bm26'; did you mean 'bm25'"),
        ({"where": "metadata.yeer > 3"}, FilterError, "The filter is wrong at column 1"),
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


def test_a_missing_package_is_named_with_its_extra(framework: Framework, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = {"langchain": "langchain_core", "llama-index": "llama_index.core", "haystack": "haystack"}
    module = made_for(framework.name).__name__
    monkeypatch.setitem(sys.modules, packages[framework.name], None)
    monkeypatch.delitem(sys.modules, module)
    with pytest.raises(ConfigurationError, match=rf"uv sync --extra {framework.name} in a checkout"):
        importlib.import_module(module)


def test_a_batch_of_langchain_is_its_single_calls_and_takes_a_filter(index: polyhop.Index) -> None:
    retriever = made_for("langchain").PolyhopRetriever(index, **OPTIONS)
    singles = [expected(index, query, WHERE) for query in QUERIES]
    assert [of_langchain(one) for one in retriever.batch(QUERIES, where=WHERE)] == singles
    assert [of_langchain(one) for one in asyncio.run(retriever.abatch(QUERIES, where=WHERE))] == singles


def test_a_pipeline_of_haystack_is_saved_loaded_and_run(index: polyhop.Index, root: Path) -> None:
    from haystack import Pipeline

    haystack = made_for("haystack")
    pipeline = Pipeline()
    pipeline.add_component("passages", haystack.PolyhopRetriever("towns", root=root, **OPTIONS))
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=[haystack.__name__])
    found = loaded.run({"passages": {"query": QUERIES[0]}})["passages"]
    assert of_haystack(found) == expected(index, QUERIES[0])
    assert loaded.dumps() == pipeline.dumps()
    with pytest.raises(ConfigurationError, match="give the retriever its name"):
        haystack.PolyhopRetriever(index).to_dict()


def test_a_search_never_asks_the_reading_model(root: Path, model_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    models: Any = {"read": "openai/scripted", "api_base": model_server.url, "price": [1, 2]}
    with polyhop.open_index("towns", settings=polyhop.Settings(root=root, models=models)) as reading:
        assert len(made_for("langchain").PolyhopRetriever(reading, **OPTIONS).invoke(QUERIES[0])) == 7
        assert model_server.count() == 0
        assert reading.ask(QUERIES[0], **OPTIONS).reading["by"] == "model"
        assert model_server.count() == 1
