"""Where every token ends, proved at a finite layer.

The run goes on until each token is decided by Theorem 1 or 4, or until T or chain (`certificates.py`) settles the rest.
Then the limit is known exactly: leaders stand still, and every other token tends to a convex combination of leaders.
"""

from typing import Any

import numpy as np

from hardmax import _validation
from hardmax._arrays import like, to_numpy
from hardmax._errors import ParameterError, ParameterTypeError
from hardmax._types import AnyArray, Array, BoolArray, IntArray, Progress
from hardmax.exact.batch import Batch, fits
from hardmax.exact.batch_limit import BatchLimit
from hardmax.exact.certificates import Frozen, Point, certify
from hardmax.exact.limit_set import LimitSet, one_each
from hardmax.exact.run import Proof, Run, summed
from hardmax.rules.hardmax import Hardmax
from hardmax.search.dispatch import check_kernel
from hardmax.search.sets import Classes
from hardmax.trajectories.limit import Limit, limit_points, quick_radius
from hardmax.trajectories.limits import Limits

__all__ = ["Limit", "Limits", "limit", "limit_points", "quick_radius"]


def limit(
    tokens: Array,
    rule: Hardmax,
    *,
    max_layers: int = 1000,
    mask: Array = None,
    kernel: str = "auto",
    progress: Progress | None = None,
) -> Any:  # a Limit, or Limits: no type tells how many axes tokens have
    """Find where every token ends, with a proof.

    Parameters
    ----------
    tokens : (n, d) or (batch, n, d) array
        Floats, integers or Fractions; a torch tensor gives tensors back.
    rule : Hardmax
        With `normalize=True`, as without normalisation tokens grow for ever; and without a causal mask.
    max_layers : int
        Give up after this many layers; the answer then says what is known.
    mask : (n,) or (batch, n) boolean array, optional
        True for real tokens. The others are padding, and the limit is that of the real ones alone.
    kernel : str
        How the largest products are found, with the same sets: see `simulate`.
    progress : callable, optional
        Called with (tokens decided, tokens in all) after each layer.

    Returns
    -------
    Limit
        Every token's end, with what proves it. Where the layers were too few, `certified` is False and `reason` says
        why. For a batch `Limits`, a sequence of them. Small clouds without ties go in one pass, and the others one by
        one, with the same answers.

    Raises
    ------
    ParameterError
        If `tokens` are not clouds of finite numbers that fit `A`, or if `rule` has `normalize=False` or
        `causal=True`.
    ParameterTypeError
        If `rule` is not a `Hardmax`.
    MissingExtra
        If `kernel` or `exact=True` needs a package that is not installed.

    Examples
    --------
    >>> import hardmax as hm
    >>> square = [[1, 1], [1, -1], [-1, 1], [-1, -1], [0.5, 0], [-0.5, 0]]
    >>> limit = hm.limit(square, hm.Hardmax(alpha=0.5))
    >>> limit
    Certified at layer 0. 4 leaders, all since layer 0. 6 cluster points. Proved by
    Theorem 1 for 4 tokens, Theorem 4 for 2 tokens.
    >>> limit.tokens[4:]
    array([[ 1., 0.],
           [-1., 0.]])
    >>> limit.weights[4]
    array([0.5, 0.5, 0. , 0. ])
    """
    array, real = _check_input(tokens, rule, mask)
    max_layers, kernel = _validation.check_count(max_layers, "max_layers", least=0), check_kernel(kernel)
    if array.ndim == 3:
        return limits_of(array, real, rule, max_layers, kernel, progress, tokens)
    return limit_of(array[real], rule, max_layers, kernel, progress, tokens)


def _check_input(tokens: Array, rule: Hardmax, mask: Array) -> tuple[AnyArray, BoolArray]:
    if not isinstance(rule, Hardmax):
        advice = "For other rules use hm.simulate, and hm.classify for self-attention."
        raise ParameterTypeError("rule", "be a hm.Hardmax, whose limits are proved", type(rule).__name__, advice)
    if not rule.normalize:
        got = "`normalize=False`, where tokens grow by 1 + alpha a layer and have no limit"
        advice = "Leaders and sets are the same with normalisation."
        raise ParameterError("rule", "have `normalize=True` for a limit", got, advice)
    if rule.causal:
        must = "have `causal=False` for a limit: no theorem covers a causal mask"
        raise ParameterError("rule", must, "`causal=True`", "Use hm.simulate with many layers.")
    array, real = _validation.check_tokens(tokens, mask)
    rule.check(array)
    return array, real


def limit_of(
    array: AnyArray, rule: Hardmax, max_layers: int, kernel: str, progress: Progress | None, given: Array
) -> Limit:
    """The limit of one cloud of checked tokens; tensors as `given` is."""
    run = Run(rule, array, kernel=kernel)
    before, next_try, found = None, 0, dict[int, Point]()
    while True:
        sets = run.choose()
        if progress is not None:
            progress(int(run.classes.counts[run.decided].sum()), len(array))
        if run.decided.all():
            break
        if sets == before and run.layer >= next_try:
            found = _settle_the_rest(run, rule)
            next_try = run.layer + 1 + run.layer // 8
            if found:
                break
        if run.layer == max_layers:
            break
        run.advance()
        before = sets
    return _assemble(run, rule, found, given)


