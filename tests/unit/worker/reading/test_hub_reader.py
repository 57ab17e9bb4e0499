"""Answers from hubs, by a scripted model and by rules, level by level; from facets (algorithms.md 4B)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from memory_index import MemoryIndex, hubs_of, written
from one_reply import OneReply

import polyhop.worker.reading.hubs
from polyhop.schemas.chat import ChatOutcome, ChatRequest, Usage
from polyhop.schemas.errors import ModelRejectedError
from polyhop.schemas.evidence import Evidence
from polyhop.schemas.hub_paths import STORED_HUBS, path_text
from polyhop.schemas.query import Question, ReaderResult, ReadingItem, Retrieval, reading_row
from polyhop.warehouse.artefacts import LANGUAGE, METADATA_OF_NODES
from polyhop.warehouse.models.span_model import open_span_model
from polyhop.warehouse.statements import read_prompt
from polyhop.worker.ranking.hubs import words_of
from polyhop.worker.reading.hubs import HubModel, HubReader, HubReadingRule
from polyhop.worker.reading.models import AnswerChecks, ModelReader, estimate_tokens
from polyhop.worker.reading.reader import FacetReader, LocalReader
from polyhop.worker.strategies import hublink
from polyhop.worker.strategies.hublink import prompt_of
from polyhop.worker.strategies.registry import parse_parameters, spec_of

FOLDER = Path(polyhop.worker.reading.hubs.__file__).parent / "prompts"
PARTIAL, FINAL, FILTER = (read_prompt(FOLDER / f"hub.{name}.md") for name in ("partial", "final", "filter"))
TASKS = PARTIAL, FINAL, FILTER
LABELS = {"P1": "Tactics", "P2": "Views", "P3": "Joins", "V": "Oslo"}
LABELS |= {"A1": "Ann Roe", "A2": "Bob Low", "A3": "Cid Moss"}
WRITTEN = written("P1 author A1; P1 venue V; P2 author A2; P3 author A3; P3 cites P1")
HUBS, _ = hubs_of(WRITTEN, {"P1", "P2", "P3"}, LABELS)
ROWS = [("p0", "Tactics", "Tactics was written by Ann Roe.")]
INDEX = MemoryIndex(ROWS, {STORED_HUBS: HUBS})
QUESTION = Question("Who is the author of Tactics?", "q1")
Said = Mapping[str, Any] | str
Replies = Callable[[str, Mapping[str, str]], Said]


class Chat(OneReply):
    """Replies as a function of task and inputs says; those of one task come from the cache."""

    def __init__(self, replies: Replies, cached: str = "") -> None:
        super().__init__(lambda request: replies(request.task.name, dict(request.inputs)))
        self._cached = cached

    def _outcome(self, request: ChatRequest[Any]) -> ChatOutcome[Any]:
        assert request.text
        self._is_cached = request.task.name == self._cached
        return replace(super()._outcome(request), usage=Usage(1, 100, 10, 0.01, 2.0))

    @property
    def asked(self) -> list[list[str]]:
        """Tasks of each call."""
        names = iter([one.task.name for one in self.requests])
        return [[next(names) for _ in range(count)] for count in self.batches]

    def shown(self, task: str) -> list[dict[str, str]]:
        """Inputs of its requests."""
        return [dict(one.inputs) for one in self.requests if one.task.name == task]


def path_of(text: str) -> dict[str, Any]:
    """A path whose text ends so, as the evidence holds it."""
    paths = HUBS.paths
    for path in range(paths.path_count):
        said = path_text(words_of(HUBS, paths.triples_of(path).tolist()))
        if said.endswith(f"{text}."):
            return {"path": path, "hash": paths.hashes[path].tobytes().hex(), "text": said, "score": 0.9}
    raise AssertionError(text)


def hub(hub_id: str, *paths: str, score: float = 0.9, passages: Sequence[str] = (), way: str = "") -> dict[str, Any]:
    rows = [{**path_of(text), "score": score} for text in paths]
    said = {"hub_id": hub_id, "name": LABELS[hub_id], "score": score, "path_to_topic": way}
    return {**said, "paths": rows, "passages": list(passages)}


P1 = hub("P1", "author Ann Roe", "venue Oslo", passages=["p0"])
P2 = hub("P2", "author Bob Low", score=0.5)
P3 = hub("P3", "author Cid Moss", "cites Tactics", score=0.4, way="Field has Joins.")


def item(*levels: Sequence[Mapping[str, Any]], question: Question = QUESTION) -> ReadingItem:
    rows = [{"level": n, "found": len(hubs), "not_indexed": [], "hubs": list(hubs)} for n, hubs in enumerate(levels, 1)]
    return ReadingItem(question, Retrieval((), Evidence(data={"levels": rows} if rows else {})), ())


def read(
    replies: Replies | Chat, *items: ReadingItem, index: Any = INDEX, **rule: Any
) -> tuple[list[ReaderResult], Chat]:
    chat = replies if isinstance(replies, Chat) else Chat(replies)
    reader = HubReader(index, HubReadingRule(**rule), HubModel(chat, TASKS, 6), LocalReader(index))
    assert reader.batches
    return reader.read(list(items)), chat


def read_by_rules(item: ReadingItem, **rule: Any) -> ReaderResult:
    reader = HubReader(INDEX, HubReadingRule(**rule), None, LocalReader(INDEX, None, open_span_model()))
    assert not reader.batches
    return reader.read([item])[0]


@pytest.mark.parametrize(("language", "asked"), [("en", 0), ("de", 3)])
def test_answers_are_asked_for_in_the_language_of_the_question(language: str, asked: int) -> None:
    index = MemoryIndex(ROWS, {STORED_HUBS: HUBS, LANGUAGE: language})
    spec, chat = spec_of("hublink"), Chat(helpful)
    services: Any = SimpleNamespace(chat=lambda: chat)
    make: Any = spec.reader
    make(index, parse_parameters(spec, {"output_filter": True}), services, LocalReader(index)).read([item([P1, P2])])
    assert chat.asked == [["hub.partial", "hub.partial"], ["hub.final"], ["hub.filter"]]
    assert sum("in the language of the question" in request.text for request in chat.requests) == asked


def stated(reading: ReaderResult) -> list[str]:
    return [f"{triple.subject_id} {triple.predicate} {triple.object_id}" for triple in reading.triples or ()]


def helpful(name: str, inputs: Mapping[str, str]) -> Said:
    """Each hub contributes its first statement; the answer cites all of them."""
    if name == "hub.partial":
        return {"sufficient": True, "answer": f"About {inputs['hub']}.", "used": [1]}
    if name == "hub.filter":
        return {"ids": [1]}
    return {"sufficient": True, "answer": inputs["partials"], "citations": [1, 2]}


def helpful_but(task: str, said: Said, hub: str = "") -> Replies:
    """As `helpful`, but so to one task, of one hub if it is named."""
    return lambda name, inputs: said if name == task and hub in inputs.get("hub", "") else helpful(name, inputs)


def test_every_hub_gets_a_partial_answer_and_one_answer_cites_them_by_rank() -> None:
    """Hubs of all questions are asked about at once."""
    other = item([P2], question=Question("Who is the author of Views?", "q2"))
    (reading, second), chat = read(helpful, item([P1, P2]), other)
    assert chat.asked == [["hub.partial"] * 3, ["hub.final"] * 2]
    assert reading.answer == "[1] About Tactics.\n[2] About Views."
    assert (reading.kind, reading.reasoning) == ("generated", reading.answer)
    cited = [(one.hub_id, one.name, one.number) for one in reading.citations]
    assert cited == [("P1", "Tactics", 1), ("P2", "Views", 2)]
    assert stated(reading) == ["P1 author A1", "P2 author A2"]
    shown = chat.shown("hub.partial")[0]
    assert shown["paths"] == "[1] Tactics author Ann Roe.\n[2] Tactics venue Oslo."
    assert (shown["topic_path"], shown["passages"]) == ("(none)", "[1] Tactics\nTactics was written by Ann Roe.")
    assert chat.shown("hub.partial")[1]["passages"] == "(none)"
    assert (second.answer, second.dropped_citations) == ("[1] About Views.", 1)


@pytest.mark.parametrize("links", [True, False])
def test_metadata_follow_the_paths_in_numbers_and_can_be_cited(*, links: bool) -> None:
    """Of the hub's node and of what is linked to it; nothing of passages that a filter leaves out, nothing twice."""
    said = [("P1", "", {"type": ["Paper"]}), ("P1", "p0", {"doi": "10/1", "year": 2020}), ("P1", "p9", {"doi": "no"})]
    metadata: Any = {METADATA_OF_NODES: lambda ids: [row for row in said * 2 if row[0] in ids]}
    index = MemoryIndex(ROWS, {STORED_HUBS: HUBS, **metadata})
    reply = {"sufficient": True, "answer": "Said.", "used": [4, 2, 9]}
    (reading,), chat = read(helpful_but("hub.partial", reply), item([P1, P2]), index=index, links=links)
    lines = "[3] Tactics: type Paper\n[4] passage Tactics: doi 10/1\n[5] passage Tactics: year 2020"
    assert [row["metadata"] for row in chat.shown("hub.partial")] == [lines if links else "(none)", "(none)"]
    assert stated(reading) == ["P1 venue V", "P2 author A2"]
    cited = [row["used_metadata"] for row in reading.data["hub_answers"]["partial_answers"]]
    doi = {"name": "Tactics", "passage_id": "p0", "field": "doi", "value": "10/1"}
    assert cited == [[doi] if links else [], []]
    notes = [note.text for note in reading.notes if note.label == "Metadata used for 1"]
    assert notes == (["passage Tactics: doi 10/1"] if links else [])
    alone = {**reply, "used": [4]}  # which rests on no path
    (reading,), _ = read(helpful_but("hub.partial", alone), item([P1]), index=index)
    assert stated(reading) == []


