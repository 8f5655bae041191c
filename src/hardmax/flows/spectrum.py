"""Which limit to expect of self-attention, from the spectrum of the value matrix (arXiv 2305.05465).

What is called proved is proved of the numbers as they came: multiplicities, realness and signs are decided over the
rationals (`eigenvalues.py`), and so are symmetry and definiteness of Q^T K. Eigenvalues closer than `EQUAL` that are
not equal are neither: rounding may have parted them, so the answer is OPEN, and it says what it would be otherwise.
"""

from dataclasses import replace

import numpy as np

from hardmax import _validation
from hardmax._arrays import to_numpy
from hardmax._errors import InputError
from hardmax._exact import UNIT, over_one_denominator
from hardmax._types import AnyArray, Array, FloatArray
from hardmax.flows import eigenvalues
from hardmax.flows import expectation as words
from hardmax.flows.eigenvalues import EQUAL, Eigenvalues, size_of
from hardmax.flows.expectation import Expectation
from hardmax.flows.matrix_exponential import once_per_rule
from hardmax.rules.self_attention import SelfAttention

IDENTITY = 1e-12  # entries of V may miss a multiple of the identity by that, relative to |V|
MOST_PRODUCTS = 1 << 19  # of integers, for Q^T K: a quarter of a second
ROUNDINGS = 2e3  # of V, relative to |V|, that its eigenvalues must bear without meeting


def classify(Q: Array | SelfAttention = None, K: Array = None, V: Array = None, *, causal: bool = False) -> Expectation:
    """Say from the spectrum of V which limit to expect of x_i' = sum_j P_ij V x_j.

    Parameters
    ----------
    Q, K : (k, d) arrays, optional
        None is the identity. In the place of Q there may be a `SelfAttention`, which brings its own matrices and mask.
    V : (d, d) array, optional
        None is the identity.
    causal : bool
        Whether tokens see only those before them; no theorem covers that.

    Returns
    -------
    Expectation
        It prints as a sentence; `kind` names the limit and `proved` says whether a theorem covers it.

    Raises
    ------
    InputError
        If no matrix is given, or one that depends on time.
    ParameterError
        If matrices do not go together, or a number is not finite.

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.classify(V=[[2, 1], [1, 1]])
    Rescaled tokens tend to at most three parallel hyperplanes. Proved: Theorem 4.2 of arXiv 2305.05465.
    CONJECTURE: they tend to parallel subspaces of codimension 2.
    >>> hm.classify(V=[[1, 0], [0, 1]]).kind
    'polytope'
    >>> hm.classify(hm.SelfAttention(V=[[0, -1], [1, 0]]))
    OPEN: no theorem says where tokens end.
    """
    rule = Q if isinstance(Q, SelfAttention) else SelfAttention(Q, K, V, causal=causal)
    if rule.dimension is None or any(callable(weight) for weight in rule.weights):
        raise InputError(
            "A rule to classify must have at least one matrix, and none that depends on time. "
            f"Got {rule!r}. Pass `V` itself, such as `V=np.eye(2)`."
        )
    return expectation_of(rule, rule.dimension)


@once_per_rule
def expectation_of(rule: SelfAttention, d: int) -> Expectation:
    """What to expect of a rule whose matrices do not depend on time, for tokens of dimension d."""
    found, V = expected_of_values(rule, d), rule.value_matrix(d)
    hypotheses, rounding = dict(found.hypotheses), list(found.rounding)
    if found.kind == "boolean":
        B, error = _form(rule, d)
        hypotheses[words.POSITIVE] = bool(B[0, 0] > error)
    elif found.kind in ("polytope", "collapse", "product"):
        definite, symmetric = _is_definite(rule, d)
        hypotheses[words.DEFINITE] = definite
        rounding += [words.SKEWED] if definite and not symmetric else []
    elif found.kind in ("hyperplanes", "complex"):
        positive, hypotheses[words.SEPARATED] = _simple(V, found, *_form(rule, d))
        if found.kind == "hyperplanes":
            hypotheses[words.FORM] = positive
    if rule.causal:
        hypotheses[words.UNMASKED] = False
    proved = found.kind in words.THEOREMS and all(hypotheses.values()) and not rounding
    return replace(found, proved=proved, hypotheses=hypotheses, rounding=tuple(rounding))


