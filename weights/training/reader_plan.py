"""Training plan of the reader: groups of input rows drawn by a mixture, as batches in one file.

The plan is a pure function of files and seeds; the trainer reads nothing else, so a run continues exactly.
"""

import json
import os
import random
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.schemas.text import norm_simple
from weights.training import reader_data
from weights.training.reader_chains import ONE_HOP, TWO_HOPS
from weights.training.reader_records import COMPANY, TABLES, company_questions, table_questions
from weights.training.reader_text import Featurizer, TrainingQuestion, TrainingRow, WordWeights, bridging_sentence

MIXTURE = {
    "squadshifts-new_wiki": 0.24, "squad1.1-train-part": 0.15, reader_data.HOTPOTQA: 0.17,
    reader_data.NATURAL_QUESTIONS: 0.10, "xquad-en": 0.04, "expmrc-squad-dev": 0.015, "qamr": 0.05, TWO_HOPS: 0.13,
    ONE_HOP: 0.025, TABLES: 0.04, COMPANY: 0.04,
}  # fmt: skip
"""Share of the groups of each source: 13 M tokens pass 1.3 times over most, 3.3 times over HotpotQA, which is small."""
BUCKETS = (
    (2, 64), (2, 96), (2, 128), (3, 128), (3, 160), (4, 64), (4, 80), (4, 96), (4, 112), (4, 128),
)  # fmt: skip
"""Shapes of batches: passages of a question, tokens of a passage."""
STEP_TOKENS = 2048  # padded tokens of a batch, at most
TABLE_COUNT, COMPANY_COUNT, DEV_RECORDS = 1600, 1500, 120  # questions; chosen: as many as the mixture draws once
MIXTURE_SEED, RECORD_SEED = 11, 29  # chosen: any
DEV_PASSAGES, DEV_LENGTH, UNANSWERABLE_DEV = 5, 192, 20
"""Passages of a dev question and tokens of each, as the prototype read them; questions of a source without answer."""

Arrays = dict[str, NDArray[Any]]
Group = tuple[tuple[TrainingRow, ...], int]  # its rows, and the number of its source


@dataclass(slots=True)
class Plan:
    """Batches of groups of input rows, flat: the arrays of the plan's file."""

    ids: "array[int]"
    rows: list[tuple[int, int, int, int]]  # begin in ids, tokens of segment 0, first and last piece of the text
    golds: list[tuple[int, int, int]]  # row, first and last token
    groups: list[tuple[int, int]]  # first row, source
    batches: list[tuple[int, int, int]]  # first group, passages, tokens of a passage

    def add(self, shape: tuple[int, int], groups: Sequence[Group]) -> int:
        """Appends a batch; returns its padded tokens."""
        self.batches.append((len(self.groups), *shape))
        for rows, source in groups:
            self.groups.append((len(self.rows), source))
            for row in rows:
                self.golds += [(len(self.rows), first, last) for first, last in row.gold]
                self.rows.append((len(self.ids), row.segment, row.first, row.last))
                self.ids.extend(row.ids)
        return len(groups) * shape[0] * shape[1]

    def arrays(self) -> Arrays:
        """The arrays of the plan's file."""
        return {
            "ids": np.array(self.ids, np.uint16),
            "rows": np.array([*self.rows, (len(self.ids), 0, 0, 0)], np.int32),
            "golds": np.array(self.golds, np.int32).reshape(-1, 3),
            "groups": np.array([*self.groups, (len(self.rows), 0)], np.int32),
            "batches": np.array([*self.batches, (len(self.groups), 0, 0)], np.int32),
        }


