"""Answers from hubs, by a scripted model and by rules, level by level; from facets (algorithms.md 4B)."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from memory_index import MemoryIndex, hubs_of, written

import polyhop.worker.reading.hubs
from polyhop.schemas.chat import ChatOutcome, ChatRequest, Rung, Usage
from polyhop.schemas.errors import ModelRejectedError
from polyhop.schemas.evidence import Evidence
from polyhop.schemas.query import Question, Reading, ReadingItem, Retrieval, reading_row
from polyhop.tasks.hubs.paths import STORED_HUBS, path_text
from polyhop.warehouse.artefacts import LANGUAGE, METADATA_OF_NODES
from polyhop.warehouse.statements import read_prompt
from polyhop.worker.ranking.hubs import words_of
from polyhop.worker.reading.hubs import HubModel, HubReader, HubReadingRule
from polyhop.worker.reading.models import ModelReader, estimate_tokens
from polyhop.worker.reading.reader import FacetReader, RuleReader
from polyhop.worker.strategies import hublink
from polyhop.worker.strategies.hublink import prompt_of
from polyhop.worker.strategies.registry import parse_parameters, spec_of

FOLDER = Path(polyhop.worker.reading.hubs.__file__).parent / "prompts"
PARTIAL, FINAL, FILTER = (read_prompt(FOLDER / f"hub.{name}.md") for name in ("partial", "final", "filter"))
TASKS = PARTIAL, FINAL, FILTER
LABELS = {"P1": "Tactics", "P2": "Views", "P3": "Joins", "V": "Oslo"}
LABELS |= {"A1": "Ann Roe", "A2": "Bob Low", "A3": "Cid Moss"}
HUBS, _ = hubs_of(
    written("P1 author A1; P1 venue V; P2 author A2; P3 author A3; P3 cites P1"), {"P1", "P2", "P3"}, LABELS
)
INDEX = MemoryIndex([("p0", "Tactics", "Tactics was written by Ann Roe.")], {STORED_HUBS: HUBS})
QUESTION = Question("Who is the author of Tactics?", "q1")
USAGE = Usage(1, 100, 10, 0.01, 2.0)
Said = Mapping[str, Any] | str
Replies = Callable[[str, Mapping[str, str]], Said]


class Chat:
    """Replies as a function of task and inputs says: fields of the reply, or the class of an error."""

    model = "openai/scripted"

    def __init__(self, replies: Replies, *, is_cached: Callable[[str], bool] = lambda _: False) -> None:
        self._replies = replies
        self._is_cached = is_cached
        self.batches: list[list[tuple[str, Mapping[str, str]]]] = []
        self.prompts: list[str] = []

    def ask(self, requests: Sequence[ChatRequest[Any]]) -> list[ChatOutcome[Any]]:
        assert requests, "nothing is asked for nothing"
        self.batches.append([(one.task.name, dict(one.inputs)) for one in requests])
        assert all(one.text for one in requests)
        self.prompts += [one.text for one in requests]
        return [self._outcome(one) for one in requests]

    @property
    def asked(self) -> list[list[str]]:
        return [[name for name, _ in batch] for batch in self.batches]

    def _outcome(self, request: ChatRequest[Any]) -> ChatOutcome[Any]:
        said = self._replies(request.task.name, dict(request.inputs))
        if isinstance(said, str):
            return ChatOutcome(None, self.model, False, None, 3, said, "Why.", USAGE)
        reply = request.task.reply.model_validate(said)
        is_cached = self._is_cached(request.task.name)
        return ChatOutcome(reply, self.model, is_cached, Rung.AS_IS, 1, "", "", USAGE)


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
    replies: Replies | Chat, *items: ReadingItem, index: MemoryIndex = INDEX, **rule: Any
) -> tuple[list[Reading], Chat]:
    chat = replies if isinstance(replies, Chat) else Chat(replies)
    reader = HubReader(index, HubReadingRule(**rule), HubModel(chat, TASKS, 6), RuleReader(index))
    assert reader.batches
    return reader.read(list(items)), chat


def read_by_rules(item: ReadingItem, **rule: Any) -> Reading:
    reader = HubReader(INDEX, HubReadingRule(**rule), None, RuleReader(INDEX))
    assert not reader.batches
    return reader.read([item])[0]


class ChatOnly:
    """Services of which only the chat model may be asked for."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    def chat(self) -> Chat:
        return self._chat


