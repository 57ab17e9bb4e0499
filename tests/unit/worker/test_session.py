"""Open versions of a worker: the pool and a strategy's own reader."""

import dataclasses
import gc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from one_reply import OneReply
from pydantic import BaseModel, Field
from small_indexes import indexed, write_rows

from polyhop.schemas.chat import ChatRequest, ChatTask, Prompt
from polyhop.schemas.errors import ConfigurationError, MissingArtefactError, UnknownIndexError
from polyhop.schemas.evidence import Evidence, Note
from polyhop.schemas.evidence import Path as EvidencePath
from polyhop.schemas.ports import IndexReader, Reader, Services
from polyhop.schemas.query import ContextPassage, Question, RankedPassage, ReaderResult, ReadingItem, Retrieval
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import point_to, prune_versions
from polyhop.warehouse.open import open_published
from polyhop.worker.session import IndexPool, IndexSession
from polyhop.worker.strategies import registry
from polyhop.worker.strategies.base import DECLARED, Parameters, strategy


def publish(settings: Settings, count: int, sentence: str = "lies on a river.") -> None:
    records = [{"id": f"p{n}", "title": f"Town {n}", "text": f"Town {n} {sentence}"} for n in range(count)]
    indexed(settings, write_rows(settings.root.parent / "corpus.jsonl", records), "tiny")


@pytest.mark.slow
def test_a_pool_holds_the_current_version_of_an_index_and_no_other(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path / "root", strategies=("bm25",))
    publish(settings, 5)
    index, pool = Layout(settings.root).index("tiny"), IndexPool(settings)
    with pytest.raises(UnknownIndexError, match="known indexes: tiny"):
        pool.session("nil")
    first = pool.session("tiny")
    assert pool.session("tiny") is first
    publish(settings, 6)
    assert (first.version, prune_versions(index, keep=1)) == (1, [])
    for current, count in ((2, 6), (1, 5), (2, 6)):  # published, rolled back, and forth
        point_to(index, current)
        session = pool.session("tiny")
        assert (session.version, len(session.published.passage_ids)) == (current, count)
        assert pool.versions() == {"tiny": current}
    assert prune_versions(index, keep=1) == [1]
    pool.close()
    assert pool.versions() == {}


@pytest.mark.slow
def test_passages_are_found_by_plain_words_or_stems_whichever_a_version_has(tmp_path: Path) -> None:
    for built, words in (("bm25", "town 2"), ("bridge-lexical", "towns 2"), ("dense", "")):
        settings = Settings(root=tmp_path / built, strategies=(built,))
        publish(settings, 3)
        session = IndexSession(open_published(settings.root, "tiny"), settings)
        if words:
            assert (session.passages_with(words, 2), session.passages_with("nil ?", 2)) == (["p2", "p0"], [])
        else:
            with pytest.raises(MissingArtefactError, match=r"needs 'lexical:plain', .*-strategy bm25$"):
                session.passages_with("town", 2)
        session.close()


def test_the_shipped_reader_ranks_what_answers_first_as_cross_encoder(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path / "root", strategies=("bm25-ce",), models={"rerank": "local"})
    texts = ("Elmton Elmton Elmton and born, born, born.", "Ada Low was a writer born in Elmton in 1815.")
    records = [{"id": f"p{number}", "title": "", "text": text} for number, text in enumerate(texts)]
    indexed(settings, write_rows(tmp_path / "corpus.jsonl", records), "tiny")
    session = IndexSession(open_published(settings.root, "tiny"), settings)
    (answered,) = session.answerer("bm25-ce", {}).answer([Question("Who was born in Elmton?")], limit=2)
    assert [passage.passage_id for passage in answered.retrieval.passages] == ["p1", "p0"]
    assert "by the cross-encoder local" in answered.retrieval.evidence.notes[-1].text
    session.close()


def open_files_of(folder: Path) -> list[str]:
    """Files below a folder that this process has open or mapped, whether or not they still exist."""
    descriptors = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    mapped = [line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines()]
    return sorted({path for path in (*descriptors, *mapped) if path.startswith(str(folder.resolve()))})


@pytest.mark.rare
@pytest.mark.slow
def test_no_file_of_a_pruned_version_stays_open(tmp_path: Path) -> None:
    """Strategies keep arrays, name finders and tables of their version; none may survive the move to the next one."""
    settings = Settings(root=tmp_path / "root", strategies=("bridge", "dense-ann", "qasa"))
    publish(settings, 12)
    folder, pool = Layout(settings.root).index("tiny"), IndexPool(settings)
    session = pool.session("tiny")
    for name in settings.strategies:
        answered = session.answerer(name, {}).answer([Question("What lies on a river near Town 3?")], limit=3)
        session.document(name, answered[0])
    del session, answered
    assert any("/versions/000001/" in path for path in open_files_of(folder.path))
    publish(settings, 13)
    pool.session("tiny")
    assert prune_versions(folder, keep=1) == [1]
    gc.collect()  # the run that published has cycles of its own, in this process only because the test is
    assert [path for path in open_files_of(folder.path) if "/versions/000002/" not in path] == []
    pool.close()
    gc.collect()
    assert open_files_of(folder.path) == []


SAID = ("The Ada Bridge was designed by Ann Roe.", "Ann Roe was born in Kingston.")
PATHS = tuple(EvidencePath(text, score=score) for text, score in zip(SAID, (0.9, 0.8), strict=True))
QUESTION = Question("Who designed the Ada Bridge?", "q")


class Said(BaseModel):
    text: str


PARTIAL, FINAL = (ChatTask(name, Prompt(name, "{{evidence}}"), Said, 1, 100) for name in ("partial", "final"))


class PathParameters(Parameters):
    most_paths: int = Field(2, ge=1, description="Paths to read, default 2.")


