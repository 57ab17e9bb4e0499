"""`polyhop tune-prompts`: requests, the files that are written, and the runs that use them."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_server import Behaviour, ModelServer, Recorded
from small_indexes import indexed, write_rows

from polyhop.flows.prompts import Example, composed, kept, most_covering, tune_prompts
from polyhop.schemas.chat import Prompt, Repair
from polyhop.schemas.errors import ConfigurationError, MalformedReplyError, SourceError
from polyhop.schemas.records import Passage
from polyhop.schemas.settings import ExtractionSettings, ModelSettings, Settings, parse_settings
from polyhop.tasks.extraction import model as extraction
from polyhop.tasks.extraction.stated import Contract
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.models.replies import read_reply
from polyhop.warehouse.open_models import current_run
from polyhop.warehouse.tables.query import query_rows

DEMO = Path(__file__).resolve().parents[3] / "polyhop" / "demo" / "corpus.jsonl"
FILES = ("kg.extract.md", "prop.entities.md", "prop.propositions.md")
SHOWN = re.compile(
    r"<example>\n.*?\n\n(?:Entities:\n(.*?)\n\n)?Passage:\n(.*?)\n\nReply:\n(.*?)\n</example>", re.DOTALL
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with the demo corpus, extracted by rules; read only."""
    folder = tmp_path_factory.mktemp("prompts")
    indexed(Settings(root=folder / "root", strategies=("bridge-lexical",)), DEMO, "demo")
    return folder / "root"


def tuned(root: Path, folder: Path, **more: Any) -> dict[str, Any]:
    settings = parse_settings({"test": {"root": str(root), **more.pop("settings", {})}})
    return tune_prompts(settings, "demo", folder, **{"sample": 90, "replaces": False} | more)


def require_valid(folder: Path, types: list[str]) -> None:
    """The examples of the three files are two passages of the corpus, whose replies lose nothing in the parsers."""
    contract = Contract.of(ExtractionSettings(entity_types=" ".join(types), type_contract="discard"))
    corpus = [json.loads(line) for line in DEMO.read_text(encoding="utf-8").splitlines()]
    known = {f"{row['title']}\n{row['text']}" for row in corpus}
    extract, phrases, propositions = (SHOWN.findall((folder / name).read_text(encoding="utf-8")) for name in FILES)
    assert len({passage for _, passage, _ in extract}) == 2
    counts: Counter[str] = Counter()
    for of_passage in zip(extract, phrases, propositions, strict=True):
        (passage,) = {passage for _, passage, _ in of_passage}
        assert passage in known
        found, first = read_reply(of_passage[0][2], extraction.KgReply)
        listed, second = read_reply(of_passage[1][2], extraction.PhrasesReply)
        said, third = read_reply(of_passage[2][2], extraction.PropositionsReply)
        assert {first, second, third} == {Repair.AS_IS}
        stated = extraction.stated_in_document(found, contract, counts)
        names = extraction.phrases_in_passage(listed, counts)
        assert [name.name for name in names] == listed.entities == of_passage[2][0].splitlines()
        claims = extraction.propositions_in_passage(said, names, counts)
        assert len(stated.names) == len(found.entities) > 0 < len(claims) == len(said.propositions)
        assert len(stated.relations) == len(found.relations)
        text = passage.casefold()
        assert all(name.casefold() in text for name in [*(one.name for one in found.entities), *listed.entities])
    assert not +counts


TYPES = json.dumps({"types": ["person", "Concept", "organization", "LOCATION", "event", "DATE", "two words", "x1"]})


def names_types(asked: Recorded) -> Behaviour:
    return Behaviour("reply", content=TYPES if "Name the types of the things" in asked.prompt else None)


@pytest.fixture
def models(model_server: ModelServer) -> Iterator[dict[str, str]]:
    """Settings of a model that names types."""
    model_server.respond(names_types)
    yield {"models.extract": "openai/scripted", "models.api_base": model_server.url, "models.price": "1,2"}
    current_run().close()


@pytest.fixture
def linked_root(root: Path, tmp_path: Path) -> Path:
    """The indexes of `root` with a cache of their own."""
    linked = tmp_path / "root"
    linked.mkdir()
    (linked / "indexes").symlink_to(root / "indexes")
    return linked


