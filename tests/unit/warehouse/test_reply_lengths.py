"""How long replies may become, and which cut ones a higher limit outgrew."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from polyhop.schemas.chat import ChatTask, Prompt
from polyhop.schemas.settings import ReplySettings
from polyhop.warehouse.models.replies import longest_reply, outgrown


class Limits:
    """A cache that knows under which limits replies were cut."""

    def __init__(self, **limits: int) -> None:
        self._limits = limits
        self.asked: list[Sequence[str]] = []

    def limits_of_shortened(self, keys: Sequence[str]) -> dict[str, int]:
        self.asked.append(keys)
        return {key: self._limits[key] for key in keys if key in self._limits}


def task(name: str, most: int) -> ChatTask[Any]:
    return ChatTask(name, Prompt(name, "x"), BaseModel, max_output_tokens=most)


def test_a_setting_goes_before_the_task_s_own_number() -> None:
    lengths = ReplySettings(prop_entities=777)
    assert longest_reply(lengths, task("prop.entities", 50)) == 777
    assert longest_reply(lengths, task("of.another.package", 50)) == 50


def test_only_a_higher_limit_outgrows_a_cut_reply() -> None:
    cut = {key: task("t", 100) for key in ("lower", "same", "higher", "unknown")}
    cache: Any = Limits(lower=400, same=300, higher=200)
    assert outgrown(cache, cut, lambda _: 300) == {"higher", "unknown"}
    assert outgrown(cache, {"unknown": task("t", 300)}, lambda _: 300) == set()


def test_where_nothing_was_cut_the_cache_is_not_read() -> None:
    cache: Any = Limits()
    assert outgrown(cache, {}, lambda _: 300) == set()
    assert cache.asked == []