@pytest.mark.parametrize(("language", "asked"), [("en", 0), ("de", 3)])
def test_answers_are_asked_for_in_the_language_of_the_question(language: str, asked: int) -> None:
    index = MemoryIndex([("p0", "Tactics", "Tactics was written by Ann Roe.")], {STORED_HUBS: HUBS, LANGUAGE: language})
    spec = spec_of("hublink")
    chat = Chat(helpful)
    services: Any = ChatOnly(chat)
    make: Any = spec.reader
    reader: HubReader = make(index, parse_parameters(spec, {"output_filter": True}), services, RuleReader(index))
    reader.read([item([P1, P2])])
    assert chat.asked == [["hub.partial", "hub.partial"], ["hub.final"], ["hub.filter"]]
    assert sum("in the language of the question" in prompt for prompt in chat.prompts) == asked


def stated(reading: Reading) -> list[str]:
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

    def replies(name: str, inputs: Mapping[str, str]) -> Said:
        return said if name == task and inputs.get("hub", "").startswith(hub) else helpful(name, inputs)

    return replies


def test_every_hub_gets_a_partial_answer_and_one_answer_cites_them_by_rank() -> None:
    (reading,), chat = read(helpful, item([P1, P2]))
    assert chat.asked == [["hub.partial", "hub.partial"], ["hub.final"]]
    assert reading.answer == "[1] About Tactics.\n[2] About Views."
    assert (reading.kind, reading.reasoning) == ("generated", reading.answer)
    cited = [(one.hub_id, one.name, one.number) for one in reading.citations]
    assert cited == [("P1", "Tactics", 1), ("P2", "Views", 2)]
    assert stated(reading) == ["P1 author A1", "P2 author A2"]
    shown = chat.batches[0][0][1]
    assert shown["paths"] == "[1] Tactics author Ann Roe.\n[2] Tactics venue Oslo."
    assert (shown["topic_path"], shown["passages"]) == ("(none)", "[1] Tactics\nTactics was written by Ann Roe.")
    assert chat.batches[0][1][1]["passages"] == "(none)"


def test_metadata_follow_the_paths_in_numbers_and_can_be_cited() -> None:
    """Of the hub's node and of what is linked to it; nothing of passages that a filter leaves out, nothing twice."""
    said = [("P1", "", {"type": ["Paper"]}), ("P1", "p0", {"doi": "10/1", "year": 2020}), ("P1", "p9", {"doi": "no"})]
    index = MemoryIndex(
        [("p0", "Tactics", "Tactics was written by Ann Roe.")],
        {STORED_HUBS: HUBS, METADATA_OF_NODES: lambda ids: [row for row in said * 2 if row[0] in ids]},
    )

    def replies(name: str, inputs: Mapping[str, str]) -> Said:
        said: dict[str, Any] = dict(helpful(name, inputs))  # type: ignore[arg-type]
        return said | ({"used": [4, 2, 9]} if name == "hub.partial" else {})

    for links in (True, False):
        (reading,), chat = read(replies, item([P1, P2]), index=index, links=links)
        shown = [inputs["metadata"] for name, inputs in chat.batches[0] if name == "hub.partial"]
        lines = "[3] Tactics: type Paper\n[4] passage Tactics: doi 10/1\n[5] passage Tactics: year 2020"
        assert shown == [lines if links else "(none)", "(none)"]
        assert stated(reading) == ["P1 venue V", "P2 author A2"]
        cited = [row["used_metadata"] for row in reading.data["hub_answers"]["partial_answers"]]
        doi = {"name": "Tactics", "passage_id": "p0", "field": "doi", "value": "10/1"}
        assert cited == [[doi] if links else [], []]
        assert [note.text for note in reading.notes if note.label == "Metadata used for 1"] == (
            ["passage Tactics: doi 10/1"] if links else []
        )


