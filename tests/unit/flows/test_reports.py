"""The page of what a run changed, and advice: on encoding, on languages, and what a question costs."""

from pathlib import Path
from typing import Any

import pytest
from small_indexes import indexed, write_rows

from polyhop.commands.index import print_questions
from polyhop.flows.plan import question_costs
from polyhop.flows.reports import (
    SHOWN_CHANGES,
    IndexReport,
    change_lines,
    counts_of_current,
    encoding_advice,
    language_advice,
    run_advice,
    summary_lines,
)
from polyhop.schemas.settings import CorpusSettings, EncoderSettings, ModelSettings, Settings
from polyhop.warehouse.models import onnx_session as openvino_session
from polyhop.worker.strategies.registry import parse_parameters, spec_of


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """The pages of a first run, of one with every kind of change, and of one of other settings."""
    folder = tmp_path_factory.mktemp("changed")
    settings = Settings(root=folder / "root", strategies=("bm25",))
    corpus = folder / "lakes.csv"
    ids = [f"p{n:02}" for n in range(SHOWN_CHANGES + 3)]
    pages: list[list[str]] = []

    def add_page(settings: Settings) -> None:
        before = counts_of_current(settings, "lakes")
        pages.append(change_lines(settings, before, indexed(settings, corpus, "lakes")))

    for number, names in enumerate((ids, ["moved", *ids[2:], "<img src=x onerror=alert(1)>|`[a](javascript:b)"])):
        texts = {name: f"Lake {name} is deep." for name in names} | {ids[2]: f"Version {number}."}
        texts["moved"] = "Lake p00 is deep."
        rows = [f'"{name}","Lake","{texts[name]}"' for name in names]
        corpus.write_text("\n".join(["id,title,text", *rows]) + "\n")
        add_page(settings)
    add_page(settings.model_copy(update={"strategies": ("bm25", "bridge-lexical")}))
    return pages


def test_the_first_records_are_shown_with_how_many_more_there_are_and_how_to_list_them(runs: list[list[str]]) -> None:
    page = runs[0]
    assert page[0] == "# Version 1 of lakes: 53 added"
    assert "| passages | 0 | 53 | +53 |" in page
    assert [line for line in page if "| added |" in line] == [
        f"| p{n:02} | added |  | lakes |" for n in range(SHOWN_CHANGES)
    ]
    assert "3 more records changed." in page
    command = 'polyhop sql "SELECT record_id, kind, from_id, source FROM changes ORDER BY record_id" --index lakes'
    assert page[-3:] == ["```", command, "```"]


def test_each_kind_of_change_is_a_row_and_an_id_is_data(runs: list[list[str]]) -> None:
    page = runs[1]
    assert page[0] == "# Version 2 of lakes: 1 added, 1 changed, 1 deleted, 1 renamed"
    rows = [line for line in page if line.endswith("| lakes |")]
    assert rows == [
        r"| &lt;img src=x onerror=alert(1)&gt;\|\`\[a\](javascript:b) | added |  | lakes |",
        "| moved | renamed | p00 | lakes |",
        "| p01 | deleted |  | lakes |",
        "| p02 | changed |  | lakes |",
    ]
    assert not any("more records" in line for line in page)


def test_a_version_whose_records_are_those_of_before_says_so(runs: list[list[str]]) -> None:
    assert runs[2][0] == "# Version 3 of lakes: no record changed"
    assert "| passages | 53 | 53 | +0 |" in runs[2]
    assert not any("polyhop sql" in line for line in runs[2])


@pytest.mark.parametrize(
    ("seconds", "computed", "encoder", "is_advised"),
    [
        (61.0, 900, EncoderSettings(), True),
        (59.0, 900, EncoderSettings(), False),
        (61.0, 0, EncoderSettings(), False),
        (61.0, 900, EncoderSettings(precision="int8"), False),
        (61.0, 900, EncoderSettings(name="onnx:folder"), False),
    ],
)
def test_long_encoding_by_the_local_encoder_in_float32_is_advised(
    monkeypatch: pytest.MonkeyPatch, seconds: float, computed: int, encoder: EncoderSettings, is_advised: bool
) -> None:
    monkeypatch.setattr(openvino_session, "faster_precision", lambda: "bfloat16 would help")
    settings = Settings(encoder=encoder)
    stages = {"ingest": 100.0, "embed-passage": seconds}
    report = IndexReport("one", 1, changed=True, seconds=stages, computed={"embed-passage": computed})
    assert encoding_advice(settings, report) == ("encoding took 61 s; bfloat16 would help" if is_advised else "")
    assert ("bfloat16" in "\n".join(summary_lines(settings, report))) == is_advised


