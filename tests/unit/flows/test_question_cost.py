"""The upper bound of a question's cost, by strategy."""

from typing import Any

from polyhop.commands.index import print_questions
from polyhop.flows.plan import question_costs
from polyhop.schemas.settings import ModelSettings, Settings
from polyhop.worker.strategies.registry import parse_parameters, spec_of

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


def test_without_a_model_for_reading_there_is_nothing_to_pay() -> None:
    assert question_costs(Settings(), ["hublink"]) == {}


def test_an_unknown_price_leaves_the_cost_open(capsys: Any) -> None:
    costs = question_costs(Settings(models=ModelSettings(read="openai/none-such")), ["hublink"])
    assert costs["hublink"]["cost_usd"] is None
    print_questions("openai/none-such", costs)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("a question by hublink asks openai/none-such at most 6 times (5 hub.partial, 1 hub.final): ")
    assert line.endswith("tokens, cost unknown")
    print_questions("openai/x", question_costs(PRICED, ["hublink"]))
    assert capsys.readouterr().out.endswith(" USD\n")
