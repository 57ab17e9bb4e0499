"""Evaluations: judged by golden triples, costs side by side, the table, and what `polyhop tune` refuses."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from real_index import RealIndex, write_lines
from typer.testing import CliRunner, Result
from word_triples import NAME, declared

from polyhop.cli import app
from polyhop.commands.evaluate import print_costs
from polyhop.flows import evaluate
from polyhop.flows.evaluate import cost_rows, gold_of, left_out_sentences, run_evaluation, strategy_rows, tune_index
from polyhop.flows.evaluation.page import report_page, report_plots, summary_markdown
from polyhop.schemas.errors import ConfigurationError, StoreConflictError, UnknownStrategyError
from polyhop.schemas.manifest import RunRecord, StageTiming, StageUse
from polyhop.schemas.records import QuestionRecord
from polyhop.schemas.requests import EvaluationRequest, TuningRequest, parse_range, parse_variant
from polyhop.schemas.settings import Settings
from polyhop.warehouse.artefacts import TRIPLES_OF_SUBJECTS
from polyhop.warehouse.files.evaluations import StoredRun
from polyhop.warehouse.files.versions import begin_run
from polyhop.warehouse.index_reader import PublishedIndex
from polyhop.warehouse.open import open_published
from polyhop.worker.strategies.registry import STRATEGIES, parse_parameters

CITIES = ("Rome", "Oslo", "Lima", "Bern", "Cork")

PAIRS = [({"id": f"R{n}", "name": f"Study {n}, of {c}"}, {"id": f"L{n}", "name": c}) for n, c in enumerate(CITIES * 2)]
GRAPH = [{"subject": study, "predicate": "is about: city", "object": city} for study, city in PAIRS]

QUESTIONS: list[dict[str, Any]] = [
    {
        "id": f"q{n}",
        "question": f"Which studies are about {CITIES[n % 5]}?",
        "answers": [CITIES[n % 5]],
        "golden_triples": [
            f"(R{m}:Study {m}, of {CITIES[m % 5]}, is about: city, L{m}:{CITIES[m % 5]})" for m in (n, 9)
        ],
        "topic_entity": f"R{n}",
        "hops": 1 + n % 2,
        "operation": ("counting", "ranking")[n % 2],
    }
    for n in range(10)
]
QUESTIONS[1]["golden_triples"] = ["None", ["R1", "is about: city", "L1"]]
QUESTIONS.append({"id": "q10", "question": "Which studies are about Rome?", "answers": ["Rome"]})


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> RealIndex:
    index = RealIndex(tmp_path_factory.mktemp("golden"), "studies", strategies=("graph-search", "bm25"))
    write_lines(index.folder / "questions.jsonl", QUESTIONS)
    index.read(GRAPH, "graph", kind="graph")
    return index


@pytest.fixture
def folder(published: RealIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with declared(monkeypatch):
        yield published.copy(tmp_path).folder


@pytest.mark.slow
def test_triples_are_judged_by_id_and_what_the_graph_does_not_have_is_counted_and_missed(folder: Path) -> None:
    request = EvaluationRequest(folder / "questions.jsonl", "studies", strategies=(NAME, "graph-search"))
    evaluation = run_evaluation(Settings(root=folder / "root"), request)
    report, run = evaluation.report, evaluation.run
    golden = {"questions": 10, "triples": 19, "unknown": 1, "not_ranked_by": ["graph-search"]}
    assert (report["golden_triples"], run["golden_triples"]) == (golden, golden)
    result, other = report["strategies"][NAME], report["strategies"]["graph-search"]
    rows = {row["id"]: row for row in evaluation.rows if row["strategy"] == NAME}
    assert (rows["q1"]["triple_recall@30"], rows["q0"]["triple_recall@30"]) == (0.5, 1)
    assert (rows["q9"]["triple_precision@10"], rows["q10"]["triple_mrr"]) == (0.1, None)
    assert rows["q0"]["triples"][0] == ["R0", "is about: city", "L0"]
    assert result["triple_recall@30"] == pytest.approx(9.5 / 10)
    assert result["intervals"]["triple_mrr"]["high"] <= 1
    assert (other["triple_mrr"], other["recall@5"], other["em"]) == (None, None, 0)
    assert {name: group["n"] for name, group in run["by_field"]["operation"].items()} == {"counting": 5, "ranking": 5}
    assert run["by_hops"]["2"]["strategies"][NAME]["triple_recall@30"] == pytest.approx(4.5 / 5)
    assert left_out_sentences(evaluation) == [
        "1 of 19 golden triples is not in the graph of 'studies' and counts as missed.",
        "Not scored by golden triples, because they rank no triples: graph-search.",
    ]
    plots = report_plots(run)
    assert ("triple_recall_at_k.png" in plots, "recall_at_k.png" in plots) == (True, False)
    page = report_page(run, evaluation.timings, plots)
    counted = "19 in 10 questions; 1 not in the graph, which count as missed; no triples are ranked by graph-search"
    for words in ("0.950", counted, "triple_recall@10 by operation", "By operation"):
        assert words in page, words
    summary = summary_markdown(run, evaluation.timings)
    assert ("triple\\_recall@10 by operation" in summary, "triple\\_recall@10 by hops" in summary) == (True, True)


@pytest.mark.slow
def test_the_commands_show_triples_compare_them_and_judge_them_by_a_gate(folder: Path, monkeypatch: Any) -> None:
    def command(*arguments: str) -> Result:
        return CliRunner().invoke(app, arguments)

    monkeypatch.chdir(folder)
    monkeypatch.setenv("POLYHOP_ROOT", str(folder / "root"))
    of_both = ("eval", "questions.jsonl", "--index", "studies", "--strategies", f"{NAME},graph-search")
    lines = command(*of_both).stdout.splitlines()
    heads = "strategy em f1 shown em of shown sentence hit p50 ms p95 ms failures"
    assert lines[1].split() == heads.split()
    head = lines.index("Ranked triples against the golden triples of 10 questions")
    heads = "strategy recall@10 recall@30 precision@10 f1@10 hit@10 hit@30 ndcg@10 mrr"
    assert lines[head + 1].split() == heads.split()
    assert lines[head + 2].split()[:3] == [NAME, "0.950", "0.950"]
    assert lines[head + 3] == "95 % intervals of these means"
    titles = ["recall@10 of triples by number of hops", "recall@10 of triples by operation"]
    assert [line for line in lines if line.startswith("recall@10 of triples")] == titles
    assert "counting (5)  ranking (5)" in lines[lines.index(titles[1]) + 1]
    listed = command("eval", "--list").stdout.splitlines()
    assert listed[0].split()[-3:] == ["recall@5", "triple_recall@10", "em"]
    assert listed[1].split()[-2:] == ["0.950", "0.000"]
    write_lines(folder / "questions.jsonl", ({**asked, "topic_entity": "R0"} for asked in QUESTIONS))  # leads away
    passed = command(*of_both, "--fail-below", f"{NAME}:triple_recall@10=.5", "--json")
    assert [gate["passed"] for gate in json.loads(passed.stdout)["gates"]] == [True]
    changes = command("eval", "--compare", "1", "2").stdout
    assert "triple_mrr" in changes
    assert "em  " not in changes.partition("Questions that changed most")[0]


def test_relations_of_a_text_are_golden_triples_by_the_keys_of_their_entities(ada: RealIndex) -> None:
    with closing(open_published(ada.root, "i")) as opened:
        (row, *_) = opened.artefact(TRIPLES_OF_SUBJECTS)(["ada lovelace"])
        subject, name, predicate, value, _ = row
        assert (subject, name) == ("ada lovelace", "Ada Lovelace")
        questions = [QuestionRecord("q", "Who?", golden_triples=((subject, predicate, value), ("london", "x", "y")))]
        gold = gold_of(questions, opened)
    assert (gold.triple_count, gold.unknown_triples) == (2, 1)
    assert gold.questions[0].triples == {(subject, predicate, value), ("london", "x", "y")}


RESULT = {"latency_ms": {"mean": 250.0}, "tokens": {"prompt_per_question": 12.5, "completion_per_question": 2.0}}


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory) -> RealIndex:
    """An index whose stages took 1, 2, 4… seconds, as its history says."""
    index = RealIndex(tmp_path_factory.mktemp("priced"), strategies=("bm25", "bridge-lexical", "graph-search"))
    index.read([{"id": "a", "title": "Ada Lovelace", "text": "Ada Lovelace was born in London."}])
    stages = ("ingest", "extract", "resolve", "graph", "lexical-plain", "lexical-stems", "relations")
    uses = {name: StageUse(seconds=2**n, units=4, computed=4) for n, name in enumerate(stages)}
    index.index_folder.runs.unlink()
    begin_run(index.index_folder, lambda run: RunRecord(run=run, started="2026-11-25", published=1, stages=uses))
    return index


@pytest.fixture
def priced(ada: RealIndex) -> Iterator[PublishedIndex]:
    with closing(open_published(ada.root, "i")) as opened:
        yield opened


def costs_of(priced: PublishedIndex, *labels: str) -> dict[str, Any]:
    variants = {label: parse_variant(label, {}) for label in labels if label != "closed-book"}
    return cost_rows(priced, variants, {"strategies": dict.fromkeys(labels, RESULT)})


def test_a_strategy_pays_for_the_producing_stages_what_it_reads_and_for_no_other(priced: PublishedIndex) -> None:
    found = costs_of(priced, "bm25", "bridge-lexical:hops=1", "graph-search")
    seconds = {label: row["index"]["seconds"] for label, row in found.items()}
    assert seconds == {"bm25": 1 + 16, "bridge-lexical:hops=1": 1 + 2 + 4 + 8 + 32, "graph-search": 1 + 2 + 4 + 8 + 64}
    assert list(found["bm25"]["index"]["stages"]) == ["ingest", "lexical-plain"]
    assert found["bm25"]["index"]["stages"]["ingest"] == {"seconds": 1, "units": 4, "computed": 4}
    assert found["bm25"]["question"] == {"prompt_tokens": 12.5, "completion_tokens": 2, "seconds": 0.25}


def test_tokens_are_those_of_extraction_and_resolution(priced: PublishedIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priced, "extraction_tokens", lambda: (1000, 100))
    stages = priced.manifest.stages
    counts = {**stages["resolve"].counts, "prompt_tokens": 30, "completion_tokens": 4}
    stages["resolve"] = stages["resolve"].model_copy(update={"counts": counts})
    found = costs_of(priced, "bm25", "bridge-lexical")
    tokens = [(row["index"]["prompt_tokens"], row["index"]["completion_tokens"]) for row in found.values()]
    assert tokens == [(0, 0), (1030, 104)]


def test_what_was_not_recorded_is_null(priced: PublishedIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priced, "stage_timings", lambda: {"ingest": StageTiming(seconds=1)})
    found = costs_of(priced, "bm25", "closed-book")
    stages = {"ingest": {"seconds": 1, "units": 0, "computed": 0}, "lexical-plain": None}
    assert found["bm25"]["index"] == {"prompt_tokens": 0, "completion_tokens": 0, "seconds": None, "stages": stages}
    assert found["closed-book"]["index"] == {"prompt_tokens": 0, "completion_tokens": 0, "seconds": 0, "stages": {}}
    unmeasured = cost_rows(priced, {}, {"strategies": {"closed-book": RESULT | {"latency_ms": {"mean": None}}}})
    assert unmeasured["closed-book"]["question"]["seconds"] is None


def test_costs_are_printed_side_by_side_and_say_what_came_from_caches(capsys: pytest.CaptureFixture[str]) -> None:
    question = {"prompt_tokens": 12.5, "completion_tokens": 2.0, "seconds": 0.25}
    stages = {"extract": {"seconds": 3.0, "units": 40, "computed": 2}, "graph": None}
    index = {"prompt_tokens": 1030, "completion_tokens": 104, "seconds": None, "stages": stages}
    print_costs({"bridge": {"index": index, "question": question}})
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(lines[1].split()) == "strategy index tokens index s tokens per question s per question"
    assert " ".join(lines[2].split()) == "bridge 1,030 + 104 not recorded 12.5 + 2.0 0.250"
    assert lines[3].endswith("the rest was cached: extract 2 of 40")


def test_the_table_shows_the_best_strategy_first_and_none_where_nothing_was_measured() -> None:
    metrics = dict.fromkeys(("recall@2", "recall@5", "recall@10", "mrr", "em", "f1"), 0.123456)
    results = {
        "low": {**metrics, "shown": {"share": None}, "failures": 0},
        "unjudged": {**dict.fromkeys(metrics), "shown": {"share": 1.0}, "failures": 2},
        "high": {**metrics, "recall@5": 0.5, "shown": {"share": 0.25}, "failures": 1},
    }
    timings = {"strategies": {name: {"latency_ms": {"p50": 1.23456, "p95": None}} for name in results}}
    rows = strategy_rows(StoredRun(1, Path(), {"strategies": list(results), "results": results}, timings))
    assert [row["strategy"] for row in rows] == ["high", "low", "unjudged"]
    assert [rows[0][name] for name in ("shown", "recall@2", "p50 ms", "failures")] == [0.25, 0.1235, 1.2346, 1]
    assert (rows[1]["shown"], rows[1]["p95 ms"], rows[2]["em"]) == (None, None, None)


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    rows = [{"id": f"q{n}", "question": f"Where is Town {n}?", "supporting": [f"p{n}"]} for n in range(24)]
    return write_lines(tmp_path / "questions.jsonl", rows)


@pytest.mark.parametrize(
    ("strategy", "options", "sentence"),
    [
        ("bm25:b=.3", {"metric": "recall"}, "Unknown metric 'recall' to tune by; metrics: recall@1, "),
        ("bm25", {"metric": "em"}, "Tuning by em needs answers; use --reader spans or model."),
        ("bm25", {"metric": "triple_mrr"}, "needs ranked triples, but strategy 'bm25' ranks passages only"),
        ("dense", {}, "Strategy 'dense' has no default values to try; name some, like bridge:graph_weight="),
        ("bm25:b=.3,.4,rrf", {}, "polyhop tune takes one strategy, not 2: bm25:b=.3,.4, rrf."),
        ("bm25:b=1..1", {}, "'bm25:b=1..1' is a single setting; give a parameter several values"),
        ("bm25:rerank=false,0", {}, "is a single setting"),
        ("bm25:b=.3:k1=2", {}, "Strategy 'bm25' has no default values to try"),
        ("bm25", {"parameters": {"c": "1"}}, "'c' of strategy 'bm25'"),
        ("bm25:k1=0..100", {}, "stands for 101 variants, at most 100 are possible"),
        ("bm25", {"sample": 0}, "A sample needs at least 1 question, not 0"),
        ("bm25", {"sample": 20}, "there are 20 to tune on and 4 to keep back"),
        ("bm52:b=.3,.4", {}, "did you mean 'bm25'"),
        ("hublink", {"metric": "triple_mrr"}, "there are 0 to tune on and 0 to keep back"),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_one_sentence_before_the_index_is_opened(
    tmp_path: Path, questions: Path, strategy: str, options: dict[str, Any], sentence: str
) -> None:
    settings = Settings(root=tmp_path / "root")
    settings = settings.model_copy(update={"reader": settings.reader.model_copy(update={"name": "none"})})
    with pytest.raises((ConfigurationError, UnknownStrategyError)) as refused:
        tune_index(settings, TuningRequest(questions, "towns", strategy, **options))
    assert sentence in str(refused.value)
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("name", [name for name, spec in STRATEGIES.items() if spec.parameters.grid])
def test_the_values_that_a_strategy_brings_are_several_settings_within_their_ranges(name: str) -> None:
    spec = STRATEGIES[name]
    tried = parse_range(":".join([name, *(f"{key}={values}" for key, values in spec.parameters.grid.items())]))
    settings = {parse_parameters(spec, parse_variant(label, {}).parameters).model_dump_json() for label in tried.points}
    assert len(settings) == len(tried.points) > 4


def test_a_fixed_parameter_is_not_tried(tmp_path: Path, questions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[EvaluationRequest] = []

    def refuse(_: Settings, request: EvaluationRequest, __: object) -> None:
        asked.append(request)
        raise StoreConflictError("enough")

    monkeypatch.setattr(evaluate, "run_evaluation", refuse)
    with pytest.raises(StoreConflictError):
        tune_index(Settings(root=tmp_path), TuningRequest(questions, "towns", "bm25:k1=2", seed=5))
    (request,) = asked
    assert request.strategies == ("bm25", "bm25:k1=2:b=.4,.6,.75,.9")
    assert (request.baselines, request.sample, request.seed, request.is_stored) == (("bm25",), 12, 5, False)
