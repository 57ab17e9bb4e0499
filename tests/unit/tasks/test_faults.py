"""What becomes of an error of a rule: one storable line that says what and where."""

from pathlib import Path

from polyhop.tasks.stage import fault_reason


def raised(message: str) -> Exception:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


def test_the_reason_has_type_message_file_and_line_on_one_line() -> None:
    reason = fault_reason(raised("bad\n  value\t!"))
    assert reason.startswith("a rule failed on it, which is a defect in Polyhop: ValueError: bad value !")
    assert reason.endswith(f"({Path(__file__).name} line 10)")


def test_a_message_that_quotes_a_whole_text_is_cut() -> None:
    reason = fault_reason(raised("x" * 100_000))
    assert len(reason) < 450
    assert reason.endswith("line 10)")


def test_what_no_table_can_hold_is_escaped() -> None:
    reason = fault_reason(raised("a\0b \ud800"))
    assert "a b \\ud800" in reason
    reason.encode("utf-8")


def test_an_error_that_was_never_raised_has_no_line() -> None:
    assert fault_reason(KeyError("k")).endswith("KeyError: 'k'")
