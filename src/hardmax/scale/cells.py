"""Built-in cells of sweeps: one run each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from hardmax._errors import ParameterError, did_you_mean, needed_for
from hardmax._limit import limit
from hardmax._simulate import simulate
from hardmax._types import FloatArray
from hardmax.configurations import RANDOM_CONFIGURATIONS
from hardmax.flows.classify import classify
from hardmax.rules import (
    Compose,
    FeedForward,
    Hardmax,
    MultiHead,
    SelfAttention,
    Softmax,
    Sphere,
)
from hardmax.rules.base import Layered
from hardmax.scale.design import REPEAT, Params
from hardmax.trajectories.smooth import label_clusters

Row = dict[str, Any]
Chosen = TypeVar("Chosen")
# on the sphere, between tokens of one cluster, as in the figure of arXiv 2312.10794
CLUSTER_DISTANCE = 0.05
BLOCK_LAYERS = 50  # between two checks of a run
MAX_CYCLE_LAYERS = 20
SETTLED = (
    1e-6  # movement relative to the spread of the tokens, below which a run has settled
)


@dataclass(frozen=True)
class BuiltIn:
    """A cell with a default for every parameter."""

    function: Callable[[Params, np.random.Generator], Row]
    plotted: str  # the column that `hardmax sweep plot` draws
    defaults: Params

    def __call__(self, params: Params, rng: np.random.Generator) -> Row:
        return self.function(self.defaults | params, rng)

    def complete(self, design: list[Params], *, drawn: bool = False) -> list[Params]:
        """Return cells with all parameters; raise an error for an unknown parameter or
        a value of another type.

        The default of "seed" is 0, so that all cells have common random numbers; if
        cells are `drawn` at random it is their index, so that they have independent
        random numbers.
        """
        for name in design[0]:
            if name not in self.defaults:
                must = f"have parameters of the cell: {', '.join(self.defaults)}"
                raise ParameterError(
                    "grid", must, repr(name), did_you_mean(name, self.defaults)
                )
            default = self.defaults[name]
            kinds = (int, float) if isinstance(default, float) else (type(default),)
            for value in (cell[name] for cell in design):
                if isinstance(value, bool) or not isinstance(value, kinds):
                    kind = {float: "a number", int: "an integer", str: "a text"}[
                        type(default)
                    ]
                    raise ParameterError(
                        name, f"be {kind}", repr(value), f"For example {default!r}."
                    )
        added = {
            name: value
            for name, value in self.defaults.items()
            if name not in design[0]
        }
        return [
            added | ({REPEAT: index} if drawn else {}) | cell
            for index, cell in enumerate(design)
        ]


def choose(table: Mapping[str, Chosen], name: str, parameter: str) -> Chosen:
    """Return the entry of a name; raise an error that names the parameter if there is
    none.
    """
    if name not in table:
        raise ParameterError(
            parameter,
            f"be one of {', '.join(table)}",
            repr(name),
            did_you_mean(name, table),
        )
    return table[name]


def make_tokens(params: Params, rng: np.random.Generator) -> FloatArray:
    """Return random tokens, (n, d)."""
    return choose(RANDOM_CONFIGURATIONS, params["tokens"], "tokens")(
        rng, params["n"], params["d"]
    )


MATRICES: dict[str, Callable[[np.random.Generator, int], FloatArray | None]] = {
    "identity": lambda rng, d: None,
    "definite": lambda rng, d: np.asarray(
        (W := rng.normal(size=(d, d))) @ W.T / d + 0.1 * np.eye(d)
    ),
    "skew": lambda rng, d: np.asarray(
        np.eye(d) + 3 * ((W := rng.normal(size=(d, d))) - W.T) / 2
    ),
    "indefinite": lambda rng, d: np.asarray((W := rng.normal(size=(d, d))) + W.T) / 2,
    "gaussian": lambda rng, d: rng.normal(size=(d, d)),
    "rank-one": lambda rng, d: np.outer(rng.normal(size=d), rng.normal(size=d)),
    "minus-identity": lambda rng, d: -np.eye(d),
}


def make_hardmax(params: Params, rng: np.random.Generator) -> Hardmax:
    """Return the rule of alpha and a random matrix of a kind of MATRICES."""
    return Hardmax(
        params["alpha"],
        choose(MATRICES, params["A"], "A")(rng, params["d"]),
        any_A=True,
    )


def count_leaders(params: Params, rng: np.random.Generator) -> Row:
    """Count the leaders, and the layers after which the limit is proved."""
    found = limit(
        make_tokens(params, rng),
        make_hardmax(params, rng),
        max_layers=params["max_layers"],
    )
    return {
        "leaders": len(found.leaders),
        "layer": found.layer,
        "certified": found.certified,
        "last_emerged": int(found.emerged.max(initial=-1)),
        "points": len(found.points),
    }


def classify_ending(params: Params, rng: np.random.Generator) -> Row:
    """Classify how runs end for any A, heads and feed-forward part: clusters,
    consensus, a cycle, or unsettled.

    Heads use all coordinates. `gain` scales a random feed-forward part after the heads;
    0 leaves it out. The endings are observed within `layers` layers, not proved.
    """
    start = make_tokens(
        params, rng
    )  # first, so that it is the same for all matrices, heads and gains
    heads = [make_hardmax(params, rng) for _ in range(params["heads"])]
    rule: Any = heads[0] if len(heads) == 1 else MultiHead(heads, shared=True)
    if params["gain"]:
        seed = int(rng.integers(1 << 30))
        rule = Compose(
            [rule, FeedForward.random(params["d"], gain=params["gain"], seed=seed)]
        )
    ending, at, layer = _find_ending(rule, start, params["layers"])
    scale = np.abs(at).max() / np.abs(start).max()
    together = label_clusters(at, start * scale, np.ones(len(start), np.bool_))
    return {"ending": ending, "clusters": int(together.max()) + 1, "layer": layer}


def _find_ending(
    rule: Layered, tokens: FloatArray, layers: int
) -> tuple[str, FloatArray, int]:
    """Return how a run ends, its last tokens, and the layer.

    Argmax sets depend on directions and relative norms only, so the tokens are compared
    after scaling: a cycle is one of scaled tokens, also if they shrink to 0. Tokens
    that shrink to 0 without moving otherwise are a consensus.
    """
    first, layer, scale = np.ptp(tokens, axis=0).max(), 0, 1.0
    while layer < layers:
        run = np.asarray(
            simulate(tokens, rule, layers=min(BLOCK_LAYERS, layers - layer)).array
        )  # (block + 1, n, d)
        layer += len(run) - 1
        size = np.abs(run).max(axis=(1, 2), keepdims=True)
        shapes = run / np.where(size == 0, 1, size)
        spread = np.ptp(shapes[-1], axis=0).max()
        scale *= float(size[-1, 0, 0]) / first  # of the tokens, relative to the input
        has_vanished = scale * spread < SETTLED
        if spread < SETTLED:  # differences are of the order of rounding errors
            return "consensus", run[-1], layer
        moved = np.abs(shapes - shapes[-1]).max(axis=(1, 2))  # (block + 1,)
        back = (
            np.flatnonzero(moved[-MAX_CYCLE_LAYERS - 1 : -1][::-1] < SETTLED * spread)
            + 1
        )  # layers ago
        if len(back):
            return (
                "cycle" if back[0] > 1 else "consensus" if has_vanished else "clusters",
                run[-1],
                layer,
            )
        tokens = np.asarray(shapes[-1] * first)
    return "consensus" if has_vanished else "unsettled", tokens, layer


def count_clusters(params: Params, rng: np.random.Generator) -> Row:
    """Count the clusters on the unit sphere at time t, and measure the similarity of
    the tokens.
    """
    start, times = make_tokens(params | {"tokens": "sphere"}, rng), [0, params["t"]]
    run = simulate(
        start, Sphere(params["beta"]), times=times, method="LSODA", rtol=1e-5, atol=1e-7
    )
    last = run.array[-1]
    clusters = (
        fcluster(linkage(last, "single"), CLUSTER_DISTANCE, "distance").max()
        if len(last) > 1
        else 1
    )
    return {"clusters": int(clusters), "similarity": float(run.similarity[-1])}


def measure_distance(params: Params, rng: np.random.Generator) -> Row:
    """Measure the distance of softmax at a temperature from hardmax, with bounds.

    `distance` is the maximum over tokens after the last layer, divided by the diameter
    of the input. After one layer it is at most `one_layer_bound` = alpha/(1 + alpha)
    max_i min(1, n exp(-gap_i/temperature)), which is proved. `constant` is the smallest
    C for which sqrt(log beta / beta) e^{Ct} is no smaller than the distance, with beta
    = 1/temperature, t = layers alpha/(1 + alpha).
    """
    alpha, temperature, layers = (
        params["alpha"],
        params["temperature"],
        params["layers"],
    )
    start = make_tokens(params, rng)
    hard = simulate(start, Hardmax(alpha), layers=layers)
    soft = simulate(start, Softmax(alpha, temperature=temperature), layers=layers)
    diameter = float(np.linalg.norm(start[:, None] - start, axis=-1).max()) or 1.0
    distances = (
        np.linalg.norm(hard.array - soft.array, axis=-1).max(axis=-1) / diameter
    )  # (layers + 1,)
    gaps = hard.margins(0) * np.linalg.norm(start, axis=1)  # in products
    step, beta = alpha / (1 + alpha), 1 / temperature
    rate = np.sqrt(np.log(beta) / beta) if beta > 1 else np.nan
    with np.errstate(divide="ignore"):
        constant = np.log(distances[-1] / rate) / (layers * step) if layers else np.nan
    return {
        "distance": float(distances[-1]),
        "largest_distance": float(distances.max()),
        "one_layer": float(distances[min(1, layers)]),
        "one_layer_bound": float(
            step * np.minimum(1, len(start) * np.exp(-gaps / temperature)).max()
        ),
        "rate": float(rate),
        "constant": float(constant),
    }


def measure_accuracy(params: Params, rng: np.random.Generator) -> Row:
    """Measure the accuracy of the classifier on generated reviews, half of them for
    training, half for testing.
    """
    with needed_for("the cell `classifier`", None, "text"):
        from hardmax.text.classifier import HardmaxClassifier
        from hardmax.text.datasets import reviews
    size, seed = params["reviews"], int(rng.integers(1 << 31))
    corpus = reviews(
        2 * size, seed=seed, negation=params["negation"], contrast=params["contrast"]
    )
    settings = {
        name: params[name]
        for name in ("n_heads", "d", "layers", "groups", "alpha", "start")
    }
    model = HardmaxClassifier(**settings, random_state=seed, device="cpu")
    model.fit(corpus.texts[:size], corpus.labels[:size])
    return {
        "accuracy": float(
            np.mean(
                model.predict(corpus.texts[size:]) == np.array(corpus.labels[size:])
            )
        )
    }


def _extend_matrix(leading: FloatArray, rng: np.random.Generator, d: int) -> FloatArray:
    """Return V (d, d) with a leading block; the other eigenvalues are drawn between
    -1/2 and 1/2.
    """
    if d < len(leading):
        raise ParameterError(
            "d", f"be at least {len(leading)} for this V", d, "Use more dimensions."
        )
    V = np.diag(rng.uniform(-0.5, 0.5, d))
    V[: len(leading), : len(leading)] = leading
    return V


SPECTRA: dict[str, Callable[[np.random.Generator, int], FloatArray]] = {  # kinds of V
    "identity": lambda rng, d: np.eye(d),
    "positive": lambda rng, d: _extend_matrix(np.eye(1), rng, d),
    "multiple": lambda rng, d: _extend_matrix(np.eye(2), rng, d),
    "complex": lambda rng, d: _extend_matrix(
        np.array([[1.0, -1.0], [1.0, 1.0]]), rng, d
    ),
    "jordan": lambda rng, d: _extend_matrix(np.array([[1.0, 1.0], [0.0, 1.0]]), rng, d),
    "negative": lambda rng, d: -np.diag(rng.uniform(0.2, 1, d)),
}


def classify_flow(params: Params, rng: np.random.Generator) -> Row:
    """Count the clusters of self-attention at time t, over the spectrum of V and the
    number of heads.

    Each head has its own Q^T K, of a kind of MATRICES, and all have the same V, divided
    by the number of heads. Clusters are those of the rescaled tokens in the leading
    directions of V for one head, and of the tokens for several. `expected` is the limit
    that `hm.classify` predicts for one head.
    """
    tokens, d, heads = make_tokens(params, rng), params["d"], params["heads"]
    V = choose(SPECTRA, params["V"], "V")(rng, d)
    rules = [
        SelfAttention(Q=choose(MATRICES, params["B"], "B")(rng, d), V=V)
        for _ in range(heads)
    ]
    rule = (
        rules[0]
        if heads == 1
        else MultiHead(rules, shared=True, shares=[1 / heads] * heads)
    )
    run = simulate(
        tokens, rule, times=np.array([0, params["t"] / 2, params["t"]]), rtol=1e-6
    )
    P = run.attention(run.reached - 1)
    expectation = classify(rules[0].Q, None, V)
    return {
        "expected": expectation.kind,
        "proved": expectation.proved,
        "clusters": int(run.n_clusters[run.reached - 1]),
        "clusters_before": int(run.n_clusters[max(run.reached - 2, 0)]),
        "leaders": len(run.leaders),
        "boolean_distance": float((1 - P.max(axis=-1)).mean()),
        "reached": bool(run.reached == 3),
    }


def perturb_tokens(params: Params, rng: np.random.Generator) -> Row:
    """Measure how limits change if tokens are perturbed by Gaussian noise, relative to
    their mean norm.

    `same_clusters` says whether the same tokens share a limit, `changed` is the share
    of tokens whose limit is at other leaders, and `radius` the perturbation, in the
    same unit, below which `hm.limit` proves that no set changes.
    """
    tokens, rule = make_tokens(params, rng), make_hardmax(params, rng)
    unit = float(np.linalg.norm(tokens, axis=1).mean())
    moves = (
        params["noise"] * unit * rng.normal(size=tokens.shape) / np.sqrt(params["d"])
    )
    before, after = (
        limit(start, rule, max_layers=params["max_layers"])
        for start in (tokens, tokens + moves)
    )
    both = before.certified and after.certified
    changed = np.full(len(tokens), np.nan)
    if both:
        faces = np.zeros(
            (2, len(tokens), len(tokens)), dtype=bool
        )  # whether token j is a leader in the limit of i
        faces[0][:, before.leaders], faces[1][:, after.leaders] = (
            before.weights > 0,
            after.weights > 0,
        )
        changed = np.any(faces[0] != faces[1], axis=1)
    return {
        "certified": both,
        "same_leaders": both and bool(np.array_equal(before.leaders, after.leaders)),
        "same_clusters": both and bool(np.array_equal(before.clusters, after.clusters)),
        "changed": float(changed.mean()),
        "radius": float(before.radius or 0.0) / unit,
        "largest_move": float(np.linalg.norm(moves, axis=1).max()) / unit,
    }


CELLS = {
    "leaders": BuiltIn(
        *(count_leaders, "leaders"),
        {
            "alpha": 0.5,
            "n": 100,
            "d": 2,
            "tokens": "gaussian",
            "A": "identity",
            "max_layers": 1000,
            REPEAT: 0,
        },
    ),
    "endings": BuiltIn(
        *(classify_ending, "ending"),
        {
            "A": "skew",
            "heads": 1,
            "gain": 0.0,
            "alpha": 0.5,
            "n": 20,
            "d": 3,
            "tokens": "gaussian",
        }
        | {"layers": 600, REPEAT: 0},
    ),
    "sphere": BuiltIn(
        count_clusters, "clusters", {"beta": 9.0, "t": 10.0, "n": 32, "d": 2, REPEAT: 0}
    ),
    "flows": BuiltIn(
        *(classify_flow, "clusters"),
        {
            "V": "positive",
            "B": "identity",
            "heads": 1,
            "t": 10.0,
            "n": 20,
            "d": 3,
            "tokens": "gaussian",
            REPEAT: 0,
        },
    ),
    "robustness": BuiltIn(
        *(perturb_tokens, "changed"),
        {
            "noise": 0.01,
            "alpha": 0.5,
            "n": 100,
            "d": 2,
            "tokens": "gaussian",
            "A": "identity",
        }
        | {"max_layers": 1000, REPEAT: 0},
    ),
    "temperature": BuiltIn(
        *(measure_distance, "distance"),
        {
            "temperature": 0.01,
            "layers": 10,
            "alpha": 0.5,
            "n": 100,
            "d": 2,
            "tokens": "gaussian",
            REPEAT: 0,
        },
    ),
    "classifier": BuiltIn(
        *(measure_accuracy, "accuracy"),
        {"reviews": 1000, "n_heads": 32, "d": 2, "layers": 2, "groups": 4, "alpha": 1.0}
        | {"start": "linear", "negation": 0.2, "contrast": 0.2, REPEAT: 0},
    ),
}