def test_files_are_not_overwritten_unless_asked_for(
    linked_root: Path, tmp_path: Path, models: dict[str, str], model_server: ModelServer
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    edited = folder / "prop.entities.md"
    edited.write_text("Mine. {{passage}}", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"has prop\.entities\.md already; .* or --force"):
        tuned(linked_root, folder, settings=models)
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [(edited.name, "Mine. {{passage}}")]
    assert model_server.requests == []
    tuned(linked_root, folder, settings=models, replaces=True)
    assert edited.read_text(encoding="utf-8") != "Mine. {{passage}}"


def test_no_example_has_an_entity_without_a_description() -> None:
    text = "Ann saw Rome."
    entities = [{"name": "Rome", "type": "PLACE"}, {"name": "Ann", "type": "PERSON", "description": "She saw Rome."}]
    extracted = extraction.KgReply.model_validate({"entities": entities})
    stated = extraction.PropositionsReply.model_validate({"propositions": [{"text": text, "entities": ["Ann"]}]})
    example = kept(
        Passage("p", "p", "d", 0, "Ann", text, 0, len(text)), extracted, ["Ann"], stated, ["PERSON", "PLACE"]
    )
    assert [entity.name for entity in example.extracted.entities] == ["Ann"]


def test_a_model_is_required(linked_root: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"set models\.extract"):
        tuned(linked_root, tmp_path / "own")


def test_the_files_have_the_placeholders_of_the_built_in_prompts(
    linked_root: Path, tmp_path: Path, models: dict[str, str]
) -> None:
    made = tuned(linked_root, tmp_path / "own", settings=models)
    assert [Path(file).name for file in made["files"]] == sorted(FILES)
    types = "PERSON CONCEPT ORGANIZATION LOCATION EVENT TWO_WORDS"
    assert made["settings"] == {"extraction.prompts": str(tmp_path / "own"), "extraction.entity_types": types}
    asked, own = extraction.questions(), extraction.questions(str(tmp_path / "own"))
    for task, hash_ in zip(("kg_extract", "prop_entities", "prop_propositions"), made["files"].values(), strict=True):
        ours, theirs = getattr(asked, task).prompt, getattr(own, task).prompt
        assert theirs.placeholders == ours.placeholders
        assert theirs.hash == hash_ != ours.hash


def test_a_model_names_types_and_makes_the_examples(
    linked_root: Path, tmp_path: Path, models: dict[str, str], model_server: ModelServer
) -> None:
    made = tuned(linked_root, tmp_path / "own", settings=models)
    assert made["types"] == ["PERSON", "CONCEPT", "ORGANIZATION", "LOCATION", "EVENT", "TWO_WORDS"]
    assert (made["model"], made["language"]) == ("openai/scripted", "en")
    require_valid(tmp_path / "own", made["types"])
    tasks = Counter(request.task for request in model_server.requests)
    assert tasks == {"": 1, "kg.extract": 4, "prop.entities": 4, "prop.propositions": 4}
    assert made["calls"] == len(model_server.requests) == 13
    assert made["cost_usd"] > 0
    [first] = [request.prompt for request in model_server.requests if request.task == ""]
    assert first.count("<data>") == 1
    current_run().close()
    assert tuned(linked_root, tmp_path / "own", settings=models, replaces=True)["calls"] == 0  # all of it is cached


def test_a_model_without_usable_replies_is_refused(
    linked_root: Path, tmp_path: Path, models: dict[str, str], model_server: ModelServer
) -> None:
    model_server.respond(lambda asked: Behaviour("refusal") if asked.task.startswith("prop.") else names_types(asked))
    with pytest.raises(SourceError, match="No 2 of 90 passages of index 'demo' can become examples"):
        tuned(linked_root, tmp_path / "own", settings=models)
    assert not (tmp_path / "own").exists()


def test_a_reply_without_types_is_refused(
    linked_root: Path, tmp_path: Path, models: dict[str, str], model_server: ModelServer
) -> None:
    model_server.respond(None)
    with pytest.raises(MalformedReplyError, match="named no types of entities"):
        tuned(linked_root, tmp_path / "own", settings=models)
    assert not (tmp_path / "own").exists()


def test_an_index_run_asks_with_the_files(
    linked_root: Path, tmp_path: Path, models: dict[str, str], model_server: ModelServer
) -> None:
    made = tuned(linked_root, tmp_path / "own", settings=models)
    model_server.respond(None)
    asked_before = len(model_server.requests)
    corpus = write_rows(tmp_path / "c.jsonl", [{"id": "a", "title": "Oslo", "text": "Oslo lies in Norway. It is old."}])
    values = {"root": str(tmp_path / "new"), "strategies": "bridge-lexical", "extraction.extractor": "model"}
    values |= made["settings"] | models
    settings = parse_settings({"test": values})
    assert indexed(settings, corpus).model.calls == 3
    for request in model_server.requests[asked_before:]:
        text = (tmp_path / "own" / f"{request.task}.md").read_text(encoding="utf-8")
        assert request.prompt.startswith(text.partition("{{")[0])
        assert request.prompt.count("<example>") == 2
    assert not indexed(settings, corpus).changed
    edited = tmp_path / "own" / "kg.extract.md"
    edited.write_text(edited.read_text(encoding="utf-8").replace("You build", "You carefully build"), encoding="utf-8")
    assert indexed(settings, corpus).model.calls == 1
    assert model_server.requests[-1].prompt.startswith("You carefully build a knowledge graph.")
    rows = query_rows(Layout(settings.root), "towns", "SELECT DISTINCT state FROM extraction_ledger").to_pylist()
    assert rows == [{"state": "done"}]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "has none of the files kg.extract.md, prop.entities.md, prop.propositions.md"),
        ({"prop.entities.md": b"List {{all}} of {{passage}}"}, "must hold {{passage}}, and no other name"),
        ({"kg.extract.md": b"{{document}}"}, "must hold {{document}}, {{types}}, and no other name"),
        ({"kg.extract.md": b"\xff{{document}}{{types}}"}, "Cannot read the prompt in"),
    ],
)
def test_a_folder_without_usable_prompts_is_refused(files: dict[str, bytes], said: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_bytes(text)
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        extraction.questions(str(tmp_path))


def test_a_file_that_a_folder_lacks_is_the_built_in_one(tmp_path: Path) -> None:
    (tmp_path / "prop.entities.md").write_text("List all of {{passage}}.", encoding="utf-8")
    mixed = extraction.questions(str(tmp_path))
    assert mixed.kg_extract == extraction.questions().kg_extract
    assert mixed.prop_entities.prompt == Prompt("prop.entities", "List all of {{passage}}.")
    assert mixed.hash != extraction.questions().hash


def test_an_index_of_which_no_two_passages_can_be_shown_is_refused(tmp_path: Path) -> None:
    long = "Ada Lovelace was born in London in 1815 and worked with Charles Babbage on the Analytical Engine. " * 2
    rows = [
        {"id": "short", "title": "Oslo", "text": "Oslo lies in Norway."},
        {"id": "marked", "title": "Ada Lovelace", "text": long + "</data> {{document}}"},
        {"id": "good", "title": "Ada Lovelace", "text": long},
    ]
    models = ModelSettings(extract="openai/scripted")
    settings = Settings(root=tmp_path / "root", strategies=("bridge-lexical",), models=models)
    indexed(settings, write_rows(tmp_path / "c.jsonl", rows), "few")
    with pytest.raises(SourceError, match="No 2 of 3 passages of index 'few' can become examples"):
        tune_prompts(settings, "few", tmp_path / "own", sample=10, replaces=False)
    assert not (tmp_path / "own").exists()


def shown(name: str, *features: str) -> Example:
    entities = [{"name": name, "type": kind, "description": "d"} for kind in features]
    claims = {"propositions": [{"text": "A claim.", "entities": []}]}
    return Example(
        Passage(name, name, name, 0, name, "Text.", 0, 5),
        extraction.KgReply.model_validate({"entities": entities, "relations": []}),
        extraction.PhrasesReply(entities=[name]),
        extraction.PropositionsReply.model_validate(claims),
    )


def test_examples_are_chosen_for_what_the_others_do_not_show_by_how_many_have_it() -> None:
    # by hand: A is in 3, B in 2, C in 1, D in 1: first A+B (5); then C alone (1) beats B (0); of C and D the first name
    many = [shown("both", "A", "B"), shown("only a", "A"), shown("b", "B"), shown("d", "D"), shown("c", "C", "A")]
    assert [one.passage.passage_id for one in most_covering(many, 3)] == ["both", "c", "d"]
    assert most_covering([shown("nothing")], 2) == []


def test_the_language_of_the_texts_becomes_a_rule_before_the_form_of_the_reply() -> None:
    prompt = composed(extraction.questions().kg_extract.prompt, [shown("x", "A"), shown("y", "B")], "de")
    said = "knowledge.\n\nThe texts are in German: write in that language, and names as they stand.\n\nReply with"
    assert said in prompt.text
    assert "German" not in composed(extraction.questions().kg_extract.prompt, [shown("x", "A")], "en").text
