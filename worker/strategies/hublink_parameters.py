"""Parameters of `hublink` and `hublink-topic`, and what they can cost of a model. Searches nothing.

Source: algorithms.md 4.8, 4.10.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from polyhop.schemas.prompts import Prompt
from polyhop.warehouse.prompt_files import read_prompt
from polyhop.worker.questions.components import COMPONENTS_TOKENS
from polyhop.worker.ranking.hubs.choice import ChoiceRule
from polyhop.worker.reading.context import estimate_tokens
from polyhop.worker.reading.hub_steps import REPLY_TOKENS
from polyhop.worker.reading.hubs import HubReadingRule
from polyhop.worker.strategies.base import CallBound, Parameters

By = Literal["model", "rules"]


class HubLinkParameters(Parameters):
    """Parameters of `hublink`; defaults are the published code's, or the thesis' where that has none."""

    grid: ClassVar[Mapping[str, str]] = {"path_weight_alpha": "0,3,6,9", "diversity_penalty": "0,.01,.05,.1"}
    """The thesis' tuning grid: algorithms.md 4."""

    number_of_hubs: int = Field(
        5,
        ge=1,
        le=1000,
        description="gamma: hubs that a question is answered from, default 5 (published runs: 10, 30).",
    )
    top_paths_to_keep: int = Field(
        10, ge=1, le=1000, description="alpha_paths: paths that a hub is judged and read by, default 10."
    )
    path_weight_alpha: float = Field(
        5.0,
        ge=0,
        le=100,
        description="How much a hub's better paths count more: weight exp(alpha * score), default 5; the thesis: 0.",
    )
    diversity_penalty: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Rows of level triple about one subject: what each repetition loses in a hub's evidence, "
        "default 0.05; the thesis: 0.",
    )
    question_components: Literal["off", "rules", "model"] = Field(
        "off",
        description="Key terms of the question that are searched for beside it: none (off, default), names and runs of "
        "words (rules), or those that a model lists (model).",
    )
    n_source_chunks: int = Field(
        10,
        ge=0,
        le=1000,
        description="Passages linked to a hub that join its evidence, with their metadata and the hub's, default 10; "
        "0 is no linking.",
    )
    min_path_score: float = Field(0.0, ge=0, le=1, description="Paths that score below it are not seen, default 0.")
    partial_answers: By = Field(
        "model", description="A partial answer for each hub by the configured model (default), or by rules."
    )
    final_answer: By = Field(
        "model", description="The answer from the partial ones by the configured model (default), or by rules."
    )
    output_filter: bool = Field(
        default=False, description="A model keeps the triples that support the answer, default 0 (no)."
    )
    min_partial_score: float = Field(
        0.3, ge=0, le=1, description="By rules, a hub answers if its best path scores at least this, default 0.3."
    )
    evidence_tokens: int = Field(
        6000, ge=200, le=1_000_000, description="Largest evidence of a hub in a prompt, in tokens, default 6000."
    )

    @property
    def rule(self) -> ChoiceRule:
        """How many hubs and paths."""
        return ChoiceRule(self.number_of_hubs, self.top_paths_to_keep, self.path_weight_alpha)

    @property
    def reading(self) -> HubReadingRule:
        """How hubs are read."""
        return HubReadingRule(
            partial_by_model=self.partial_answers == "model",
            final_by_model=self.final_answer == "model",
            filters=self.output_filter,
            min_partial_score=self.min_partial_score,
            evidence_tokens=self.evidence_tokens,
            links=self.n_source_chunks > 0,
        )

    @property
    def most_levels(self) -> int:
        """Levels that may be read for one question."""
        return 1

    def call_bounds(self) -> tuple[CallBound, ...]:
        """At most: components once; per level a partial answer for each hub and a final one; the filter once.

        Prompts are counted with the rule on the language of the answer, which indexes of English texts leave out.
        Source: algorithms.md 4.10 (cost in calls).
        """
        levels, evidence = self.most_levels, self.evidence_tokens
        counted = (
            ("hub.components", int(self.question_components == "model"), 0, COMPONENTS_TOKENS),
            ("hub.partial", levels * self.number_of_hubs * (self.partial_answers == "model"), evidence, REPLY_TOKENS),
            ("hub.final", levels * (self.final_answer == "model"), evidence, REPLY_TOKENS),
            ("hub.filter", int(self.output_filter), evidence + REPLY_TOKENS, REPLY_TOKENS),
        )
        return tuple(
            CallBound(task, calls, shown + estimate_tokens(prompt_of(task).in_language_of_question("any").text), reply)
            for task, calls, shown, reply in counted
            if calls
        )


class HubLinkTopicParameters(HubLinkParameters):
    """Parameters of `hublink-topic`."""

    max_level: int = Field(
        5, ge=1, le=100, description="beta: levels that are searched, default 5 (published runs: 1)."
    )
    search_until_hub: bool = Field(
        default=True,
        description="eta: a level goes on until it meets hubs, or is one step (0); default 1 (until hubs).",
    )

    @property
    def most_levels(self) -> int:
        """Levels that may be read for one question."""
        return self.max_level


def prompt_of(task: str) -> Prompt:
    """The prompt of one of HubLink's tasks at question time."""
    folder = "questions" if task == "hub.components" else "reading"
    return read_prompt(Path(__file__).parents[1] / folder / "prompts" / f"{task}.md")
