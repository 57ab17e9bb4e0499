"""Prompts of extraction that fit a corpus: entity types, language and two worked examples, written as files to edit.

From a sample of an index: what it knows of its passages is counted, or, with a model (`models.extract`), asked for by
the built-in prompts. Source: algorithms.md 0.7 (what is asked, and what counts as a reply).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyhop.flows.evaluation.bootstrap import DEFAULT_SEED
from polyhop.schemas.chat import ChatModel, ChatRequest, Prompt, Repair, Role, Usage
from polyhop.schemas.errors import ConfigurationError, ContractError, MalformedReplyError, SourceError
from polyhop.schemas.languages import AUTO, ENGLISH, language_name, likely_language, recorded_language
from polyhop.schemas.names import split_sentences
from polyhop.schemas.records import Passage
from polyhop.schemas.settings import ExtractionSettings, Settings
from polyhop.schemas.text import content_hash, passage_text
from polyhop.tasks.extraction import model as extraction
from polyhop.tasks.extraction.model import KgReply, PhrasesReply, PropositionsReply
from polyhop.tasks.extraction.rules import MENTIONS, RELATED
from polyhop.tasks.extraction.stated import VALUE_TYPES, Contract
from polyhop.warehouse.files.disk import write_whole, writing
from polyhop.warehouse.models.replies import read_reply
from polyhop.warehouse.open import open_published
from polyhop.warehouse.open_models import open_chat
from polyhop.warehouse.statements import statement

TYPES_SHOWN = 20  # passages, to the model that names entity types; chosen: some 4,000 tokens
CANDIDATES = 6  # passages that the model extracts from, of which two become examples; chosen: 11 calls in all
EXAMPLES = 2  # chosen: one shows a form, a second that it varies
LENGTHS = (150, 1200)  # characters of an example; chosen: every request pays for it
MIN_SHARE = 0.02  # of the typed names, below which a type is left out; chosen
MOST_TYPES = 10  # chosen: the paper asks for five
LONGEST_LABEL = 4  # words of a relation by rules that becomes an example; chosen: longer ones are half sentences
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
        ConfigurationError: If the folder has such files and `replaces` is not set; nothing was asked then.
        SourceError: If no two passages of the sample can become examples.
    """
    asked = extraction.questions()
    prompts = [task.prompt for task in (asked.kg_extract, asked.prop_entities, asked.prop_propositions)]
    known = [name for name in (f"{prompt.name}.md" for prompt in prompts) if (folder / name).exists()]
    if known and not replaces:
        raise ConfigurationError(f"{folder} has {', '.join(known)} already; name another folder (--out), or --force.")
    with closing(open_published(settings.root, index)) as published:
        ids = sorted(published.passage_ids, key=lambda one: content_hash("sample", str(DEFAULT_SEED), one))[:sample]
        rows = published.rows(statement("extract", "passage_extractions"), {"ids": ids})
        texts = published.passages([published.number_of_passage[row[0]] for row in rows])
        recorded, version = recorded_language(published.settings), published.version
    likely = likely_language(text for _, _, text in texts) or ENGLISH
    language = likely if recorded in {AUTO, ENGLISH} else recorded
    passages = [Passage(id_, id_, id_, 0, title, text, 0, len(text)) for id_, title, text in texts]
    types = counted_types(entities for _, entities, _, _ in rows)
    found = [counted_example(passage, row[1:], types) for passage, row in zip(passages, rows, strict=True)]
    usable = [one for one in found if LENGTHS[0] <= len(one.text) <= LENGTHS[1] and not _NOT_SHOWN.search(one.text)]
    examples, usage = most_covering(usable, EXAMPLES), Usage()
    if settings.models.extract:
        chat = open_chat(settings, Role.EXTRACT)
        types = asked_types(chat, [passage for passage in passages if passage.passage_id in ids[:TYPES_SHOWN]])
        examples = asked_examples(chat, most_covering(usable, CANDIDATES), types)
        usage = chat.spent
    if len(examples) < EXAMPLES:
        raise SourceError(
            f"No {EXAMPLES} of {len(ids)} passages of index '{index}' can become examples: {LENGTHS[0]}-{LENGTHS[1]} "
            "characters with typed names. Take more (--sample), or let a model help (models.extract)."
        )
    made = [composed(prompt, examples, language) for prompt in prompts]
    with writing("the prompts", folder):
        folder.mkdir(parents=True, exist_ok=True)
        for prompt in made:
            write_whole(folder / f"{prompt.name}.md", prompt.text.encode())
    chosen = {"extraction.prompts": str(folder), "extraction.entity_types": " ".join(types)}
    facts = {"index": index, "version": version, "sample": len(ids), "model": settings.models.extract or None}
    taken = {name: getattr(usage, name) for name in ("calls", "prompt_tokens", "completion_tokens", "cost_usd")}
    return {
        **facts,
        **taken,
        "language": language,
        "types": types,
        "examples": [one.passage.passage_id for one in examples],
        "files": {str(folder / f"{prompt.name}.md"): prompt.hash for prompt in made},
        "settings": chosen | ({} if language == ENGLISH else {"corpus.language": language}),
    }


