"""`limit`: the limit of every token, proved at a finite layer."""

from typing import Any

import numpy as np

from hardmax import _validation
from hardmax._errors import ParameterError, ParameterTypeError
from hardmax._types import Array, BoolArray, Progress
from hardmax.rules.hardmax import Hardmax
from hardmax.run import start_runs
from hardmax.search.dispatch import check_kernel
from hardmax.trajectories.limit import Limit, check_normalized


def limit(
    tokens: Array,
    rule: Hardmax,
    *,
    max_layers: int = 1000,
    mask: Array = None,
    attention_mask: Array = None,
    kernel: str = "auto",
    progress: Progress | None = None,
) -> Any:  # a Limit, or a list of them: the type of tokens has no number of axes
    """Find the limit of every token, with a proof.

    Layers run until each token is decided. Leaders stand still, and every other token
    tends to a convex combination of leaders.

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
        `certified` is False and `reason` says why. For a batch a list of them, one for
        each token set.

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
    >>> batch = [[[1, 1], [0.5, 0.25]], [[1, -1], [-1, -0.5]]]
    >>> [len(one.leaders) for one in hm.limit(batch, hm.Hardmax(alpha=0.5))]
    [1, 2]
    """
    kernel = check_kernel(kernel)
    _validation.check_progress(progress)
    check_rule(rule)
    array, real = _validation.check_tokens(tokens, mask)
    rule.check(array)
    max_layers = _validation.check_count(max_layers, "max_layers", least=0)
    seen = None
    if attention_mask is not None:
        seen = _check_attention_mask(attention_mask, array.shape[-2], rule)
    batch = array.reshape(-1, *array.shape[-2:])
    reals = np.atleast_2d(real)
    total = int(real.sum())
    done = 0

    def report(decided: int, _: int) -> None:
        if progress is not None:
            progress(done + decided, total)

    limits: list[Limit] = []
    for ids, run in start_runs(rule, batch, reals, kernel, seen):
        run.find_limits(max_layers, report)
        limits += [Limit(record, tokens) for record in run.records()]
        done += int(reals[ids].sum())
    return limits if array.ndim == 3 else limits[0]


def check_rule(rule: Hardmax) -> None:
    """Raise an error for a rule whose limits are not defined."""
    if not isinstance(rule, Hardmax):
        got = type(rule).__name__
        if isinstance(rule, type):
            got = f"the class {rule.__name__}; call it"
        advice = "For other rules use hm.simulate, and hm.classify for self-attention."
        raise ParameterTypeError("rule", "be a hm.Hardmax", got, advice)
    check_normalized(rule)


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
