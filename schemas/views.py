"""Every view of a published version: what it shows, and the comments that people read in SQL.

Holds no SQL (warehouse/tables/sql/views.sql does, under the same names and with the same columns).
"""

from polyhop.schemas.columns import Column, View, count, flag, text

_PASSAGE_ID = text("passage_id", "passage")
_TITLE = text("title", "title of the passage's document")
_TEXT = text("text", "text of the passage")
_TF = count("tf", "how often the passage mentions the entity")
_IS_TITLE = flag("is_title", "the entity is a key of the passage's title")


def _named(what: str, *, key: bool = False) -> Column:
    return text(f"{what}_key" if key else what, f"{'key' if key else 'name'} of the {what}")


VIEWS: tuple[View, ...] = (
    View(
        "passages_of_entity",
        "Passages that mention an entity: WHERE entity = 'Marie Curie'.",
        (_named("entity"), _named("entity", key=True), _PASSAGE_ID, _TITLE, _TF, _IS_TITLE, _TEXT),
    ),
    View(
        "entities_of_passage",
        "Entities that a passage mentions: WHERE passage_id = 'p1'.",
        (
            _PASSAGE_ID,
            _named("entity"),
            text("type", "type of the entity, if it has one", nullable=True),
            _TF,
            _IS_TITLE,
            count("df", "passages that mention the entity"),
        ),
    ),
    View(
        "document_mentions",
        "Which document mentions which entity, in all its passages together.",
        (
            text("document_id", "document"),
            text("entity_id", "entity mentioned"),
            count("tf", "how often the document mentions it"),
            count("passage_count", "passages of the document that mention it"),
        ),
    ),
    View(
        "neighbours",
        "Relations of an entity in both directions: WHERE entity = 'Marie Curie'.",
        (
            _named("entity"),
            text("direction", "out if the entity is the relation's source, in if it is its target"),
            text("relation", "label of the relation"),
            text("neighbour", "name of the entity at the other end"),
            count("count", "how often the relation was stated"),
            text("relation_id", "relation"),
        ),
    ),
    View(
        "relation_provenance",
        "The passages that state a relation: WHERE source = 'Marie Curie'.",
        (
            text("source", "name of the entity that the relation leaves"),
            text("relation", "label of the relation"),
            text("target", "name of the entity that it enters"),
            _PASSAGE_ID,
            _TITLE,
            _TEXT,
            text("extractor", "rules, model or import"),
        ),
    ),
    View(
        "dates",
        "Dates that passages state, and what they say happened then: WHERE role = 'birth' AND year < 1900.",
        (
            _PASSAGE_ID,
            _TITLE,
            text("value", "the date as YYYY, YYYY-MM or YYYY-MM-DD, so that text order is order in time"),
            count("year", "its year"),
            text("precision", "year, month or day"),
            text(
                "role",
                "birth, death, founding, opening, building, release or launch: the last event named before the date in "
                "its sentence, of whatever the sentence is about; NULL if none is",
                nullable=True,
            ),
            text("stated", "the sentence around the date, up to 120 characters before and 60 after it"),
            count("start_offset", "first character of the date in the passage's text"),
            count("end_offset", "offset after its last character in the passage's text"),
        ),
    ),
    View(
        "stages",
        "What each stage of this version counted.",
        (text("stage", "stage"), text("what", "what was counted"), count("count", "how many")),
    ),
)
