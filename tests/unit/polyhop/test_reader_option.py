"""`--reader`: who reads, and what is refused."""

import pytest

from polyhop.commands.options import with_reader
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.settings import Settings

WITH_MODEL = Settings(models={"read": "openai/x", "name_questions": True})


def test_rules_read_without_the_model_and_nobody_reads_with_none() -> None:
    assert with_reader(WITH_MODEL, None) is WITH_MODEL
    rules = with_reader(WITH_MODEL, "rules")
    assert (rules.models.read, rules.reader.reads) == ("", True)
    none = with_reader(WITH_MODEL, "none")
    assert (none.models.read, none.models.name_questions, none.reader.reads) == ("openai/x", True, False)


def test_a_reader_on_the_command_line_reads_although_the_settings_say_that_nobody_does() -> None:
    unread = Settings(models={"read": "openai/x"}, reader={"reads": False})
    assert not with_reader(unread, None).reader.reads
    assert with_reader(unread, "rules").reader.reads
    assert with_reader(unread, "model").reader.reads


def test_unknown_readers_and_a_model_that_is_not_set_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"^--reader takes rules, model or none, not 'nobody'\.$"):
        with_reader(Settings(), "nobody")
    with pytest.raises(ConfigurationError, match=r"^--reader model needs a model: set models\.read"):
        with_reader(Settings(), "model")