@once_per_rule
def expected_of_values(rule: SelfAttention, d: int) -> Expectation:
    """What the spectrum of V alone says: the kind, and the hypotheses on V. Q, K and the mask are not looked at."""
    V = rule.value_matrix(d)
    found = eigenvalues.decide(V)
    values, near, top = found.values, EQUAL * found.size, found.values[0]
    same = np.abs(values - top) <= near
    count, positive = int(same.sum()), int((values.real > near).sum())
    leading, dual = eigenvalues.eigenspace(V, values[same].mean(), count)
    hypotheses: dict[str, bool] = {}
    one = count == 1 or (found.multiplicities is not None and found.multiplicities[0] == count)
    rounding = [] if one else [words.PARTED]
    if not V.any():
        kind, rounding = "still", []
    elif not _is_certain(found):
        kind, rounding = "unknown", [words.UNDECIDED]
    elif abs(top.imag) > near:
        others = values.real[~same & (np.abs(values - top.conjugate()) > near)]
        alone = bool((others < top.real - near).all())
        kind, rounding = ("complex" if top.real > near and alone else "unknown"), []
    elif len(V) == 1:
        kind = "boolean" if top.real > 0 else "collapse"
    elif same.all() and np.abs(V - top.real * np.eye(len(V))).max() <= IDENTITY * found.size:
        kind = "polytope" if top.real > 0 else "collapse"
        rounding = [] if np.array_equal(V, V[0, 0] * np.eye(len(V))) else [words.PARTED]
    elif top.real <= near:
        kind, rounding = "unknown", []
    else:
        kind = "hyperplanes" if count == 1 else "product"
        hypotheses[words.DOMINANT] = bool((np.abs(values[~same]) < top.real - near).all())
        if count > 1:
            exactly = found.eigenvectors is not None and not rounding
            hypotheses[words.WHOLE] = bool(found.eigenvectors[0] == count if exactly else leading.shape[1] == count)  # type: ignore[index]
    if rounding and not eigenvalues.has_flint() and len(V) <= eigenvalues.EXACT_UP_TO:
        rounding.append(words.HELP)
    return Expectation(kind, hypotheses, tuple(rounding), values, count, positive, leading, dual)


def _is_certain(found: Eigenvalues) -> bool:
    """Whether no error of the eigenvalues can change what is read off them."""
    if found.multiplicities is not None:
        return True
    values, top, near = found.values, found.values[0], EQUAL * found.size
    below = top.real - values.real
    edges = np.concatenate([np.abs(values - top), below, values.real, top.real - np.abs(values)])
    away = np.minimum(np.abs(values - top), np.abs(values - top.conjugate())) > near
    one_leads = bool((below[away] > near).all())  # else it is rounding that says which of several comes first
    apart = bool((np.abs(np.abs(edges) - near) > 4 * found.error).all())
    return found.error < near / 8 and one_leads and apart


def _simple(V: FloatArray, found: Expectation, B: AnyArray, error: float) -> tuple[bool, bool]:
    """Of a simple leading eigenvalue: whether ⟨phi, B phi⟩ > 0, and whether rounding cannot have parted it from others.

    Rounding of V by |E| moves it by up to |E| times its condition number. Where floats alone are asked, V is similar to
    D + E with |E| <= e, the bound of the eigenvalues' error, so phi is within 2 sqrt(d) e / (gap - 2 e) of theirs.
    """
    values, d = found.eigenvalues, len(V)
    gap = float(np.abs(values[1:] - values[0]).min())
    if found.multiplicity > 1:
        return False, False
    if eigenvalues.is_exact(V) and not error:
        condition, positive = eigenvalues.simple_eigenvector(V, complex(values[0]), B)
    else:
        floats = eigenvalues.bounded(V)
        assert floats.first is not None
        phi, size = np.real(floats.first), float(np.abs(B).max()) or 1.0
        off = 2 * np.sqrt(d) * floats.error / max(gap - 2 * floats.error, np.finfo(np.float64).tiny)
        form = float(phi @ (B / size).astype(np.float64) @ phi)
        positive = form > d * (3 * off + off * off + error / size + 4 * d * UNIT)  # |B / size| <= d
        condition = float(np.linalg.norm(found.dual) * np.linalg.norm(found.leading[:, 0]))
    return positive, gap > ROUNDINGS * UNIT * size_of(V) * condition


def _form(rule: SelfAttention, d: int) -> tuple[AnyArray, float]:
    """A positive multiple of Q^T K, as integers where these are few, else in floats, and a bound of the error."""
    Q, K = (np.eye(d) if M is None else np.asarray(to_numpy(M), np.float64) for M in (rule.Q, rule.K))
    if d * Q.size <= MOST_PRODUCTS:
        queries, keys = (np.array(over_one_denominator(M)[0], object) for M in (Q, K))
        return np.asarray(queries.T @ keys), 0.0
    Q, K = (np.ldexp(M, -int(np.frexp(np.abs(M).max())[1])) for M in (Q, K))  # so that no product leaves the range
    return np.asarray(Q.T @ K), float((len(Q) + 2) * UNIT * (np.abs(Q).T @ np.abs(K)).max() * 1.01)


def _is_definite(rule: SelfAttention, d: int) -> tuple[bool, bool]:
    """Whether Q^T K is symmetric positive definite up to rounding, and whether it is symmetric exactly."""
    (B, error), Q, K = _form(rule, d), rule.Q, rule.K
    size = np.abs(B).max() or 1
    skew = np.abs(B - B.T).max() / size
    alike = (Q is None and K is None) or (Q is not None and K is not None and np.array_equal(to_numpy(Q), to_numpy(K)))
    exactly = alike or bool(skew == 0 and (not error or Q is None or K is None))
    doubled = B + B.T if not error else B + B.T - 2 * d * error * np.eye(d)
    return bool(skew <= _validation.SYMMETRY_TOL) and _validation.is_positive_definite(doubled), exactly
