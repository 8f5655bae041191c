"""`limit`: the limit of every token, proved at a finite layer, and `Limits` of a batch.

Layers run until each token is decided by Theorem 1 or 4, or by C1 under a mask, or
until T or chain (`exact/certificates.py`) decide the rest. Then the limit is known
exactly: leaders stand still, and every other token tends to a convex combination of
leaders.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hardmax import _validation
from hardmax._display import count
from hardmax._errors import ParameterError, ParameterTypeError
from hardmax._types import AnyArray, Array, BoolArray, FloatArray, IntArray, Progress
from hardmax._validation import like, to_numpy
from hardmax.exact.batch import Batch, BatchLimit, can_share_pass
from hardmax.exact.run import LimitSet, Proof, Run, merge_stats
from hardmax.rules.hardmax import Hardmax
from hardmax.search.dispatch import check_kernel
from hardmax.trajectories.base import LazySequence
from hardmax.trajectories.limits import Comparable, Limit


@dataclass(frozen=True, eq=False, repr=False)
class Limits(Comparable, LazySequence[Limit]):
    """Limits of the token sets of a batch, as `limit` returns them.

    `limits[b]` is `hm.limit(tokens[b], rule)`, with a mask that of the real tokens
    alone. It can be pickled.

    Attributes
    ----------
    tokens : (batch, n, d) array
        The limit of every token; padding as it came. A torch tensor if that came in.
    certified, layer : (batch,) arrays
        Whether every limit of a token set is proved, and at which layer.
    clusters : (batch, n) array
        Index of the limit of each token in `limits[b].points`; -1 where undecided, and
        for padding.
    leads : (batch, n) boolean array
        True for leaders, the first of each set of equal tokens.
    stats : dict
        Kernel and why, arithmetic, layers, queries, sets compared exactly, number of
        token sets in one pass.

    Examples
    --------
    >>> import hardmax as hm
    >>> limits = hm.limit([[[1, 1], [0.5, 0.25]], [[1, -1], [-1, -0.5]]], hm.Hardmax(alpha=0.5))
    >>> limits
    Certified for 2 of 2 token sets, the last at layer 0.
    >>> limits.tokens[0]
    array([[1., 1.],
           [1., 1.]])
    >>> limits[1]
    Certified at layer 0. 2 leaders, all since layer 0. 2 cluster points. Proved by
    Theorem 1 for 2 tokens.
    """

    tokens: Array
    certified: BoolArray
    layer: IntArray
    clusters: IntArray
    leads: BoolArray
    stats: dict[str, Any] = field(compare=False)
    _batch_limit: BatchLimit | None = field(compare=False)
    _made: dict[int, Limit] = field(compare=False)

    def __len__(self) -> int:
        return len(self.certified)

    def _make(self, b: int) -> Limit:
        assert self._batch_limit is not None
        found, emerged, queries = self._batch_limit.limit_set(b)
        stats = self._batch_limit.stats | {"layers": found.layer, "queries": queries}
        return make_limit(found, found.points[found.place], emerged, stats, self.tokens)

    @cached_property
    def leaders(self) -> list[IntArray]:
        """The leaders of each token set, as indices that count padding."""
        return [np.flatnonzero(row) for row in self.leads]

    @cached_property
    def status(self) -> str:
        """State in a sentence for how many token sets the limit is proved, and why not
        for the others.
        """
        proved = (
            f"Certified for {int(self.certified.sum())} of"
            f" {count(len(self), 'token set')}"
        )
        if self.certified.any():
            proved += f", the last at layer {int(self.layer[self.certified].max())}"
        reasons = dict.fromkeys(
            self[b].reason for b in np.flatnonzero(~self.certified).tolist()
        )
        return " ".join([f"{proved}.", *reasons])


def limit(
    tokens: Array,
    rule: Hardmax,
    *,
    max_layers: int = 1000,
    mask: Array = None,
    attention_mask: Array = None,
    kernel: str = "auto",
    progress: Progress | None = None,
) -> Any:  # a Limit, or Limits: the type of tokens has no number of axes
    """Find the limit of every token, with a proof.

    Parameters
    ----------
    tokens : (n, d) or (batch, n, d) array
        Floats, integers or Fractions; a torch tensor gives tensors back.
    rule : Hardmax
        With `normalize=True`, as without normalisation tokens grow for ever. With
        `causal=True` token i sees tokens 0 to i alone; for a prefix that grows use
        `CausalLimit`.
    max_layers : int
        Stop after this many layers; the result then states what is known.
    mask : (n,) or (batch, n) boolean array, optional
        True for real tokens. The others are padding, and the limit is that of the real
        ones alone.
    attention_mask : (n, n) boolean array, optional
        Row i is True for the tokens that token i sees: itself, and with a token all
        that this one sees, without a cycle. So are the ancestors in a tree, and earlier
        tokens of the same block; a sliding window is not.
    kernel : str
        How the largest products are found, with the same sets: see `simulate`.
    progress : callable, optional
        Called with (tokens decided, tokens in all) after each layer.

    Returns
    -------
    Limit
        The limit of every token, with its proof. Where the layers were too few,
        `certified` is False and `reason` says why. For a batch `Limits`, a sequence of
        them. Small token sets without ties go in one pass, and the others one by one,
        with the same limits.

    Raises
    ------
    ParameterError
        If `tokens` are not finite numbers, do not fit `A`, if `rule` has
        `normalize=False`, or if `attention_mask` is not a partial order.
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
    kernel = check_kernel(kernel)
    _validation.check_progress(progress)
    check_rule(rule)
    array, real = _validation.check_tokens(tokens, mask)
    rule.check(array)
    max_layers = _validation.check_count(max_layers, "max_layers", least=0)
    seen = (
        None
        if attention_mask is None
        else _check_attention_mask(attention_mask, array.shape[-2], rule)
    )
    if array.ndim == 3:
        return _find_batch_limits(
            array, real, rule, max_layers, kernel, progress, tokens, seen
        )
    seen = None if seen is None else seen[np.ix_(real, real)]
    return find_limit(
        Run(rule, array[real], kernel=kernel, mask=seen), max_layers, progress, tokens
    )


