"""Why two names are one entity, or are not, from what a published version knows (pure). Source: algorithms.md 1.4."""

from collections.abc import Iterable
from dataclasses import dataclass

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.graph import Decision
from polyhop.schemas.names import FUNCTION_WORDS
from polyhop.tasks.resolution.candidates import name_words, quoted_name
from polyhop.tasks.resolution.resolve import link_key
from polyhop.warehouse.tables.version_rows import NameRecords

_NO_NODE = "the graph that this index was made from has no node, or several, of the name"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether two names are one entity, why, all decisions about either, and names like one that nobody has."""

    same: bool
    reason: str
    decisions: list[Decision]
    nearest: dict[str, list[str]]


def keys_of(a: str, b: str) -> tuple[str, ...]:
    """Keys under which a version may know two names: as written, and without function words in front."""
    return tuple(dict.fromkeys(key for name in (a, b) for key in _spellings(name)))


def _spellings(name: str) -> tuple[str, str]:
    """The key of a name as written, and of what the name finder makes of it (`the River Thames`: river thames)."""
    words = link_key(name).split()
    if not words:
        raise ConfigurationError(f"'{name}' is not a name; give two names with letters or digits.")
    first = next((n for n, word in enumerate(words) if word not in FUNCTION_WORDS), 0)
    return " ".join(words), " ".join(words[first:])


def known_key(name: str, records: NameRecords) -> str:
    """The first of a name's keys that the version knows (`the beatles` may be a title), else that of the whole."""
    known = records.entities.keys() | {decision.key for decision in records.decisions}
    return next((key for key in _spellings(name) if key in known), link_key(name))


def entity_of(name: str, records: NameRecords) -> str | None:
    """Key of the one entity that a name as written means, None if no passage mentions it or it means several."""
    return _entity(known_key(name, records), records)


def explain(a: str, b: str, records: NameRecords) -> Explanation:
    """Why two names, as a person writes them, are one entity or are not, by what the version knows about both."""
    keys = known_key(a, records), known_key(b, records)
    entities = [_entity(key, records) for key in keys]
    unseen = {name: records.nearest.get(key, []) for name, key, e in zip((a, b), keys, entities, strict=True) if not e}
    if unseen:
        return Explanation(False, _why_unseen(unseen, records), records.decisions, unseen)  # noqa: FBT003
    same = entities[0] == entities[1]
    if keys[0] == keys[1]:
        key = keys[0]
        dropped = "case, accents and punctuation" if link_key(a) == link_key(b) else "function words in front"
        reason = f"both are {quoted_name(key)} once {dropped} are dropped"
    elif same:
        reason = _reasons(d for d in records.decisions if d.canonical == entities[0] and d.key != entities[0])
    else:
        reason = _difference(a, b, records)
    return Explanation(same, reason, records.decisions, {})


def _why_unseen(names: Iterable[str], records: NameRecords) -> str:
    """That nothing mentions some names, and what was decided; the decision alone if it is about identity."""
    told = _reasons(records.decisions)
    if any(decision.kind == "identity" for decision in records.decisions):
        return told
    missing = "no passage of this index mentions" if records.is_resolved else _NO_NODE
    said = f"{missing} {' and '.join(quoted_name(name) for name in names)}"
    return f"{said}; {told}" if told else said


def _entity(key: str, records: NameRecords) -> str | None:
    """Key of the one entity that a name means, None if there is none."""
    if key in records.entities:
        return key
    meant = {d.canonical for d in records.decisions if d.key == key and d.canonical and not d.is_ambiguous}
    return meant.pop() if len(meant) == 1 else None


def _difference(a: str, b: str, records: NameRecords) -> str:
    """Why two known names are two entities; what people said comes first."""
    if not records.is_resolved:
        return "they are two nodes of the graph that this index was made from, and nodes are never merged"
    keys = known_key(a, records), known_key(b, records)
    meant = [_entity(key, records) or key for key in keys]
    # What was decided about two names; of that, what people said, if they said anything.
    about = [d for d in records.decisions if _is_about_other(d, keys, meant)]
    told = _reasons(d for d in about if d.kind == "manual") or _reasons(about)
    if told:
        return told
    types = [records.entities[key][1] for key in meant]
    if types[0] != types[1]:
        kinds = " and ".join(
            f"{quoted_name(k)} is {t or 'of no known type'}" for k, t in sorted(zip(meant, types, strict=True))
        )
        return f"names are one only within one type, or where a guess adds a form of address or of company: {kinds}"
    words = name_words(a), name_words(b)
    if not (words[0] <= words[1] or words[1] <= words[0]):
        return "they are not candidates: neither name has all words of the other"
    shorter = keys[0] if len(words[0]) <= len(words[1]) else keys[1]
    # Why two candidates of one type are not one: what was decided of the shorter name, else that nothing was.
    type_ = types[0]
    decided = _reasons(d for d in records.decisions if d.key == shorter)
    if records.method == "off":
        return decided or "resolution was off (resolution.method): only link files make names one"
    unknown = "both are of no known type; " if type_ is None else ""
    return decided or f"{unknown}nothing says that they are one"


def _is_about_other(decision: Decision, keys: tuple[str, str], meant: list[str]) -> bool:
    """Whether a decision about one of the names names the other one, or of its entity."""
    if decision.key not in keys:
        return False
    place = 1 - keys.index(decision.key)
    return any(quoted_name(other) in decision.reason for other in (keys[place], meant[place]))


def _reasons(decisions: Iterable[Decision]) -> str:
    return "; ".join(dict.fromkeys(decision.reason for decision in decisions))
