"""Whether questions and masked questions gain from padded batches, and whether padding changes their vectors.

Run: uv run python benchmarks/padded_questions.py ROOT INDEX QUESTIONS [REPEATS]   (an index built for bridge-masked)
Batches of 32 questions with their masks, one call of the encoder each: equal-length batches as the product has them
against one padded batch on the same graph with a mask of tokens. Processor milliseconds per question, least of REPEATS.
"""

import sys
import time
from pathlib import Path

import numpy as np
from machine import describe_machine

from polyhop.api import open_index
from polyhop.schemas.settings import Settings
from polyhop.warehouse.files.questions import read_questions
from polyhop.warehouse.models.local_encoder import LocalEncoder, find_model_folder
from polyhop.worker.strategies.registry import make

BATCH = 32


def main(root, name, questions, repeats="5"):
    """Prints a Markdown table and how many vectors differ."""
    records, _ = read_questions(Path(questions))
    texts = [record.question for record in records]
    with open_index(name, settings=Settings(root=Path(root))) as index:
        read = make("bridge-masked", index.session.published, {}).read
        masks = [(masked,) if (masked := read(text).masked) else () for text in texts]
    encoder, padded = LocalEncoder(), PaddedEncoder()
    batches = []
    for begin in range(0, len(texts), BATCH):
        some = texts[begin : begin + BATCH]
        batches.append([*some, *dict.fromkeys(text for mask in masks[begin : begin + BATCH] for text in mask)])
    print(f"{describe_machine()}; {len(texts)} questions and {sum(map(len, batches)) - len(texts)} masks of {name}\n")
    print("| processor ms per question | equal-length batches | one padded batch |\n|---|---|---|")
    taken = {"equal": [], "padded": []}
    for _ in range(int(repeats)):
        for way, model in (("equal", encoder), ("padded", padded)):
            begun = time.process_time()
            found = [model.encode(batch) for batch in batches]
            taken[way].append(1000 * (time.process_time() - begun) / len(texts))
            if way == "equal":
                expected = np.concatenate(found)
    print(f"| questions with their masks | {min(taken['equal']):.2f} | {min(taken['padded']):.2f} |\n")
    differs = (np.concatenate(found) != expected).any(axis=1)
    largest = np.abs(np.concatenate(found) - expected).max()
    print(f"{differs.sum()} of {len(differs)} vectors have other bits, by up to {largest:.1e} per component")


class PaddedEncoder:
    """The encoder's graph with a second input that says which tokens are padding."""

    def __init__(self):
        import onnx
        import onnxruntime
        from onnx import TensorProto, helper
        from tokenizers import Tokenizer

        folder = find_model_folder()
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        model = onnx.load(str(folder / "model.onnx"))
        nodes = model.graph
        nodes.input.append(helper.make_tensor_value_info("mask", TensorProto.INT32, ["b", "s"]))
        nodes.input.append(helper.make_tensor_value_info("weights", TensorProto.FLOAT, ["b", 1, "s"]))
        for node in nodes.node:
            if node.op_type == "Attention":
                node.input.append("mask")
            if node.name == "token_sums":
                node.input[0] = "weights"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options)

    def encode(self, texts):
        """Shape (len(texts), 384)."""
        ids = [self.tokenizer.encode(text).ids for text in texts]
        width = max(map(len, ids))
        tokens = np.array([row + [0] * (width - len(row)) for row in ids], dtype=np.int64)
        mask = np.array([[1] * len(row) + [0] * (width - len(row)) for row in ids], dtype=np.int32)
        given = {"input_ids": tokens, "mask": mask, "weights": mask[:, None, :].astype(np.float32)}
        return self.session.run(["vectors"], given)[0]


if __name__ == "__main__":
    main(*sys.argv[1:])