def check_rule(rule: Hardmax) -> None:
    """Raise an error for a rule whose limits are not defined."""
    if not isinstance(rule, Hardmax):
        got = type(rule).__name__
        if isinstance(rule, type):
            got = f"the class {rule.__name__}; call it"
        advice = "For other rules use hm.simulate, and hm.classify for self-attention."
        raise ParameterTypeError("rule", "be a hm.Hardmax", got, advice)
    if not rule.normalize:
        got = (
            "`normalize=False`, where tokens grow by 1 + alpha per layer and have no"
            " limit"
        )
        advice = "Leaders and sets are the same with normalisation."
        raise ParameterError("rule", "have `normalize=True` for a limit", got, advice)


def _check_attention_mask(mask: Array, n: int, rule: Hardmax) -> BoolArray:
    """Return the mask, and the causal one if the rule has it, as an (n, n) array that
    is a partial order.
    """
    name = "attention_mask"
    seen = _validation.as_array(mask, name, "have rows of equal length")
    if seen.dtype != bool or seen.shape != (n, n):
        got = f"{seen.dtype} of shape {seen.shape}"
        raise ParameterError(
            name,
            f"be a boolean array of shape ({n}, {n}): row i is what token i sees",
            got,
        )
    seen = seen & np.tri(n, dtype=bool) if rule.causal else seen
    blind = np.flatnonzero(~seen.diagonal())
    if len(blind):
        raise ParameterError(
            name,
            "let every token see itself",
            f"a mask in which token {blind[0]} does not",
        )
    cycles = np.argwhere(seen & seen.T & ~np.eye(n, dtype=bool))
    if len(cycles):
        i, j = cycles[0]
        got, advice = (
            f"tokens {i} and {j} that see each other",
            "No theorem covers cycles.",
        )
        raise ParameterError(name, "have no cycle", got, advice)
    reach = seen.astype(np.float32)
    missing = np.argwhere((reach @ reach > 0) & ~seen)
    if len(missing):
        i, k = missing[0]
        j = np.flatnonzero(seen[i] & seen[:, k])[0]
        got = (
            f"a mask in which token {i} sees {j}, token {j} sees {k}, but token {i}"
            f" does not see {k}"
        )
        advice = (
            "Under other masks, such as sliding windows, a leader may begin to follow."
        )
        raise ParameterError(name, "be transitive", got, advice)
    return seen


