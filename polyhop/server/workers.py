"""A worker that the pages start and stop: a process of `polyhop worker` that ends with the server."""

import os
import subprocess
import sys
from collections.abc import Iterable
from threading import Lock

from polyhop.schemas.settings import Settings, as_environment, flatten

STOP_SECONDS = 60  # for the batch at work to end; chosen: as long as a question may take by default


class PageWorker:
    """At most one process, with the server's settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()

    @property
    def is_running(self) -> bool:
        """True while the process that was started here lives."""
        return self._process is not None and self._process.poll() is None

    def start(self, queues: Iterable[str]) -> None:
        """Starts it for these queues, unless it runs."""
        with self._lock:
            if self.is_running:
                return
            changed = flatten(self._settings.model_dump(mode="json", exclude_unset=True))
            command = [sys.executable, "-P", "-m", "polyhop.cli", "worker", "--queues", ",".join(sorted(queues))]
            # a separate session: Ctrl-C reaches the server, which stops it
            self._process = subprocess.Popen(  # noqa: S603 - our own command, by this very interpreter
                command,
                env=os.environ | as_environment(changed),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )

    def stop(self) -> None:
        """Lets it finish the batch at work; one that does not end is killed, and its questions are asked again."""
        with self._lock:
            if self._process is None:
                return
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
