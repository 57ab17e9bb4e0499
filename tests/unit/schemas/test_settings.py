from pathlib import Path

import pytest

from polyhop.schemas.errors import ConfigurationError, UnknownSettingError
from polyhop.schemas.settings import (
    ENTITIES,
    EncoderSettings,
    ExtractionSettings,
    Settings,
    environment_settings,
    flatten,
    known_settings,
    parse_settings,
    stored_section,
)
from polyhop.warehouse.user_files import load_settings


def test_later_sources_win() -> None:
    settings = parse_settings({"file": {"batch_size": 10}, "environment": {"batch_size": "20"}, "flags": {}})
    assert settings.batch_size == 20


def test_a_comma_list_sets_several_values() -> None:
    assert parse_settings({"environment": {"strategies": "bm25, dense"}}).strategies == ("bm25", "dense")


def test_an_unknown_key_names_the_nearest_known_one() -> None:
    with pytest.raises(UnknownSettingError, match=r"'extraction.nerr' in polyhop.toml; did you mean 'extraction.ner'"):
        parse_settings({"polyhop.toml": {"extraction.nerr": "rules"}})


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("queue.max_depth", r"it is always 1000000 \(warehouse/queue/queue.py MAX_DEPTH\)"),
        ("models.longest_reply.qa_answer", r"it is always 1024 \(.*models.max_reply_tokens sets all\)"),
        ("encoder.entities.device", r"it is always the model's own"),
    ],
)
def test_a_setting_that_is_gone_says_what_it_always_is(key: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^Setting '{key}' in polyhop.toml is gone: {said}"):
        parse_settings({"polyhop.toml": {key: 3}})


def test_a_section_of_an_older_version_is_read_without_what_is_gone() -> None:
    stored = {"ner": "regex", "regex_drop_stopwords": False, "spacy_model": "x"}
    assert stored_section(ExtractionSettings, stored) == ExtractionSettings(ner="regex")
    encoder = stored_section(EncoderSettings, {"entities": {"name": "local", "dimension": 64}, "batch_size": 0})
    assert encoder.choice_of(ENTITIES).dimension == 0


def test_a_bad_value_names_its_source_and_its_rule() -> None:
    with pytest.raises(ConfigurationError, match=r"'batch_size' in the environment must be at least 1, not '0'"):
        parse_settings({"the environment": {"batch_size": "0"}})


def test_a_price_is_two_numbers() -> None:
    assert parse_settings({"flags": {"models.price": "0.15,0.6"}}).models.price == (0.15, 0.6)
    with pytest.raises(ConfigurationError, match=r"'models.price' in flags must be two numbers, .* not '0.15'"):
        parse_settings({"flags": {"models.price": "0.15"}})


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().batch_size = 3  # type: ignore[misc]


def test_every_setting_is_described() -> None:
    assert [name for name, description, _ in known_settings() if not description.endswith(".")] == []


def test_two_underscores_separate_section_and_name_in_the_environment() -> None:
    found = environment_settings({"POLYHOP_EXTRACTION__NER": "regex", "HOME": "/root", "POLYHOP_CONFIG": "x.toml"})
    assert found == {"extraction.ner": "regex"}


def test_nested_tables_become_dotted_keys() -> None:
    assert flatten({"a": {"b": 1, "c": {"d": 2}}, "e": 3}) == {"a.b": 1, "a.c.d": 2, "e": 3}


def test_file_environment_and_flags_are_read_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("polyhop.toml").write_text('root = "a"\nbatch_size = 1\nkeep_versions = 7\n[extraction]\nner = "regex"\n')
    monkeypatch.setenv("POLYHOP_BATCH_SIZE", "2")
    monkeypatch.setenv("POLYHOP_ROOT", "b")
    settings = load_settings({"root": "c"})
    assert (str(settings.root), settings.batch_size, settings.keep_versions) == ("c", 2, 7)
    assert settings.extraction.ner == "regex"


def test_a_broken_settings_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("root = \n")
    monkeypatch.setenv("POLYHOP_CONFIG", str(path))
    with pytest.raises(ConfigurationError, match=r"mine\.toml"):
        load_settings()


def test_a_missing_settings_file_that_was_asked_for_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYHOP_CONFIG", "/nowhere/polyhop.toml")
    with pytest.raises(ConfigurationError, match="does not exist"):
        load_settings()