def draw_plan(
    by_source: Mapping[str, Sequence[TrainingQuestion]],
    builder: reader_data.GroupBuilder,
    tokens: int,
    report: Callable[[str], None],
    seed: int = MIXTURE_SEED,
) -> tuple[Plan, dict[str, int]]:
    """Batches of so many padded tokens, their groups drawn by the mixture; each source in shuffled passes.

    Returns:
        The plan, and the number of groups of each source.
    """
    names = [name for name in MIXTURE if by_source.get(name)]
    choose, build = random.Random(f"order {seed}"), random.Random(f"groups {seed}")
    waiting: dict[tuple[int, int], list[Group]] = defaultdict(list)
    left: dict[str, list[TrainingQuestion]] = {name: [] for name in names}
    drawn: Counter[str] = Counter()
    plan, done, reported = Plan(array("H"), [], [], [], []), 0, 0
    while done < tokens:
        name = choose.choices(names, [MIXTURE[one] for one in names])[0]
        if not left[name]:
            left[name] = list(by_source[name])
            choose.shuffle(left[name])
        rows = builder.rows(left[name].pop(), build)
        drawn[name] += 1
        longest = max(len(row.ids) for row in rows)
        shape = min((b for b in BUCKETS if b[0] >= len(rows) and b[1] >= longest), key=lambda b: (b[0] * b[1], b))
        waiting[shape].append((rows, names.index(name)))
        if len(waiting[shape]) == STEP_TOKENS // (shape[0] * shape[1]):
            done += plan.add(shape, waiting.pop(shape))
        if done >= reported + 1_000_000:
            reported = done
            report(f"{done:,} of {tokens:,} tokens, {sum(drawn.values()):,} groups")
    return plan, dict(drawn)


def dev_records(
    questions: Sequence[TrainingQuestion], builder: reader_data.GroupBuilder, featurizer: Featurizer
) -> Iterator[dict[str, Any]]:
    """Dev questions with the input rows of their passages: those with answers, supporting ones, retrieved ones."""
    for question in questions:
        pool = [*question.passages, *question.negatives]
        chosen = [passage for passage in pool if passage.spans][:2]
        chosen += [passage for passage in pool if not passage.spans and passage.is_supporting]
        chosen += [passage for passage in pool if not passage.spans and not passage.is_supporting]
        most = 3 if question.source.startswith("squad") else DEV_PASSAGES
        rows = []
        for passage in chosen[:most]:
            bridge = bridging_sentence(question.text, pool, passage, builder.weights)
            row = featurizer.row(question.text, bridge, passage, DEV_LENGTH)
            rows.append({"ids": row.ids, "segment": row.segment, "first": row.first, "last": row.last,
                         "offsets": row.offsets, "text": passage.text})  # fmt: skip
        yield {"source": question.source, "question": question.text, "answers": question.answers, "rows": rows}


def prepare(out: Path, data: Path, project: Path, tokens: int) -> None:
    """Writes the plan, the dev questions, and lists of the sources and of the generated questions.

    Args:
        out: Folder of the run.
        data: Folder of the shared data.
        project: The checkout.
        tokens: Padded tokens of the plan.
    """
    started = time.monotonic()

    def report(message: str) -> None:
        print(f"{time.monotonic() - started:6.0f} s  {message}", flush=True)

    by_source, dev, texts = _questions(data, project, report)
    passages = {passage.text: None for own in by_source.values() for one in own for passage in one.passages}
    features = Featurizer(project / "weights" / "src" / "polyhop_weights" / "tokenizer.json")
    builder = reader_data.GroupBuilder(features, WordWeights([*passages, *texts]))
    plan, drawn = draw_plan(by_source, builder, tokens, report)
    summary = {name: {"questions": len(by_source[name]), "groups": drawn[name]} for name in drawn}
    report(json.dumps(summary))
    _write_lines(out / "sources.jsonl", ({"source": name, **counts} for name, counts in summary.items()))
    _write_lines(out / "dev.jsonl", dev_records(dev, builder, features))
    generated = (one for name in (TWO_HOPS, ONE_HOP, TABLES, COMPANY) for one in by_source[name])
    _write_lines(
        out / "generated.jsonl", ({"source": q.source, "question": q.text, "answers": q.answers} for q in generated)
    )
    save_arrays(out / "plan.npz", plan.arrays())
    report("plan written")