@pytest.mark.parametrize("nothing", [(False, "Nothing here."), (True, "…"), (True, None)])
def test_a_hub_with_nothing_relevant_gives_no_partial_answer(nothing: tuple[bool, str | None]) -> None:
    """An answer that speaks of insufficiency is one, if the reply says that it is sufficient."""
    rows: dict[str, Said] = {"Tactics": {"sufficient": nothing[0], "answer": nothing[1], "used": [1]}}
    rows |= {"Views": {"sufficient": True, "answer": "Insufficient.", "used": []}}
    (reading,), _ = read(lambda name, inputs: rows.get(inputs.get("hub", ""), helpful(name, inputs)), item([P1, P2]))
    assert reading.answer == "[1] Insufficient."
    assert [one.hub_id for one in reading.citations] == ["P2"]
    assert stated(reading) == ["P2 author A2"]


def test_an_insufficient_level_leads_to_the_next_whose_partials_alone_count() -> None:
    def replies(name: str, inputs: Mapping[str, str]) -> Said:
        return {**helpful(name, inputs), "sufficient": "Views" not in inputs.get("partials", "")}  # type: ignore[dict-item]

    (reading,), chat = read(replies, item([P1, P2], [P3], [P2]))
    assert chat.asked == [["hub.partial"] * 2, ["hub.final"], ["hub.partial"], ["hub.final"]]
    assert reading.answer == "[1] About Joins."
    assert chat.shown("hub.partial")[2]["topic_path"] == "Field has Joins."
    assert stated(reading) == ["P3 author A3"]
    data = reading.data["hub_answers"]
    assert data["levels_used"] == 2
    partial_answers = [(row["level"], row["number"], row["hub_id"], row["by"]) for row in data["partial_answers"]]
    assert partial_answers == [(1, 1, "P1", "model"), (1, 2, "P2", "model"), (2, 1, "P3", "model")]
    assert data["partial_answers"][2]["used_paths"] == [P3["paths"][0]["hash"]]


