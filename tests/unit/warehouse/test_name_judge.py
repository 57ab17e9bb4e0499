"""Names judged by the encoder's token states: spans, votes, the cache, the shipped weights."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from polyhop.schemas.errors import ModelFileError
from polyhop.schemas.names import NameFinder
from polyhop.schemas.records import Passage
from polyhop.schemas.settings import Settings
from polyhop.tasks.extraction.rows import BatchPages, ExtractedPassage
from polyhop.tasks.extraction.rules import PassageRules
from polyhop.tasks.extraction.stated import VALUE_TYPES
from polyhop.warehouse.models.local_encoder import LocalEncoder, TokenStates
from polyhop.warehouse.name_judge import (
    CLASSES,
    HEADS_FILE,
    NameJudge,
    cut_spans,
    gives_types,
    join_spans,
    joinable_words,
    open_heads,
)
from polyhop.warehouse.open_models import close_encoders, open_encoder

TEXTS = ["Ada Lovelace met Charles Babbage in London.", "", "Payment is due within 30 days."]


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    yield Settings(root=tmp_path)
    close_encoders()


def rules(settings: Settings, language: str = "en") -> PassageRules:
    return PassageRules(NameFinder(["Zed"]), "rules", language, NameJudge(settings))


def passage(text: str, title: str = "Page 1") -> Passage:
    return Passage("p1", "p1", "d1", 0, title, text, 0, len(text))


def best(page: ExtractedPassage) -> dict[str, str]:
    """The class with most votes of each name that is not a title."""
    return {key: CLASSES[int(np.argmax(row.votes))] for key, row in page.rows.items() if row.votes and not row.is_title}


def test_token_states_come_with_the_same_vectors_bit_for_bit() -> None:
    encoder = LocalEncoder()
    found = sorted(encoder.encode_states(TEXTS), key=lambda encoded: encoded.number)
    assert np.array([encoded.vector for encoded in found]).tobytes() == encoder.encode(TEXTS).tobytes()
    assert [len(encoded.tokens.states) - 2 for encoded in found] == [11, 0, 7]
    assert [TEXTS[0][slice(*span)] for span in found[0].tokens.offsets[1:3]] == ["Ada", "Love"]


def test_tokens_of_a_span_are_those_that_it_touches() -> None:
    offsets = np.array([(0, 0), (0, 3), (4, 8), (8, 10), (0, 0)])
    tokens = TokenStates(np.arange(10, dtype=np.float32).reshape(5, 2), offsets)
    ranges = tokens.ranges([(0, 3), (5, 9), (3, 4), (20, 25)])
    assert ranges.tolist() == [[1, 2], [2, 4], [2, 2], [4, 4]]
    assert tokens.means(ranges[:2]).tolist() == [[2, 3], [5, 6]]


@pytest.mark.parametrize(
    ("text", "key", "kind"),
    [
        ("The turbines are supplied by Tarnwick Engineering Ltd.", "tarnwick engineering ltd", "ORGANIZATION"),
        ("The project is led by Ines Falkner since May.", "ines falkner", "PERSON"),
        ("They met in Leeds last week.", "leeds", "LOCATION"),
        ("Invoice 17\n\nPayment is due within 30 days.", "payment", "NONE"),
    ],
)
def test_context_gives_a_name_its_class(settings: Settings, text: str, key: str, kind: str) -> None:
    assert best(rules(settings)(passage(text)))[key] == kind


@pytest.mark.parametrize("name", ["Sulzer GmbH", "Philips NV", "Nestlé SA", "Enel S.p.A.", "Siemens AG"])
def test_a_name_with_a_legal_form_is_an_organization(settings: Settings, name: str) -> None:
    page = rules(settings)(passage(f"In 1901 the office praised {name} for the work."))
    assert [(row.type, row.confidence) for row in page.rows.values() if row.votes and not row.is_title] == [
        ("ORGANIZATION", 0.9)
    ]


def test_without_votes_a_legal_form_states_no_type() -> None:
    page = PassageRules(NameFinder([]), "rules", "en")(passage("In 1901 the office praised Sulzer GmbH for the work."))
    assert page.rows["sulzer gmbh"].type is None


def test_a_stated_name_with_a_legal_form_is_an_organization(settings: Settings) -> None:
    page = PassageRules(NameFinder([]), "rules", "en")(passage("In 1901 the office praised Sulzer GmbH for the work."))
    rules(settings).type_pages([page])
    assert page.rows["sulzer gmbh"].type == "ORGANIZATION"


def test_a_type_that_a_page_states_stands_against_a_legal_form(settings: Settings) -> None:
    page = rules(settings)(passage("Kappa Ltd is a 1999 film. Kappa Ltd was a success.", title="Kappa Ltd"))
    assert page.rows["kappa ltd"].type == "WORK"


def test_a_location_with_letters_of_a_legal_form_stays_one(settings: Settings) -> None:
    page = rules(settings)(passage("They live in Edmonton AB near the river."))
    assert (page.rows["edmonton ab"].type, best(page)["edmonton ab"]) == (None, "LOCATION")


def test_what_is_no_name_in_english_is_another_name_in_german(settings: Settings) -> None:
    text = "Invoice 17\n\nPayment is due within 30 days."
    votes = rules(settings, "de")(passage(text)).rows["payment"].votes
    assert (votes[-1], CLASSES[int(np.argmax(votes))]) == (0, "OTHER")


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Flight 370", "flight 370"),
        ("Windows 11", "windows 11"),
        ("Unit 7", "unit 7"),
        ("Article 5", "article 5"),
        ("Siemens AG", "siemens ag"),
        ("Nestlé SA", "nestle sa"),
        ("Acme Holdings Ltd.", "acme holdings ltd"),
        ("Enel S.p.A.", "enel s p a"),
        ("The Who", "the who"),
        ("C++", "c++"),
        ("C#", "c#"),
        ("Node.js", "node js"),
        ("Kim Min-jun", "kim min jun"),
        ("Marks and Spencer", "marks and spencer"),
    ],
)
def test_an_odd_name_is_found_whole(settings: Settings, name: str, key: str) -> None:
    page = rules(settings)(passage(f"In 1901 the office praised {name} for the work."))
    assert [key for key, row in page.rows.items() if row.spans and row.type not in VALUE_TYPES] == [key]


def test_a_greeting_is_no_part_of_a_name(settings: Settings) -> None:
    page = rules(settings)(passage("Hello Pavel,\n\nplease find the invoice attached.", title=""))
    assert "pavel" in page.rows
    assert "hello pavel" not in page.rows


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("Alice and Bob met on Monday.", {"alice", "bob"}),
        ("Our sales in France and Germany rose.", {"france", "germany"}),
        ("We deliver to Leeds and Bradford.", {"leeds", "bradford"}),
        ("Parts are bought from Siemens and Bosch.", {"siemens", "bosch"}),
    ],
)
def test_two_names_with_and_between_them_stay_two(settings: Settings, text: str, keys: set[str]) -> None:
    assert keys <= rules(settings)(passage(text)).rows.keys()


def test_titles_with_and_between_them_are_not_joined(settings: Settings) -> None:
    finder = NameFinder(["Marks", "Spencer"])
    page = PassageRules(finder, "rules", "en", NameJudge(settings))(
        passage("In 1907 the office praised Marks and Spencer for the work.")
    )
    assert {"marks", "spencer"} <= page.rows.keys()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Parker and Stone wrote it.", 1),
        ("Parker and Stone wrote it. Later Parker sang.", 0),
        ("Parker and Stone wrote it. Matt Stone sang.", 0),
        ("Parker and Stone wrote it. Parker and Stone sang.", 2),
        ("Parker, Stone and others wrote it.", 0),
    ],
    ids=["nowhere else", "alone", "end of a name", "repeated", "no pair"],
)
def test_a_pair_may_be_one_name_where_no_part_stands_alone(text: str, count: int) -> None:
    spans = [(mention.start, mention.end) for mention in NameFinder([]).find(text)]
    words = joinable_words(text, spans, ())
    assert [text[slice(*word)] for word in words] == ["and"] * count


@pytest.mark.parametrize(
    ("probabilities", "expected"),
    [
        ({(6, 9): 0.6}, [(0, 17), (22, 25)]),
        ({(6, 9): 0.59}, [(0, 5), (10, 17), (22, 25)]),
        ({(6, 9): 0.9, (18, 21): 0.9}, [(0, 25)]),
    ],
    ids=["joined", "below the threshold", "three"],
)
def test_spans_are_joined_from_a_probability_on(
    probabilities: dict[tuple[int, int], float], expected: list[tuple[int, int]]
) -> None:
    assert join_spans([(0, 5), (10, 17), (22, 25)], probabilities) == expected


WORDS = [(0, 5), (6, 11), (12, 13)]  # Hello Pavel C++


@pytest.mark.parametrize(
    ("outside", "spans", "expected"),
    [
        ((0.9, 0.1, 0.9), [(0, 11)], [(6, 11)]),
        ((0.1, 0.9, 0.9), [(0, 11)], [(0, 5)]),
        ((0.9, 0.1, 0.1), [(0, 15)], [(6, 15)]),
        ((0.9, 0.9, 0.9), [(0, 11)], [(6, 11)]),
        ((0.9, 0.1, 0.9), [(0, 11), (6, 11)], [(6, 11)]),
        ((0.1, 0.1, 0.1), [(30, 31)], [(30, 31)]),
    ],
    ids=["in front", "behind", "signs stay", "one word stays", "once", "without words"],
)
def test_words_in_no_name_are_cut_from_its_ends(
    outside: tuple[float, ...], spans: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    assert cut_spans(spans, WORDS, np.array(outside, np.float32)) == expected


def test_a_passage_is_encoded_once_for_its_vector_and_its_names(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = rules(settings)(passage(TEXTS[0]))
    encoder = open_encoder(settings)
    misses = encoder.misses
    with monkeypatch.context() as patch:
        patch.setattr("polyhop.warehouse.models.local_encoder.LocalEncoder._parts", None)
        assert rules(settings)(passage(TEXTS[0])) == page
    vector = encoder.encode([f"Page 1\n{TEXTS[0]}"], "passage")
    assert (encoder.misses, misses) == (misses, 1)
    assert vector.tobytes() == LocalEncoder().encode([f"Page 1\n{TEXTS[0]}"]).tobytes()


def test_votes_of_passages_do_not_depend_on_the_passages_around_them(settings: Settings, tmp_path: Path) -> None:
    passages = [passage(f"{text} Roe {number} saw Zed.") for number, text in enumerate(TEXTS)]
    pages = BatchPages()
    rules(settings).add_pages(pages, passages)
    close_encoders()
    alone = [rules(Settings(root=tmp_path / "alone"))(one) for one in passages]
    assert pages.pages == alone


def test_names_beyond_the_encoder_s_limit_have_no_votes(settings: Settings) -> None:
    page = rules(settings)(passage("Ada Lovelace sat. " + "and so on " * 300 + "Charles Babbage left."))
    assert (bool(page.rows["ada lovelace"].votes), page.rows["charles babbage"].votes) == (True, [])


@pytest.mark.parametrize(
    ("chosen", "artefacts", "expected"),
    [
        ({}, ("vectors:passage",), True),
        ({"corpus": {"language": "fr"}}, ("vectors:passage",), True),
        ({"corpus": {"language": "zh"}}, ("vectors:passage",), False),
        ({"encoder": {"name": "bge"}}, ("vectors:passage",), False),
        ({}, ("graph", "vectors:entity"), False),
    ],
    ids=["default", "French", "Chinese", "another encoder", "no vectors of passages"],
)
def test_types_need_the_encoder_they_are_trained_for(
    chosen: dict[str, object], artefacts: tuple[str, ...], *, expected: bool
) -> None:
    assert gives_types(Settings(**chosen), artefacts) is expected


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    damaged = Path(shutil.copy(HEADS_FILE, tmp_path))
    content = bytearray(damaged.read_bytes())
    content[9000] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"types of names .* not the published ones"):
        open_heads(damaged)
