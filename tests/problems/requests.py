"""Requests for an A, the sets of the definition, and the check of a decision."""

import numpy as np

import hardmax as hm
from tests.problems.oracle import choose as sees

PROFILE = {"deadline": None, "derandomize": True}
TRIANGLE = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 0.0], [0.9, 0.0]])


def normal(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def planted(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens, and those that lead for some hidden A: a request that can be met."""
    rng = np.random.default_rng(seed)
    tokens, B = rng.normal(size=(n, d)), rng.normal(size=(d, d))
    products = tokens @ (B @ B.T) @ tokens.T
    return tokens, np.flatnonzero(products.argmax(axis=1) == np.arange(n))


def check_decision(
    tokens: np.ndarray, leaders: np.ndarray, followers: dict[int, int], tries: int = 100
) -> None:
    """Assert that a request is met by the definition, or refuted by Farkas weights and
    met by no random A.
    """
    result, rng = (
        hm.control.choose_A(tokens, leaders=leaders, followers=followers),
        np.random.default_rng(0),
    )
    targets = {int(i): int(i) for i in leaders} | followers
    assert result.found != result.proved, result.status
    if result.found:
        chosen = sees(tokens, result.A)
        assert all(chosen[i] == [t] for i, t in targets.items())
        return
    S = np.zeros((tokens.shape[1],) * 2)
    for clash in result.conflict:
        z, ahead = tokens[clash.token], tokens[clash.target] - tokens[clash.rival]
        S += (
            clash.weight
            * np.outer(z, ahead)
            / (np.linalg.norm(z) * np.linalg.norm(ahead))
        )
    assert (
        np.linalg.eigvalsh(S + S.T)[-1] < 1e-2
    )  # Farkas weights but those below a thousandth
    assert result.conflict
    for _ in range(tries):
        B = rng.normal(size=(tokens.shape[1],) * 2)
        chosen = (tokens @ (B @ B.T) @ tokens.T).argmax(axis=1)
        assert any(chosen[i] != t for i, t in targets.items())
