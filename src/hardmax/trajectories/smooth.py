"""The result of `simulate` for every rule but `Hardmax`: tokens by layers or in time,
clusters and leaders.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy  # submodules load on first use

from hardmax._arrays import as_mask, match_array, unit_rows, where
from hardmax._display import count, draw
from hardmax._errors import ParameterError, ParameterIndexError
from hardmax._types import AnyArray, Array, BoolArray, FloatArray, IntArray
from hardmax._validation import check_range, like, to_numpy
from hardmax.flows.classify import classify_values
from hardmax.flows.coordinates import Growth, find_growth
from hardmax.flows.device import MIN_SINGLE_RTOL
from hardmax.rules.base import Rule
from hardmax.rules.compose import by_heads
from hardmax.rules.self_attention import SelfAttention
from hardmax.rules.sphere import Sphere
from hardmax.trajectories.base import Trajectory
from hardmax.trajectories.storage import Arrays, check_array, require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_PAIRS = 1e6  # of linked tokens, of which a list is in memory
MAX_TOKENS_FOR_STATUS = (
    10_000  # leaders of more are not in the status: they need an n by n matrix
)
# tokens this close are in one cluster, relative to the larger of the first and present
# spread
CLUSTER_TOL = 1e-3


@dataclass(frozen=True, eq=False, repr=False)
class SmoothTrajectory(Trajectory):
    """Tokens under a rule with smooth attention, by layers or in continuous time.

    Methods take a position `k` among the saved layers or times, where a negative number
    counts from the last, and raise `ParameterIndexError` if there is none. Beside what
    every `Trajectory` has:

    Attributes
    ----------
    real : (n,) or (batch, n) array
        True for real tokens, False for padding.
    start : (n, d) or (batch, n, d) array
        The input, which gives the spread.
    rescaled : (saved, n, d) or (saved, batch, n, d) array, or None
        z = e^{-tV} x for self-attention (with fixed steps its discrete counterpart
        R^{-k} x); None for other rules.
    heads : tuple of Trajectory
        Those of heads on coordinates of their own; empty for other rules.
    problems : tuple of str
        For each token set why its integration stopped early, as a sentence, or an empty
        text; `problem` joins them. Tokens at times that were not reached are NaN. Empty
        for rules with layers.
    powers : tuple
        With fixed steps R^k, where x = R^k z, at each saved time: a matrix, and the
        logarithm of its factor.
    held : tuple
        For each token set None, or the time from which attention was held and that
        matrix; empty where none was.

    Examples
    --------
    >>> import hardmax as hm
    >>> tokens = hm.configuration("gaussian", n=8, d=2)
    >>> trajectory = hm.simulate(tokens, hm.SelfAttention(), times=10)
    >>> trajectory
    Ran from t = 0 to 10 on 8 tokens of dimension 2. 2 clusters of rescaled tokens at the end. 2 leaders.
    >>> trajectory.leaders
    array([3, 6])
    """

    _format = "hardmax-smooth-1"
    rule: Rule
    real: BoolArray
    start: AnyArray
    rescaled: Array = None  # an array, a tensor, or None
    heads: tuple[Trajectory, ...] = ()
    problems: tuple[str, ...] = ()
    powers: tuple[tuple[Array, float], ...] = ()
    held: tuple[tuple[float, FloatArray] | None, ...] = ()

    def _item(self, b: int) -> Self:
        b = range(len(self.real))[b]
        stats, held = dict(self.stats), self.held[b] if self.held else None
        if "held_from" in stats:
            stats["held_from"] = None if held is None else held[0]
        if reached := stats.pop("rtol_reached_by_set", None):
            stats["rtol_reached"] = reached[b]
        return replace(
            self,
            tokens=self.tokens[:, b],
            batched=False,
            stats=stats,
            real=self.real[b],
            start=self.start[b],
            rescaled=None if self.rescaled is None else self.rescaled[:, b],
            heads=tuple(head[b] for head in self.heads),
            problems=self.problems[b : b + 1],
            held=self.held[b : b + 1],
        )

    @property
    def mask(self) -> BoolArray:
        """True for real tokens, False for padding: (n,) or (batch, n)."""
        return self.real

    @property
    def problem(self) -> str:
        """Why an integration stopped early, as a sentence; empty if none did."""
        if not self.batched:
            return "".join(self.problems)
        return " | ".join(
            f"Token set {b}: {text}" for b, text in enumerate(self.problems) if text
        )

    @property
    def times(self) -> FloatArray:
        """The saved times; an error for rules with layers."""
        if not self.rule.continuous:
            raise ParameterError(
                "times",
                "belong to a rule in continuous time",
                "a rule with layers",
                "Use `saved`.",
            )
        return self.saved

    @property
    def shows_rescaled(self) -> bool:
        """Whether the rescaled tokens have a limit: not where every real part of V is 0
        or negative.
        """
        return self.rescaled is not None and (
            self._growth is None or self._growth.grows
        )

    @cached_property
    def _growth(self) -> Growth | None:
        """e^{tV}, if the rule is self-attention whose V does not depend on time."""
        if (
            not isinstance(self.rule, SelfAttention)
            or not self.rule.has_constant_values
        ):
            return None
        return find_growth(self.rule, self.array.shape[-1])

    @property
    def letter(self) -> str:
        """The letter of the coordinates in figures: z for rescaled tokens and for
        layers, x for others in time.
        """
        return "x" if self.rule.continuous and not self.shows_rescaled else "z"

    @cached_property
    def drawn(self) -> AnyArray:
        """The rescaled tokens where these have a limit, else the tokens."""
        return (
            np.asarray(to_numpy(self.rescaled)) if self.shows_rescaled else self.array
        )

    @property
    def reached(self) -> int:
        """The number of saved layers or times with finite tokens: all, unless tokens
        overflowed or time stopped.
        """
        lost = self._first_lost(self.drawn)
        return len(self.saved) if lost is None else lost

    def index(self, k: int) -> int:
        """Return position k in `tokens`; negative counts from the last. With every
        layer saved it is the layer.
        """
        number = len(self.saved)
        at = k if self.check_index(k) >= 0 else number + k
        if not 0 <= at < number:
            raise ParameterIndexError(
                "k",
                f"lie between {-number} and {number - 1}",
                k,
                "Save more layers or times.",
            )
        return at

    @np.errstate(
        over="ignore", invalid="ignore", under="ignore"
    )  # tokens beyond the range of floats have NaN
    def attention(self, k: int = -1) -> Array:
        """Return the row-stochastic matrix P at position k, computed by this call.

        Its shape is (n, n) or (batch, n, n), for several heads (..., heads, n, n).
        Where attention was held, it is the matrix that moved the tokens. Rows and
        columns of padding are zero.
        """
        at = self.index(k)
        when = float(self.saved[at])
        if self.heads:
            return by_heads(
                [head.attention(at) for head in self.heads], self.real.ndim + 1
            )
        keys = None if self.real.all() else self.real[..., None, :]
        growth, power = (
            self._growth,
            self.powers[at] if self.powers else None,
        )  # from z to x, which may leave the range
        if (
            power is None
            and growth is not None
            and self.stats["adaptive"]
            and growth.grows
        ):
            power = (
                growth.bounded_factor(when),
                growth.rate * when,
            )  # a matrix, and the log of its factor
        if power is None:
            tokens = where(self.real[..., None], self.tokens[at], 0.0)
            P = self.rule.attention(tokens, when, as_mask(keys, tokens))
        else:
            assert isinstance(self.rule, SelfAttention)
            unit = self._unit(at, *power)
            P = self.rule.attention(unit, when, as_mask(keys, unit), power[1])
            if not self.powers:
                P = np.asarray(P)
                matrices, real = (
                    P if self.batched else P[None],
                    np.atleast_2d(self.real),
                )
                for b, held in enumerate(self.held):
                    if held is not None and when >= held[0]:
                        matrices[b][np.ix_(real[b], real[b])] = held[
                            1
                        ]  # the matrix that moved the tokens
                P = like(P, self.tokens)
        rows = (
            self.real[..., None, :, None]
            if P.ndim > self.real.ndim + 1
            else self.real[..., None]
        )
        return (
            P if keys is None else where(np.broadcast_to(rows, tuple(P.shape)), P, 0.0)
        )

    def _unit(self, at: int, power: Array, log: float) -> Array:
        """Return e^{-log} x, from x where it is finite: rounding of z in weak
        directions would reach the others.
        """
        if np.isfinite(self.array[at][self.real]).all():
            tokens = where(self.real[..., None], self.tokens[at], 0.0) * float(
                np.exp(-log)
            )
        else:
            tokens = where(self.real[..., None], self.rescaled[at], 0.0)
            tokens = tokens @ match_array(power, tokens).T
        return tokens if self.powers else np.asarray(to_numpy(tokens), np.float64)

    @cached_property
    def _dual(self) -> FloatArray | None:
        """The map to the components in the leading eigenspace of V, if that is not the
        whole space.
        """
        if self._growth is None or not isinstance(self.rule, SelfAttention):
            return None
        expected = classify_values(self.rule, self.array.shape[-1])
        return (
            expected.dual
            if expected.kind in ("hyperplanes", "product", "complex")
            else None
        )

    @cached_property
    def gathering(self) -> AnyArray:
        """The coordinates in which tokens gather: of `drawn`, the components in the
        leading eigenspace of V.

        All of them where that eigenspace is the whole space, and for rules other than
        self-attention.
        """
        return self._to_dual(self.drawn)

    @cached_property
    def leaders(self) -> Any:  # an array, or a list of arrays
        """Tokens that lead at the last position that holds finite tokens; for a batch a
        list.
        """
        return self.leaders_at(self.reached - 1)

    def leaders_at(self, k: int) -> Any:
        """Return tokens that attend to themselves more than to all others together,
        P_ii > 1/2, at position k.

        As attention sharpens this becomes C_i = {i}. Tokens of one cluster at that
        position (see `clusters`) count as one: it leads if its members attend to it by
        more than 1/2 on average, and the one that moved least names it. With several
        heads a token leads that does so in one. The result is an array of indices; for
        a batch a list.
        """
        if not self.rule.attends or not self.reached:
            return self._map_sets(lambda real: np.empty(0, np.intp), self.real)
        at = self.index(k)
        P = np.asarray(to_numpy(self.attention(at)))
        with np.errstate(over="ignore", invalid="ignore"):  # padding may hold anything
            return self._map_sets(
                find_leaders, P, self._labels(at), self.drawn[at], self.start, self.real
            )

    def _map_sets(self, function: Callable[..., Any], *arrays: AnyArray) -> Any:
        """Apply a function to the arrays of one token set; for a batch return a list."""
        return (
            [function(*one) for one in zip(*arrays, strict=True)]
            if self.batched
            else function(*arrays)
        )

    @cached_property
    def clusters(self) -> IntArray:
        """Label of each token's cluster at the end, -1 for padding: (n,) or (batch, n).

        Tokens are in one cluster when a chain of steps of at most 1e-3 times the
        spread, the first or the last, whichever is larger, joins them in the
        coordinates of `gathering`: tokens on one of the hyperplanes of Theorem 4.2 are
        one cluster.
        """
        return (
            self._labels(self.reached - 1)
            if self.reached
            else np.full(self.real.shape, -1)
        )

    def clusters_at(self, t: float, *, tol: float = CLUSTER_TOL) -> IntArray:
        """Return the labels of `clusters` at the saved time or layer nearest to t, the
        earlier of two equally near.

        The tolerance `tol` is relative to the spread. Labels at a time that was not
        reached are -1.
        """
        check_range(tol, "tol", 0.0, 1.0, "1e-3 is the default.")
        at = self._nearest(t)
        return (
            self._labels(at, tol) if at < self.reached else np.full(self.real.shape, -1)
        )

    def _nearest(self, t: float) -> int:
        """Return the position of the saved time or layer nearest to t."""
        t = check_range(
            t,
            "t",
            float(self.saved[0]),
            float(self.saved[-1]),
            "`saved` has the times or layers.",
        )
        return int(np.abs(self.saved - t).argmin())

    @cached_property
    def n_clusters(self) -> IntArray:
        """The number of clusters at each saved position, 0 where none was reached:
        (saved,) or (saved, batch).

        The tolerance is that of `clusters`. Metastable clusters are plateaus:
        `plot_clusters` draws them.
        """
        return np.stack([self.clusters_at(t).max(axis=-1) + 1 for t in self.saved])

    def exit_times(self, t: float, *, tol: float = CLUSTER_TOL) -> FloatArray:
        """Return for each cluster of `clusters_at(t)` the first later saved time or
        layer at which its tokens differ.

        That is when one of them has left, or another token has joined; infinity if
        neither happens.
        """
        self.refuse_batch("trajectory[b].exit_times(t)")
        at = self._nearest(t)
        first, exits = self.clusters_at(t, tol=tol), list[float]()
        later = [self._labels(j, tol) for j in range(at, self.reached)]
        for cluster in range(first.max() + 1):
            members = first == cluster
            changed = [
                j
                for j, labels in enumerate(later)
                if ((labels == labels[members][0]) != members).any()
            ]
            exits.append(float(self.saved[at + changed[0]]) if changed else np.inf)
        return np.array(exits)

    def plot_clusters(self, *, tols: Sequence[float] = (1e-3, 1e-2, 1e-1)) -> "Figure":
        """Draw the number of clusters over time for several tolerances, and return the
        Matplotlib figure.
        """
        self.refuse_batch("trajectory[b].plot_clusters()")
        return draw("plot_n_clusters", self, tols)

    def _to_dual(self, tokens: AnyArray) -> AnyArray:
        """Return the coordinates of tokens in which they converge; padding, which may
        hold anything, is 0 there.
        """
        return (
            tokens
            if self._dual is None
            else np.asarray(np.where(self.real[..., None], tokens, 0) @ self._dual)
        )

    def _labels(self, at: int, tol: float = CLUSTER_TOL) -> IntArray:
        first = self._to_dual(self.start)  # z = x at time 0
        return np.asarray(
            self._map_sets(
                partial(label_clusters, tol=tol), self.gathering[at], first, self.real
            )
        )

    @cached_property
    def similarity(self) -> FloatArray:
        """Mean of ⟨x_i, x_j⟩/(|x_i||x_j|) over all pairs at each saved position: 1 when
        all tokens point one way.
        """
        with np.errstate(invalid="ignore"):  # directions of infinite tokens are NaN
            units = np.where(self.real[..., None], unit_rows(self.array), 0)
            total = units.sum(axis=-2) / self.real.sum(axis=-1)[..., None]
            return np.asarray((total * total).sum(axis=-1))

    @cached_property
    def energy(self) -> FloatArray:
        """E = 1/(2 beta n^2) sum_ij exp(beta ⟨x_i, x_j⟩) at each saved time, for tokens
        on the sphere.
        """
        if not isinstance(self.rule, Sphere):
            raise ParameterError(
                "energy",
                "belong to a run of hm.Sphere",
                f"{self.rule!r}",
                "See `similarity`.",
            )
        if not self.batched:
            return np.asarray(self.rule.energy(self.array[:, self.real]))
        return np.stack(
            [
                self.rule.energy(self.array[:, b, row])
                for b, row in enumerate(self.real)
            ],
            axis=-1,
        )

    @cached_property
    def status(self) -> str:
        """State layers or times, clusters and leaders, and problems, in sentences."""
        rule, saved, reached = self.rule, self.saved, self.reached
        far = f"from t = 0 to {saved[reached - 1] if reached else 0:.4g}"
        ran = (
            f"Ran {far if rule.continuous else count(int(saved[-1]), 'layer')} on"
            f" {self._describe_size()}"
        )
        if self.batched or not reached:
            return f"{ran}{self._describe_problems()}"
        which = "rescaled tokens" if self.shows_rescaled else "tokens"
        if self.gathering is not self.drawn:
            which += " in the leading directions of V"
        end = "the end" if rule.continuous else "the last layer"
        clusters = count(int(self.clusters.max()) + 1, "cluster")
        named = rule.attends and not isinstance(
            rule, Sphere
        )  # there tokens that have met share their attention
        leaders = ""
        if named and self.n <= MAX_TOKENS_FOR_STATUS:
            leaders = f" {count(len(self.leaders), 'leader') if len(self.leaders) else 'No leader'}."
        return (
            f"{ran} {clusters} of {which} at {end}.{leaders}{self._describe_problems()}"
        )

    def _describe_control(self) -> str:
        """State whether attention was held or the error control loosened, also by
        heads.
        """
        held, rtol = self.stats.get("held_from"), self.stats.get("rtol_reached", 0)
        text = (
            ""
            if held is None
            else (
                f" From t = {held:.4g} on attention is Boolean up to rounding, and was"
                " held."
            )
        )
        if rtol > self.stats.get("rtol", np.inf):
            why = (
                "single precision"
                if rtol == MIN_SINGLE_RTOL and "device" in self.stats
                else "sharp attention"
            )
            text += f" The error control was loosened to {rtol:.0e} for {why}."
        own = [
            head._describe_control() if isinstance(head, SmoothTrajectory) else ""
            for head in self.heads
        ]
        return text + "".join(f" Head {h}:{each}" for h, each in enumerate(own) if each)

    def _describe_problems(self) -> str:
        text = self._describe_control() + (f" {self.problem}" if self.problem else "")
        lost = self._first_lost(self.array)
        if lost is None or self.problem:
            return text
        rest = (
            "; the rescaled ones stay in it" if self.reached == len(self.saved) else ""
        )
        return (
            f"{text} Tokens leave the range of {self.array.dtype} from"
            f" {self.label(lost)} on{rest}."
        )

    def _data(self) -> dict[str, Any]:
        data = {
            "leaders": self.leaders,
            "clusters": self.clusters,
            "tokens": self.array,
        }
        return (
            data
            if self.rescaled is None
            else data | {"rescaled": np.asarray(to_numpy(self.rescaled))}
        )

    def _arrays(self) -> dict[str, AnyArray]:
        arrays = {
            "real": self.real,
            "problems": np.array(self.problems, str),
            "start": self.start,
        }
        for b, held in enumerate(self.held):
            if held is not None:
                arrays |= {
                    f"held/{b}/from": np.array(held[0]),
                    f"held/{b}/attention": held[1],
                }
        if self.powers:
            arrays["powers"] = np.stack(
                [np.asarray(to_numpy(power)) for power, _ in self.powers]
            )
            arrays["logs"] = np.array([log for _, log in self.powers])
        return (
            arrays
            if self.rescaled is None
            else arrays | {"rescaled": np.asarray(to_numpy(self.rescaled))}
        )

    @classmethod
    def _from_arrays(cls, file: Arrays, rule: Rule, stats: dict[str, Any]) -> Self:
        """Return the trajectory that was written, without its `heads`: attention
        follows from the rule.
        """
        tokens, real, batched = file["tokens"], file["real"], bool(file["batched"])
        shape, d = tokens.shape, tokens.shape[-1]
        check_array(file, "real", "b", shape[1:-1])
        require(real.any(axis=-1).all(), "`real` must leave a token in each token set")
        require(
            isinstance(stats.get("adaptive"), bool),
            "`stats` must state whether the method was adaptive",
        )
        shapes = {
            "start": shape[1:],
            "rescaled": shape,
            "powers": (shape[0], d, d),
            "logs": shape[:1],
        }
        for name in shapes.keys() & file.keys():
            check_array(file, name, "f", shapes[name])
        require(
            ("powers" in file) == ("logs" in file),
            "`powers` and `logs` must go together",
        )
        check_array(file, "problems", "U", (None,))
        problems = tuple(file["problems"].tolist())
        require(
            len(problems) in (0, len(real) if batched else 1),
            "`problems` must be one for each token set",
        )
        held: list[tuple[float, FloatArray] | None] = [None] * len(np.atleast_2d(real))
        for b, n in enumerate(np.atleast_2d(real).sum(axis=1).tolist()):
            if f"held/{b}/from" in file:
                check_array(file, f"held/{b}/from", "f", ())
                check_array(file, f"held/{b}/attention", "f", (n, n))
                held[b] = float(file[f"held/{b}/from"]), file[f"held/{b}/attention"]
        return cls(
            *(tokens, rule, file["saved"], batched, stats, real, file["start"]),
            rescaled=file.get("rescaled"),
            problems=problems,
            powers=(
                tuple(zip(file["powers"], file["logs"].tolist(), strict=True))
                if "powers" in file
                else ()
            ),
            held=tuple(held) if any(held) else (),
        )


def label_clusters(
    tokens: AnyArray, first: AnyArray, real: BoolArray, *, tol: float = CLUSTER_TOL
) -> IntArray:
    """Label the cluster of each token (n, d), numbered in the order of the tokens; -1
    for padding.
    """
    points = tokens[real].astype(np.float64)
    unit = float(np.abs(points).max()) or 1.0  # squares of distances must not overflow
    spread = max(
        float(np.ptp(each / unit, axis=0).max())
        for each in (points, first[real].astype(np.float64))
    )
    reach = max(
        tol * spread, len(points) * float(np.finfo(np.float64).eps)
    )  # equal tokens may differ by rounding
    labels = np.full(len(real), -1)
    labels[real] = _link(points / unit, reach)
    return labels


def _link(points: FloatArray, reach: float) -> IntArray:
    """Label the components of points (n, d) linked by distances of at most `reach`, in
    the order of the points.
    """
    tree, find_components = (
        scipy.spatial.cKDTree(points),
        scipy.sparse.csgraph.connected_components,
    )
    if tree.count_neighbors(tree, reach) < MAX_PAIRS:
        pairs = tree.sparse_distance_matrix(tree, reach, output_type="coo_matrix")
        pairs.data[:] = (
            1.0  # equal tokens have distance 0, which would not count as an edge
        )
        return np.asarray(find_components(pairs, directed=False)[1])
    side = 0.99 * reach / np.sqrt(points.shape[1])  # all points of a cube are linked
    corners, cube = np.unique(np.floor(points / side), axis=0, return_inverse=True)
    members = np.split(np.argsort(cube), np.cumsum(np.bincount(cube))[:-1])
    trees = [scipy.spatial.cKDTree(points[each]) for each in members]
    near = scipy.spatial.cKDTree(corners * side).query_pairs(
        2 * reach, output_type="ndarray"
    )
    linked = near[
        [trees[i].count_neighbors(trees[j], reach) > 0 for i, j in near.tolist()]
    ]
    graph = scipy.sparse.coo_matrix(
        (np.ones(len(linked)), linked.T), shape=(len(trees),) * 2
    )
    component = find_components(graph, directed=False)[1][cube]
    first, inverse = np.unique(component, return_index=True, return_inverse=True)[1:]
    return np.argsort(np.argsort(first))[inverse]


def find_leaders(
    P: AnyArray, labels: IntArray, points: AnyArray, start: AnyArray, real: BoolArray
) -> IntArray:
    """Find the token that moved least in each cluster whose members attend to it by
    more than 1/2 on average.
    """
    inside = labels[:, None] == np.arange(labels.max() + 1)  # (n, clusters)
    own = (P @ inside)[
        ..., np.arange(len(labels)), labels
    ]  # (..., n), attention of each token to its own cluster
    leads = np.atleast_2d(own @ inside > 0.5 * inside.sum(axis=0)).any(
        axis=0
    )  # (clusters,), in some head
    moved = np.linalg.norm(np.where(real[:, None], points - start, 0.0), axis=-1)
    members = [np.flatnonzero(inside[:, cluster]) for cluster in np.flatnonzero(leads)]
    return np.sort([tokens[moved[tokens].argmin()] for tokens in members]).astype(
        np.intp
    )
