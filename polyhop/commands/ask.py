"""`polyhop ask` and `connect`: one question, or two entities, answered with evidence."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from polyhop.commands import options
from polyhop.output import print_block, print_error, print_json, print_line
from polyhop.schemas.chat import cost_words
from polyhop.schemas.errors import ConfigurationError
from polyhop.schemas.evidence import evidence_of
from polyhop.schemas.query import UNREAD
from polyhop.schemas.queue import model_that_read
from polyhop.schemas.text import names_in, plural
from polyhop.terminal import certainty, guess_of, passage_line, silence, text_line

if TYPE_CHECKING:
    from polyhop.api import Answer, SeveralAnswers
    from polyhop.graph import CitedPassage


def ask(
    question: Annotated[str, Argument(help="The question.")],
    index: Annotated[
        str,
        Option("--index", help="Name of the index, or several separated by commas, whose passages are fused by rank."),
    ],
    strategy: options.Strategy = None,
    limit: options.Limit = 10,
    topic: Annotated[
        str | None, Option("--topic", help="The entity that the question is about, by name or id.")
    ] = None,
    where: options.Where = None,
    param: options.Parameters = None,
    reader: options.ReaderName = None,
    explain: Annotated[bool, Option("--explain", help="Show how the evidence connects.")] = False,
    html: options.HtmlFile = None,
    set_: options.Set = None,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Answer one question from an index, with the passages it stands on."""
    from polyhop.api import open_index
    from polyhop.warehouse.index_reader import passage_texts

    parameters = options.pairs(param, "--param")
    names = names_in(index)
    if len(names) > 1 and (html is not None or explain):
        raise ConfigurationError("--html and --explain need a single index; name one, or leave them out.")
    if html is not None:
        from polyhop.pages.answer_page import PAGE
        from polyhop.warehouse.files.disk import HTML, require_writable

        require_writable(html, PAGE, HTML)
    settings = options.with_reader(options.settings_of(root, set_), reader)
    if len(names) > 1:
        from polyhop.api import open_indexes

        with open_indexes(names, settings=settings) as several:
            answers = several.ask(
                question, strategy=strategy, limit=limit, parameters=parameters, topic=topic, where=where
            )
            shown = {} if json else several.texts(answers.passages)
        print_json(answers.to_json()) if json else print_several(answers, shown)
        return
    with open_index(index, settings=settings) as opened:
        answer = opened.ask(question, strategy=strategy, limit=limit, parameters=parameters, topic=topic, where=where)
        if html is not None:
            from polyhop.pages.answer_page import material_of, write_page

            session = opened.session.where(where)
            write_page(html, answer.to_json(), material_of(session, answer.to_json(), parameters))
            print_error(f"Page written to {html}")
        texts = {} if json else passage_texts(opened.session.published, answer.passages)
    if json:
        print_json(answer.to_json())
        return
    print_answer(answer, texts, explain=explain)
    if not answer.answer and not settings.models.read and answer.reading.get("kind") != UNREAD:
        print_error(
            "To answer in full sentences with sources, set a language model: --set models.read=PROVIDER/MODEL, "
            "hosted or on this machine (docs/how-to/models.md)."
        )


def print_answer(answer: "Answer", texts: Mapping[str, str], *, explain: bool) -> None:
    """The answer for a person, with the texts of its passages by id; with `explain`, how its evidence connects."""
    _print_said(answer)
    reading = answer.reading
    if reading.get("reasoning") and reading.get("model"):  # a model's answer in full sentences
        print_block("", reading["reasoning"])
    for citation in reading.get("citations", ()):
        source, said = citation["passage_id"] or citation["hub_id"], citation["quote"] or citation.get("name", "")
        number = f"[{citation['number']}]" if citation.get("number") else "cites"
        print_line(f"  {number:<8}[{source}] {' '.join(said.split())}".rstrip())
    _print_sentences(answer)
    _print_rankings(answer, texts)
    # why nothing was found, or what became of the topic, where the evidence is not drawn, which says so, too
    fallback = answer.evidence.get("fallback") or {"code": "", "text": ""}
    is_needed = not (answer.triples or answer.passages) or fallback["code"].startswith("topic_")
    if fallback["text"] and is_needed and not explain:
        print_line(f"  {fallback['text']}")
    _print_reading(reading)
    if explain:
        _print_evidence(answer)


def print_short(answer: "Answer") -> None:
    """The question, the answer and its sentences."""
    _print_said(answer)
    _print_sentences(answer)


def _print_said(answer: "Answer") -> None:
    print_line(f"Question  {answer.question}")
    print_block("Answer", f"{answer.answer or silence(answer)}{certainty(answer)}")


def _print_sentences(answer: "Answer") -> None:
    """The values that the answer is made of, then the sentences that it was read from, or that answer instead."""
    stated = [value["sentence"] for value in answer.reading.get("values", ())]
    for value in answer.reading.get("values", ()):
        print_line(f"  {value['name']}: {value['value']}")
        print_source(value["sentence"])
    if not answer.reading.get("citations") and not (answer.answer and stated):
        for sentence in answer.sentences:
            if sentence not in stated:
                print_source(sentence, guess_of(answer))


def _print_rankings(answer: "Answer", texts: Mapping[str, str]) -> None:
    """The filter, triples, passages; of a strategy that found triples alone, no heading without passages below it."""
    from polyhop.terminal import passage_lines, triple_lines

    if answer.filter is not None:
        left = f"{answer.filter['passages']:,} of {answer.filter['of']:,} passages"
        print_line(f"Filter    {answer.filter['where']}  ({left})")
    milliseconds = 1000 * sum(answer.seconds.values())
    how = f"({answer.strategy}, version {answer.version}, {milliseconds:.0f} ms)"
    if answer.triples is not None:
        print_line(f"Triples   {how}")
        for line in triple_lines(answer.triples, answer.evidence.get("paths", ())):
            print_line(line)
        how = ""
    if how or answer.passages:
        print_line(f"Passages  {how}".rstrip())
    for line in passage_lines(answer.passages, answer.evidence, texts):
        print_line(line)


