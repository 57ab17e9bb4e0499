"""Prompts: text with placeholders, and what fills them.

Reads no file (warehouse/prompt_files.py does). What is filled in is data: it stands between marks that it cannot
contain, and the prompt says so. A demonstration stands between marks of its own, outside of the data.
Source: algorithms.md 0.7, house-style.md (a missing or extra placeholder raises).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from polyhop.schemas.errors import PromptInputError
from polyhop.schemas.ids import content_hash
from polyhop.schemas.languages import ENGLISH

_PLACEHOLDER = re.compile(r"\{\{([a-z_]+)\}\}")
_MARK = re.compile(r"</?(?:data|example)\b[^>]*>", re.IGNORECASE)
_REPLY = "\nReply with one JSON object"
_IN_LANGUAGE = (
    "Write the answer in the language of the question, even where passages are in another one. The keys of the JSON "
    "object stay as they are."
)
_EXAMPLE = re.compile(r"<example>\n.*?</example>\n\n", re.DOTALL)


@dataclass(frozen=True)
class Prompt:
    """A prompt file: its name, and its text with `{{placeholders}}`."""

    name: str
    text: str

    @cached_property
    def hash(self) -> str:
        """sha256 of the text, 64 hexadecimal digits: a changed prompt is another prompt."""
        return content_hash(self.text)

    @cached_property
    def placeholders(self) -> frozenset[str]:
        """Names that must be filled in."""
        return frozenset(_PLACEHOLDER.findall(self.text))

    def without_example(self) -> "Prompt":
        """The prompt without its demonstration: what stands between the example marks, and these."""
        return Prompt(self.name, _EXAMPLE.sub("", self.text))

    def in_language_of_question(self, code: str) -> "Prompt":
        """The prompt with a rule on the language of the answer, for indexes of texts that are not English.

        Args:
            code: `corpus.language`; English prompts stay as they are, and so do the replies that were cached for them.
        """
        return (
            self if code == ENGLISH else Prompt(self.name, self.text.replace(_REPLY, f"\n{_IN_LANGUAGE}\n{_REPLY}", 1))
        )

    def render(self, inputs: Mapping[str, str]) -> str:
        """The text with every placeholder filled.

        A value cannot close the `<data>` block that it is in, nor open an example: such marks in it lose their
        angle brackets. A lone surrogate, which no server could be sent, becomes "?".

        Raises:
            PromptInputError: If a placeholder is missing or an input has none.
        """
        if inputs.keys() != self.placeholders:
            raise PromptInputError(self.name, self.placeholders - inputs.keys(), inputs.keys() - self.placeholders)
        return _PLACEHOLDER.sub(lambda match: _harmless(inputs[match.group(1)]), self.text)


def _harmless(value: str) -> str:
    sent = value.encode("utf-8", "replace").decode("utf-8")
    return _MARK.sub(lambda match: match.group().replace("<", "(").replace(">", ")"), sent)
