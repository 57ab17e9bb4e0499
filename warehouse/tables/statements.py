"""The statements of the .sql files beside this module, by file and name.

How a file is read is sql_files.py's business.
"""

from pathlib import Path

from warehouse.sql_files import read_statements

SQL_FOLDER = Path(__file__).parent / "sql"


def statements(file: str) -> dict[str, str]:
    """{name: SQL} of `sql/<file>.sql`, in the file's order."""
    return read_statements(SQL_FOLDER / f"{file}.sql")


def statement(file: str, name: str) -> str:
    """One statement by file and name."""
    return statements(file)[name]
