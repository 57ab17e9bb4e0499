"""Log lines, and secrets that they must not hold."""

import base64
import json
import logging

import pytest

from polyhop.schemas import errors
from polyhop.schemas.logs import JSON_VARIABLE, LEVEL_VARIABLE, configure_logs, configure_logs_as_parent

LOG = logging.getLogger("polyhop.tests")
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (LEVEL_VARIABLE, JSON_VARIABLE):
        monkeypatch.delenv(name, raising=False)


def test_json_lines_have_time_level_logger_message_and_fields(capsys: Captured) -> None:
    configure_logs("info", as_json=True)
    LOG.info("version %d published", 3, extra={"fields": {"index": "mine", "level": "no", "error": "why"}})
    out, err = capsys.readouterr()
    row = json.loads(err)
    assert out == ""
    assert (row["level"], row["logger"], row["message"]) == ("info", "polyhop.tests", "version 3 published")
    assert (row["index"], row["error"]) == ("mine", "why")
    assert row["time"].endswith("Z")


@pytest.mark.parametrize(("level", "said"), [("debug", 3), ("info", 2), ("warning", 1), ("error", 0)])
def test_lower_levels_are_left_out(capsys: Captured, level: str, said: int) -> None:
    configure_logs(level)
    LOG.debug("a claim")
    LOG.info("a publication")
    LOG.warning("an outage")
    assert len(capsys.readouterr().err.splitlines()) == said
    with pytest.raises(errors.ConfigurationError, match="Unknown log level 'loud'; choose debug, info, warning, error"):
        configure_logs("loud")


def test_without_a_level_warnings_are_message_and_reason(capsys: Captured) -> None:
    configure_logs()
    LOG.info("nothing")
    LOG.warning("look here", extra={"fields": {"worker": "w"}})
    LOG.warning("a question failed", extra={"fields": {"error": "no such index"}})
    assert capsys.readouterr().err == "look here\na question failed: no such index\n"


@pytest.mark.parametrize("as_json", [True, False])
def test_no_secret_and_no_second_line(capsys: Captured, monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
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
    assert [part for part in ("\x1b", "very-secret", "pass-word-1", "other-secret") if part in err] == []


def test_a_child_logs_as_its_parent_was_told(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    configure_logs_as_parent()
    LOG.info("as a library: nothing")
    monkeypatch.setenv(LEVEL_VARIABLE, "info")
    monkeypatch.setenv(JSON_VARIABLE, "1")
    configure_logs_as_parent()
    LOG.info("from a child")
    assert json.loads(capsys.readouterr().err)["message"] == "from a child"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql+psycopg://ann:p@s3cret-pw@db/queue",
        "cannot reach 'http://:s3cret-pw@host/api'",
        "https://s3cret-pw@host/path",
        "https://host/v1?model=a&api_key=s3cret-pw&b=1",
        "https://host/v1?access_token=s3cret-pw#top",
        "Authorization: Bearer s3cret-pw",
        '{"Authorization": "Basic s3cret-pw=="}',
        "x-api-key: s3cret-pw",
        "Incorrect API key provided: s3cret-pw. You can find yours there.",
        "OPENAI_API_KEY=s3cret-pw",
        "the header was Bearer s3cret-pw-that-is-long",
        "connection failed: host=db password=s3cret-pw user=ann",
        "unknown key sk-s3cret-pw",
    ],
)
def test_a_secret_is_found_by_its_form(text: str) -> None:
    assert "s3cret-pw" not in errors.redact(text)
    assert "***" in errors.redact(text)
    assert errors.redact(errors.redact(text)) == errors.redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann@db:5432/queue",
        "see https://docs.example.org/a:b/c@d?page=2&monkey=3",
        "Key 'nightly' already belongs to job 3, which has other questions; nothing was submitted.",
        "Neo4j needs a password; set NEO4J_PASSWORD (or use --password).",
        "the bearer of the ring",
        "Unknown setting 'models.api_bas' in polyhop.toml; did you mean 'models.api_base'?",
        "mail ann@example.org: 3:45 pm @ noon",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert errors.redact(text) == text


def test_secrets_of_the_environment_are_found_by_name_and_in_addresses() -> None:
    basic = base64.b64encode(b"u:p@ss-word").decode()
    environment = {
        "OPENAI_API_KEY": "plain-value",
        "NEO4J_PASSWORD": "graph-value",
        "PREFECT_API_AUTH_STRING": "admin:login-value",
        "POLYHOP_QUEUE__URL": "postgresql://u:p%40ss-word@db/q",
        "SHORT_API_KEY": "none",
        "HOME": "/home/ann-value",
    }
    named = {"plain-value", "graph-value", "admin:login-value", "login-value"}
    assert errors.secrets_of(environment) == named | {"p%40ss-word", "p@ss-word", basic}


def test_words_of_a_server_and_errors_of_ours_lose_secrets_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "tok-12345")
    text = '{"answer": "Bearer of a password: https://u:pw@host, tok-12345"}'
    assert errors.without_values(text) == '{"answer": "Bearer of a password: https://u:pw@host, ***"}'
    errors.remember_secrets(["http://u:remembered-one@host/v1", "remembered-two"])
    assert errors.redact("said remembered-one and remembered-two") == "said *** and ***"
    assert str(errors.StoreUnavailableError("cannot reach http://u:pw-of-u@host")) == "cannot reach http://u:***@host"
    assert errors.PolyhopError(3).args == (3,)

    tree = {"queue": {"url": "postgresql://u:pw-of-u@db/q"}, "n": 3, "l": ("a", None)}
    assert errors.redacted_tree(tree) == {"queue": {"url": "postgresql://u:***@db/q"}, "n": 3, "l": ["a", None]}
    assert errors.has_secret(tree["queue"]["url"])  # type: ignore[index]
    assert not errors.has_secret("postgresql://u@db/q")
    assert not errors.has_secret(3)
