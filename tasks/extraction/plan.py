"""What extraction by a model would ask of a corpus: its three kinds of questions, per document and per passage.

Propositions are asked for with a list of entities that may not be known yet; its length is then estimated from the
passage. Source: algorithms.md 0.7, 1.3, 3.3.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from polyhop.schemas.chat import ChatRequest
from polyhop.schemas.corpus import Passage
from polyhop.schemas.text import passage_text
from polyhop.tasks.extraction.contract import Contract
from polyhop.tasks.extraction.model_batch import document_parts
from polyhop.tasks.extraction.questions import PhrasesReply, Questions, questions
from polyhop.tasks.extraction.replies import phrases_in_passage
from polyhop.tasks.planning import PlannedStep, Planner, planned_step
from polyhop.warehouse.build import Build
from polyhop.warehouse.statements import statement


def unit(build: Build) -> str:
    """What a batch of extraction holds: a model reads documents, everything else passages."""
    return "documents" if build.settings.extraction.extractor == "model" else "passages"


def is_by_rules(build: Build) -> bool:
    """Whether batches may run elsewhere: a model's budget and rate are one process's, a file would be read by each."""
    return build.settings.extraction.extractor == "rules"


def plan(build: Build, planner: Planner) -> list[PlannedStep]:
    """The three steps over an ingested corpus, whoever is set to extract from it."""
    extraction = build.settings.extraction
    contract, asked = Contract.of(extraction), questions(demonstration=extraction.demonstration)
    totals = [PlannedStep(task) for task in (asked.kg_extract, asked.prop_entities, asked.prop_propositions)]
    for passages in _documents(build):
        found = plan_passages(passages, contract, asked, planner)
        totals = [total + step for total, step in zip(totals, found, strict=True)]
    return totals


def plan_passages(
    passages: Sequence[Passage], contract: Contract, asked: Questions, planner: Planner
) -> list[PlannedStep]:
    """The three steps over all passages of some documents.

    Args:
        passages: All passages of some documents.
        contract: Types that the model is asked for.
        asked: The questions.
        planner: Knows the cache and counts tokens.
    """
    types = ", ".join(contract.asked_types)
    documents = [
        ChatRequest(asked.kg_extract, part.unit_id, (("document", part.text), ("types", types)))
        for part in document_parts(passages)
    ]
    phrases = [ChatRequest(asked.prop_entities, p.passage_id, (("passage", _text(p)),)) for p in passages]
    known = planner.replies(phrases)
    exact, lengths = [], []
    for passage, reply in zip(passages, known, strict=True):
        if isinstance(reply, PhrasesReply):
            names = "\n".join(phrase.name for phrase in phrases_in_passage(reply, Counter()))
            inputs = (("entities", names), ("passage", _text(passage)))
            exact.append(ChatRequest(asked.prop_propositions, passage.passage_id, inputs))
        else:
            lengths.append(planner.count_tokens(_text(passage)))
    template = planner.count_tokens(asked.prop_propositions.prompt.text)
    names_share = planner.output_per_input(asked.prop_entities)
    unknown = PlannedStep(
        asked.prop_propositions,
        units=len(lengths),
        prompt_tokens=sum(template + round(length * (1 + names_share)) for length in lengths),
        text_tokens=sum(lengths),
    )
    return [
        planned_step(asked.kg_extract, documents, planner),
        planned_step(asked.prop_entities, phrases, planner, replies=known),
        planned_step(asked.prop_propositions, exact, planner) + unknown,
    ]


def _documents(build: Build) -> Iterator[list[Passage]]:
    """All passages of some documents at a time."""
    size, offset = build.settings.batch_size, 0
    while True:
        with build.tables(read_only=True) as connection:
            query = statement("ingest", "document_range")
            rows = connection.execute(query, {"limit": size, "offset": offset}).fetchall()
        if not rows:
            return
        yield [Passage(*row) for row in rows]
        offset += size


def _text(passage: Passage) -> str:
    return passage_text(passage.title, passage.text)
