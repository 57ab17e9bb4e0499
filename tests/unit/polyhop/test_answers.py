"""Answers on a terminal: evidence, passages, triples, the topic on its way, long questions; no control characters."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_index import RealIndex, pages, write_lines
from word_triples import NAME, declared

from polyhop import cli, output
from polyhop.api import MAX_TOPIC_CHARACTERS, open_index
from polyhop.flows.answer import submit_file
from polyhop.flows.evaluate import run_evaluation
from polyhop.schemas.errors import ConfigurationError, EmptyQuestionError, QuestionTooLongError, SourceError
from polyhop.schemas.evidence import PASSAGES_ONLY, Edge, Evidence, Node, Note, QuestionNames, Seed
from polyhop.schemas.evidence import Path as EvidencePath
from polyhop.schemas.queue import JobSpec
from polyhop.schemas.requests import EvaluationRequest, SubmissionRequest
from polyhop.schemas.text import INVISIBLE, escaped_json, printable, printable_line
from polyhop.terminal import SHOWN, evidence_lines, passage_lines, triple_lines
from polyhop.warehouse.open import open_questions

TITLES = {"p1": "Rosetta", "p2": ""}


def _evidence(**changed: object) -> Evidence:
    edges = (Edge("a", "c", ("r",)), Edge("c", "d", ("r",)))
    names = {"a": 1.0, "b": 0.5, "c": 0.4, "d": 0.3, "z": 0.1}
    parts: dict[str, object] = {
        "seeds": (Seed("entity", "a", 1.0, "A", "exact", 1.0), Seed("entity", "b", 0.5, "B", "vector", 0.5)),
        "nodes": tuple(Node(name, name.upper(), weight) for name, weight in names.items()),
        "paths": (EvidencePath("A -\n C - D", ("a", "c", "d"), ("A", "C", "D"), edges, 0.25),),
        "measure": "activation",
        "node_count": 12,
    }
    return Evidence(**(parts | changed))  # type: ignore[arg-type]


def test_seeds_nodes_by_distance_and_paths_are_lines() -> None:
    assert evidence_lines(_evidence(), {}) == [
        "The search began at",
        "  1.000  A  (exact)",
        "  0.500  B  (vector, similarity 0.500)",
        "Reached  (12 in all, by activation)",
        "  seeds   A 1.000 · B 0.500",
        "  1 hop   C 0.400",
        "  2 hops  D 0.300",
        "  others  Z 0.100",
        "Paths",
        "  0.250  A - C - D",
    ]


def test_many_nodes_are_wrapped_under_each_other() -> None:
    names = [f"NAME{n:02d}" for n in range(40)]
    nodes = (*_evidence().nodes, *(Node(name.lower(), name, 0.05) for name in names))
    lines = evidence_lines(_evidence(nodes=nodes), {})
    assert max(map(len, lines)) <= 118
    assert all(any(name in line for line in lines) for name in names)
    assert any(line.startswith(" " * 10 + "NAME") for line in lines)


def test_names_fallback_and_passages_where_a_walk_began() -> None:
    seeds = (Seed("passage", "p1", 0.9), Seed("passage", "p2", 0.1))
    evidence = Evidence(names=QuestionNames((), ("john doe",)), seeds=seeds, fallback=PASSAGES_ONLY)
    said = ["Question names  unmatched: john doe", "Fallback  the walk began at passages only"]
    began = ["The search began at", "  0.900  passage Rosetta", "  0.100  passage p2"]
    assert evidence_lines(evidence, TITLES) == [*said, *began]


def test_long_lists_are_cut_and_counted() -> None:
    seeds = tuple(Seed("passage", f"p{n}", 0.1) for n in range(SHOWN + 3))
    items = tuple((f"word {n}", 0.5) for n in range(SHOWN + 2))
    lines = evidence_lines(Evidence(seeds=seeds, notes=(Note("Terms added", items=items),)), {})
    assert lines[-2] == "  and 3 more"
    assert lines[-1].startswith("Terms added  word 0 0.500, word 1 0.500")
    assert lines[-1].endswith("word 9 0.500, 2 more")


@pytest.mark.parametrize(
    ("evidence", "lines"),
    [
        (Evidence(), []),
        (Evidence(names=QuestionNames(noun="terms")), ["Question terms  none found"]),
        (
            Evidence(nodes=(Node("oak", "Oak", 0.9), Node("elm", "Elm", 0.8)), measure="similarity", node_count=2),
            ["Reached  (2, by similarity)", "          Oak 0.900 · Elm 0.800"],
        ),
        (
            Evidence(nodes=(Node("oak", "Oak", distance=0), Node("elm", "Elm", distance=2)), node_count=2),
            ["Reached  (2)", "  seeds   Oak", "  2 hops  Elm"],
        ),
    ],
    ids=["nothing", "terms", "no distances", "own distances"],
)
def test_evidence_without_edges_is_as_short_as_it_can_be(evidence: Evidence, lines: list[str]) -> None:
    assert evidence_lines(evidence, {}) == lines


def row(rank: int, score: float) -> dict[str, Any]:
    return {"id": f"p{rank}", "title": f"Title {rank}", "score": score, "rank": rank}


def test_scores_in_descending_order_need_no_word_and_texts_are_cut() -> None:
    long = "Charles Babbage\n lived in London. " * 10
    lines = list(passage_lines([row(1, 2.0), row(2, 1.0), row(3, 1.0)], {}, {"p1": long}))
    assert lines == [
        "    1  2.000  Title 1  [p1]",
        f"              {' '.join(long.split())[:100].rstrip()}…",
        *[f"    {rank}  1.000  Title {rank}  [p{rank}]" for rank in (2, 3)],
    ]


def test_scores_out_of_order_are_explained() -> None:
    rows, note = [row(1, 1.0), row(2, 2.0)], {"label": "Re-ranked", "text": "the top 2 passages, by shared words"}
    for evidence, reason in (
        ({}, "  ranked to cover the question together; scores are per passage"),
        ({"notes": [note]}, "  the first scores are those of the re-ranker, the others those of the strategy"),
    ):
        assert next(iter(passage_lines(rows, evidence, {}))) == reason


def printed(monkeypatch: Any, capsys: Any, *line: str | Path, with_errors: bool = False) -> str:
    monkeypatch.setattr(sys, "argv", ["polyhop", *map(str, line)])
    with suppress(SystemExit):
        cli.main()
    said = capsys.readouterr()
    return f"{said.out}{said.err if with_errors else ''}"


def test_ask_and_explain_show_texts_until_the_version_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    index = RealIndex(tmp_path, "one")
    index.read([{"id": "babbage", "title": "Charles Babbage", "text": "Charles Babbage lived in London."}])
    run = partial(printed, monkeypatch, capsys)
    asked = ("--index", "one", "--strategy", "bm25", "--root", index.root)
    (tmp_path / "questions.jsonl").write_text('{"id": "q1", "question": "Where did Charles Babbage live?"}')
    shown = "[babbage]\n              Charles Babbage lived in London.\n"
    assert shown in run("ask", "Where did Charles Babbage live?", *asked)
    run("submit", tmp_path / "questions.jsonl", *asked)
    run("worker", "--until-empty", "--root", index.root)
    assert shown in run("explain", "1", "q1", "--root", index.root)
    index.index_folder.path.rename(tmp_path / "gone")
    redrawn = run("explain", "1", "q1", "--root", index.root)
    assert ("[babbage]\n" in redrawn, shown in redrawn) == (True, False)


ADA, LONDON = {"id": "R1", "name": "Ada Lovelace"}, {"id": "R2", "name": "London"}
BABBAGE = {"id": "R3", "name": "Charles Babbage"}
GRAPH: list[dict[str, Any]] = [
    {"subject": ADA, "predicate": "born in", "object": LONDON},
    {"subject": BABBAGE, "predicate": "born in", "object": LONDON},
    {"subject": ADA, "predicate": "worked with", "object": BABBAGE},
    {"subject": LONDON, "predicate": "lies on", "object": {"id": "R4", "name": "River Thames"}},
]
QUESTION = "Where was Ada Lovelace born?"
Command = Callable[..., str]


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of an index `people` of the graph, and one `texts` of a passage."""
    folder = tmp_path_factory.mktemp("triples")
    RealIndex(folder, "people", strategies=("graph-search",)).read(GRAPH, "graph", kind="graph")
    RealIndex(folder, "texts").read([{"id": "p1", "title": "Ada Lovelace", "text": "She was born in London."}])
    return folder / "root"


