"""Which candidates are one entity, decided without a model: conservative, by the words in which they differ (pure).

The condition on descriptions (cosine at least 0.80) holds where both are embedded; the stage leaves `similarity` out,
because resolution comes before embedding (algorithms.md 7.4): an index must not get other entities when a strategy that
needs entity vectors is added, nor a lexical index an encoder. Source: algorithms.md 1.4, token-free acceptance.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from polyhop.schemas.type_words import LOCATION, PERSON
from polyhop.tasks.resolution.candidates import COMPANY_WORDS, FORM_WORDS, Name, Pair
from polyhop.tasks.resolution.verdict import Verdict, quoted

MIN_SIMILARITY = 0.80  # algorithms.md 1.4, token-free acceptance (iii).
_HARMLESS = "king queen prince princess president saint film novel band album"
HARMLESS_WORDS = FORM_WORDS | frozenset(_HARMLESS.split())
"""Words that a longer form of a name may add without meaning something else."""

Similarity = Callable[[Name, Name], float | None]
"""Cosine of two names' descriptions, None if one of them is not embedded."""


def accept(names: Sequence[Name], pairs: Iterable[Pair], similarity: Similarity | None = None) -> Verdict:
    """Decides on candidate pairs.

    Args:
        names: All names.
        pairs: Candidates (a, b), the words of a among those of b, of clusters that are small enough.
        similarity: Similarity of two descriptions, None to do without.

    Returns:
        At most one merge per name: into the preferred one of its longest acceptable forms.
    Source: algorithms.md 1.4, token-free acceptance.
    Cost: O(sum over names of the squared number of its acceptable forms).
    """
    longer: dict[int, list[int]] = defaultdict(list)
    for a, b in pairs:
        longer[a].append(b)
    merges = []
    refusals = {}
    ambiguous = set()
    for a in sorted(longer):
        forms = {b: why for b in sorted(longer[a]) if (why := _reason(names[a], names[b], similarity))}
        largest = _largest(names, forms)
        if not forms:
            refusals[a] = _refusal(names, a, longer[a])
        elif len({names[b].tokens for b in largest}) > 1:
            shown = ", ".join(quoted(names[b].key) for b in largest[:5])
            refusals[a] = f"several longer forms fit {quoted(names[a].key)}: {shown}"
            ambiguous.add(a)
        else:
            b = preferred(names, largest)
            merges.append((a, b, forms[b]))
    return Verdict(merges, refusals, frozenset(ambiguous))


def preferred(names: Sequence[Name], numbers: Iterable[int]) -> int:
    """The best name for an entity: most words, then most mentions, no comma, longest, smallest.

    Source: algorithms.md 1.4, last lines.
    """

    def rank(number: int) -> tuple[int, int, bool, int, str, str]:
        name = names[number]
        return (-len(name.tokens), -name.mention_count, "," in name.form, -len(name.form), name.form, name.key)

    return min(numbers, key=rank)


def _reason(a: Name, b: Name, similarity: Similarity | None) -> str:
    """Why a may be another form of b, "" if it may not."""
    why = _reason_of_words(a, b)
    if not why or similarity is None:
        return why
    cosine = similarity(a, b)
    return why if cosine is None or cosine >= MIN_SIMILARITY else ""


def _reason_of_words(a: Name, b: Name) -> str:
    extras = b.tokens - a.tokens
    if not extras:
        return f"{quoted(a.key)} has the same words as {quoted(b.key)}"
    if a.type == LOCATION and not (a.is_guess and extras <= COMPANY_WORDS):
        return ""
    if extras <= HARMLESS_WORDS:
        return f"{quoted(b.key)} only adds {', '.join(sorted(extras))} to {quoted(a.key)}"
    if a.type == PERSON and len(a.tokens) >= 2 and b.form.startswith(f"{a.form} of "):
        return f"{quoted(b.key)} says of what {quoted(a.key)} is"
    return ""


def _largest(names: Sequence[Name], forms: Mapping[int, str]) -> list[int]:
    """The forms whose words no other form has all of, and more."""
    return [b for b in forms if not any(names[b].tokens < names[c].tokens for c in forms)]


def _refusal(names: Sequence[Name], a: int, longer: Sequence[int]) -> str:
    if names[a].type == LOCATION:
        shown = ", ".join(quoted(names[b].key) for b in sorted(longer)[:3])
        return f"places are one only with the same words: {quoted(names[a].key)} is not {shown}"
    added = [f"{quoted(names[b].key)} adds {', '.join(sorted(names[b].tokens - names[a].tokens))}" for b in longer[:3]]
    return f"every longer form may be another thing: {'; '.join(added)}"
