"""Where a graph database is and who asks: from what was given, else from the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from polyhop.schemas.errors import ConfigurationError, remember_secrets

BY_OPTION = "--uri"
"""How commands name a server that they write to; these have options for user and password, too."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is and who asks.

    Attributes:
        uri: Its address.
        user: Who asks.
        password: Of the user.
        database: Name of the database.
        named_by: The option or variable that a user names the server with, for messages.
    """

    uri: str
    user: str
    password: str
    database: str = "neo4j"
    named_by: str = BY_OPTION

    @property
    def credentials(self) -> str:
        """What a user checks if the server refuses the user."""
        return "the user and NEO4J_PASSWORD" if self.named_by == BY_OPTION else "NEO4J_USER and NEO4J_PASSWORD"


def find_address(
    uri: str | None,
    user: str | None,
    password: str | None,
    database: str | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    named_by: str = BY_OPTION,
) -> Address:
    """The address from what was given, else from NEO4J_URI, NEO4J_USER (or NEO4J_USERNAME), NEO4J_PASSWORD.

    `named_by` is the option or variable that a user names the server with: messages name no option that is not there.

    Raises:
        ConfigurationError: If there is no address or no password.
    """
    found_uri = uri or environment.get("NEO4J_URI", "")
    found_password = password or environment.get("NEO4J_PASSWORD", "")
    if not found_uri:
        option = f"use {named_by} bolt://HOST:7687 or " if named_by.startswith("--") else ""
        raise ConfigurationError(f"No Neo4j server is named; {option}set NEO4J_URI.")
    if not found_password:
        option = " (or use --password)" if named_by == BY_OPTION else ""
        raise ConfigurationError(f"Neo4j needs a password; set NEO4J_PASSWORD{option}.")
    # an address may hold user:password@, which no message may show
    remember_secrets([found_password, *([found_uri] if "@" in found_uri else [])])
    found_user = user or environment.get("NEO4J_USER") or environment.get("NEO4J_USERNAME") or "neo4j"
    found_database = database or environment.get("NEO4J_DATABASE") or "neo4j"
    return Address(found_uri, found_user, found_password, found_database, named_by)
