"""Settings: defaults, sources and their order, what is refused; and lists and ranges of parameters in variants."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.schemas import settings
from polyhop.schemas.errors import ConfigurationError, UnknownSettingError
from polyhop.schemas.requests import MAX_COMBINATIONS, expand_labels, labels_in, parse_range, parse_variant
from polyhop.warehouse.user_files import load_settings


def test_later_sources_win_and_a_comma_list_sets_several_values() -> None:
    later = {"batch_size": "20", "strategies": "bm25, dense", "models.price": "0.15,0.6"}
    found = settings.parse_settings({"file": {"batch_size": 10}, "environment": later, "flags": {}})
    assert (found.batch_size, found.strategies, found.models.price) == (20, ("bm25", "dense"), (0.15, 0.6))


def test_an_unknown_key_names_the_nearest_known_one() -> None:
    with pytest.raises(UnknownSettingError, match=r"'extraction.nerr' in polyhop.toml; did you mean 'extraction.ner'"):
        settings.parse_settings({"polyhop.toml": {"extraction.nerr": "rules"}})


def test_a_removed_setting_is_an_unknown_one() -> None:
    with pytest.raises(UnknownSettingError, match=r"^Unknown setting 'queue.max_depth' in polyhop.toml; "):
        settings.parse_settings({"polyhop.toml": {"queue.max_depth": 3}})


def test_a_section_of_an_older_version_is_read_without_removed_settings() -> None:
    stored = {"ner": "regex", "regex_drop_stopwords": False, "spacy_model": "x"}
    assert settings.stored_section(settings.ExtractionSettings, stored) == settings.ExtractionSettings(ner="regex")
    stored = {"entities": {"name": "local", "dimension": 64}, "batch_size": 0}
    encoder = settings.stored_section(settings.EncoderSettings, stored)
    assert encoder.choice_of(settings.ENTITIES).dimension == 0


def test_a_bad_value_names_its_source_and_its_rule() -> None:
    with pytest.raises(ConfigurationError, match=r"'batch_size' in the environment must be at least 1, not '0'"):
        settings.parse_settings({"the environment": {"batch_size": "0"}})
    assert settings.parse_settings({"flags": {"models.price": "0.15,0.6,0.02"}}).models.price == (0.15, 0.6, 0.02)
    with pytest.raises(ConfigurationError, match=r"must be one of rules, model, import:FILE, not 'rule'"):
        settings.parse_settings({"flags": {"extraction.extractor": "rule"}})
    with pytest.raises(ConfigurationError, match=r"'models.price' in flags must be two or three numbers, .* '0.15'"):
        settings.parse_settings({"flags": {"models.price": "0.15"}})


def test_every_setting_is_described() -> None:
    assert [name for name, description, _ in settings.known_settings() if not description.endswith(".")] == []


def test_names_in_the_environment_and_in_nested_tables_become_dotted() -> None:
    environment = {"POLYHOP_EXTRACTION__NER": "regex", "HOME": "/root", "POLYHOP_CONFIG": "x.toml"}
    assert settings.environment_settings(environment) == {"extraction.ner": "regex"}
    assert settings.flatten({"a": {"b": 1, "c": {"d": 2}}, "e": 3}) == {"a.b": 1, "a.c.d": 2, "e": 3}


def test_file_environment_and_flags_are_read_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("polyhop.toml").write_text('root = "a"\nbatch_size = 1\nkeep_versions = 7\n[extraction]\nner = "regex"\n')
    monkeypatch.setenv("POLYHOP_BATCH_SIZE", "2")
    monkeypatch.setenv("POLYHOP_ROOT", "b")
    found = load_settings({"root": "c"})
    assert (str(found.root), found.batch_size, found.keep_versions) == ("c", 2, 7)
    assert found.extraction.ner == "regex"
    path = tmp_path / "mine.toml"
    monkeypatch.setenv("POLYHOP_CONFIG", str(path))
    with pytest.raises(ConfigurationError, match=r"mine\.toml, which does not exist"):
        load_settings()
    path.write_text("root = \n")
    with pytest.raises(ConfigurationError, match=r"mine\.toml"):
        load_settings()


KNOWN = ("bridge", "qasa", "proprag", "bm25")


def test_a_part_that_begins_no_strategy_is_a_value_of_the_parameter_before_it() -> None:
    expected = {
        "bridge, bm25 ,,": ["bridge", "bm25"],
        "bridge,proprag:beam_width=1..6": ["bridge", "proprag:beam_width=1..6"],
        "qasa:decay=.3,.5:steps=1,2,all": ["qasa:decay=.3,.5:steps=1,2", "all"],
        "qasa:gate=none,soft,qasa:steps=1..2": ["qasa:gate=none,soft", "qasa:steps=1..2"],
        "qasa:gate=none , bridge:restart=.2": ["qasa:gate=none", "bridge:restart=.2"],
        "bridge,unknown,.5": ["bridge", "unknown", ".5"],
        ",": [],
    }
    assert {text: labels_in(text, KNOWN) for text in expected} == expected


def test_a_range_stands_for_whole_numbers_with_both_ends_as_if_each_had_been_written() -> None:
    one = parse_range("proprag: beam_width = 1..3")
    assert (one.label, one.parameters) == ("proprag: beam_width = 1..3", ("beam_width",))
    assert dict(one.points) == {f"proprag:beam_width={n}": (str(n),) for n in (1, 2, 3)}
    assert parse_variant("proprag:beam_width=2", {}).parameters == {"beam_width": "2"}
    assert list(parse_range("a:x=-1..1,6,.5,1").points) == ["a:x=-1", "a:x=0", "a:x=1", "a:x=6", "a:x=.5"]
    assert list(parse_range("a:x=1..1").points) == ["a:x=1"]


def test_several_ranges_are_all_combinations_and_other_parameters_stay_as_they_are() -> None:
    one = parse_range("qasa:decay=.3,.5:gate=none:steps=1..2")
    assert one.parameters == ("decay", "steps")
    pairs = [(decay, steps) for decay in (".3", ".5") for steps in "12"]
    assert dict(one.points) == {f"qasa:decay={decay}:gate=none:steps={n}": (decay, n) for decay, n in pairs}
    for label in ("bridge", "qasa: steps = 1", "a:path=../x", "a:x="):  # one value each
        one = parse_range(label)
        assert (one.parameters, dict(one.points)) == ((), {label: ()})


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        ("a:x=6..1", "'6..1' in 'a:x=6..1' is empty; the smaller number comes first: 1..6."),
        ("a:x=.1...5", "'.1...5' in 'a:x=.1...5' is not a range: FIRST..LAST takes whole numbers"),
        ("a:x=v1..2", "is not a range"),
        ("a:x=1..1000000000", "is not a range"),
        ("a:x=1..101", "stands for 101 variants, at most 100 are possible"),
        ("a:x=1..999999999", "stands for 999,999,999 variants"),
        ("a:x=1..11:y=1..10", "stands for 110 variants"),
        ("a:x=.3,bridg", "'bridg' in 'a:x=.3,bridg' is neither a strategy nor a number like the values of 'x' before"),
        ("a:x=.3,y=2", "'y=2' in 'a:x=.3,y=2' is neither a strategy nor a value of 'x'; parameters of one strategy"),
        ("a:x=1:x=2", "gives 'x' twice; list its values: x=1,2."),
        ("a:x", "not 'a:x'"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(label: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_range(label)
    assert sentence in str(refused.value)


def test_as_many_variants_as_allowed_are_read_and_come_once_where_they_come_first() -> None:
    assert len(parse_range("a:x=1..10:y=1..10").points) == MAX_COMBINATIONS
    labels = ["qasa:steps=2", "qasa:steps=1..3", "all"]
    assert expand_labels(labels, KNOWN) == ["qasa:steps=2", "qasa:steps=1", "qasa:steps=3", *KNOWN]


VALUE = st.integers(-50, 50).map(str) | st.floats(0, 1, allow_nan=False).map(str)
LABEL = st.builds(
    lambda name, values: f"{name}:x={','.join(values)}", st.sampled_from(KNOWN), st.lists(VALUE, min_size=1, max_size=4)
) | st.sampled_from((*KNOWN, "all"))


@given(st.lists(LABEL, max_size=5))
def test_labels_joined_by_commas_are_read_as_they_were(labels: list[str]) -> None:
    assert labels_in(",".join(labels), KNOWN) == labels


def test_every_setting_says_what_depends_on_it() -> None:
    marked = settings.settings_with(settings.INDEX, settings.ANSWERS, settings.NOTHING)
    names = [name for name, _, _ in settings.known_settings()]
    assert sorted(settings.flatten(marked)) == sorted(names)


def test_no_setting_affects_results_and_nothing() -> None:
    affecting = settings.flatten(settings.settings_with(settings.INDEX, settings.ANSWERS))
    assert affecting.keys() & settings.flatten(settings.settings_with(settings.NOTHING)).keys() == set()


def test_other_processes_get_no_address_and_no_key() -> None:
    given = settings.parse_settings(
        {"test": {"queue.url": "postgresql://a:b@c", "encoder.api_base": "http://a:b@c", "models.read": "openai/x"}}
    )
    hidden = settings.without_secrets(given)
    assert (hidden.queue.url, hidden.encoder.api_base, hidden.models.read) == ("", "", "openai/x")