def test_a_level_without_partial_answers_asks_for_no_final_one() -> None:
    nothing = {"sufficient": False, "answer": "", "used": None}
    (reading,), chat = read(lambda *_: nothing, item([P1], [P2, P3]))
    assert chat.asked == [["hub.partial"], ["hub.partial", "hub.partial"]]
    assert (reading.answer, reading.kind, reading.triples) == ("", "none", None)
    assert reading.use is not None
    assert reading.use.spent.calls == 3
    levels = reading.data["hub_answers"]["levels"]
    assert [(level["asked"], level["sufficient"]) for level in levels] == [(1, 0), (2, 0)]


def test_calls_tokens_and_seconds_are_told_by_level_and_hub_and_cached_replies_cost_nothing() -> None:
    (reading,), _ = read(Chat(helpful, cached="hub.partial"), item([P1, P2]))
    (level,) = reading.data["hub_answers"]["levels"]
    taken = {"calls": 3, "cached": 2, "prompt_tokens": 300, "completion_tokens": 30, "seconds": 6.0}
    assert level | taken == level
    assert [row["seconds"] for row in reading.data["hub_answers"]["partial_answers"]] == [2.0, 2.0]
    row = reading_row(reading)
    assert (row["usage"]["calls"], row["spent"]["calls"], row["cached"]) == (3, 1, False)
    assert [part["prompt"]["name"] for part in row["parts"]] == ["hub.partial", "hub.partial", "hub.final"]
    assert [(note.label, note.text) for note in reading.notes] == [
        ("Partial answer 1", "Tactics: About Tactics."),
        ("Partial answer 2", "Views: About Views."),
        ("Level 1 read", "2 of 2 hubs contribute; 3 calls, 2 cached, 300 + 30 tokens, 6.0 s"),
        ("Model", "3 requests; at most 6 for a question"),
    ]


