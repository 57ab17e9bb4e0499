"""Prompts of extraction that fit a corpus: entity types, language and two worked examples, written as files to edit.

A model (`models.extract`) is asked about a sample of an index by the built-in prompts.
Source: algorithms.md 0.7 (what is asked, and what counts as a reply).
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyhop.flows.evaluation.bootstrap import DEFAULT_SEED
from polyhop.schemas.chat import ChatModel, ChatRequest, Prompt, Repair, Role
from polyhop.schemas.errors import ConfigurationError, ContractError, MalformedReplyError, SourceError
from polyhop.schemas.languages import AUTO, ENGLISH, language_name, likely_language, recorded_language
from polyhop.schemas.records import Passage
from polyhop.schemas.settings import ExtractionSettings, Settings
from polyhop.schemas.text import content_hash, passage_text
from polyhop.tasks.extraction import model as extraction
from polyhop.tasks.extraction.model import KgReply, PhrasesReply, PropositionsReply
from polyhop.tasks.extraction.stated import VALUE_TYPES, Contract
from polyhop.warehouse.files.disk import write_whole, writing
from polyhop.warehouse.models.replies import read_reply
from polyhop.warehouse.open import open_published
from polyhop.warehouse.open_models import model_name, open_chat

TYPES_SHOWN = 20  # passages, to the model that names entity types; chosen: some 4,000 tokens
CANDIDATES = 4  # passages that the model extracts from, of which two become examples; chosen: 13 calls in all
EXAMPLES = 2  # chosen: one shows a form, a second that it varies
LENGTHS = (150, 1200)  # characters of an example; chosen: every request pays for it
MOST_TYPES = 10  # chosen: the paper asks for five
_TYPE = re.compile(r"[A-Z][A-Z_]{1,29}")
_BLOCK = re.compile(r"<example>\n.*?\n</example>\s*", re.DOTALL)
_NOT_SHOWN = re.compile(r"\{\{|</?(?:data|example)\b", re.IGNORECASE)
_INTRODUCTION = "This is an example about another passage, to show the form of a good reply."


@dataclass(frozen=True, slots=True)
class Example:
    """A passage and the replies that its three questions should get."""

    passage: Passage
    extracted: KgReply
    phrases: PhrasesReply
    propositions: PropositionsReply

    @property
    def text(self) -> str:
        """The passage as it is shown."""
        return passage_text(self.passage.title, self.passage.text)

    @property
    def features(self) -> set[str]:
        """Types of entities and labels of relations in the example; empty if it lacks a reply."""
        if not self.phrases.entities or not self.propositions.propositions:
            return set()
        types = {f"type {entity.type}" for entity in self.extracted.entities}
        return types | {f"relation {relation.relation}" for relation in self.extracted.relations}


def tune_prompts(settings: Settings, index: str, folder: Path, *, sample: int, replaces: bool) -> dict[str, Any]:
    """Writes prompts that fit a published index into a folder; returns what `tune-prompts --json` prints.

    Raises:
        ConfigurationError: If no model is configured, or the folder has such files and `replaces` is not set; nothing
            was asked then.
        SourceError: If no two passages of the sample can become examples.
    """
    model = model_name(settings.models, Role.EXTRACT)
    asked = extraction.questions()
    prompts = [task.prompt for task in (asked.kg_extract, asked.prop_entities, asked.prop_propositions)]
    known = [name for name in (f"{prompt.name}.md" for prompt in prompts) if (folder / name).exists()]
    if known and not replaces:
        raise ConfigurationError(f"{folder} has {', '.join(known)} already; name another folder (--out), or --force.")
    with closing(open_published(settings.root, index)) as published:
        ids = sorted(published.passage_ids, key=lambda one: content_hash("sample", str(DEFAULT_SEED), one))[:sample]
        texts = published.passages([published.number_of_passage[passage_id] for passage_id in ids])
        recorded, version = recorded_language(published.settings), published.version
    likely = likely_language(text for _, _, text in texts) or ENGLISH
    language = likely if recorded in {AUTO, ENGLISH} else recorded
    passages = [Passage(id_, id_, id_, 0, title, text, 0, len(text)) for id_, title, text in texts]
    usable = [passage for passage in passages if is_usable(passage)]
    examples: list[Example] = []
    if len(usable) >= EXAMPLES:
        chat = open_chat(settings, Role.EXTRACT)
        types = asked_types(chat, passages[:TYPES_SHOWN])
        examples = asked_examples(chat, usable[:CANDIDATES], types)
    if len(examples) < EXAMPLES:
        raise SourceError(
            f"No {EXAMPLES} of {len(ids)} passages of index '{index}' can become examples: {LENGTHS[0]}-{LENGTHS[1]} "
            f"characters for which {model} gives usable replies. Take more (--sample), or another model."
        )
    made = [composed(prompt, examples, language) for prompt in prompts]
    with writing("the prompts", folder):
        folder.mkdir(parents=True, exist_ok=True)
        for prompt in made:
            write_whole(folder / f"{prompt.name}.md", prompt.text.encode())
    chosen = {"extraction.prompts": str(folder), "extraction.entity_types": " ".join(types)}
    facts = {"index": index, "version": version, "sample": len(ids), "model": model}
    taken = {name: getattr(chat.spent, name) for name in ("calls", "prompt_tokens", "completion_tokens", "cost_usd")}
    return {
        **facts,
        **taken,
        "language": language,
        "types": types,
        "examples": [one.passage.passage_id for one in examples],
        "files": {str(folder / f"{prompt.name}.md"): prompt.hash for prompt in made},
        "settings": chosen | ({} if language == ENGLISH else {"corpus.language": language}),
    }


def is_usable(passage: Passage) -> bool:
    """Returns whether a passage can be shown as an example: neither too short nor too long, and no part of a prompt."""
    text = passage_text(passage.title, passage.text)
    return LENGTHS[0] <= len(text) <= LENGTHS[1] and not _NOT_SHOWN.search(text)


def asked_types(chat: ChatModel, passages: Sequence[Passage]) -> list[str]:
    """Types of entities that a model names for passages; MalformedReplyError if it names none."""
    shown = "\n\n".join(passage_text(passage.title, passage.text) for passage in passages)
    [outcome] = chat.ask([ChatRequest(extraction.types_task(), "sample", (("passages", shown),))])
    found = ["_".join(said.upper().split()) for said in (outcome.reply.types if outcome.reply else [])]
    types = [name for name in dict.fromkeys(found) if _TYPE.fullmatch(name) and name not in VALUE_TYPES]
    if not types:
        raise MalformedReplyError(f"{outcome.model} named no types of entities. {outcome.error}".rstrip())
    return types[:MOST_TYPES]


def asked_examples(chat: ChatModel, candidates: Sequence[Passage], types: Sequence[str]) -> list[Example]:
    """The most covering examples by a model and the built-in prompts; a passage without a usable reply is left out."""
    asked, contract = extraction.questions(), Contract.of(ExtractionSettings(entity_types=" ".join(types)))
    parts = [extraction.DocumentPart(passage.passage_id, (passage,)) for passage in candidates]
    extracted = [outcome.reply for outcome in chat.ask([asked.of_document(part, contract) for part in parts])]
    listed = [outcome.reply for outcome in chat.ask([asked.of_passage(passage) for passage in candidates])]
    phrases = [reply or PhrasesReply.model_construct(entities=[]) for reply in listed]
    named = [extraction.phrases_in_passage(reply, Counter()) for reply in phrases]
    requests = [asked.with_phrases(passage, some) for passage, some in zip(candidates, named, strict=True)]
    stated = [outcome.reply for outcome in chat.ask(requests)]
    made = [
        kept(passage, reply, some.entities, propositions, types)
        for passage, reply, some, propositions in zip(candidates, extracted, phrases, stated, strict=True)
        if reply and propositions
    ]
    return most_covering(made, EXAMPLES)


def kept(
    passage: Passage, extracted: KgReply, phrases: Sequence[str], stated: PropositionsReply, types: Sequence[str]
) -> Example:
    """Keeps the part of three replies that the passage states and that the parsers of all steps accept unchanged."""
    text = passage_text(passage.title, passage.text).casefold()
    contract = Contract.of(ExtractionSettings(entity_types=" ".join(types), type_contract="discard"))
    found = extraction.stated_in_document(extracted, contract, Counter())
    # the prompt asks for a description of each, so no example lacks one
    names = {name.key: name for name in found.names if name.description and name.name.casefold() in text}
    relations = [
        {"source_name": names[source].name, "relation": label, "target_name": names[target].name}
        for source, label, target in dict.fromkeys(found.relations)
        if source in names and target in names
    ]
    entities = [{name: getattr(one, name) for name in ("name", "type", "description")} for one in names.values()]
    in_text = PhrasesReply.model_construct(entities=[name for name in phrases if name.casefold() in text])
    listed = {one.key: one for one in extraction.phrases_in_passage(in_text, Counter())}
    said = extraction.propositions_in_passage(stated, list(listed.values()), Counter())
    propositions = [{"text": one, "entities": [listed[key].name for key in keys]} for one, keys in said]
    return Example(
        passage,
        KgReply.model_validate({"entities": entities, "relations": relations}),
        PhrasesReply.model_construct(entities=[one.name for one in listed.values()]),
        PropositionsReply.model_validate({"propositions": propositions}),
    )


def most_covering(examples: Iterable[Example], count: int) -> list[Example]:
    """The examples that show most, one after the other (greedy): a feature weighs as many examples as have it, once.

    Source: Nemhauser, Wolsey and Fisher 1978.
    """
    left = [one for one in examples if one.features]
    weights = Counter(feature for one in left for feature in one.features)
    chosen: list[Example] = []
    shown: set[str] = set()
    while left and len(chosen) < count:
        left.sort(key=lambda one: (-sum(weights[name] for name in one.features - shown), len(one.text), one.text))
        chosen.append(left.pop(0))
        shown |= chosen[-1].features
    return chosen


def composed(prompt: Prompt, examples: Sequence[Example], language: str) -> Prompt:
    """A built-in prompt with its examples replaced by these, and a rule on the language of the texts."""
    text = _BLOCK.sub("", prompt.text)
    if language != ENGLISH:
        rule = f"The texts are in {language_name(language)}: write in that language, and names as they stand."
        text = text.replace("\nReply with JSON only", f"\n{rule}\n\nReply with JSON only", 1)
    head, mark, tail = text.partition("<data")
    return Prompt(prompt.name, head + "".join(_block(prompt.name, one) for one in examples) + mark + tail)


def _block(name: str, example: Example) -> str:
    """An example as a prompt shows it; ContractError (a defect) if its reply would not be read as it stands."""
    is_first, is_second = name == extraction.KG_EXTRACT, name == extraction.PROP_ENTITIES
    reply = example.extracted if is_first else example.phrases if is_second else example.propositions
    said = reply.model_dump_json()
    if read_reply(said, type(reply)) != (reply, Repair.AS_IS):
        raise ContractError(f"The example of {name} about {example.passage.passage_id} is not read as it stands.")
    listed = [] if is_first or is_second else ["Entities:", *example.phrases.entities, ""]
    lines = ["<example>", _INTRODUCTION, "", *listed, "Passage:", example.text, "", "Reply:", said, "</example>"]
    return "\n".join([*lines, "", ""])
