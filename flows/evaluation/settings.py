"""The settings that decide what an evaluation finds, by dotted name: those of the index and those of answering.

Leaves out what only decides speed, cost limits and places.
"""

from collections.abc import Mapping

from polyhop.schemas.settings import Settings, flatten

_BUILDING = ("corpus", "extraction", "resolution", "propositions")
_NOT_ANSWERING: Mapping[str, bool | set[str]] = {
    **dict.fromkeys((*_BUILDING, "root", "strategies", "batch_size", "keep_versions", "queue", "worker"), True),
    **dict.fromkeys(("max_cost_usd", "max_tokens", "min_coverage"), True),
    "models": {
        *("extract", "resolve", "api_base", "timeout_seconds", "max_attempts", "concurrency", "requests_per_minute"),
        *("tokens_per_minute", "prompt_price", "completion_price"),
    },
    "encoder": {"batch_size", "threads"},
    "reader": {"reads"},  # the run says who reads
}


def answering_settings(
    settings: Settings, built_with: Mapping[str, object], where: str | None = None
) -> dict[str, object]:
    """{name: value}; those that the version was built with begin with `index.`.

    Args:
        settings: Of this run.
        built_with: The settings in the version's manifest.
        where: The filter of the questions, if there is one: it is a setting, `questions.where`, too.
    """
    own = flatten(settings.model_dump(mode="json", exclude=_NOT_ANSWERING))
    building = {name: section for name, section in built_with.items() if name in _BUILDING}
    own |= {} if where is None else {"questions.where": where}
    return {**own, **{f"index.{name}": value for name, value in flatten(building).items()}}
