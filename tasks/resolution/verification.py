"""Which candidates are one entity, decided by a model whose groups are checked before anything is merged (pure).

Asks nobody (the stage does). A call that failed merges nothing. Source: algorithms.md 1.4, step 6.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from pydantic import BaseModel

from polyhop.schemas.chat import ChatOutcome, ChatRequest, ChatTask, Usage
from polyhop.schemas.text import norm_ws
from polyhop.tasks.resolution.candidates import Name, Verdict, quoted_name
from polyhop.warehouse.statements import read_prompt

MAX_DESCRIPTIONS = 5  # algorithms.md 1.4, step 6.
DESCRIPTION_CHARACTERS = 120  # algorithms.md 1.4, step 6.


class NameGroup(BaseModel):
    """Names that the model takes for one thing."""

    canonical_name: str
    members: list[str]
    description: str


class NameGroups(BaseModel):
    """The form of a reply to kg.resolve."""

    groups: list[NameGroup]


@cache
def resolve_task() -> ChatTask[NameGroups]:
    """The task kg.resolve with its prompt."""
    prompt = read_prompt(Path(__file__).parent / "prompts" / "kg.resolve.md")
    return ChatTask("kg.resolve", prompt, NameGroups)


def cluster_request(names: Sequence[Name], cluster: Sequence[int]) -> ChatRequest[NameGroups]:
    """The question about one cluster.

    Source: algorithms.md 1.4, step 6 (input lines).
    """
    members = [names[number] for number in cluster]
    lines = [
        json.dumps({"name": member.name, "type": member.type, "descriptions": _short(member)}, ensure_ascii=False)
        for member in members
    ]
    unit = f"{members[0].type}:{members[0].key}"
    return ChatRequest(resolve_task(), unit, (("names", "\n".join(lines)),))


def verdict_of(
    names: Sequence[Name], clusters: Sequence[Sequence[int]], outcomes: Sequence[ChatOutcome[NameGroups]]
) -> Verdict:
    """What the model's replies mean, as far as they may be believed.

    Source: algorithms.md 1.4, step 6 (validation).
    """
    merges: list[tuple[int, int, str]] = []
    refusals: dict[int, str] = {}
    descriptions: dict[int, str] = {}
    for cluster, outcome in zip(clusters, outcomes, strict=True):
        if outcome.reply is None:
            why = f"the model gave no usable reply ({outcome.error_class or 'unknown reason'}); the next run asks again"
            refusals.update(dict.fromkeys(cluster, why))
            continue
        grouped = set()
        for canonical, members, description in valid_groups(names, cluster, outcome.reply.groups):
            descriptions[canonical] = description
            grouped.update(members)
            why = f"{outcome.model} takes {{}} and {quoted_name(names[canonical].key)} for one"
            merges += [(m, canonical, why.format(quoted_name(names[m].key))) for m in members if m != canonical]
        refusals.update(_apart(names, cluster, grouped, outcome.model))
    failed = sum(outcome.reply is None for outcome in outcomes)
    usage = sum((outcome.usage for outcome in outcomes if outcome.reply is not None), Usage())
    return Verdict(sorted(merges), refusals, frozenset(), descriptions, failed, usage)


def valid_groups(
    names: Sequence[Name], cluster: Sequence[int], groups: Iterable[NameGroup]
) -> list[tuple[int, list[int], str]]:
    """(canonical, members ascending, description) of the groups that hold after checking.

    Names from outside the cluster and names of an earlier group are dropped; a group falls if fewer than two are left
    or its canonical name is not among them.

    Source: algorithms.md 1.4, step 6 (validation).
    """
    number_of = {norm_ws(names[number].name): number for number in reversed(cluster)}
    used: set[int] = set()
    valid = []
    for group in groups:
        found = {number for member in group.members if (number := number_of.get(norm_ws(member))) is not None}
        members = sorted(found - used)
        canonical = number_of.get(norm_ws(group.canonical_name))
        if canonical is None or canonical not in members or len(members) < 2:
            continue
        used.update(members)
        valid.append((canonical, members, " ".join(group.description.split()) or _joined(names, members)))
    return valid


def _apart(names: Sequence[Name], cluster: Sequence[int], grouped: set[int], model: str) -> dict[int, str]:
    """Why the ungrouped names of a cluster stay alone."""
    reasons = {}
    for number in cluster:
        if number not in grouped:
            others = ", ".join(quoted_name(names[other].key) for other in cluster if other != number)
            reasons[number] = f"{model} keeps {quoted_name(names[number].key)} apart from {others}"
    return reasons


def _short(name: Name) -> list[str]:
    distinct = dict.fromkeys(text[:DESCRIPTION_CHARACTERS] for text in name.descriptions if text)
    return list(distinct)[:MAX_DESCRIPTIONS]


def _joined(names: Sequence[Name], members: Sequence[int]) -> str:
    return " | ".join(dict.fromkeys(text for number in members for text in names[number].descriptions if text))