def limits_of(
    batch: AnyArray,
    real: BoolArray,
    rule: Hardmax,
    max_layers: int,
    kernel: str,
    progress: Progress | None,
    given: Array,
) -> Limits:
    """The limits of a batch of checked tokens: in one pass where that can be, else cloud by cloud."""
    total, done, end = int(real.sum()), 0, None

    def told(more: int, _: int = 0) -> None:
        if progress is not None:
            progress(done + more, total)

    tokens, clusters, leads = batch.astype(np.float64), np.full(real.shape, -1), np.zeros(real.shape, bool)
    certified, layer, sure = np.ones(len(batch), bool), np.zeros(len(batch), np.intp), np.zeros(len(batch), bool)
    if fits(rule, batch, kernel):
        end = BatchLimit(rule, Batch(rule, batch, real, kernel), max_layers, told)
        sure, leads, layer, known = end.sure, end.leads, end.layer, end.sure[:, None] & real
        clusters = np.where(known, end.clusters, -1)
        tokens = end.tokens if known.all() else np.where(known[..., None], end.tokens, tokens)
    each, alone, done = [end.stats] if end is not None and sure.any() else [], dict[int, Limit](), int(real[sure].sum())
    for b in np.flatnonzero(~sure).tolist():
        ids = np.flatnonzero(real[b])
        one = limit_of(batch[b, ids], rule, max_layers, kernel, told, given)
        tokens[b, ids], clusters[b, ids] = to_numpy(one.tokens), one.clusters
        certified[b], layer[b] = one.certified, one.layer
        leads[b] = False
        leads[b, ids[one.leaders]] = True
        done += len(ids)
        alone[b] = one
        each.append(one.stats)

    def make(b: int) -> Limit:
        if end is None or b in alone:
            return alone[b]
        return _of_pass(end, b, np.flatnonzero(real[b]), rule, given)

    return Limits(like(tokens, given), certified, layer, clusters, leads, summed(each, int(sure.sum())), make)


def _of_pass(end: BatchLimit, b: int, ids: IntArray, rule: Hardmax, given: Array) -> Limit:
    """The limit of one cloud of a pass, of its tokens `ids`."""
    start, leads, clusters, layer = end.start[b, ids], end.leads[b, ids], end.clusters[b, ids], int(end.layer[b])
    points = end.places[b, ids[leads]]
    return Limit(
        tokens=like(points[clusters], given),
        certified=True,
        layer=layer,
        leaders=np.flatnonzero(leads),
        emerged=end.emerged[b, ids[leads]],
        clusters=clusters,
        points=points,
        pace=0.0,
        proofs={str(Proof.THEOREM_1): len(ids)},
        reason="",
        stats=end.stats | {"layers": layer, "queries": int(end.queries[b])},
        _weights=lambda: one_each(clusters, len(points)),
        _exact=lambda: end.exact_points(b, ids[leads]),
        _start=lambda: start,
        _radius=lambda: _radius(Classes.of(start), layer, rule),
    )


def _settle_the_rest(run: Run, rule: Hardmax) -> dict[int, Point]:
    """Try T and chain on the exact picture of this layer; mark what they prove, and return those limits."""
    history, sets = run.state.history, run.sets
    if history is None or run.layer < len(rule.steps) - 1:  # alpha must be constant from here on
        return {}
    undecided = np.flatnonzero(~run.decided).tolist()
    if (sets.sizes[undecided] == 1).all():  # then the frozen picture ends at leaders, which is Theorem 1's to see
        return {}
    positions = history.at(run.layer, range(len(run.classes)))
    proved = certify(Frozen(positions, sets, run.classes.counts, undecided, rule.step(run.layer), rule.metric.rows))
    if proved is None:
        return {}
    proof, limits = proved
    D = history.denominator(run.layer)
    run.settle(np.array(undecided), proof)
    return {i: tuple(x / D for x in point) for i, point in limits.items()}


def _assemble(run: Run, rule: Hardmax, found: dict[int, Point], given: Array) -> Limit:
    """Turn a finished run over classes into the limit of every token."""
    limit_set, classes, labels = LimitSet.of(run, found), run.classes, run.classes.labels
    place, tokens = limit_set.place, run.tokens
    tokens[place >= 0] = limit_set.points[place[place >= 0]]
    certified = bool(run.decided.all())
    codes, numbers = np.unique(run.proof[labels], return_counts=True)
    return Limit(
        tokens=like(tokens[labels], given),
        certified=certified,
        layer=run.layer,
        leaders=classes.first[limit_set.leaders],
        emerged=run.emerged[limit_set.leaders],
        clusters=place[labels],
        points=limit_set.points,
        pace=0.0 if certified else run.pace,
        proofs={str(Proof(code)): int(number) for code, number in zip(codes, numbers, strict=True) if code},
        reason="" if certified else _reason(rule),
        stats=run.stats,
        _weights=lambda: limit_set.weights(run)[labels],
        _exact=limit_set.exact_points,
        _start=lambda: classes.rows[labels].astype(np.float64),
        _radius=(lambda: _radius(classes, run.layer, rule))
        if certified and classes.distinct and not found
        else (lambda: 0.0),
    )


def _radius(classes: Classes, layer: int, rule: Hardmax) -> float:
    """Go through the layers again, with the gaps."""
    again = Run(rule, classes.rows, gaps=True)
    again.choose()
    while again.layer < layer:
        again.advance()
        again.choose()
    return again.state.radius(again.smallest_gap)


def _reason(rule: Hardmax) -> str:
    if rule.ties != "exact":
        return 'A tolerance treats near-ties as ties, and no theorem covers that; use `ties="exact"`.'
    if not rule.positive_definite:
        return "A is not symmetric positive definite, so no theorem promises a certificate."
    return "Raise `max_layers` to go on."