def _questions(
    data: Path, project: Path, report: Callable[[str], None]
) -> tuple[dict[str, list[TrainingQuestion]], list[TrainingQuestion], list[str]]:
    """Training questions by source, dev questions, and the texts of the corpora."""
    sources = reader_data.sources_in(data, project)
    held_out = reader_data.HeldOut(sources.held_out)
    train, dev = reader_data.published_questions(sources.reader_training)
    report(f"{len(train):,} published questions for training, {len(dev)} for dev")
    train, dev = reader_data.with_retrieved_negatives(train, dev)
    report("negatives retrieved")
    generated, texts = reader_data.corpus_questions(sources.corpora, held_out)
    chains, dev_chains = reader_data.split_chains(generated)
    report(f"{len(chains):,} generated questions over passages for training, {len(dev_chains)} for dev")
    records = table_questions(TABLE_COUNT, RECORD_SEED) + company_questions(COMPANY_COUNT, RECORD_SEED + 1)
    seen = {question.text for question in records}
    dev_seed = reader_data.DEV_SEED
    further = table_questions(DEV_RECORDS, dev_seed) + company_questions(DEV_RECORDS, dev_seed + 1)
    dev += [*dev_chains, *(question for question in further if question.text not in seen)]
    dev += _without_answers(dev)
    by_source = defaultdict[str, list[TrainingQuestion]](list)
    for question in (*train, *chains, *records):
        if norm_simple(question.text) not in held_out.folded:
            by_source[question.source].append(question)
    return by_source, dev, texts


def _without_answers(questions: Sequence[TrainingQuestion]) -> list[TrainingQuestion]:
    """The first questions of each source, without the passages that answer them: nothing should be above "not here"."""
    counts, chosen = Counter[str](), list[TrainingQuestion]()
    for question in questions:
        passages = tuple(passage for passage in question.passages if not passage.spans)
        counts[question.source] += 1
        if counts[question.source] <= UNANSWERABLE_DEV and (passages or question.negatives):
            chosen.append(replace(question, answers=(), source="unanswerable", passages=passages))
    return chosen


def _write_lines(path: Path, records: Iterator[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes arrays whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("wb") as file:
        np.savez(file, allow_pickle=False, **{name: np.asarray(array) for name, array in arrays.items()})
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def load_arrays(path: Path) -> Arrays:
    """All arrays of an .npz file."""
    with np.load(path, allow_pickle=False) as opened:
        return {name: opened[name] for name in opened.files}


def batch_of(plan: Mapping[str, NDArray[Any]], number: int) -> Arrays:
    """The arrays of one batch, as `reader_model.group_losses` takes them."""
    first, passages, length = (int(value) for value in plan["batches"][number])
    last = int(plan["batches"][number + 1][0])
    names = ("ids", "types", "mask", "may", "start", "end", "shared_start", "shared_end")
    batch = {name: np.zeros((last - first, passages, length), np.int32) for name in names}
    batch["mask"][:, :, 0] = 1  # padded rows attend to something
    for group in range(first, last):
        begin, end = int(plan["groups"][group][0]), int(plan["groups"][group + 1][0])
        golds = plan["golds"][slice(*np.searchsorted(plan["golds"][:, 0], (begin, end)))]
        for row in range(begin, end):
            _fill_row(batch, (group - first, row - begin), plan, row, golds)
    return batch


def _fill_row(
    batch: Arrays, at: tuple[int, int], plan: Mapping[str, NDArray[Any]], row: int, golds: NDArray[np.int32]
) -> None:
    """Sets one row of a batch; `golds` are those of its group."""
    begin, segment, text, text_end = (int(value) for value in plan["rows"][row])
    size = int(plan["rows"][row + 1][0]) - begin
    batch["ids"][at][:size] = plan["ids"][begin : begin + size]
    batch["types"][at][segment:size] = 1
    batch["mask"][at][:size] = 1
    batch["may"][at][0] = 1
    batch["may"][at][text:text_end] = 1
    own = golds[golds[:, 0] == row]
    for _, start, end in own:
        batch["start"][at][start] = batch["shared_start"][at][start] = 1
        batch["end"][at][end] = batch["shared_end"][at][end] = 1
    if not len(own):
        batch["start"][at][0] = batch["end"][at][0] = 1
    if not len(golds):
        batch["shared_start"][at][0] = batch["shared_end"][at][0] = 1
