"""`polyhop demo`: indexes the corpus that ships with the package and answers a question of several hops."""

import json as json_module
import shlex
from pathlib import Path

from polyhop.commands.ask import print_answer
from polyhop.commands.index import print_report
from polyhop.commands.options import Json, Root, settings_of
from polyhop.output import print_json, print_line, progress

DEMO_FOLDER = Path(__file__).resolve().parent.parent / "demo"
DEMO_INDEX = "demo"


def demo(root: Root = None, json: Json = False) -> None:
    """Index a small corpus that ships with Polyhop and answer a multi-hop question from it."""
    from polyhop.api import open_index
    from polyhop.flows.index import run_index
    from polyhop.flows.runner import DirectRunner
    from polyhop.passages import passage_texts
    from polyhop.schemas.requests import IndexRequest
    from polyhop.warehouse.files.layout import Layout
    from polyhop.warehouse.files.versions import readable_manifest

    settings = settings_of(root)
    corpus = DEMO_FOLDER / "corpus.jsonl"
    # another installation of Polyhop has the same corpus elsewhere; an index that people call demo is not replaced
    manifest = readable_manifest(Layout(settings.root).index(DEMO_INDEX))
    known = {} if manifest is None else manifest.sources
    name = next((name for name, at in known.items() if Path(at.location).parts[-3:] == corpus.parts[-3:]), "")
    request = IndexRequest(DEMO_INDEX, corpus, source_name=name, replaces=bool(name))
    with progress() as update:
        report = run_index(settings, request, DirectRunner(update))
    with (DEMO_FOLDER / "questions.jsonl").open(encoding="utf-8") as file:
        question = json_module.loads(file.readline())["question"]
    with open_index(DEMO_INDEX, settings=settings) as opened:
        answer = opened.ask(question, limit=5)
        texts = passage_texts(opened.session.published, answer.passages)
    if json:
        print_json({"index": report.to_json(), "ask": answer.to_json()})
        return
    print_report(report)
    print_line()
    print_answer(answer, texts, explain=True)
    print_line()
    print_line("Try next")
    folder = "" if root is None else f" --root {root}"
    print_line(f"  polyhop ask {shlex.quote(question)} --index demo --strategy dense{folder}")
    print_line(f"  polyhop eval {DEMO_FOLDER / 'questions.jsonl'} --index demo --strategies bridge,dense,bm25{folder}")
    print_line(f"  polyhop sql 'FROM entities WHERE is_named ORDER BY df DESC LIMIT 10' --index demo{folder}")
    print_line(f"  polyhop index YOUR_CORPUS.jsonl --index mine{folder}")