def find_limit(
    run: Run, max_layers: int, progress: Progress | None, given: Array
) -> Limit:
    """Return the limit of a run that is at layer 0; tensors as `given` is."""
    limit_set = run.find_limits(max_layers, progress)
    tokens = run.tokens  # (m, d)
    decided = limit_set.place >= 0
    tokens[decided] = limit_set.points[limit_set.place[decided]]
    return make_limit(
        limit_set, tokens, run.emerged[limit_set.leaders], run.stats, given, run.pace
    )


def _find_batch_limits(
    batch: AnyArray,
    real: BoolArray,
    rule: Hardmax,
    max_layers: int,
    kernel: str,
    progress: Progress | None,
    given: Array,
    seen: BoolArray | None,
) -> Limits:
    """Return the limits of a batch of checked tokens: in one pass where possible, else
    one by one.
    """
    total, done, shared = int(real.sum()), 0, None

    def report(more: int, _: int = 0) -> None:
        if progress is not None:
            progress(done + more, total)

    tokens, clusters, leads = (
        batch.astype(np.float64),
        np.full(real.shape, -1),
        np.zeros(real.shape, bool),
    )
    certified, layer, in_pass = (
        np.ones(len(batch), bool),
        np.zeros(len(batch), np.intp),
        np.zeros(len(batch), bool),
    )
    if len(batch) > 1 and seen is None and can_share_pass(rule, batch, kernel):
        shared = BatchLimit(rule, Batch(rule, batch, real, kernel), max_layers, report)
        in_pass, leads, layer, known = (
            shared.in_pass,
            shared.leads,
            shared.layer,
            shared.in_pass[:, None] & real,
        )
        clusters = np.where(known, shared.clusters, -1)
        tokens = (
            shared.tokens
            if known.all()
            else np.where(known[..., None], shared.tokens, tokens)
        )
    done, alone = int(real[in_pass].sum()), dict[int, Limit]()
    for b in np.flatnonzero(~in_pass).tolist():
        ids = np.flatnonzero(real[b])
        mask = None if seen is None else seen[np.ix_(ids, ids)]
        one = alone[b] = find_limit(
            Run(rule, batch[b, ids], kernel=kernel, mask=mask),
            max_layers,
            report,
            given,
        )
        tokens[b, ids], clusters[b, ids] = to_numpy(one.tokens), one.clusters
        certified[b], layer[b] = one.certified, one.layer
        leads[b] = np.isin(np.arange(real.shape[1]), ids[one.leaders])
        done += len(ids)
    each = [shared.stats] if shared is not None and in_pass.any() else []
    stats = merge_stats(
        each + [one.stats for one in alone.values()], int(in_pass.sum())
    )
    return Limits(
        like(tokens, given), certified, layer, clusters, leads, stats, shared, alone
    )


def make_limit(
    found: LimitSet,
    tokens: FloatArray,
    emerged: IntArray,
    stats: dict[str, Any],
    given: Array,
    pace: float = 0.0,
) -> Limit:
    """Return the limit of every token of the classes of `found`, whose limits are
    `tokens` (m, d).
    """
    classes, labels, certified = (
        found.classes,
        found.classes.labels,
        bool((found.proof > Proof.NONE).all()),
    )
    codes, numbers = np.unique(found.proof[labels], return_counts=True)
    return Limit(
        tokens=like(tokens[labels], given),
        certified=certified,
        layer=found.layer,
        leaders=classes.first[found.leaders],
        emerged=emerged,
        clusters=found.place[labels],
        points=found.points,
        pace=0.0 if certified else pace,
        proofs={
            str(Proof(code)): int(number)
            for code, number in zip(codes, numbers, strict=True)
            if code
        },
        reason="" if certified else found.reason,
        stats=stats,
        start=classes.rows[labels].astype(np.float64),
        _limit_set=found,
    )
