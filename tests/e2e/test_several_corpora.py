"""benchmarks/papers/several_corpora.py: one table of strategies over several corpora."""

import json
from pathlib import Path
from typing import Any

import pytest
from fakes import loaded
from small_indexes import write_rows

from polyhop.schemas.errors import SourceError

script: Any = loaded("../benchmarks/papers/several_corpora.py")


@pytest.mark.slow
def test_a_table_has_a_column_for_each_corpus_and_their_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [{"id": name, "title": name, "text": f"{name} lies on the Danube."} for name in ("Ulm", "Linz", "Vienna")]
    corpus = write_rows(tmp_path / "corpus.jsonl", texts)
    asked = [{"id": f"q{name}", "question": f"Where is {name}?", "supporting": [name]} for name in ("Ulm", "Linz")]
    found = write_rows(tmp_path / "found.jsonl", asked)
    missed = write_rows(tmp_path / "missed.jsonl", [*asked[:1], {**asked[1], "supporting": ["none"]}])
    corpora = [f"all={corpus},{found}", f"half={corpus},{missed}", f"one={corpus},{missed}"]
    asked_for = ["--strategies", "bm25:k1=1,2", "--metrics", "recall@5,mrr"]
    script.main([str(tmp_path / "made"), *corpora[:2], *asked_for])
    table = (tmp_path / "made" / "several_corpora.md").read_text(encoding="utf-8")
    assert table.splitlines()[0] == "| recall@5, mrr | all (2) | half (2) | mean |"
    assert [row for row in table.splitlines() if "k1=1" in row] == [
        "| `bm25:k1=1` | 1.000, 1.000 | 0.500, 0.500 | 0.750, 0.750 |"
    ]
    assert table.strip() in capsys.readouterr().out
    script.main([str(tmp_path / "made"), corpora[2], "--strategies", "bm25", "--first", "1"])
    made = json.loads((tmp_path / "made" / "several_corpora.json").read_text(encoding="utf-8"))
    assert made == {"one": {"questions": 1, "strategies": {"bm25": {"recall@5": 1.0}}}}


@pytest.mark.parametrize(("more", "said"), [(["nosuch"], "unknown set: nosuch"), (["--metrics", "em"], "metric: em")])
def test_an_unknown_set_or_metric_is_refused_before_anything_is_indexed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    with pytest.raises(SystemExit):
        script.main([str(tmp_path / "made"), *more])
    assert said in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


def test_questions_without_supporting_passages_are_refused(tmp_path: Path) -> None:
    corpus = write_rows(tmp_path / "corpus.jsonl", [{"id": "u", "title": "Ulm", "text": "Ulm lies on the Danube."}])
    asked = write_rows(tmp_path / "asked.jsonl", [{"id": "q", "question": "Where is Ulm?", "answers": ["Danube"]}])
    with pytest.raises(SourceError, match="no question names supporting passages"):
        script.main([str(tmp_path / "made"), f"one={corpus},{asked}", "--strategies", "bm25"])
