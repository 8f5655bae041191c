"""Softmax layers by loops over tokens, and the tokens on which rules are compared with
them.
"""

import math

import numpy as np

import hardmax as hm

RNG = np.random.default_rng(7)
TOKENS = RNG.normal(size=(6, 3))
ANY_A = RNG.normal(size=(3, 3))


def weights(tokens, A=None, temperature=1.0, causal=False):
    """P by loops over tokens, in Python floats."""
    n, rows = len(tokens), []
    images = tokens if A is None else [A @ z for z in tokens]
    for i in range(n):
        seen = range(i + 1) if causal else range(n)
        scores = [float(np.dot(images[i], tokens[j])) / temperature for j in seen]
        powers = [math.exp(score - max(scores)) for score in scores]
        rows.append(
            [power / sum(powers) for power in powers] + [0.0] * (n - len(powers))
        )
    return np.array(rows)


def softmax_layer(
    tokens, alpha, A=None, temperature=1.0, normalize="rescaling", causal=False
):
    P, moved = weights(tokens, A, temperature, causal), []
    for i, z in enumerate(tokens):
        mean = sum(P[i, j] * tokens[j] for j in range(len(tokens)))
        if normalize == "rescaling":
            moved.append((z + alpha * mean) / (1 + alpha))
            continue
        new = z + alpha * mean
        if normalize == "layer":
            new = new - sum(new) / len(new)
        if normalize != "none":
            new = new / math.sqrt(sum(x * x for x in new) / len(new))
        moved.append(new)
    return np.array(moved)


def last(tokens, rule, layers=1, **options):
    return hm.simulate(tokens, rule, layers=layers, **options).array[-1]
