"""What every section of the settings is: frozen, strict about its keys, plain about a value that breaks a rule.

Holds no section.
"""

from pydantic import BaseModel, ConfigDict, ValidationError

_THEIRS_AND_OURS = (
    ("Input should be ", "must be "),
    ("Input should have ", "must have "),
    ("a valid integer", "a whole number"),
    ("a valid boolean", "true or false"),
    ("a valid dictionary", "a table of names and values"),
    ("a valid string", "text"),
    ("a valid tuple", "a list"),
    ("a valid ", "a "),
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
    ("greater than", "above"),
    ("less than", "below"),
)
"""How pydantic says what a value should be, and how we do; in this order, for some are parts of others."""
_LONGEST_VALUE = 60
"""Characters of a wrong value that are shown; chosen: enough to find it."""


class Section(BaseModel):
    """Settings that belong together."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def broken_rule(error: ValidationError) -> str:
    """The first rule that a value breaks: must be a whole number, not 'abc'."""
    first = error.errors()[0]
    rule = first["msg"].removeprefix("Value error, ").partition(", unable to ")[0].partition(", got ")[0]
    for theirs, ours in _THEIRS_AND_OURS:
        rule = rule.replace(theirs, ours)
    value = repr(first.get("input"))
    shown = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…"
    return f"{rule}, not {shown}" if rule.startswith("must ") else f"is {shown}: {rule[:1].lower()}{rule[1:]}"