def test_numbers_that_no_statement_has_are_ignored_and_all_paths_count_instead() -> None:
    said = {"sufficient": True, "answer": "A.", "used": [0, 7], "citations": [1, 1, 4]}
    (reading,), _ = read(lambda *_: said, item([P1]))
    assert sorted(stated(reading)) == ["P1 author A1", "P1 venue V"]
    assert ([one.number for one in reading.citations], reading.dropped_citations) == ([1], 2)


def test_the_filter_keeps_the_triples_that_support_the_answer() -> None:
    (reading,), chat = read(helpful_but("hub.filter", {"ids": [2, 9, 2]}), item([P1, P2]), filters=True)
    (shown,) = chat.shown("hub.filter")
    assert shown["statements"].splitlines()[1].startswith("[2] (")
    assert shown["answer"] == "[1] About Tactics.\n[2] About Views."
    assert stated(reading) == ["P2 author A2"]
    assert [triple.rank for triple in reading.triples or ()] == [1]


def test_a_filter_that_fails_keeps_all_and_other_replies_that_fail_are_replaced_by_the_merge_and_by_rules() -> None:
    (reading,), _ = read(helpful_but("hub.filter", "MalformedReplyError"), item([P1, P2]), filters=True)
    assert stated(reading) == ["P1 author A1", "P2 author A2"]
    assert reading.use is not None
    assert reading.use.error_class == "MalformedReplyError"
    (reading,), _ = read(helpful_but("hub.final", "ReplyRefusedError"), item([P1, P2]))
    assert (reading.answer, reading.kind) == ("About Tactics.", "generated")
    assert reading.reasoning == "[1] About Tactics.\n[2] About Views."
    assert [one.number for one in reading.citations] == [1, 2]
    (reading,), _ = read(helpful_but("hub.partial", "MalformedReplyError", "Tactics"), item([P1, P2]))
    assert reading.answer == "[1] Tactics author Ann Roe. Tactics venue Oslo.\n[2] About Views."
    assert [row["by"] for row in reading.data["hub_answers"]["partial_answers"]] == ["rules", "model"]


