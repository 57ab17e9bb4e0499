"""One batch of documents through a model: requests, replies located in passages, fallbacks where it failed.

Asks through the ChatModel it is given and opens nothing. The result does not depend on which replies were cached, on
the order of passages or on the batch. Source: algorithms.md 0.7, 1.3 (1), (2), 3.3 (1), (2).
Decided here: propositions are not asked for while the passage's entities have failed: a list by rules would be paid
for, and be wrong once the model answers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from polyhop.schemas.chat import ChatModel, ChatOutcome, ChatRequest
from polyhop.schemas.corpus import Passage
from polyhop.schemas.text import passage_text
from polyhop.tasks.extraction.contract import Contract
from polyhop.tasks.extraction.import_batch import StandIn
from polyhop.tasks.extraction.ledger import LedgerRow, count_units, row_of_outcome
from polyhop.tasks.extraction.questions import (
    KG_EXTRACT,
    PROP_ENTITIES,
    PROP_PROPOSITIONS,
    KgReply,
    PhrasesReply,
    PropositionsReply,
    Questions,
)
from polyhop.tasks.extraction.replies import phrases_in_passage, propositions_in_passage, stated_in_document
from polyhop.tasks.extraction.results import BatchPages
from polyhop.tasks.extraction.rows import Page, Row
from polyhop.tasks.extraction.stated import MODEL, Stated, StatedName, distribute, stated_page

DOCUMENT_CHARACTERS = 12_000
"""Most characters of passages in one request, unless one passage has more: some 3,000 tokens, whose entities and
relations fit into a reply of 4,096."""


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """A document, or as many of its passages in a row as fit into one request."""

    unit_id: str
    passages: tuple[Passage, ...]

    @property
    def text(self) -> str:
        """What the model reads: the title and each text once. Source: algorithms.md 1.3 (1)."""
        texts = dict.fromkeys(passage.text for passage in self.passages)
        return "\n".join([f"**{self.passages[0].title}**", *texts])


def document_parts(passages: Sequence[Passage], most: int = DOCUMENT_CHARACTERS) -> Iterator[DocumentPart]:
    """The documents of a batch by id, long ones cut between passages.

    Args:
        passages: All passages of some documents, in any order.
        most: Most characters of texts in a part; a longer passage is a part of its own.
    """
    ordered = sorted(passages, key=lambda passage: (passage.document_id, passage.ordinal, passage.passage_id))
    for document_id, group in groupby(ordered, key=lambda passage: passage.document_id):
        parts: list[list[Passage]] = []
        size = most + 1
        for passage in group:
            size += len(passage.text)
            if size > most:
                parts.append([])
                size = len(passage.text)
            parts[-1].append(passage)
        for number, part in enumerate(parts):
            yield DocumentPart(document_id if len(parts) == 1 else f"{document_id}#{number}", tuple(part))


def model_pages(
    passages: Sequence[Passage],
    chat: ChatModel,
    contract: Contract,
    stand_in: StandIn | None,
    stand_in_name: str,
    questions: Questions,
) -> BatchPages:
    """What a model states about documents.

    Args:
        passages: All passages of the batch's documents.
        chat: The model.
        contract: What to do with unknown types.
        stand_in: Extracts a passage where the model failed; None: it keeps its titles only.
        stand_in_name: Label of the fallback.
        questions: What the model is asked.

    Raises:
        BudgetExceededError: From the model.
    """
    return _Batch(passages, chat, contract, stand_in, stand_in_name, questions).run()


class _Batch:
    """What is known of each passage so far."""

    def __init__(
        self,
        passages: Sequence[Passage],
        chat: ChatModel,
        contract: Contract,
        stand_in: StandIn | None,
        stand_in_name: str,
        questions: Questions,
    ) -> None:
        self._questions = questions
        self._passages = sorted(passages, key=lambda passage: passage.passage_id)
        self._chat, self._contract = chat, contract
        self._stand_in, self._stand_in_name = stand_in, stand_in_name if stand_in else ""
        self._stated = {passage.passage_id: Stated() for passage in passages}
        self._phrases: dict[str, list[StatedName]] = {}
        self._without_names: set[str] = set()
        self._without_propositions: set[str] = set()
        self._result = BatchPages()

    def run(self) -> BatchPages:
        """Documents, then phrases, then propositions, then pages."""
        self._ask_documents()
        self._ask_phrases()
        self._ask_propositions()
        result = self._result
        for passage in self._passages:
            result.add_page(passage, self._page)
        result.counts += count_units(result.ledger)
        return result

    def _ask_documents(self) -> None:
        parts = list(document_parts(self._passages))
        types = ", ".join(self._contract.asked_types)
        requests = [
            ChatRequest(self._questions.kg_extract, part.unit_id, (("document", part.text), ("types", types)))
            for part in parts
        ]
        for part, outcome in zip(parts, self._chat.ask(requests), strict=True):
            self._note(KG_EXTRACT, part.unit_id, outcome)
            if not isinstance(outcome.reply, KgReply):
                self._without_names.update(passage.passage_id for passage in part.passages)
                continue
            stated = stated_in_document(outcome.reply, self._contract, self._result.counts)
            for passage, share in zip(part.passages, distribute(stated, part.passages), strict=True):
                self._stated[passage.passage_id].extend(share)

    def _ask_phrases(self) -> None:
        requests = [
            ChatRequest(self._questions.prop_entities, passage.passage_id, (("passage", _text(passage)),))
            for passage in self._passages
        ]
        for passage, outcome in zip(self._passages, self._chat.ask(requests), strict=True):
            self._note(PROP_ENTITIES, passage.passage_id, outcome)
            if isinstance(outcome.reply, PhrasesReply):
                phrases = phrases_in_passage(outcome.reply, self._result.counts)
                self._phrases[passage.passage_id] = phrases
                self._stated[passage.passage_id].names += phrases
            else:
                self._without_propositions.add(passage.passage_id)
                self._result.ledger.append(self._not_asked(passage, outcome.model))

    def _ask_propositions(self) -> None:
        asked = [passage for passage in self._passages if passage.passage_id in self._phrases]
        requests = []
        for passage in asked:
            names = "\n".join(phrase.name for phrase in self._phrases[passage.passage_id])
            requests.append(
                ChatRequest(
                    self._questions.prop_propositions,
                    passage.passage_id,
                    (("entities", names), ("passage", _text(passage))),
                )
            )
        for passage, outcome in zip(asked, self._chat.ask(requests), strict=True):
            self._note(PROP_PROPOSITIONS, passage.passage_id, outcome)
            if isinstance(outcome.reply, PropositionsReply):
                phrases = self._phrases[passage.passage_id]
                found = propositions_in_passage(outcome.reply, phrases, self._result.counts)
                self._stated[passage.passage_id].propositions += found
            else:
                self._without_propositions.add(passage.passage_id)

    def _note(self, step: str, unit_id: str, outcome: ChatOutcome) -> None:  # type: ignore[type-arg]
        self._result.ledger.append(row_of_outcome(step, unit_id, outcome, self._stand_in_name))
        self._result.computed += not outcome.is_cached

    def _not_asked(self, passage: Passage, model: str) -> LedgerRow:
        return LedgerRow(
            PROP_PROPOSITIONS,
            passage.passage_id,
            "failed",
            self._stand_in_name,
            model,
            error_class="NotAsked",
            error="the passage's entities are not there yet",
        )

    def _page(self, passage: Passage) -> Page:
        passage_id = passage.passage_id
        page = stated_page(passage, self._stated[passage_id], MODEL)
        lacks_names, lacks_propositions = passage_id in self._without_names, passage_id in self._without_propositions
        if self._stand_in is not None and (lacks_names or lacks_propositions):
            _fill_in(page, self._stand_in(passage), names=lacks_names, propositions=lacks_propositions)
        return page


def _fill_in(page: Page, other: Page, *, names: bool, propositions: bool) -> None:
    """Adds the fallback's work where the model's is missing; a key that both have keeps the model's row."""
    if names:
        page.relations += other.relations
        page.triples += other.triples
    if propositions:
        page.propositions += other.propositions
    wanted = set(other.rows) if names else {key for (_, keys), _ in other.propositions for key in keys}
    for key, row in other.rows.items():
        if key in wanted and _may_replace(page.rows.get(key), names=names):
            page.rows[key] = row


def _may_replace(known: Row | None, *, names: bool) -> bool:
    """Whether the fallback's row counts: the model has none, or only that of the title, which says nothing."""
    return known is None or (names and known.is_title and not known.description)


def _text(passage: Passage) -> str:
    return passage_text(passage.title, passage.text)
