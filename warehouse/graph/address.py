"""Where a graph database is and who asks: from what was given, else from the environment. Opens nothing."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.redaction import remember_secrets

_USER_VARIABLES = ("NEO4J_USER", "NEO4J_USERNAME")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is and who asks."""

    uri: str
    user: str
    password: str
    database: str = "neo4j"


def find_address(
    uri: str | None,
    user: str | None,
    password: str | None,
    database: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Address:
    """The address from what was given, else from NEO4J_URI, NEO4J_USER (or NEO4J_USERNAME), NEO4J_PASSWORD.

    Raises:
        ConfigurationError: If there is no address or no password.
    """
    found_uri = uri or environment.get("NEO4J_URI", "")
    names = [environment[name] for name in _USER_VARIABLES if environment.get(name)]
    found_password = password or environment.get("NEO4J_PASSWORD", "")
    if not found_uri:
        raise ConfigurationError("No Neo4j server is named; use --uri bolt://HOST:7687 or set NEO4J_URI.")
    if not found_password:
        raise ConfigurationError("Neo4j needs a password; set NEO4J_PASSWORD (or use --password).")
    remember_secrets([found_password, *([found_uri] if "@" in found_uri else [])])
    found_database = database or environment.get("NEO4J_DATABASE") or "neo4j"
    return Address(found_uri, user or (names[0] if names else "neo4j"), found_password, found_database)
