"""How long a reply to a task may become (models.longest_reply), and which cut replies a higher limit outgrew.

Asks nobody. A reply that ended by itself is the same under any limit that it fits into; a cut one is not.
"""

from collections.abc import Callable, Mapping
from typing import Any

from polyhop.schemas.chat import ChatTask
from polyhop.schemas.model_settings import ReplySettings
from polyhop.warehouse.cache.replies import ReplyCache


def longest_reply(lengths: ReplySettings, task: ChatTask[Any]) -> int:
    """Most tokens of a reply; the task's own number where there is no setting for it."""
    return int(getattr(lengths, task.name.replace(".", "_"), task.max_output_tokens))


def outgrown(cache: ReplyCache, cut: Mapping[str, ChatTask[Any]], longest: Callable[[ChatTask[Any]], int]) -> set[str]:
    """The keys of cut replies that may now become longer.

    Args:
        cache: Knows under which limit they were cut; before it did, that was the task's own number.
        cut: Tasks by the keys of their cut replies.
        longest: Most tokens of a reply to a task, now.
    """
    limits = cache.limits_of_shortened(list(cut)) if cut else {}
    return {key for key, task in cut.items() if longest(task) > limits.get(key, task.max_output_tokens)}
