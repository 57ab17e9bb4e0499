"""What stages took: of this run where they ran, of the run before where their result was taken over."""

from polyhop.flows.reports import StageTimings
from polyhop.schemas.runs import StageTiming

BEFORE = {"graph": StageTiming(seconds=9.0, units=3, computed=3)}


def test_a_result_that_is_taken_over_keeps_its_timing() -> None:
    timings = StageTimings(BEFORE)
    assert timings.taken_over("graph") == BEFORE["graph"]


def test_a_result_of_which_nobody_knows_has_none_even_if_the_stage_ran_in_vain_before() -> None:
    timings = StageTimings(BEFORE)
    timings.computed("lexical", 1.0)
    assert timings.taken_over("lexical") is None
    assert timings.taken_over("lexical") is None


def test_a_stage_that_ran_and_was_then_taken_over_has_the_timing_before() -> None:
    timings = StageTimings(BEFORE)
    timings.computed("graph", 1.23456789, 5, 2)
    assert timings.taken_over("graph") == BEFORE["graph"]
