"""Built-in cells of sweeps: one run each."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from hardmax._errors import ParameterError, did_you_mean, needed_for
from hardmax._types import FloatArray
from hardmax.configurations import RANDOM_CONFIGURATIONS
from hardmax.limit import limit
from hardmax.rules import Compose, FeedForward, Hardmax, MultiHead, Softmax, Sphere
from hardmax.rules.base import Layered
from hardmax.scale.design import REPEAT, Design, Params
from hardmax.simulate import simulate
from hardmax.trajectories.smooth import label_clusters

Row = dict[str, Any]
CLUSTER_DISTANCE = 0.05  # on the sphere, between tokens of one cluster, as in the figure of arXiv 2312.10794
BLOCK_LAYERS = 50  # between two checks of a run
MAX_CYCLE_LAYERS = 20
SETTLED = 1e-6  # movement relative to the spread of the tokens, below which a run has settled


@dataclass(frozen=True)
class BuiltIn:
    """A cell as a function of a generator and keyword parameters, whose defaults are those of the sweep."""

    function: Callable[..., Row]
    plotted: str  # the column that `hardmax sweep plot` draws

    def __call__(self, params: Params, rng: np.random.Generator) -> Row:
        return self.function(rng, **{name: value for name, value in params.items() if name != REPEAT})

    @property
    def about(self) -> str:
        """The first line of its docstring."""
        return inspect.getdoc(self.function).splitlines()[0]  # type: ignore[union-attr]

    @property
    def defaults(self) -> Params:
        """Every parameter with its default."""
        parameters = list(inspect.signature(self.function).parameters.values())[1:]
        return {each.name: each.default for each in parameters} | {REPEAT: 0}

    def complete(self, design: Design, *, drawn: bool = False) -> Design:
        """Return a design with all parameters; raise an error for a parameter that the cell does not have.

        The default of "seed" is 0, so that all cells have common random numbers; if cells are `drawn` at random it is
        their index, so that they have independent random numbers.
        """
        if design.cells is not None:
            for cell in design.cells:
                for name, value in cell.items():
                    self.check(name, [value])
            repeats = range(len(design.cells)) if drawn else [0] * len(design.cells)
            pairs = zip(design.cells, repeats, strict=True)
            return Design(cells=[self.defaults | {REPEAT: repeat} | cell for cell, repeat in pairs])
        given = design.axes or {}
        for name, values in given.items():
            self.check(name, values)
        defaults = {name: [value] for name, value in self.defaults.items() if name not in given}
        return Design(axes=defaults | given)

    def check(self, name: str, values: Iterable[Any]) -> None:
        """Raise an error for an unknown parameter, and for values of another type than its default."""
        if name not in self.defaults:
            must = f"be one of {', '.join(self.defaults)}"
            raise ParameterError("parameter", must, repr(name), did_you_mean(name, self.defaults))
        default = self.defaults[name]
        kinds = (int, float) if isinstance(default, float) else (type(default),)
        for value in values:
            if isinstance(value, bool) != isinstance(default, bool) or not isinstance(value, kinds):
                kind = {float: "a number", int: "an integer", str: "a text"}.get(type(default), "True or False")
                raise ParameterError(name, f"be {kind}", repr(value), f"For example {default!r}.")


def make_tokens(rng: np.random.Generator, tokens: str, n: int, d: int) -> FloatArray:
    """Return random tokens, (n, d)."""
    if tokens not in RANDOM_CONFIGURATIONS:
        raise ParameterError("tokens", f"be one of {', '.join(RANDOM_CONFIGURATIONS)}", repr(tokens))
    return RANDOM_CONFIGURATIONS[tokens](rng, n, d)


def make_definite(rng: np.random.Generator, d: int) -> FloatArray:
    """Return a random symmetric positive definite matrix with eigenvalues of at least 0.1."""
    W = rng.normal(size=(d, d))
    return np.asarray(W @ W.T / d + 0.1 * np.eye(d))


MATRICES: dict[str, Callable[[np.random.Generator, int], FloatArray | None]] = {
    "identity": lambda rng, d: None,
    "definite": make_definite,
    "skew": lambda rng, d: np.asarray(np.eye(d) + 3 * ((W := rng.normal(size=(d, d))) - W.T) / 2),
    "indefinite": lambda rng, d: np.asarray((W := rng.normal(size=(d, d))) + W.T) / 2,
    "gaussian": lambda rng, d: rng.normal(size=(d, d)),
    "rank-one": lambda rng, d: np.outer(rng.normal(size=d), rng.normal(size=d)),
    "minus-identity": lambda rng, d: -np.eye(d),
}


def make_matrix(rng: np.random.Generator, name: str, d: int) -> FloatArray | None:
    """Return a random matrix of a kind of MATRICES; None is the identity."""
    if name not in MATRICES:
        raise ParameterError("A", f"be one of {', '.join(MATRICES)}", repr(name), did_you_mean(name, MATRICES))
    return MATRICES[name](rng, d)


def leaders(
    rng: np.random.Generator,
    *,
    alpha: float = 0.5,
    n: int = 100,
    d: int = 2,
    tokens: str = "gaussian",
    A: str = "identity",
    max_layers: int = 1000,
) -> Row:
    """Count the leaders, and the layers after which the limit is proved."""
    found = limit(
        make_tokens(rng, tokens, n, d), Hardmax(alpha, make_matrix(rng, A, d), any_A=True), max_layers=max_layers
    )
    return {
        "leaders": len(found.leaders),
        "layer": found.layer,
        "certified": found.certified,
        "last_emerged": int(found.emerged.max(initial=-1)),
        "points": len(found.points),
    }


def endings(
    rng: np.random.Generator,
    *,
    A: str = "skew",
    heads: int = 1,
    gain: float = 0.0,
    alpha: float = 0.5,
    n: int = 20,
    d: int = 3,
    tokens: str = "gaussian",
    layers: int = 600,
) -> Row:
    """Classify how runs end for any A, heads and feed-forward part: clusters, consensus, a cycle, or unsettled.

    Heads use all coordinates. `gain` scales a random feed-forward part after the heads; 0 leaves it out. The endings
    are observed within `layers` layers, not proved.
    """
    start = make_tokens(rng, tokens, n, d)  # first, so that it is the same for all matrices, heads and gains
    each = [Hardmax(alpha, make_matrix(rng, A, d), any_A=True) for _ in range(heads)]
    rule: Any = each[0] if heads == 1 else MultiHead(each, shared=True)
    if gain:
        rule = Compose([rule, FeedForward.random(d, gain=gain, seed=int(rng.integers(1 << 30)))])
    ending, at, layer = _ending(rule, start, layers)
    together = label_clusters(at, start * (np.abs(at).max() / np.abs(start).max()), np.ones(n, np.bool_))
    return {"ending": ending, "clusters": int(together.max()) + 1, "layer": layer}


def _ending(rule: Layered, tokens: FloatArray, layers: int) -> tuple[str, FloatArray, int]:
    """Return how a run ends, its last tokens, and the layer.

    Argmax sets depend on directions and relative norms only, so the tokens are compared after scaling: a cycle is one
    of scaled tokens, also if they shrink to 0. Tokens that shrink to 0 without moving otherwise are a consensus.
    """
    first, layer, scale = np.ptp(tokens, axis=0).max(), 0, 1.0
    while layer < layers:
        run = np.asarray(simulate(tokens, rule, layers=min(BLOCK_LAYERS, layers - layer)).array)  # (block + 1, n, d)
        layer += len(run) - 1
        size = np.abs(run).max(axis=(1, 2), keepdims=True)
        shapes = run / np.where(size == 0, 1, size)
        spread = np.ptp(shapes[-1], axis=0).max()
        scale *= float(size[-1, 0, 0]) / first  # of the tokens, relative to the input
        has_vanished = scale * spread < SETTLED
        if spread < SETTLED:  # differences are of the order of rounding errors
            return "consensus", run[-1], layer
        moved = np.abs(shapes - shapes[-1]).max(axis=(1, 2))  # (block + 1,)
        back = np.flatnonzero(moved[-MAX_CYCLE_LAYERS - 1 : -1][::-1] < SETTLED * spread) + 1  # layers ago
        if len(back):
            return "cycle" if back[0] > 1 else "consensus" if has_vanished else "clusters", run[-1], layer
        tokens = np.asarray(shapes[-1] * first)
    return "consensus" if has_vanished else "unsettled", tokens, layer


def sphere(rng: np.random.Generator, *, beta: float = 9.0, t: float = 10.0, n: int = 32, d: int = 2) -> Row:
    """Count the clusters on the unit sphere at time t, and measure the similarity of the tokens."""
    run = simulate(make_tokens(rng, "sphere", n, d), Sphere(beta), times=[0, t], method="LSODA", rtol=1e-5, atol=1e-7)
    last = run.array[-1]
    clusters = fcluster(linkage(last, "single"), CLUSTER_DISTANCE, "distance").max() if n > 1 else 1
    return {"clusters": int(clusters), "similarity": float(run.similarity[-1])}


def temperature(
    rng: np.random.Generator,
    *,
    temperature: float = 0.01,
    layers: int = 10,
    alpha: float = 0.5,
    n: int = 100,
    d: int = 2,
    tokens: str = "gaussian",
) -> Row:
    """Measure the distance of softmax at a temperature from hardmax, with bounds.

    `distance` is the largest of a token after all layers, in units of the diameter of the input. After one layer it is
    at most `one_layer_bound` = alpha/(1 + alpha) max_i min(1, n exp(-gap_i/temperature)), which is proved.
    `constant` is the smallest C for which sqrt(log beta / beta) e^{Ct} is no smaller than the distance, with
    beta = 1/temperature, t = layers alpha/(1 + alpha).
    """
    start = make_tokens(rng, tokens, n, d)
    hard = simulate(start, Hardmax(alpha), layers=layers)
    soft = simulate(start, Softmax(alpha, temperature=temperature), layers=layers)
    diameter = float(np.linalg.norm(start[:, None] - start, axis=-1).max()) or 1.0
    distances = np.linalg.norm(hard.array - soft.array, axis=-1).max(axis=-1) / diameter  # (layers + 1,)
    gaps = hard.margins(0) * np.linalg.norm(start, axis=1)  # in products
    step, beta = alpha / (1 + alpha), 1 / temperature
    rate = np.sqrt(np.log(beta) / beta) if beta > 1 else np.nan
    with np.errstate(divide="ignore"):
        constant = np.log(distances[-1] / rate) / (layers * step) if layers else np.nan
    return {
        "distance": float(distances[-1]),
        "largest_distance": float(distances.max()),
        "one_layer": float(distances[min(1, layers)]),
        "one_layer_bound": float(step * np.minimum(1, n * np.exp(-gaps / temperature)).max()),
        "rate": float(rate),
        "constant": float(constant),
    }


def classifier(
    rng: np.random.Generator,
    *,
    reviews: int = 1000,
    n_heads: int = 32,
    d: int = 2,
    layers: int = 2,
    groups: int = 4,
    alpha: float = 1.0,
    start: str = "linear",
    negation: float = 0.2,
    contrast: float = 0.2,
) -> Row:
    """Measure the accuracy of the classifier on generated reviews, half of them for training, half for testing."""
    with needed_for("the cell `classifier`", None, "text"):
        from hardmax.text.classifier import HardmaxClassifier
        from hardmax.text.datasets import reviews as made
    seed = int(rng.integers(1 << 31))
    corpus = made(2 * reviews, seed=seed, negation=negation, contrast=contrast)
    settings: dict[str, Any] = {"n_heads": n_heads, "d": d, "layers": layers, "groups": groups, "alpha": alpha}
    model = HardmaxClassifier(**settings, start=start, random_state=seed, device="cpu")
    model.fit(corpus.texts[:reviews], corpus.labels[:reviews])
    return {"accuracy": float(np.mean(model.predict(corpus.texts[reviews:]) == np.array(corpus.labels[reviews:])))}


CELLS = {
    "leaders": BuiltIn(leaders, "leaders"),
    "endings": BuiltIn(endings, "ending"),
    "sphere": BuiltIn(sphere, "clusters"),
    "temperature": BuiltIn(temperature, "distance"),
    "classifier": BuiltIn(classifier, "accuracy"),
}