def test_a_partial_answer_from_metadata_alone_rests_on_no_path() -> None:
    index = MemoryIndex([("p0", "", "")], {STORED_HUBS: HUBS, METADATA_OF_NODES: lambda _: [("P2", "", {"type": "x"})]})
    said = {"sufficient": True, "answer": "About Views.", "used": [2]}
    (reading,), _ = read(helpful_but("hub.partial", said), item([P2]), index=index)
    assert stated(reading) == []


def test_hubs_of_all_questions_are_asked_about_at_once() -> None:
    other = item([P2], question=Question("Who is the author of Views?", "q2"))
    readings, chat = read(helpful, item([P1, P2]), other)
    assert [len(batch) for batch in chat.batches] == [3, 2]
    assert [reading.answer for reading in readings] == ["[1] About Tactics.\n[2] About Views.", "[1] About Views."]
    assert readings[1].dropped_citations == 1


@pytest.mark.parametrize("nothing", [(False, "Nothing here."), (True, "…"), (True, None)])
def test_a_hub_with_nothing_relevant_gives_no_partial_answer(nothing: tuple[bool, str | None]) -> None:
    """An answer that speaks of insufficiency is one, if the reply says that it is sufficient."""

    def replies(name: str, inputs: Mapping[str, str]) -> Said:
        if name == "hub.final":
            return helpful(name, inputs)
        if inputs["hub"] == "Tactics":
            return {"sufficient": nothing[0], "answer": nothing[1], "used": [1]}
        return {"sufficient": True, "answer": "Insufficient.", "used": []}

    (reading,), _ = read(replies, item([P1, P2]))
    assert reading.answer == "[1] Insufficient."
    assert [one.hub_id for one in reading.citations] == ["P2"]
    assert stated(reading) == ["P2 author A2"]


def test_an_insufficient_level_leads_to_the_next_whose_partials_alone_count() -> None:
    def replies(name: str, inputs: Mapping[str, str]) -> Said:
        if name == "hub.final":
            return {"sufficient": "Joins" in inputs["partials"], "answer": inputs["partials"], "citations": [1]}
        return helpful(name, inputs)

    (reading,), chat = read(replies, item([P1, P2], [P3], [P2]))
    assert chat.asked == [["hub.partial"] * 2, ["hub.final"], ["hub.partial"], ["hub.final"]]
    assert reading.answer == "[1] About Joins."
    assert chat.batches[2][0][1]["topic_path"] == "Field has Joins."
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
    chat = Chat(helpful, is_cached=lambda name: name == "hub.partial")
    (reading,), _ = read(chat, item([P1, P2]))
    (level,) = reading.data["hub_answers"]["levels"]
    taken = {"calls": 3, "cached": 2, "prompt_tokens": 300, "completion_tokens": 30, "seconds": 6.0}
    assert {name: level[name] for name in taken} == taken
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
    def replies(name: str, inputs: Mapping[str, str]) -> Said:
        if name == "hub.filter":
            assert inputs["statements"].splitlines()[1].startswith("[2] (")
            assert inputs["answer"] == "[1] About Tactics.\n[2] About Views."
            return {"ids": [2, 9, 2]}
        return helpful(name, inputs)

    (reading,), chat = read(replies, item([P1, P2]), filters=True)
    assert chat.asked[-1] == ["hub.filter"]
    assert stated(reading) == ["P2 author A2"]
    assert [triple.rank for triple in reading.triples or ()] == [1]