@pytest.fixture
def root(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with declared(monkeypatch):
        yield indexed


@pytest.fixture
def command(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return lambda *line: printed(monkeypatch, capsys, *line, "--root", root)


def test_the_json_of_an_answer_has_the_triples_with_ids_and_names_and_no_more_than_asked(command: Command) -> None:
    asked = ("ask", QUESTION, "--index", "people", "--strategy", NAME, "--json", "--limit")
    document = json.loads(command(*asked, "1"))
    (triple,) = document["triples"]
    assert len(triple.pop("id")) == 32
    assert triple == {"subject": ADA, "predicate": "born in", "object": LONDON, "score": 3, "rank": 1}
    assert document["passages"] == []
    assert [row["rank"] for row in json.loads(command(*asked, "9"))["triples"]] == [1, 2, 3]
    assert json.loads(command("ask", "Why?", *asked[2:], "9"))["triples"] == []
    document = json.loads(command("ask", QUESTION, "--index", "texts", "--strategy", "bm25", "--json"))
    keys = "question answer strategy version passages evidence seconds reading guess sentences"
    assert list(document) == keys.split()


def test_a_question_with_triples_and_no_passages_on_a_terminal_and_on_a_page(command: Command, tmp_path: Path) -> None:
    asked = ("ask", QUESTION, "--index", "people", "--strategy", NAME)
    lines = command(*asked, "--html", tmp_path / "page.html").splitlines()
    assert lines[:2] == [f"Question  {QUESTION}", "Answer    (none found; read the triples)"]
    assert lines[2].startswith(f"Triples   ({NAME}, version 1, ")
    assert lines[3:] == [
        "    1  3.000  Ada Lovelace [R1] --[born in]--> London [R2]",
        "    2  2.000  Ada Lovelace [R1] --[worked with]--> Charles Babbage [R3]",
        "    3  1.000  Charles Babbage [R3] --[born in]--> London [R2]",
    ]
    page = (tmp_path / "page.html").read_text()
    assert page.count('<td class="number">3.000</td>') == 1
    assert 'Ada Lovelace <span class="soft small">[R1]</span>' in page
    assert ("No answer found; read the triples." in page, 'id="passages"' in page) == (True, False)


def test_a_triple_comes_with_all_hops_once_and_without_ids_that_say_nothing() -> None:
    def node(key: str, name: str) -> dict[str, str]:
        return {"id": key, "name": name}

    def edge(source: str, target: str, label: str) -> dict[str, Any]:
        return {"source": source, "target": target, "forward": [label], "backward": []}

    paper, ada, year = node("p1", "Paper One"), node("a1", "Ada Young"), node("0f" * 16, "1990")
    edges = [edge("p1", "a1", "author"), edge("a1", "0f" * 16, "born")]
    path = {"nodes": ["p1", "a1", "0f" * 16], "names": ["Paper One", "Ada Young", "1990"], "edges": edges}
    says = {"subject": node("ada lovelace", "Ada Lovelace"), "predicate": "says", "object": node("L1", "x\n" * 99)}
    triples = [
        {"rank": 1, "score": 0.5, "subject": ada, "predicate": "born", "object": year},
        {"rank": 2, "score": 0.5, "subject": paper, "predicate": "author", "object": ada},
        {"rank": 12, "score": 0.5, **says},
    ]
    assert list(triple_lines(triples, [path])) == [
        "    1  0.500  Paper One [p1] --[author]--> Ada Young [a1] --[born]--> 1990",
        f"   12  0.500  Ada Lovelace --[says]--> {'x ' * 49}x… [L1]",
    ]


def test_the_topic_reaches_the_strategy_every_way(command: Command, root: Path, tmp_path: Path) -> None:
    def subjects(document: dict[str, Any]) -> list[str]:
        return sorted(row["subject"]["id"] for row in document["triples"])

    plain, about_london = ["R1", "R1", "R3"], ["R1", "R1", "R2", "R3"]
    common = ("--index", "people", "--strategy", NAME)
    assert subjects(json.loads(command("ask", QUESTION, *common, "--topic", "R2", "--json"))) == about_london
    with open_index("people", root=root) as index:
        answers = index.ask_batch([QUESTION] * 2, strategy=NAME, topics=[None, "R2"])
        assert [subjects(answer.to_json()) for answer in answers] == [plain, about_london]
        with pytest.raises(EmptyQuestionError, match="The topic is empty"):
            index.ask(QUESTION, strategy=NAME, topic=" ")
        with pytest.raises(ConfigurationError, match="The topic is 1,001 characters long; the limit is 1,000"):
            index.ask(QUESTION, strategy=NAME, topic="x" * (MAX_TOPIC_CHARACTERS + 1))
        with pytest.raises(ConfigurationError, match="There are 1 topics for 2 questions"):
            index.ask_batch([QUESTION] * 2, strategy=NAME, topics=["R1"])
    rows = [{"id": "q1", "question": QUESTION, "topic_entity": "R2"}, {"id": "q2", "question": QUESTION}]
    write_lines(tmp_path / "questions.jsonl", rows)
    job = str(json.loads(command("submit", tmp_path / "questions.jsonl", *common, "--json"))["job_id"])
    command("worker", "--until-empty")
    stored = [json.loads(line) for line in command("results", job).splitlines()]
    assert [subjects(row) for row in stored] == [about_london, plain]
    assert subjects(json.loads(command("replay", job, "q1", "--json"))["replayed"]) == about_london
    ignored = ("ask", QUESTION, "--index", "texts", "--strategy", "bm25", "--json")
    with_topic, without = json.loads(command(*ignored, "--topic", "R2")), json.loads(command(*ignored))
    assert with_topic | {"seconds": {}} == without | {"seconds": {}}


def test_the_queue_keeps_triples_redraws_them_and_exports_them(command: Command, tmp_path: Path) -> None:
    questions, file = write_lines(tmp_path / "q.jsonl", [{"id": "q1", "question": QUESTION}]), tmp_path / "rows.parquet"

    def submitted(index: str, strategy: str) -> str:
        options = ("--index", index, "--strategy", strategy, "--limit", "2", "--json")
        return str(json.loads(command("submit", questions, *options))["job_id"])

    with_triples, without = submitted("people", NAME), submitted("texts", "bm25")
    command("worker", "--until-empty")
    row = json.loads(command("results", with_triples))
    assert [triple["object"]["name"] for triple in row["triples"]] == ["London", "Charles Babbage"]
    assert "triples" not in json.loads(command("results", without))
    assert "    1  3.000  Ada Lovelace [R1] --[born in]--> London [R2]\n" in command("explain", with_triples, "q1")
    replayed = command("replay", with_triples, "q1")
    assert "Triples\n       1  Ada Lovelace [R1] --[born in]--> London [R2]" in replayed
    command("results", with_triples, "--out", file)
    assert json.loads(pq.read_table(file).to_pylist()[0]["triples"]) == row["triples"]
    command("results", without, "--out", file)
    assert pq.read_table(file).to_pylist()[0]["triples"] is None


TOO_LONG = "Where is London? " * 20_000


def test_a_question_above_the_length_is_refused_left_out_or_named_with_its_line(tmp_path: Path) -> None:
    small = RealIndex(tmp_path, "small", strategies=("bridge-lexical",))
    small.read(pages({"p0": "London lies on the River Thames.", "p1": "Paris lies on the Seine."}))
    rows = [{"question": text, "supporting": ["p0"]} for text in ("Where is London?", TOO_LONG, "Where is Paris?")]
    questions = write_lines(tmp_path / "questions.jsonl", rows)
    sentence = "340,000 characters long; the limit is 10,000"
    reason = f"the question is {sentence}"
    with open_index("small", settings=small.settings) as index, pytest.raises(QuestionTooLongError, match=sentence):
        index.ask(TOO_LONG, strategy="bridge-lexical")
    evaluation = run_evaluation(small.settings, EvaluationRequest(questions, "small", ("bridge-lexical",), {}))
    assert (evaluation.report["n"], [(bad.line, bad.reason) for bad in evaluation.bad]) == (2, [(2, reason)])
    spec = JobSpec("small", strategy="bridge-lexical", limit=5)
    with open_questions(small.settings) as queue:
        with pytest.raises(SourceError, match=f"line 2: {reason}"):
            submit_file(small.settings, queue, SubmissionRequest(questions, spec))
        assert queue.jobs() == []
        made = submit_file(small.settings, queue, SubmissionRequest(questions, spec, True))
        job = queue.job(made.job_id)
        assert (job.question_count, job.name, made.count, made.is_new) == (2, questions.name, 2, True)
        assert [record.line for record in made.bad] == [2]


RAW = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
"""What no terminal may get; tab and line feed are the only controls left."""
PLANTED = "\x1b[31mred\x1b]0;owned\x07\x9b2J\u202eevil\u2066\u200b\ufeff\x7f"

PLANTED_PAGES = (
    {
        "id": "ada\u202e\u200b",
        "title": f"Ada {PLANTED} Lovelace\nAnswer    forged",
        "text": f"Ada Lovelace {PLANTED} wrote for Charles\u202e Babbage. Ada Lovelace lived in London.",
        "metadata": {f"key{PLANTED}": PLANTED},
    },
    {"id": "babbage", "title": "Charles Babbage", "text": f"Charles Babbage {PLANTED} lived in London\x9b."},
    {"id": f"bad{PLANTED}", "title": "Bad", "text": PLANTED},
)

PLANTED_QUESTION = f"Where did Charles Babbage {PLANTED} live?"


@pytest.mark.slow
def test_no_command_prints_a_control_character_that_a_corpus_or_a_question_holds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def run(*arguments: str | Path) -> str:
        said = printed(monkeypatch, capsys, *arguments, with_errors=True)
        found = {repr(match) for match in RAW.findall(said)}
        assert not found, f"polyhop {arguments[0]} printed {sorted(found)}"
        return said

    asked = {"id": "q\u202e1", "question": PLANTED_QUESTION, "answer": "London\x1b[0m", "supporting": ["babbage"]}
    questions = write_lines(tmp_path / "questions.jsonl", [asked, {"id": f"q{PLANTED}", "question": PLANTED_QUESTION}])
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / f"notes{PLANTED}.txt").write_text(f"Charles Babbage {PLANTED} lived in London.")
    (folder / "plain.txt").write_text("Ada Lovelace wrote for Charles Babbage.")
    corpus = write_lines(tmp_path / "corpus.jsonl", PLANTED_PAGES)
    root = ("--root", tmp_path / "root")
    at = ("--index", "small", *root)
    built = ("--set", "strategies=graph,bm25", "--set", "corpus.max_quarantine_share=1")
    run("index", corpus, *at, *built)
    run("index", folder, "--index", "pages", *root, *built)
    asks = ("ask", PLANTED_QUESTION, *at, "--strategy")
    submitted = ("submit", questions, *at, "--strategy", "bm25", "--skip-bad", "--name", f"a job{PLANTED}")
    silent = []
    for shown in (
        (*asks, "bm25", "--explain"),
        (*asks, "graph", "--explain"),
        ("sql", "FROM passages", *at),
        ("sql", "FROM quarantine", *at),
        ("sql", "SELECT source FROM quarantine", "--index", "pages", *root),
        ("sql", f'SELECT 1 AS "{PLANTED}"', *at),
        ("sql", f"SELECT '{PLANTED}'::INT", *at),
        submitted,
        ("worker", "--until-empty", *root),
        ("jobs", *root),
        ("explain", "1", "q\u202e1", *root),
        ("replay", "1", "q\u202e1", *root),
        ("explain", "1", f"q{PLANTED}", *root),
        ("eval", questions, *at, "--strategies", "bm25", "--no-store"),
        ("entities", "explain", f"Ada{PLANTED}", f"London{PLANTED}", *at),
        ("index", tmp_path / f"missing{PLANTED}.jsonl", *at),
        ("index", tmp_path / "missing\udce9\x1b.jsonl", *at),
        (*asks, f"no{PLANTED}"),
        ("ask", PLANTED_QUESTION, *at, f"--no{PLANTED}"),
        ("cancel", PLANTED, *root),
        (f"no{PLANTED}",),
    ):
        said = run(*shown)
        if "\\x1b" not in said and "\\u202e" not in said:
            silent.append(shown[0])
    assert silent == ["submit", "worker", "eval"], "all others print what was planted, escaped"
    assert json.loads(run(*asks, "bm25", "--json"))["question"] == PLANTED_QUESTION  # JSON escapes it
    (row,) = json.loads(run("sql", "SELECT text FROM passages WHERE passage_id = 'babbage'", *at, "--json"))
    assert row["text"] == str(PLANTED_PAGES[1]["text"]).translate(INVISIBLE)
    assert json.loads(run("jobs", *root, "--json"))[0]["name"] == f"a job{PLANTED}"
    assert json.loads(run("results", "1", *root).splitlines()[0])["question"] == PLANTED_QUESTION


@pytest.mark.slow
def test_letters_of_any_script_stay_and_titles_errors_and_tables_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    text = "Zoë Ångström · Łódź · 東京 · עברית · العربية · می‌خواهم · 👩‍🔬 · “quoted” – … ½\tend"
    output.print_error(text)
    output.print_json([text])
    output.print_line(f"{text}\nAnswer    forged\r\n")
    output.print_table(["a\x1b", "b"], [["x\x1by", 1], ["z", 22]])
    output.print_block("Reasoning", "[1] About Tactics.\n\n[2] About\x1b Views.")
    said = capsys.readouterr()
    assert said.err == text + "\n"
    block = ["Reasoning [1] About Tactics.", "          [2] About\\x1b Views."]
    lines = [f"{text}\\nAnswer    forged\\x0d\\n", "a\\x1b    b", "x\\x1by   1", "z       22", *block]
    assert said.out.splitlines() == [json.dumps([text], ensure_ascii=False), *lines]
    assert RAW.search(str(SourceError(f"{PLANTED} cannot be read."))) is None


@pytest.mark.slow
@given(st.text())
def test_any_text_becomes_one_line_without_controls_and_stays_so(text: str) -> None:
    line = printable_line(text)
    assert RAW.search(line) is None
    assert "\n" not in line
    assert printable(line) == line
    line.encode("utf-8")


@pytest.mark.slow
@given(
    st.recursive(
        st.text() | st.none() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_escaped_json_reads_back_as_it_was(document: object) -> None:
    written = escaped_json(json.dumps(document, ensure_ascii=False))
    assert json.loads(written) == document
    assert RAW.search(written) is None
    written.encode("utf-8")
