"""What `polyhop doctor` says of real servers."""

from importlib.metadata import version

import pytest
from neo4j_process import Neo4jServer

from polyhop.doctor import check_deployments, check_neo4j, check_prefect
from polyhop.schemas.errors import PolyhopError
from polyhop.schemas.settings import Settings

SETTINGS = Settings()


@pytest.mark.prefect
def test_a_prefect_server_says_its_version_and_database(
    prefect_server: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in prefect_server.items():
        monkeypatch.setenv(name, value)
    url = prefect_server["PREFECT_API_URL"]
    assert check_prefect(SETTINGS) == f"server {version('prefect')} at {url} answers, database SQLite"
    monkeypatch.setattr("polyhop.doctor._OUR_FLOWS", "no flow has this in its entrypoint")
    assert check_deployments(SETTINGS) == "none of Polyhop's flows; make them with: polyhop deploy --index NAME"


@pytest.mark.neo4j
def test_a_neo4j_server_says_its_version_and_edition(
    neo4j_server: Neo4jServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEO4J_URI", neo4j_server.uri)
    monkeypatch.setenv("NEO4J_PASSWORD", neo4j_server.password)
    said = check_neo4j(SETTINGS)
    assert "community edition" in said
    assert said.endswith(" indexes of Polyhop online")
    monkeypatch.setenv("NEO4J_PASSWORD", "wrong")
    with pytest.raises(PolyhopError, match=r"refuses user .*NEO4J_PASSWORD"):
        check_neo4j(SETTINGS)
