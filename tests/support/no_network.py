"""Commands without any network: in a network namespace of their own, else with sockets that connect nowhere."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

NAMESPACE = ("unshare", "--map-root-user", "--net")

GUARD = """
import socket


def refuse(self, address):
    raise OSError(f"no network in this test: {address}")


socket.socket.connect = socket.socket.connect_ex = refuse
"""
"""As sitecustomize.py; it does not see what compiled libraries connect to, which is why a namespace comes first."""


def without_network(
    command: Sequence[str], environment: Mapping[str, str], folder: Path
) -> tuple[Sequence[str], Mapping[str, str]]:
    """A command and its environment, changed so that it reaches nothing, loopback included.

    Args:
        command: Words of it.
        environment: Of its process.
        folder: For the guard, where namespaces are not allowed.
    """
    try:
        allowed = subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    if allowed:
        return [*NAMESPACE, *command], environment
    (folder / "sitecustomize.py").write_text(GUARD, encoding="utf-8")
    closed = "http://127.0.0.1:9"
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), closed)
    return command, {**environment, **proxies, "PYTHONPATH": str(folder)}