class Paths:
    """Ranks all three passages; its evidence is two paths."""

    def retrieve(self, questions: Sequence[Question], *, limit: int) -> list[Retrieval]:
        ranked = tuple(RankedPassage(f"p{n}", n + 1, 1 / (n + 1)) for n in range(3))
        return [Retrieval(ranked, Evidence(paths=PATHS, notes=(Note("Hubs", "1"),))) for _ in questions]


class PathReader:
    """A partial answer for each path, then one answer from them all; without a model, rules read the paths."""

    batches = True

    def __init__(self, chat: Any, configured: Reader, most_paths: int) -> None:
        self._chat, self._configured, self._most_paths = chat, configured, most_paths

    def read(self, items: Sequence[ReadingItem]) -> list[ReaderResult]:
        return [self._read(item) for item in items]

    def _read(self, item: ReadingItem) -> ReaderResult:
        paths = item.retrieval.evidence.paths[: self._most_paths]
        if self._chat is None:
            shown = [ContextPassage(f"path {n}", "", path.text, n, path.score or 0.0) for n, path in enumerate(paths)]
            return self._configured.read([replace(item, context=shown)])[0]
        partials = self._said(PARTIAL, [path.text for path in paths])
        (final,) = self._said(FINAL, [" ".join(partials)])
        return ReaderResult(
            final, kind="generated", notes=tuple(Note("Partial answer", partial) for partial in partials)
        )

    def _said(self, task: ChatTask[Said], shown: Sequence[str]) -> list[str]:
        return [one.reply.text for one in self._chat.ask([ChatRequest(task, "q", (("evidence", s),)) for s in shown])]


def build_reader(_index: IndexReader, parameters: PathParameters, services: Services, configured: Reader) -> PathReader:
    return PathReader(services.chat(), configured, parameters.most_paths)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Of a published index of three passages."""
    chosen = Settings(root=tmp_path_factory.mktemp("index") / "root", strategies=("bm25",))
    publish(chosen, 3, "was founded by Eve Hall.")
    return chosen


@pytest.fixture
def session(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[IndexSession]:
    """The index, open, with the strategy `paths` of another package."""
    strategy("paths", "Paths.", PathParameters, needs=(), reader=build_reader)(lambda *_: Paths())
    point = EntryPoint("paths", __name__, "polyhop.strategies")
    monkeypatch.setattr(registry, "extensions", lambda _group: {"paths": point})
    opened = IndexSession(open_published(settings.root, "tiny"), settings)
    yield opened
    opened.close()
    DECLARED.pop("paths")


@pytest.fixture
def chat(session: IndexSession, monkeypatch: pytest.MonkeyPatch) -> OneReply:
    scripted = OneReply({"text": "Said."})
    monkeypatch.setattr(session, "services", dataclasses.replace(session.services, chat=lambda: scripted))
    return scripted


def answer(session: IndexSession, name: str, **parameters: object) -> dict[str, Any]:
    (answered,) = session.answerer(name, parameters).answer([QUESTION], limit=3)
    return session.document(name, answered)


def test_a_strategy_s_own_reader_reads_paths_and_asks_a_model_thrice(chat: OneReply, session: IndexSession) -> None:
    """It gets the strategy's parameters."""
    document = answer(session, "paths")
    shown = [(request.task.name, dict(request.inputs)["evidence"]) for request in chat.requests]
    assert shown == [*(("partial", path.text) for path in PATHS), ("final", "Said. Said.")]
    assert document["answer"] == "Said."
    notes = [(note["label"], note["text"]) for note in document["evidence"]["notes"]]
    assert notes == [("Hubs", "1"), *[("Partial answer", "Said.")] * 2]
    assert document["reading"]["by"] == "model"
    assert [row["id"] for row in document["passages"]] == ["p0", "p1", "p2"]
    answer(session, "paths", most_paths="1")
    assert [request.task.name for request in chat.requests[3:]] == ["partial", "final"]
    with pytest.raises(ConfigurationError, match="'most_paths' of strategy 'paths' is '0'"):
        answer(session, "paths", most_paths="0")


def test_it_may_leave_what_it_shows_to_the_configured_reader(session: IndexSession) -> None:
    """The rules read the paths, which name the designer; no passage does. They keep to the least confidence."""
    document = answer(session, "paths")
    assert (document["guess"], document["reading"]["by"]) == ("Ann Roe", "local")
    assert [sentence["passage_id"] for sentence in document["evidence"]["sentences"]] == ["path 0"]
    (answered,) = session.answerer("paths", {}, 1.0).answer([QUESTION], limit=3)
    assert (answered.reading.answer, answered.reading.kind) == ("", "extracted")


def test_a_strategy_without_a_reader_is_read_as_configured(session: IndexSession, chat: OneReply) -> None:
    assert answer(session, "bm25")["reading"]["by"] == "local"
    assert chat.requests == []


def test_without_a_reader_passages_rank_as_ever_and_nothing_is_read(settings: Settings, session: IndexSession) -> None:
    """Not by a strategy's own reader, either."""
    unread = settings.model_copy(update={"reader": settings.reader.model_copy(update={"name": "none"})})
    silent = IndexSession(open_published(settings.root, "tiny"), unread)
    for name in ("bm25", "paths"):
        ((ranked,), (answered,)) = (one.answerer(name, {}).answer([QUESTION], limit=3) for one in (silent, session))
        assert ranked.retrieval.passages == answered.retrieval.passages
        assert (ranked.reading.answer, ranked.reading.kind, ranked.context) == ("", "unread", ())
        assert answered.seconds.keys() - ranked.seconds.keys() == {"reading"}
        assert silent.document(name, ranked)["reading"]["by"] == "none"
    silent.close()