def test_a_filter_that_fails_keeps_all_and_a_final_reply_that_fails_is_replaced_by_the_merge() -> None:
    (reading,), _ = read(helpful_but("hub.filter", "MalformedReplyError"), item([P1, P2]), filters=True)
    assert stated(reading) == ["P1 author A1", "P2 author A2"]
    assert reading.use is not None
    assert reading.use.error_class == "MalformedReplyError"
    (reading,), _ = read(helpful_but("hub.final", "ReplyRefusedError"), item([P1, P2]))
    assert (reading.answer, reading.kind) == ("About Tactics.", "generated")
    assert reading.reasoning == "[1] About Tactics.\n[2] About Views."
    assert [one.number for one in reading.citations] == [1, 2]


def test_a_partial_reply_that_fails_is_replaced_by_rules_for_that_hub() -> None:
    (reading,), _ = read(helpful_but("hub.partial", "MalformedReplyError", "Tactics"), item([P1, P2]))
    assert reading.answer == "[1] Tactics author Ann Roe. Tactics venue Oslo.\n[2] About Views."
    assert [row["by"] for row in reading.data["hub_answers"]["partial_answers"]] == ["rules", "model"]


@pytest.mark.parametrize("task", ["hub.partial", "hub.final", "hub.filter"])
def test_an_unavailable_model_leaves_the_question_unanswered_and_the_others_answered(task: str) -> None:
    def replies(name: str, inputs: Mapping[str, str]) -> Said:
        is_second = inputs["question"] != QUESTION.text
        return "ModelTimeoutError" if name == task and is_second else helpful(name, inputs)

    other = item([P2], [P3], question=Question("Who is the author of Views?", "q2"))
    (first, second), chat = read(replies, item([P1]), other, filters=True)
    assert first.answer == "[1] About Tactics."
    assert (second.outage is not None, second.answer) == (True, "")
    assert not any(inputs.get("hub") == "Joins" for batch in chat.batches for _, inputs in batch)


def test_a_server_that_rejects_requests_ends_everything() -> None:
    with pytest.raises(ModelRejectedError):
        read(lambda *_: "ModelRejectedError", item([P1]))


def test_by_rules_the_best_paths_answer_and_the_span_is_read_from_them() -> None:
    reading = read_by_rules(item([P1, P2], [P3]))
    assert (reading.answer, reading.kind) == ("Ann Roe", "extracted")
    assert reading.reasoning == "[1] Tactics author Ann Roe. Tactics venue Oslo.\n[2] Views author Bob Low."
    assert [one.hub_id for one in reading.citations] == ["P1", "P2"]
    assert (reading.use, reading.triples) == (None, None)
    assert reading.data["hub_answers"]["levels_used"] == 1
    assert reading.notes[-1].text == "2 of 2 hubs contribute"


def test_by_rules_a_triple_that_paths_share_is_said_once() -> None:
    first, again = (f"Tactics author Ann Roe; Ann Roe {end}." for end in ("works at Oslo", "was born in Rome"))
    row = {**P1, "paths": [{**P1["paths"][0], "text": text} for text in (first, again, first)]}
    reading = read_by_rules(item([row]))
    assert reading.reasoning == f"[1] {first} Ann Roe was born in Rome."


@pytest.mark.parametrize(("least", "is_given"), [(0.0, True), (1.0, False)])
def test_where_a_model_fails_the_configured_least_confidence_counts(least: float, is_given: bool) -> None:
    chat = Chat(lambda *_: "MalformedReplyError")
    answers = read_prompt(FOLDER / "qa.answer.md")
    configured = ModelReader(chat, answers, RuleReader(INDEX, min_confidence=least))
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


def test_each_step_may_be_left_to_rules() -> None:
    (by_rules,), chat = read(helpful, item([P1, P2]), partial_by_model=False)
    assert chat.asked == [["hub.final"]]
    assert by_rules.triples is None
    (merged,), chat = read(helpful, item([P1, P2]), final_by_model=False)
    assert chat.asked == [["hub.partial", "hub.partial"]]
    assert merged.answer == "About Tactics."


