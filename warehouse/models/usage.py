"""Which token counts to believe: a server's own, or ours where it reports none, nonsense or far from ours.

Calls nobody. Invariant: what is believed is never negative, and within a bounded factor of our own count or within the
longest reply that was asked for.
"""

from dataclasses import dataclass

TRUSTED_FACTOR = 4
"""A reported count up to 4 times ours, or down to a quarter of it, is believed. Chosen: vocabularies differ by a factor
of up to 1.5 on English and about 3 on scripts that one of them hardly knows; a wider gap is not due to tokenizers."""
FRAME_TOKENS = 1_000
"""Prompt tokens that a provider may add to what we send. Chosen: Anthropic documents some 300 to 700 for a forced tool
call, and the JSON schema of a reply takes up to 300."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Tokens of a prompt and its reply."""

    prompt: int
    completion: int


def believed(reported: Counted, own: Counted, longest_reply: int) -> tuple[Counted, bool]:
    """The counts to book, and whether a report was discarded for them.

    Args:
        reported: As the server says, 0 where it says nothing.
        own: By our own tokenizer.
        longest_reply: Most tokens of the reply that were asked for; hidden reasoning counts among them, so that a reply
            may take more than its text.
    """
    prompt = _believed(reported.prompt, own.prompt, TRUSTED_FACTOR * own.prompt + FRAME_TOKENS)
    completion = _believed(reported.completion, own.completion, max(TRUSTED_FACTOR * own.completion, longest_reply))
    is_replaced = (reported.prompt not in (0, prompt)) or (reported.completion not in (0, completion))
    return Counted(prompt, completion), is_replaced


def _believed(reported: int, own: int, most: int) -> int:
    return reported if own <= TRUSTED_FACTOR * reported and 0 < reported <= most else own
