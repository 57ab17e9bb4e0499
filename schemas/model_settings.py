"""The part of the settings about language models: which ones, by role, and how they are asked.

Reads no file; part of settings.py.
"""

from typing import Literal

from pydantic import Field

from polyhop.schemas.setting_section import Section


class ReplySettings(Section):
    """The longest reply of a model per step, in tokens; a reply cut by it is asked for again once it is raised."""

    kg_extract: int = Field(4096, ge=64, description="Most tokens of a reply with a document's entities and relations.")
    prop_entities: int = Field(1024, ge=64, description="Most tokens of a reply with a passage's entities.")
    prop_propositions: int = Field(2048, ge=64, description="Most tokens of a reply with a passage's propositions.")
    kg_resolve: int = Field(4096, ge=64, description="Most tokens of a reply that groups the names of one cluster.")
    hub_path_text: int = Field(512, ge=64, description="Most tokens of a reply with the text of one path of a hub.")
    qa_answer: int = Field(1024, ge=64, description="Most tokens of a reply with an answer and its citations.")
    qa_chains: int = Field(1024, ge=64, description="Most tokens of a reply with an answer from chains.")
    qa_closed_book: int = Field(1024, ge=64, description="Most tokens of a reply with an answer without passages.")
    query_entities: int = Field(512, ge=64, description="Most tokens of a reply with the names in a question.")


SPANS_PREFIX = "onnx-qa:"
"""Before a folder in `models.read`: a model that marks the answer in a passage, where others write one."""


class ModelSettings(Section):
    """Language models, by role; none is needed."""

    extract: str = Field("", description="Model for extraction, as litellm names it (openai/gpt-4o-mini); empty: none.")
    resolve: str = Field("", description="Model for entity resolution; empty: the one for extraction.")
    read: str = Field(
        "",
        description="Model that reads answers from passages: a chat model as litellm names it, or onnx-qa:FOLDER, a "
        "model that marks the answer in a passage; empty: the reader without a model.",
    )
    read_context: Literal["passages", "chains"] = Field(
        "passages",
        description="What a chat model reads: passages, and what the strategy says beside them; or chains: only what "
        "the strategy says (of qasa, chains and descriptions of entities).",
    )
    read_passages: int = Field(5, ge=1, le=100, description="Passages that a model reads for one answer.")
    read_tokens: int = Field(6000, ge=200, le=1_000_000, description="Most tokens of what it reads and the question.")
    rerank: str = Field(
        "",
        description="Cross-encoder of bm25-ce and rrf-ce: a name that fastembed knows (Xenova/ms-marco-MiniLM-L-6-v2), "
        "or a folder with model.onnx and tokenizer.json; empty: a lexical fallback.",
    )
    name_questions: bool = Field(
        default=False, description="Let models.read find the names in questions for strategies that start from them."
    )
    api_base: str = Field("", description="Address of an OpenAI-compatible server; empty: the provider's own.")
    longest_reply: ReplySettings = Field(default_factory=ReplySettings, description="The longest reply per step.")
    timeout_seconds: float = Field(120, gt=0, description="Seconds to wait for one reply.")
    max_attempts: int = Field(5, ge=1, le=100, description="Calls for one reply before it is listed as failed.")
    concurrency: int = Field(
        8, ge=1, le=256, description="Most calls in flight at once; a slow server gets fewer, down to one."
    )
    requests_per_minute: int = Field(0, ge=0, description="Most calls per minute; 0: no limit but the server's.")
    tokens_per_minute: int = Field(0, ge=0, description="Most tokens per minute; 0: no limit but the server's.")
    prompt_price: float | None = Field(None, ge=0, description="USD per million prompt tokens; unset: litellm's table.")
    completion_price: float | None = Field(
        None, ge=0, description="USD per million completion tokens; unset: litellm's table."
    )

    @property
    def chat_reader(self) -> str:
        """The chat model that reads; "" if none does."""
        return "" if self.spans_folder else self.read

    @property
    def spans_folder(self) -> str:
        """The folder of the model that marks answers; "" if none does."""
        return self.read.removeprefix(SPANS_PREFIX) if self.read.startswith(SPANS_PREFIX) else ""
