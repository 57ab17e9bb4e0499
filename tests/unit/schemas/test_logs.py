"""Log records for people and for programs: one line each, without secrets."""

import json
import logging
from collections.abc import Iterator

import pytest

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.logs import JSON_VARIABLE, LEVEL_VARIABLE, ROOT, configure_logs, configure_logs_as_parent

LOG = logging.getLogger("polyhop.tests")


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (LEVEL_VARIABLE, JSON_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    logger = logging.getLogger(ROOT)
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:], _ = handlers, logger.setLevel(level)  # type: ignore[func-returns-value]


def test_json_lines_have_time_level_logger_message_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", as_json=True)
    LOG.info("version %d published", 3, extra={"fields": {"index": "mine", "level": "no", "error": "why"}})
    out, err = capsys.readouterr()
    row = json.loads(err)
    assert out == ""
    assert (row["level"], row["logger"], row["message"]) == ("info", "polyhop.tests", "version 3 published")
    assert (row["index"], row["error"]) == ("mine", "why")
    assert row["time"].endswith("Z")


@pytest.mark.parametrize(("level", "said"), [("debug", 3), ("info", 2), ("warning", 1), ("error", 0)])
def test_lower_levels_are_left_out(capsys: pytest.CaptureFixture[str], level: str, said: int) -> None:
    configure_logs(level)
    LOG.debug("a claim")
    LOG.info("a publication")
    LOG.warning("an outage")
    assert len(capsys.readouterr().err.splitlines()) == said


def test_without_a_level_warnings_are_message_and_reason(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs()
    LOG.info("nothing")
    LOG.warning("look here", extra={"fields": {"worker": "w"}})
    LOG.warning("a question failed", extra={"fields": {"error": "no such index"}})
    assert capsys.readouterr().err == "look here\na question failed: no such index\n"


@pytest.mark.parametrize("as_json", [True, False])
def test_no_secret_and_no_second_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key-123456")
    configure_logs("debug", as_json=as_json)
    fields = {"document": "d\nforged line\x1b[2J", "url": "http://user:pass-word-1@host/x?api_key=sk-other-secret-99"}
    LOG.warning("call with %s failed\nagain", "sk-very-secret-key-123456", extra={"fields": fields})
    try:
        raise ValueError("sk-very-secret-key-123456")
    except ValueError:
        LOG.exception("broken")
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 2
    assert "\x1b" not in err
    for secret in ("very-secret", "pass-word-1", "other-secret"):
        assert secret not in err


def test_an_unknown_level_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match="Unknown log level 'loud'; choose debug, info, warning, error"):
        configure_logs("loud")


def test_a_child_logs_as_its_parent_was_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_logs_as_parent()
    LOG.info("as a library: nothing")
    monkeypatch.setenv(LEVEL_VARIABLE, "info")
    monkeypatch.setenv(JSON_VARIABLE, "1")
    configure_logs_as_parent()
    LOG.info("from a child")
    assert json.loads(capsys.readouterr().err)["message"] == "from a child"