def test_without_hubs_nothing_is_asked_and_there_is_no_answer() -> None:
    (reading,), chat = read(helpful, item())
    assert chat.batches == []
    assert (reading.answer, reading.use, reading.notes, reading.data) == ("", None, (), {})


def test_evidence_is_cut_to_the_budget_by_whole_lines() -> None:
    _, chat = read(helpful, item([P1]), evidence_tokens=20)
    assert chat.batches[0][0][1]["paths"] == "[1] Tactics author Ann Roe."


def test_paths_in_the_words_of_a_model_are_shown_with_their_triples() -> None:
    said = {**P1, "paths": [{**P1["paths"][0], "text": "Ann Roe wrote Tactics."}]}
    (_,), chat = read(helpful, item([said]))
    assert chat.batches[0][0][1]["paths"] == "[1] Ann Roe wrote Tactics. (Tactics, author, Ann Roe)"


@pytest.mark.parametrize("budget", [200, 1000])
@pytest.mark.parametrize("name", ["hublink", "hublink-topic"])
def test_no_question_takes_more_than_its_upper_bound(name: str, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long names, ways, texts, partial answers and replies that never suffice."""
    monkeypatch.setattr(hublink, "HubReadingRule", partial(HubReadingRule, evidence_tokens=budget))
    long = "Übermäßig " * 400
    rows = [
        {**hub(one, "author Ann Roe", passages=["p0"]), "name": long, "path_to_topic": long}
        for one in ("P1", "P2", "P3")
    ]
    for row in rows:
        row["paths"] = [{**path, "text": f"{long[:90]} {n}."} for n, path in enumerate(row["paths"] * 60)]
    is_last = [False]

    def replies(task: str, inputs: Mapping[str, str]) -> Said:
        if task == "hub.final":
            return {"sufficient": is_last[0], "answer": long[:1000], "citations": [1]}
        return {"sufficient": True, "answer": long[:1000], "used": [1], "ids": [1]}

    given = {"number_of_hubs": 3, "output_filter": True}
    spec = spec_of(name)
    parameters: Any = parse_parameters(spec, given | ({"max_level": 2} if name == "hublink-topic" else {}))
    bounds = {bound.task: bound for bound in parameters.call_bounds()}
    is_last[0] = True
    for levels in ([rows], [rows, rows])[: parameters.most_levels]:
        is_last[0] = len(levels) == 1
        (_,), chat = read(replies, item(*levels), filters=True, evidence_tokens=budget)
        asked = [one for batch in chat.batches for one in batch]
        for task, bound in bounds.items():
            own = [inputs for what, inputs in asked if what == task]
            assert len(own) <= bound.calls
            for inputs in own:
                prompt = prompt_of(task).render(inputs)
                assert estimate_tokens(prompt) <= bound.prompt_tokens + estimate_tokens(QUESTION.text)


MATERIAL = {"hub": "Old Crossing", "subject": "Old Crossing", "predicate": "material"}
ANSWER = {
    "texts": ["Iron", "Steel"],
    "kind": "values",
    "confidence": 0.9,
    "hub_count": 1,
    "hubs": [{"id": "b1", "name": "Old Crossing"}],
    "triples": [
        {**MATERIAL, "id": f"r{number}", "object": value, "hops": [["Old Crossing", "material", value]]}
        for number, value in enumerate(("Iron", "Steel"), 1)
    ],
}


class Passages:
    """Answers from passages."""

    batches = False

    def read(self, items: Any) -> list[Reading]:
        return [Reading("from passages") for _ in items]


def read_facets(answer: dict[str, Any] | None) -> Reading:
    evidence = Evidence(data={} if answer is None else {"short": answer})
    (reading,) = FacetReader("short", Passages()).read([ReadingItem(Question("What?"), Retrieval((), evidence), ())])
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
