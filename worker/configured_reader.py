"""Who reads answers, as the settings say: rules, a chat model, or a model that marks answers in passages.

Reads nothing itself; imports what a model needs only if one is configured.
"""

from pathlib import Path

from polyhop.schemas.chat import ChatModel
from polyhop.schemas.model_settings import ModelSettings
from polyhop.schemas.ports import IndexReader, Reader
from polyhop.warehouse.artefacts import LANGUAGE
from polyhop.worker.reading.reader import RuleReader

_PROMPTS = Path(__file__).parent / "reading" / "prompts"


def open_reader(models: ModelSettings, chat: ChatModel | None, index: IndexReader, min_confidence: float) -> Reader:
    """The reader of an open version.

    Args:
        models: Which model reads, and what.
        chat: The chat model that reads, if one does.
        index: The open version.
        min_confidence: Answers below it are not given; of no use to a chat model.

    Raises:
        ModelFileError: If the folder of a model that marks answers has not what it needs.
    """
    if models.spans_folder:
        from polyhop.warehouse.models.span_model import open_span_model
        from polyhop.worker.reading.spans import SpanReader

        spans = open_span_model(models.spans_folder)
        return SpanReader(spans, passages=models.read_passages, min_confidence=min_confidence)
    rules = RuleReader(index, min_confidence=min_confidence)
    if chat is None:
        return rules
    from polyhop.warehouse.prompt_files import read_prompt

    language = index.artefact(LANGUAGE)
    if models.read_context == "chains":
        from polyhop.worker.reading.chains import ChainReader, chains_task

        task = chains_task(read_prompt(_PROMPTS / "qa.chains.md").in_language_of_question(language))
        return ChainReader(chat, task, rules, budget_tokens=models.read_tokens)
    from polyhop.worker.reading.model import ModelReader, answer_task

    answers = answer_task(read_prompt(_PROMPTS / "qa.answer.md").in_language_of_question(language))
    return ModelReader(chat, answers, rules, passages=models.read_passages, budget_tokens=models.read_tokens)