ITALIAN = [
    {"id": "1", "title": "Roncavalle", "text": "Roncavalle è un comune delle Alpi. Il sindaco è Lucia Ferrant."},
    {"id": "2", "title": "Lucia Ferrant", "text": "Lucia Ferrant è nata a Biella ed è stata la direttrice del museo."},
]
LANGUAGE_ADVICE = (
    "the texts look Italian and were read as English, the default; if they are: "
    "polyhop index --index alpi --set corpus.language=it"
)


def test_only_who_chose_no_language_is_told_and_only_of_another_one(tmp_path: Path) -> None:
    def read(name: str, records: list[dict[str, str]]) -> IndexReport:
        return indexed(plain, write_rows(tmp_path / f"{name}.jsonl", records), name)

    plain = Settings(root=tmp_path / "root")
    report = read("alpi", ITALIAN)
    assert run_advice(plain, report) == [LANGUAGE_ADVICE]
    assert [line for line in summary_lines(plain, report) if "Italian" in line] == [f"* {LANGUAGE_ADVICE}"]
    for language in ("it", "en"):
        assert run_advice(Settings(root=plain.root, corpus=CorpusSettings(language=language)), report) == []
    assert language_advice(plain, read("alpi", ITALIAN)) == "", "nothing has changed"
    english = {"id": "1", "title": "Lake One", "text": "Lake One is a lake that lies near the town of Two."}
    assert run_advice(plain, read("lakes", [english])) == []


PRICED = Settings(models=ModelSettings(read="openai/x", price=(1.0, 2.0)))


def test_levels_multiply_partial_and_final_answers() -> None:
    """Defaults: 5 hubs; one level, or up to 5 of them."""
    costs = question_costs(PRICED, ["bm25", "hublink", "hublink-topic", "hublink"])
    assert {name: row["tasks"] for name, row in costs.items()} == {
        "hublink": {"hub.partial": 5, "hub.final": 1},
        "hublink-topic": {"hub.partial": 25, "hub.final": 5},
    }
    row = costs["hublink"]
    assert row["calls"] == 6
    assert row["cost_usd"] == round((row["prompt_tokens"] + 2 * row["completion_tokens"]) / 1e6, 6)
    assert 6 * 6000 < row["prompt_tokens"] < 6 * 7500


def test_steps_that_rules_take_cost_nothing() -> None:
    def calls(**given: Any) -> dict[str, int]:
        bounds = parse_parameters(spec_of("hublink"), given).call_bounds()
        return {bound.task: bound.calls for bound in bounds}

    assert calls(partial_answers="rules") == {"hub.final": 1}
    assert calls(final_answer="rules", number_of_hubs=30) == {"hub.partial": 30}
    assert calls(partial_answers="rules", final_answer="rules") == {}
    whole = calls(question_components="model", output_filter=True)
    assert whole == {"hub.components": 1, "hub.partial": 5, "hub.final": 1, "hub.filter": 1}
    assert spec_of("bm25").parameters().call_bounds() == ()


def test_an_unknown_price_leaves_the_cost_open(capsys: Any) -> None:
    assert question_costs(Settings(), ["hublink"]) == {}, "without a model there is nothing to pay"
    costs = question_costs(Settings(models=ModelSettings(read="openai/none-such")), ["hublink"])
    assert costs["hublink"]["cost_usd"] is None
    print_questions("openai/none-such", costs)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("a question by hublink asks openai/none-such at most 6 times (5 hub.partial, 1 hub.final): ")
    assert line.endswith("tokens, cost unknown")
    print_questions("openai/x", question_costs(PRICED, ["hublink"]))
    assert capsys.readouterr().out.endswith(" USD\n")
