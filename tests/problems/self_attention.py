"""Self-attention in time by loops and by SciPy on the raw equation, and weights of
every kind.
"""

import numpy as np
from scipy.integrate import solve_ivp

from tests.problems.softmax import weights as attention

RNG = np.random.default_rng(11)
TOKENS = RNG.normal(size=(5, 2))
Q, K, V = (
    RNG.normal(size=(3, 2)),
    RNG.normal(size=(3, 2)),
    RNG.normal(size=(2, 2)) * 0.8,
)
TIGHT = {"rtol": 1e-12, "atol": 1e-14}
JORDAN = np.array([[0.5, 1.0], [0.0, 0.5]])
TURN = np.array([[0.3, -1.0], [1.0, 0.3]])


def at(weight, t, d=2):
    return (
        np.eye(d)
        if weight is None
        else np.asarray(weight(t) if callable(weight) else weight)
    )


def velocity(x, t, Q=None, K=None, V=None, causal=False):
    """sum_j P_ij V x_j with P by loops: <Q x_i, K x_j> = <A x_i, x_j> for A = K^T Q."""
    return attention(x, at(K, t).T @ at(Q, t), causal=causal) @ x @ at(V, t).T


def reference(tokens, times, **weights):
    """Integrate the raw equation, without rescaling."""
    options = {"method": "DOP853", "t_eval": times, "rtol": 1e-11, "atol": 1e-13}

    def rate(t, y):
        return velocity(y.reshape(tokens.shape), t, **weights).ravel()

    return solve_ivp(rate, (0, times[-1]), tokens.ravel(), **options).y.T.reshape(
        -1, *tokens.shape
    )


def waves(t):
    return np.cos(t) * np.eye(2)


RULES = {
    "identity": {},
    "rectangular": {"Q": Q, "K": K, "V": V},
    "only Q": {"Q": RNG.normal(size=(2, 2))},
    "only K": {"K": RNG.normal(size=(2, 2))},
    "only V": {"V": V},
    "defective V": {"V": JORDAN},
    "complex eigenvalues": {"V": TURN},
    "minus identity": {"V": -np.eye(2)},
    "singular V": {"V": np.diag([1.0, 0.0])},
    "zero V": {"V": np.zeros((2, 2))},
    "causal": {"Q": Q, "K": K, "V": V, "causal": True},
    "waves": {"V": waves},
    "all in time": {
        "Q": lambda t: Q * (1 + t / 2),
        "K": lambda t: K * np.exp(-t),
        "V": lambda t: V + np.sin(3 * t) * JORDAN,
    },
    "queries in time": {"Q": lambda t: Q * np.cos(t), "K": K, "V": V},
}


def product_problem(seed):
    rng = np.random.default_rng(seed)
    tokens, S = rng.uniform(-1, 1, (20, 4)), rng.normal(size=(4, 4))
    return (
        tokens,
        S @ np.diag([1, 1, 0.3, -0.5]) @ np.linalg.inv(S),
        np.linalg.inv(S)[:2].T,
    )
