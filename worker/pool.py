"""The open indexes of a worker: each held at one version, moved to the next between batches.

Answers nothing itself (session.py does).
"""

from collections.abc import Mapping

from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.layout import Layout
from polyhop.warehouse.files.versions import require_version
from polyhop.warehouse.open import open_published
from polyhop.worker.session import IndexSession


class IndexPool:
    """Sessions by index name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._layout = Layout(settings.root)
        self._sessions: dict[str, IndexSession] = {}

    def session(self, name: str) -> IndexSession:
        """The current version of an index; a version published since the last call replaces the one held.

        Call it between batches only: a session returned earlier for the same index may be closed by it.

        Raises:
            UnknownIndexError: If nothing was published under that name.
        """
        current, _ = require_version(self._layout, name)
        held = self._sessions.get(name)
        if held is not None and held.version == current:
            return held
        published = open_published(self._settings.root, name)
        opened = IndexSession(published, self._settings)
        if held is not None:
            held.close()
        self._sessions[name] = opened
        return opened

    def forget(self, name: str) -> None:
        """Closes an index, to be opened from scratch: nobody knows what an interruption left half done in it."""
        held = self._sessions.pop(name, None)
        if held is not None:
            held.close()

    def versions(self) -> Mapping[str, int]:
        """The version held of each open index."""
        return {name: session.version for name, session in sorted(self._sessions.copy().items())}

    def close(self) -> None:
        """Releases all versions."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()