def counted_types(passages: Iterable[Sequence[Mapping[str, Any]]]) -> list[str]:
    """Types of entities by how many names of the passages have them, the rare ones left out."""
    counts = Counter(one["type"] for some in passages for one in some if one["type"] not in {None, *VALUE_TYPES})
    ordered = sorted(counts, key=lambda name: (-counts[name], name))
    return [name for name in ordered[:MOST_TYPES] if counts[name] >= MIN_SHARE * counts.total()]


def asked_types(chat: ChatModel, passages: Sequence[Passage]) -> list[str]:
    """Types of entities that a model names for passages; MalformedReplyError if it names none."""
    shown = "\n\n".join(passage_text(passage.title, passage.text) for passage in passages)
    [outcome] = chat.ask([ChatRequest(extraction.types_task(), "sample", (("passages", shown),))])
    found = ["_".join(said.upper().split()) for said in (outcome.reply.types if outcome.reply else [])]
    types = [name for name in dict.fromkeys(found) if _TYPE.fullmatch(name) and name not in VALUE_TYPES]
    if not types:
        raise MalformedReplyError(f"{outcome.model} named no types of entities. {outcome.error}".rstrip())
    return types[:MOST_TYPES]


def counted_example(passage: Passage, known: Sequence[Any], types: Sequence[str]) -> Example:
    """Builds replies for a passage from the index's entities, triples and propositions.

    An entity's description is the first sentence that names it; a part of another name, as a bare surname is, is none.
    """
    entities, triples, propositions = known
    text = passage_text(passage.title, passage.text)
    said = {entity["name"]: entity["type"] for entity in entities if entity["name"] in text}
    whole = [name for name in said if not any(f" {name} " in f" {other} " for other in said if other != name)]
    sentences = [passage.text[start:end] for start, end in split_sentences(passage.text)]
    names = [
        {"name": name, "type": said[name] or "", "description": next((one for one in sentences if name in one), "")}
        for name in whole
    ]
    relations = [
        {"source_name": source, "relation": label, "target_name": target}
        for source, label, target in triples
        if label not in {MENTIONS, RELATED} and len(label.split()) <= LONGEST_LABEL
    ]
    extracted = KgReply.model_validate({"entities": names, "relations": relations})
    stated = PropositionsReply.model_validate({"propositions": propositions})
    return kept(passage, extracted, sorted(said, key=lambda name: (text.index(name), name)), stated, types)


def asked_examples(chat: ChatModel, candidates: Sequence[Example], types: Sequence[str]) -> list[Example]:
    """The most covering examples by a model and the built-in prompts; where its reply fails, what was counted."""
    asked, contract = extraction.questions(), Contract.of(ExtractionSettings(entity_types=" ".join(types)))
    parts = [extraction.DocumentPart(one.passage.passage_id, (one.passage,)) for one in candidates]
    replies = [outcome.reply for outcome in chat.ask([asked.of_document(part, contract) for part in parts])]
    pairs = zip(candidates, replies, strict=True)
    made = [kept(one.passage, reply, one.phrases.entities, one.propositions, types) for one, reply in pairs if reply]
    chosen = most_covering(made, EXAMPLES)
    listed = [outcome.reply for outcome in chat.ask([asked.of_passage(one.passage) for one in chosen])]
    phrases = [reply or one.phrases for one, reply in zip(chosen, listed, strict=True)]
    named = [extraction.phrases_in_passage(some, Counter()) for some in phrases]
    requests = [asked.with_phrases(one.passage, some) for one, some in zip(chosen, named, strict=True)]
    stated = [outcome.reply for outcome in chat.ask(requests)]
    return [
        kept(one.passage, one.extracted, some.entities, reply or one.propositions, types)
        for one, some, reply in zip(chosen, phrases, stated, strict=True)
    ]


def kept(
    passage: Passage, extracted: KgReply, phrases: Sequence[str], stated: PropositionsReply, types: Sequence[str]
) -> Example:
    """Keeps the part of three replies that the passage states and that the parsers of all steps accept unchanged."""
    text = passage_text(passage.title, passage.text).casefold()
    contract = Contract.of(ExtractionSettings(entity_types=" ".join(types), type_contract="discard"))
    found = extraction.stated_in_document(extracted, contract, Counter())
    names = {name.key: name for name in found.names if name.name.casefold() in text}
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