@pytest.mark.parametrize("task", ["hub.partial", "hub.final", "hub.filter"])
def test_an_unavailable_model_leaves_the_question_unanswered_and_the_others_answered(task: str) -> None:
    """A server that rejects requests ends everything."""

    def replies(name: str, inputs: Mapping[str, str]) -> Said:
        is_second = inputs["question"] != QUESTION.text
        return "ModelTimeoutError" if name == task and is_second else helpful(name, inputs)

    other = item([P2], [P3], question=Question("Who is the author of Views?", "q2"))
    (first, second), chat = read(replies, item([P1]), other, filters=True)
    assert first.answer == "[1] About Tactics."
    assert (second.outage is not None, second.answer) == (True, "")
    assert [row["hub"] for row in chat.shown("hub.partial")] == ["Tactics", "Views"]
    with pytest.raises(ModelRejectedError):
        read(helpful_but(task, "ModelRejectedError"), item([P1]), filters=True)


def test_by_rules_the_best_paths_answer_and_the_span_is_read_from_them() -> None:
    """A triple that paths share is said once."""
    reading = read_by_rules(item([P1, P2], [P3]))
    assert (reading.guess, reading.kind) == ("Ann Roe", "extracted")
    assert reading.reasoning == "[1] Tactics author Ann Roe. Tactics venue Oslo.\n[2] Views author Bob Low."
    assert [one.hub_id for one in reading.citations] == ["P1", "P2"]
    assert (reading.use, reading.triples) == (None, None)
    assert reading.data["hub_answers"]["levels_used"] == 1
    assert reading.notes[-1].text == "2 of 2 hubs contribute"
    first, again = (f"Tactics author Ann Roe; Ann Roe {end}." for end in ("works at Oslo", "was born in Rome"))
    row = {**P1, "paths": [{**P1["paths"][0], "text": text} for text in (first, again, first)]}
    assert read_by_rules(item([row])).reasoning == f"[1] {first} Ann Roe was born in Rome."


@pytest.mark.parametrize(("least", "is_given"), [(0.0, True), (1.0, False)])
def test_where_a_model_fails_the_configured_least_confidence_counts(least: float, is_given: bool) -> None:
    chat = Chat(lambda *_: "MalformedReplyError")
    answers = read_prompt(FOLDER / "qa.answer.md")
    configured = ModelReader(
        chat, answers, LocalReader(INDEX, None, open_span_model(), min_confidence=least), AnswerChecks(INDEX)
    )
    (reading,) = HubReader(INDEX, HubReadingRule(), HubModel(chat, TASKS, 6), configured).read([item([P1])])
    assert reading.reasoning.startswith("[1] Tactics author Ann Roe.")
    assert bool(reading.answer) == is_given


def test_by_rules_hubs_below_the_least_score_contribute_nothing() -> None:
    weak = [hub("P1", "author Ann Roe", score=0.29), hub("P2", score=0.9)]
    reading = read_by_rules(item(weak, [P3]))
    assert [one.hub_id for one in reading.citations] == ["P3"]
    nothing = read_by_rules(item(weak), min_partial_score=0.3)
    assert (nothing.answer, nothing.kind) == ("", "none")
    enough = read_by_rules(item(weak), min_partial_score=0.29)
    assert [one.hub_id for one in enough.citations] == ["P1"]


def test_each_step_may_be_left_to_rules_and_without_hubs_nothing_is_asked() -> None:
    (by_rules,), chat = read(helpful, item([P1, P2]), partial_by_model=False)
    assert (chat.asked, by_rules.triples) == ([["hub.final"]], None)
    (merged,), chat = read(helpful, item([P1, P2]), final_by_model=False)
    assert (chat.asked, merged.answer) == ([["hub.partial", "hub.partial"]], "About Tactics.")
    (reading,), chat = read(helpful, item())
    assert chat.asked == []
    assert (reading.answer, reading.use, reading.notes, reading.data) == ("", None, (), {})


