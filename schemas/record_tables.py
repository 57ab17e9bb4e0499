"""Tables of records and their metadata, each value with its type: what filters of questions look at.

Makes no row (tasks/passages/metadata.py does). Source: decisions/0027-filters-of-questions.md.
"""

import pyarrow as pa

from polyhop.schemas.columns import Column, Table, count, flag, real, text

RECORDS = Table(
    "records",
    "Records: the units of the source, each with the metadata that it came with; long ones are several passages.",
    ("record_id",),
    (
        text("record_id", "id of the record in the source; id in filters"),
        text("document_id", "document that its passages belong to; document in filters"),
        text("title", "title of the record; title in filters"),
        text("source", "file that it came from; source in filters"),
        text("metadata_json", "its metadata, as JSON with sorted keys"),
    ),
)
METADATA_VALUES = Table(
    "metadata_values",
    "Metadata of records, one value a row: WHERE name = 'year' AND number >= 2020.",
    ("record_id", "name", "ordinal"),
    (
        text("record_id", "record that it belongs to"),
        text("name", "field; those inside an object follow its name after a dot (author.name)"),
        count("ordinal", "position among the values of the field, from 0: lists have several"),
        text("kind", "number, flag or text, as the source has it"),
        text("value", "as text; true or false for a flag"),
        real("number", "as a number, also of a text that is one (no leading zeros), else NULL", nullable=True),
        Column("moment", pa.timestamp("us"), "as a date and time in UTC, of a text that is an ISO date", nullable=True),
    ),
)
METADATA_COLUMNS = Table(
    "metadata_columns",
    "Fields of metadata: their types, and what values they have. Filters name them metadata.NAME.",
    ("name",),
    (
        text("name", "field"),
        text("type", "number, flag, date or text, if all values are; else mixed"),
        count("record_count", "records that have it"),
        count("value_count", "different values"),
        text("smallest", "smallest value, by its type"),
        text("largest", "largest value, by its type"),
        flag("is_list", "some record has several values"),
    ),
)
RECORD_TABLES = (RECORDS, METADATA_VALUES, METADATA_COLUMNS)
