"""benchmarks/papers/with_a_model.py: its price first, then every table, each kept, with a model over real HTTP."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from scripted_server import ModelServer
from small_indexes import Rows, record, write_rows
from with_a_model import TABLES, main, parsed, recipe_of, small_corpus

from polyhop.warehouse.open_models import close_encoders, current_run

TOWNS = ("Ostley", "Harrow", "Lenn", "Marle")


def question(own_id: str, text: str, answer: str, **more: object) -> dict[str, object]:
    return {"id": own_id, "question": text, "answers": [answer], **more}


def arguments(folder: Path, server: ModelServer, *more: str) -> list[str]:
    """Six passages and four questions; three papers of a field as the graph, and two questions."""
    bridges = [(f"{town} Bridge", f"Edith Carrow{n}") for n, town in enumerate(TOWNS)]
    passages = [
        record(f"p{n}", name, f"{name} was built by {by} in {1900 + n}.") for n, (name, by) in enumerate(bridges)
    ]
    passages += [
        record(f"q{n}", by, f"{by} was born in {TOWNS[n]} by the River Tess.") for n, (_, by) in enumerate(bridges[:2])
    ]
    asked = [question(str(n), f"Who built {name}?", by, supporting=[f"p{n}"]) for n, (name, by) in enumerate(bridges)]
    papers = [{"id": f"P{n}", "name": f"Paper {n}", "types": ["Paper"]} for n in range(3)]
    methods = [{"id": f"M{n}", "name": f"Method {n}", "types": ["Method"]} for n in range(3)]
    field = {"id": "F", "name": "Bridges", "types": ["Field"]}
    triples = [{"subject": field, "predicate": "contains", "object": paper} for paper in papers]
    pairs = zip(papers, methods, strict=True)
    triples += [{"subject": paper, "predicate": "method", "object": method} for paper, method in pairs]
    golden = [
        question(str(n), f"What is the method of Paper {n}?", f"Method {n}", topic_entity=f"P{n}")
        | {"golden_triples": [f"(P{n}:Paper {n}, method, M{n}:Method {n})"]}
        for n in range(2)
    ]
    files: dict[str, Rows] = {"corpus": passages, "questions": asked, "graph": triples, "graph-questions": golden}
    flags = []
    for name, rows in files.items():
        flags += [f"--{name}", str(write_rows(folder / f"{name}.jsonl", rows))]
    sets = {"models.api_base": server.url, "models.price": "1,2", "hubs.types": "Paper"}
    flags += [part for name, value in sets.items() for part in ("--set", f"{name}={value}")]
    return [str(folder / "made"), "--model", "openai/scripted", *flags, *more]


def tables(folder: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in (folder / "made" / "tables").glob("*.json")}


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)  # no polyhop.toml of whoever runs this
    yield
    current_run().close()
    close_encoders()


def test_the_price_comes_first_and_nothing_is_asked_without_yes(
    tmp_path: Path, model_server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(tmp_path, model_server)) == 2
    said = capsys.readouterr().out
    assert "Nothing was asked. Run it again with --yes." in said
    for what in ("index of the corpus", "index of the graph", *TABLES):
        assert what in said
    # 4 questions by qasa, without gate, by naive-vector and closed book, and their names
    assert next(line.split()[:2] for line in said.splitlines() if "qasa-ablations" in line) == ["qasa-ablations", "20"]
    assert "unknown" not in said
    assert model_server.requests == []
    assert not (tmp_path / "made" / "tables").exists()


def test_the_local_model_says_its_hours_first_and_starts_nothing_without_yes(
    tmp_path: Path, model_server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    given = arguments(tmp_path, model_server)
    model = given.index("--model")
    local = [*given[:model], "--local", *given[model + 2 :], "--passages", "4", "--sample", "2"]
    assert main(local) == 2
    said = capsys.readouterr().out
    assert re.search(r"At most \d+\.\d hours of one core\.", said)
    made = {path.name for path in (tmp_path / "made").iterdir()}
    assert made == {"root", "corpus-4.jsonl", "questions-2.jsonl"}  # no model's file


def test_a_small_corpus_holds_what_its_questions_need(tmp_path: Path) -> None:
    corpus = write_rows(tmp_path / "all.jsonl", [record(f"p{n}", f"T{n}", "x") for n in range(9)])
    questions = write_rows(
        tmp_path / "asked.jsonl", [question(str(n), "Who?", "x", supporting=[f"p{8 - n}"]) for n in range(4)]
    )
    paths = small_corpus(tmp_path / "made", corpus, questions, 5, 2)
    kept, asked = ([json.loads(line)["id"] for line in path.read_text("utf-8").splitlines()] for path in paths)
    assert (kept, asked) == (["p0", "p1", "p2", "p7", "p8"], ["0", "1"])


def test_only_the_graph_of_the_data_has_its_hubs_unless_others_are_set(tmp_path: Path) -> None:
    given = [str(tmp_path), "--model", "openai/scripted"]
    own, chosen = ["--graph", "own.jsonl"], ["--set", "hubs.types=Method"]
    types = [recipe_of(parsed([*given, *more]), None).settings.hubs.types for more in ([], own, chosen)]
    assert types == [("Paper",), (), ("Method",)]


def test_a_size_without_a_sample_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path), "--local", "--passages", "4"])
    assert "--passages needs --sample" in capsys.readouterr().err


@pytest.mark.rare
def test_every_table_is_made_once_and_a_run_goes_on_where_it_was(
    tmp_path: Path, model_server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    run = arguments(tmp_path, model_server, "--yes")
    assert main([*run, "--tables", "proprag-length"]) == 0
    first = tables(tmp_path)
    assert set(first) == {"proprag-length"}
    assert set(first["proprag-length"]["rows"]) == {f"proprag:max_length={n}" for n in range(1, 5)}
    assert main(run) == 0
    made = tables(tmp_path)
    assert set(made) == set(TABLES)
    assert made["proprag-length"] == first["proprag-length"]  # kept
    for name, table in made.items():
        assert set(TABLES[name].labels) <= set(table["rows"])
        assert table["n"] == (2 if TABLES[name].kind == "graph" else 4)
    assert {"closed-book"} == set(made["qasa-ablations"]["rows"]) - set(TABLES["qasa-ablations"].labels)
    steps = {request.task for request in model_server.requests}
    wanted = {"kg.extract", "prop.entities", "prop.propositions", "hub.path_text", "query.entities", "qa.answer"}
    assert wanted | {"qa.chains", "qa.closed_book", "hub.partial", "hub.final", "hub.components", "hub.filter"} <= steps
    ranked = made["hublink"]["rows"]["hublink"]
    assert ranked["metrics"]["triple_recall@10"] > 0
    header = (tmp_path / "made/tables/hublink.md").read_text("utf-8").splitlines()[2]
    assert "triple_recall@10" in header
    assert header.endswith("| f1 | prompt tokens | reply tokens | retrieval seconds | reading seconds |")
    asked = made["qasa-ablations"]["rows"]["qasa"]
    assert asked["prompt_tokens"] > asked["reply_tokens"] > 0
    assert 0 < asked["retrieval_seconds"] < 10
    assert 0 < asked["reading_seconds"] < 10
    current_run().close()

    count = len(model_server.requests)
    assert main(run) == 0
    (tmp_path / "made/tables/qasa-steps.json").unlink()
    assert main(run) == 0
    assert len(model_server.requests) == count
    again = tables(tmp_path)["qasa-steps"]["rows"]
    for label, row in made["qasa-steps"]["rows"].items():
        assert again[label]["reading_seconds"] is None  # its replies were in the cache
        assert (again[label]["metrics"], again[label]["reading"]["calls"]) == (row["metrics"], 0)
    extra = question("4", "Who built Marle Bridge?", "Edith Carrow3", supporting=["p3"])
    with (tmp_path / "questions.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(extra) + "\n")
    capsys.readouterr()
    assert main([*run[:-1], "--tables", "hublink,qasa-decay"]) == 2
    said = capsys.readouterr().out
    assert ("hublink is there" in said, "qasa-decay is there" in said) == (True, False)