def test_evidence_is_cut_to_the_budget_by_whole_lines_and_paths_in_a_model_s_words_have_their_triples() -> None:
    _, chat = read(helpful, item([P1]), evidence_tokens=20)
    assert chat.shown("hub.partial")[0]["paths"] == "[1] Tactics author Ann Roe."
    _, chat = read(helpful, item([{**P1, "paths": [{**P1["paths"][0], "text": "Ann Roe wrote Tactics."}]}]))
    assert chat.shown("hub.partial")[0]["paths"] == "[1] Ann Roe wrote Tactics. (Tactics, author, Ann Roe)"


@pytest.mark.parametrize("budget", [200, 1000])
@pytest.mark.parametrize(("name", "most_levels"), [("hublink", 1), ("hublink-topic", 2)])
def test_bounds_hold_for_a_question(name: str, most_levels: int, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long names, ways, texts, partial answers and replies that never suffice."""
    monkeypatch.setattr(hublink, "HubReadingRule", partial(HubReadingRule, evidence_tokens=budget))
    long = "Übermäßig " * 400
    row = {**hub("P1", "author Ann Roe", passages=["p0"]), "name": long, "path_to_topic": long}
    row["paths"] = [{**row["paths"][0], "text": f"{long[:90]} {n}."} for n in range(60)]
    rows = [{**row, "hub_id": hub_id} for hub_id in ("P1", "P2", "P3")]
    given = {"number_of_hubs": 3, "output_filter": True} | ({"max_level": 2} if most_levels == 2 else {})
    parameters: Any = parse_parameters(spec_of(name), given)
    for levels in range(1, most_levels + 1):
        said = {"answer": long[:1000], "citations": [1], "used": [1], "ids": [1]}

        def replies(task: str, _: Mapping[str, str], said: Any = said, levels: int = levels) -> Said:
            return {**said, "sufficient": task != "hub.final" or levels == 1}

        _, chat = read(replies, item(*[rows] * levels), filters=True, evidence_tokens=budget)
        for bound in parameters.call_bounds():
            asked = chat.shown(bound.task)
            assert len(asked) <= bound.calls
            tokens = [estimate_tokens(prompt_of(bound.task).render(inputs)) for inputs in asked]
            assert max(tokens, default=0) <= bound.prompt_tokens + estimate_tokens(QUESTION.text)


MATERIAL = {"hub": "Old Crossing", "subject": "Old Crossing", "predicate": "material"}
STATED = [
    {**MATERIAL, "id": f"r{number}", "object": value, "hops": [["Old Crossing", "material", value]]}
    for number, value in enumerate(("Iron", "Steel"), 1)
]
ANSWER: dict[str, Any] = {"texts": ["Iron", "Steel"], "kind": "values", "confidence": 0.9, "hub_count": 1}
ANSWER |= {"hubs": [{"id": "b1", "name": "Old Crossing"}], "triples": STATED}


def read_facets(answer: dict[str, Any] | None) -> ReaderResult:
    evidence = Evidence(data={} if answer is None else {"short": answer})
    passages = Mock(batches=False, read=lambda items: [ReaderResult("from passages") for _ in items])
    (reading,) = FacetReader("short", passages).read([ReadingItem(Question("What?"), Retrieval((), evidence), ())])
    return reading


def test_the_answer_of_the_facets_comes_with_its_hubs_and_triples() -> None:
    reading = read_facets(ANSWER)
    assert (reading.answer, reading.kind, reading.confidence) == ("Iron; Steel", "computed", 0.9)
    assert [(one.hub_id, one.name, one.number) for one in reading.citations] == [("b1", "Old Crossing", 1)]
    assert [(one.name, one.value) for one in reading.values] == [("Old Crossing", "Iron"), ("Old Crossing", "Steel")]
    assert reading.notes[0].text.startswith("values, from 1 hub: (Old Crossing, material, Iron); (")
    assert reading.triples is None


@pytest.mark.parametrize("answer", [None, {**ANSWER, "confidence": 0.001}])
def test_without_an_answer_of_the_facets_passages_are_read(answer: dict[str, Any] | None) -> None:
    assert read_facets(answer).answer == "from passages"
