"""What does a run on a Prefect server cost over the same run without, and how many task runs does it make?

Run: uv run python benchmarks/prefect_overhead.py ../shared/data/wiki20k/corpus.jsonl.gz --caches FOLDER [--repeat 1]

FOLDER is the `caches` of a root where the corpus was indexed before: no vector may be computed, or its time would hide
what Prefect takes. Prints per run its processor time (user and system, children included, as machines are shared), wall
time, the processor time of the server meanwhile, and task runs.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of a run: of its processes, on the wall, and of the server's process meanwhile; vectors computed."""

    processor: float
    wall: float
    server: float
    computed: int


def main() -> None:
    """Prints a line per run, and how the medians compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--caches", type=Path, required=True)
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()
    found: dict[bool, list[Measured]] = {False: [], True: []}
    with tempfile.TemporaryDirectory(prefix="polyhop-overhead-") as folder, prefect_server(Path(folder)) as (url, pid):
        print("run      processor s   wall s   server's processor s   vectors computed")
        for number in range(options.repeat):
            for on_server in (False, True):
                root = Path(folder) / f"root-{number}-{on_server}"
                shutil.copytree(options.caches, root / "caches")
                one = measured(options.corpus.resolve(), root, url if on_server else "", pid)
                shutil.rmtree(root)
                found[on_server].append(one)
                name = "Prefect" if on_server else "direct"
                print(f"{name:<9}{one.processor:11.1f}{one.wall:9.1f}{one.server:23.1f}{one.computed:19,}", flush=True)
        runs = asked(url, "/task_runs/count") // options.repeat
    direct, served = (median(one.processor for one in found[on_server]) for on_server in (False, True))
    print(f"{runs} task runs; processor time on Prefect {served / direct - 1:+.1%} (medians of {options.repeat})")


@contextmanager
def prefect_server(folder: Path) -> Iterator[tuple[str, int]]:
    """A server on a free port with a throwaway database: the address of its API, and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}/api"
    variables = {
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": url,  # which the dashboard asks
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }
    command = [str(Path(sys.executable).parent / "prefect"), "server", "start", "--host", "127.0.0.1"]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen([*command, "--port", str(port)], env=clean(variables), stdout=log, stderr=log)
    try:
        while not is_healthy(url):
            if server.poll() is not None:
                raise SystemExit((folder / "server.log").read_text())
            time.sleep(0.5)
        yield url, server.pid
    finally:
        server.terminate()
        server.wait()


def measured(corpus: Path, root: Path, url: str, server: int) -> Measured:
    """One run of `polyhop index` in a process of its own; on the server of this address, "" for none."""
    command = [sys.executable, "-m", "polyhop.cli", "index", str(corpus), "--index", "x", "--root", str(root), "--json"]
    before, start = processor_seconds(server), time.perf_counter()
    process = subprocess.Popen(
        [*command, *(["--prefect"] if url else [])],
        env=clean({"PREFECT_API_URL": url} if url else {}),
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
    )
    assert process.stdout is not None
    report = json.loads(process.stdout.read())
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    computed = sum(count for stage, count in report["computed"].items() if "embed" in stage or "vectors" in stage)
    return Measured(used.ru_utime + used.ru_stime, wall, processor_seconds(server) - before, computed)


def processor_seconds(pid: int) -> float:
    """User and system time of a process so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def is_healthy(url: str) -> bool:
    """Whether the server answers."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2):
            return True
    except OSError:
        return False


def asked(url: str, path: str) -> int:
    """The number that the server answers."""
    request = urllib.request.Request(url + path, b"{}", {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return int(json.loads(response.read()))


def clean(more: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without settings of Polyhop and Prefect, and these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("POLYHOP_", "PREFECT_"))}
    return kept | dict(more)


if __name__ == "__main__":
    main()