def print_source(sentence: dict[str, Any] | None, guess: str = "") -> None:
    """A sentence that an answer is from, with its passage and the guess marked; nothing if there is none."""
    if sentence:
        text = " ".join(sentence["text"].split())
        print_line(f"  from    [{sentence['passage_id']}] {text.replace(guess, f'*{guess}*', 1) if guess else text}")


def _print_reading(reading: dict[str, Any]) -> None:
    """Prints the model's use of tokens; nothing if no model was called."""
    if not reading.get("model"):
        return
    usage, prompt = reading["usage"], reading["prompt"]
    label = "Read by" if model_that_read(reading) else "Asked"
    if prompt is None:
        print_line(f"{label:<10}{reading['model']}")
        return
    tokens = f"{usage['prompt_tokens']} + {usage['completion_tokens']} tokens, {cost_words(usage['cost_usd'])}"
    paid = ", cached" if reading["cached"] else ""
    print_line(f"{label:<10}{reading['model']}, prompt {prompt['name']} {prompt['hash'][:8]}, {tokens}{paid}")
    if fallback := reading["fallback"]:
        why = f"{fallback['error_class']}: {fallback['error']}"
        print_line(f"  the model's reply was unusable; fell back to the reader without a model: {why}")
    if reading["dropped_citations"]:
        print_line(f"  {reading['dropped_citations']} cited sources do not support the answer and were dropped")


def _print_evidence(answer: "Answer") -> None:
    from polyhop.terminal import evidence_lines

    titles = {passage["id"]: passage["title"] for passage in answer.passages}
    for line in evidence_lines(evidence_of(answer.evidence), titles):
        print_line(line)
    if answer.evidence["links"]:
        print_line("How the evidence connects")
    for link in answer.evidence["links"]:
        source = "question" if link["source"] == "question" else titles.get(link["source"], link["source"])
        target = titles.get(link["target"], link["target"])
        print_line(f"  {source} --[{link['via']}]--> {target}  [{link['target']}]")
    shown = answer.sentences[: 1 if answer.answer else None]
    cited = [sentence for sentence in answer.evidence["sentences"][1:] if sentence not in shown]
    if cited:
        print_line("Sentences cited")
    for sentence in cited:
        print_line(f"  [{sentence['passage_id']}] {' '.join(sentence['text'].split())}")


def print_several(several: "SeveralAnswers", texts: Mapping[tuple[str, str], str]) -> None:
    """The answer and the index that it is from, then the fused passages with theirs."""
    print_line(f"Question  {several.question}")
    if several.index is None:
        found = [(one.sentences[0], guess_of(one)) for one in several.answers.values() if one.sentences]
        heading = "No confident short answer. Most relevant sentences:" if found else "(none found)"
        print_line(f"Answer    {heading}")
        for sentence, guess in found:
            print_source(sentence, guess)
    else:
        chosen = several.answers[several.index]
        print_block("Answer", f"{several.answer}{certainty(chosen)}  (from the index {several.index})")
        for sentence in chosen.evidence["sentences"]:
            print_source(sentence)
    asked = ", ".join(f"{name}: {one.strategy}, version {one.version}" for name, one in several.answers.items())
    print_line(f"Passages  ({asked})")
    for passage in several.passages:
        held = ", ".join((passage["index"], *passage.get("also_in", ())))
        print_line(f"{passage_line(passage)}  in {held}")
        text = text_line(texts.get((passage["index"], passage["id"]), ""))
        if text:
            print_line(text)


_Name = Argument(help="Name of an entity, as you would write it.")


def connect(
    a: Annotated[str, _Name],
    b: Annotated[str, _Name],
    index: options.IndexName,
    max_length: Annotated[
        int, Option("--max-length", min=1, max=10, help="Maximum number of relations in a connection.")
    ] = 4,
    root: options.Root = None,
    json: options.Json = False,
) -> None:
    """Show the shortest connections between two entities, and the passages that state them."""
    from polyhop.api import open_index

    with open_index(index, settings=options.settings_of(root)) as opened:
        found = opened.graph.connect(a, b, max_length=max_length)
    if json:
        print_json(found.to_json())
        return
    apart = f"{found.a} and {found.b} are not connected by up to {plural(found.max_length, 'relation')}"
    if not found.paths:
        print_line(f"{apart}, and no passage mentions both.")
    elif found.paths[0].via == "passage":
        print_line(f"{apart}; passages that mention both:")
    else:
        hops = found.paths[0].hops
        said = f"{plural(len(hops), 'relation')} apart" if hops else "one entity"
        print_line(f"{found.a} and {found.b} are {said}:")
    for path in found.paths:
        print_line(f"  {path.text}")
        for passage in path.passages:
            print_line(f"    {_cited(passage)}")
        for relation in (relation for hop in path.hops for relation in hop):  # and where each is stated
            named = ", ".join(map(_cited, relation.passages))
            more = relation.passage_count - len(relation.passages)
            said = f"{named} and {more} more" if more > 0 else named or "(no passage)"
            print_line(f"    {relation.relation}: {said}")


def _cited(passage: "CitedPassage") -> str:
    return f"[{passage.id}] {passage.title}".rstrip()
