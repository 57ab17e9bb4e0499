"""Sums of model use, and hubs as sources, in the JSON of answers."""

from dataclasses import replace

from polyhop.schemas.chat import Usage
from polyhop.schemas.query import Citation, ModelUse, Reading, Sentence, reading_row, summed_use

PARTIAL = ModelUse("m", "hub.partial", "h1", usage=Usage(1, 100, 10, 0.5, 2.0))
CACHED = replace(PARTIAL, is_cached=True)
FINAL = ModelUse("m", "hub.final", "h2", usage=Usage(1, 50, 5, 0.25, 1.0), rung="as_is")


def test_a_sum_counts_what_was_paid_now_apart_from_what_the_replies_took() -> None:
    use = summed_use([CACHED, PARTIAL, FINAL])
    assert use is not None
    assert use.usage == Usage(3, 250, 25, 1.25, 5.0)
    assert use.spent == Usage(2, 150, 15, 0.75, 3.0)
    assert (use.prompt, use.is_cached, use.rung) == ("hub.final", False, "as_is")
    assert use.parts == (CACHED, PARTIAL, FINAL)


def test_a_sum_of_cached_replies_is_cached_and_sums_of_sums_keep_their_parts() -> None:
    all_cached = summed_use([CACHED, CACHED])
    assert all_cached is not None
    assert (all_cached.is_cached, all_cached.spent) == (True, Usage())
    whole = summed_use([all_cached, FINAL])
    assert whole is not None
    assert (whole.parts, whole.spent) == ((CACHED, CACHED, FINAL), FINAL.usage)


def test_a_sum_names_the_first_failure() -> None:
    failed = replace(PARTIAL, error_class="MalformedReplyError", error="No JSON.")
    use = summed_use([PARTIAL, failed, replace(failed, error="Another."), FINAL])
    assert use is not None
    assert (use.error_class, use.error) == ("MalformedReplyError", "No JSON.")


def test_one_question_is_its_own_sum_and_none_has_no_sum() -> None:
    assert summed_use([FINAL]) is FINAL
    assert summed_use([]) is None


def test_the_row_lists_the_parts_of_a_sum_only() -> None:
    whole = reading_row(Reading("a", use=summed_use([CACHED, FINAL])))
    assert [(part["prompt"]["name"], part["cached"]) for part in whole["parts"]] == [
        ("hub.partial", True),
        ("hub.final", False),
    ]
    assert (whole["usage"]["calls"], whole["spent"]["calls"]) == (2, 1)
    assert "parts" not in reading_row(Reading("a", use=FINAL))


def test_a_cited_hub_has_its_id_beside_the_fields_of_a_passage() -> None:
    quoted = Citation("p1", Sentence("p1", "Said.", 0, 5), number=1)
    row = reading_row(Reading("a", citations=(quoted, Citation("", hub_id="H1", name="Paper One", number=2))))
    assert row["citations"] == [
        {"passage_id": "p1", "quote": "Said.", "start": 0, "end": 5, "number": 1},
        {"passage_id": "", "quote": "", "start": None, "end": None, "hub_id": "H1", "name": "Paper One", "number": 2},
    ]
