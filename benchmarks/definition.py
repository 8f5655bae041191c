"""The rules as the papers write them: nested loops, floats. What everything is measured with."""

import math

import numpy as np
from scipy.linalg import expm

from hardmax._types import FloatArray
from hardmax.search.sets import Sets


def triple_loop(tokens: list[list[float]], alpha: float, layers: int) -> list[list[list[int]]]:
    """Hardmax: three nested loops, ties by equality."""
    n, d = len(tokens), len(tokens[0])
    b = alpha / (1 + alpha)
    z = [list(row) for row in tokens]
    history = []
    for k in range(layers + 1):
        sets = []
        for i in range(n):
            best, chosen = -float("inf"), []
            for j in range(n):
                product = 0.0
                for r in range(d):
                    product += z[i][r] * z[j][r]
                if product > best:
                    best, chosen = product, [j]
                elif product == best:
                    chosen.append(j)
            sets.append(chosen)
        history.append(sets)
        if k < layers:
            means = [[sum(z[j][r] for j in chosen) / len(chosen) for r in range(d)] for chosen in sets]
            z = [[z[i][r] + b * (means[i][r] - z[i][r]) for r in range(d)] for i in range(n)]
    return history


def euler_loop(tokens: list[list[float]], V: list[list[float]], time: float, dt: float) -> list[list[float]]:
    """Rescaled self-attention with Q^T K = I as the paper's script does it: loops, and steps of order 1.

    Kinder than the script, which finds e^{tV} anew for every pair of tokens and each entry of P in O(n): here once a
    step and in O(1).
    """
    n, d = len(tokens), len(tokens[0])
    z = [list(row) for row in tokens]
    steps = round(time / dt)
    for step in range(steps):
        E = expm(step * dt * np.array(V)).tolist()
        x = [[sum(E[r][s] * row[s] for s in range(d)) for r in range(d)] for row in z]
        moved = []
        for i in range(n):
            scores = [sum(x[i][r] * x[j][r] for r in range(d)) for j in range(n)]
            largest = max(scores)
            weights = [math.exp(score - largest) for score in scores]
            total = sum(weights)
            mean = [sum(weights[j] * z[j][r] for j in range(n)) / total - z[i][r] for r in range(d)]
            moved.append([z[i][r] + dt * sum(V[r][s] * mean[s] for s in range(d)) for r in range(d)])
        z = moved
    return z


def loop_over_tokens(tokens: FloatArray) -> Sets:
    """Hardmax, one layer: for each token all products, their maximum, and who equals it."""
    rows = []
    for token in tokens:
        products = tokens @ token  # (n,)
        rows.append(np.flatnonzero(products == products.max()))
    return Sets.of(rows)
