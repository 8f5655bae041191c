"""Which limit to expect of self-attention, from the spectrum of the value matrix (arXiv 2305.05465).

What is called proved is proved of the numbers as they came: multiplicities, realness and signs are decided over the
rationals (`eigenvalues.py`), and so are symmetry and definiteness of Q^T K. Eigenvalues closer than `EQUAL` that are
not equal are neither: rounding may have parted them, so the answer is OPEN, and it says what it would be otherwise.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardmax import _checks
from hardmax._integers import UNIT, over_one_denominator
from hardmax._tensors import to_numpy
from hardmax._types import AnyArray, FloatArray
from hardmax.flows.eigenvalues import EXACT_UP_TO, Eigenvalues, has_flint, is_exact, simple_eigenvector, size_of
from hardmax.rules.self_attention import SelfAttention

PAPER = "arXiv 2305.05465"
EQUAL = 1e-7  # eigenvalues that close, relative to |V|, are the same or cannot be told apart
IDENTITY = 1e-12  # entries of V may miss a multiple of the identity by that, relative to |V|
MOST_PRODUCTS = 1 << 19  # of integers, for Q^T K: a quarter of a second
ROUNDINGS = 2e3  # of V, relative to |V|, that its eigenvalues must bear without meeting
NULL = 1e-10  # singular values of V - lambda I below that, relative to |V|, are zero
DOMINANT = "all other eigenvalues are smaller in modulus than the leading one"
WHOLE = "the leading eigenvalue has as many eigenvectors as its multiplicity"
SEPARATED = "the leading eigenvalue is apart from the others by more than rounding"
DEFINITE = "Q^T K is symmetric positive definite"
FORM = "⟨Q phi, K phi⟩ > 0 for the leading eigenvector phi"
UNMASKED = "attention is not causal"
PARTED = "rounding may have parted equal eigenvalues of V"
SKEWED = "Q^T K is symmetric only up to rounding"
UNDECIDED = "floats cannot tell the eigenvalues of V apart"
HELP = "pip install 'hardmax[exact]' to decide it"
NEGATED = {  # each hypothesis when it does not hold
    "QK > 0": "QK is not positive",
    DOMINANT: "another eigenvalue is as large in modulus as the leading one",
    WHOLE: "the leading eigenvalue has fewer eigenvectors than its multiplicity",
    SEPARATED: "rounding may have parted the leading eigenvalue from another one",
    DEFINITE: "Q^T K is not symmetric positive definite",
    FORM: "⟨Q phi, K phi⟩ is not positive beyond rounding for the leading eigenvector phi",
    UNMASKED: "attention is causal",
}
KINDS: dict[str, tuple[str, bool, str]] = {
    "boolean": (
        f"Theorem 2.1 of {PAPER}",
        True,
        "Attention tends to a Boolean matrix: every token but at most one follows the smallest or the largest.",
    ),
    "polytope": (
        f"Theorem 3.1 of {PAPER}",
        True,
        "Rescaled tokens tend to points of a convex polytope that follow themselves: its vertices, as a rule.",
    ),
    "hyperplanes": (
        f"Theorem 4.2 of {PAPER}",
        True,
        "Rescaled tokens tend to at most three parallel hyperplanes.",
    ),
    "product": (
        f"Theorem 5.2 of {PAPER}",
        True,
        "Rescaled tokens tend to a polytope in the leading eigenspace, times the complementary subspace.",
    ),
    "collapse": (f"{PAPER}, on V = -I", True, "Tokens collapse to 0."),
    "complex": (
        f"conjecture in {PAPER}",
        False,
        "Rescaled tokens settle in the plane of the leading complex pair of eigenvalues.",
    ),
    "still": ("V = 0", True, "Tokens do not move."),
    "unknown": ("", False, "No theorem says where tokens end."),
}


@dataclass(frozen=True, eq=False, repr=False)
class Expectation:
    """What the spectrum of V lets one expect.

    Attributes
    ----------
    kind : str
        "boolean", "polytope", "hyperplanes", "product", "collapse", "complex", "still" or "unknown".
    theorem : str
        What it rests on.
    proved : bool
        True when it is a theorem and every hypothesis was found to hold.
    hypotheses : dict
        Each hypothesis that was checked, and whether it holds.
    rounding : tuple of str
        What stands between the numbers as they came and the theorem, and may be rounding alone. Statements on
        trajectories, which are tested in floats, are tested all the same.
    eigenvalues : (d,) array
        Of V, the largest real part first.
    multiplicity : int
        Of the leading eigenvalue; 1 for each one of a complex pair.
    positive : int
        How many eigenvalues have a positive real part. With a simple leading one and k = `positive` >= 2, the paper
        conjectures clusters on parallel subspaces of codimension k.
    leading : (d, k) array
        A basis of the leading eigenspace; for a complex pair, of its plane.
    dual : (d, k) array
        The coordinates of z in that basis are dual.T @ z.
    """

    kind: str
    theorem: str
    proved: bool
    hypotheses: dict[str, bool]
    rounding: tuple[str, ...]
    eigenvalues: AnyArray
    multiplicity: int
    positive: int
    leading: FloatArray
    dual: FloatArray

    @property
    def missing(self) -> list[str]:
        """Hypotheses that do not hold."""
        return [NEGATED[name] for name, holds in self.hypotheses.items() if not holds]

    def __repr__(self) -> str:
        said = KINDS[self.kind][2]
        missing = [*self.missing, *self.rounding]
        if self.kind == "unknown":
            return f"OPEN: {'; '.join(missing)}." if missing else f"OPEN: {said[0].lower()}{said[1:]}"
        if missing:
            return f"OPEN: {'; '.join(missing)}. Were it not so: {said[0].lower()}{said[1:]} {self.theorem}."
        said = f"{said} Proved: {self.theorem}." if self.proved else f"CONJECTURE: {said[0].lower()}{said[1:]}"
        if self.kind == "hyperplanes" and self.positive > 1:
            said += f" CONJECTURE: they tend to parallel subspaces of codimension {self.positive}."
        return said


def classify(V: Any, Q: Any = None, K: Any = None, *, causal: bool = False) -> Expectation:
    """Say from the spectrum of V which limit to expect of x_i' = sum_j P_ij V x_j.

    Parameters
    ----------
    V : (d, d) array, or SelfAttention
        A rule brings its own Q, K and mask.
    Q, K : (k, d) arrays, optional
        None is the identity.
    causal : bool
        Whether tokens see only those before them; no theorem covers that.

    Returns
    -------
    Expectation

    Examples
    --------
    >>> import hardmax as hm
    >>> hm.classify([[2, 1], [1, 1]])
    Rescaled tokens tend to at most three parallel hyperplanes. Proved: Theorem 4.2 of arXiv 2305.05465.
    CONJECTURE: they tend to parallel subspaces of codimension 2.
    >>> hm.classify([[1, 0], [0, 1]]).kind
    'polytope'
    >>> hm.classify([[0, -1], [1, 0]])
    OPEN: no theorem says where tokens end.
    """
    if isinstance(V, SelfAttention):
        return _of_rule(V)
    V = np.asarray(to_numpy(_checks.check_weight(V, "V", square=True)), np.float64)
    given = {"V": V}
    given |= {name: _checks.check_weight(M, name, square=False) for name, M in (("Q", Q), ("K", K)) if M is not None}
    _checks.check_shapes({name: tuple(M.shape) for name, M in given.items()})
    return expectation(V, given.get("Q"), given.get("K"), causal=causal)


def _of_rule(rule: SelfAttention) -> Expectation:
    d = rule.dimension
    if d is None or any(callable(weight) for weight in rule.weights):
        raise ValueError(
            "A rule to classify must have at least one matrix, and none that depends on time. "
            f"Got {rule!r}. Pass V itself, such as np.eye(2)."
        )
    return expectation_of(rule, d)


def expectation_of(rule: SelfAttention, d: int) -> Expectation:
    """What to expect of a rule whose matrices do not depend on time, for tokens of dimension d."""
    return expectation(rule.value_matrix(d), rule.Q, rule.K, causal=rule.causal)


def expectation(V: FloatArray, Q: Any = None, K: Any = None, *, causal: bool = False) -> Expectation:
    """The same for checked matrices; None is the identity."""
    found = expected_of_values(V)
    hypotheses, rounding = dict(found.hypotheses), list(found.rounding)
    if found.kind == "boolean":
        B, error = _form(Q, K, 1)
        hypotheses["QK > 0"] = bool(B[0, 0] > error)
    elif found.kind in ("polytope", "collapse", "product"):
        definite, symmetric = _is_definite(Q, K, len(V))
        hypotheses[DEFINITE] = definite
        rounding += [SKEWED] if definite and not symmetric else []
    elif found.kind in ("hyperplanes", "complex"):
        seen, hypotheses[SEPARATED] = _simple(V, found, *_form(Q, K, len(V)))
        if found.kind == "hyperplanes":
            hypotheses[FORM] = seen
    if causal:
        hypotheses[UNMASKED] = False
    proved = KINDS[found.kind][1] and all(hypotheses.values()) and not rounding
    return replace(found, proved=proved, hypotheses=hypotheses, rounding=tuple(rounding))


def expected_of_values(V: FloatArray) -> Expectation:
    """What the spectrum of V alone says: the kind, and the hypotheses on V."""
    found = Eigenvalues.of(V)
    values, near, top = found.values, EQUAL * found.size, found.values[0]
    same = np.abs(values - top) <= near
    count, positive = int(same.sum()), int((values.real > near).sum())
    leading, dual = _eigenspace(V, values[same].mean(), count)
    hypotheses: dict[str, bool] = {}
    rounding = [] if _is_one(found, same) else [PARTED]
    if not V.any():
        kind, rounding = "still", []
    elif not _is_certain(found):
        kind, rounding = "unknown", [UNDECIDED]
    elif abs(top.imag) > near:
        others = values.real[~same & (np.abs(values - top.conjugate()) > near)]
        alone = bool((others < top.real - near).all())
        kind, rounding = ("complex" if top.real > near and alone else "unknown"), []
    elif len(V) == 1:
        kind = "boolean" if top.real > 0 else "collapse"
    elif same.all() and np.abs(V - top.real * np.eye(len(V))).max() <= IDENTITY * found.size:
        kind = "polytope" if top.real > 0 else "collapse"
        rounding = [] if np.array_equal(V, V[0, 0] * np.eye(len(V))) else [PARTED]
    elif top.real <= near:
        kind, rounding = "unknown", []
    else:
        kind = "hyperplanes" if count == 1 else "product"
        hypotheses[DOMINANT] = bool((np.abs(values[~same]) < top.real - near).all())
        if count > 1:
            exactly = found.eigenvectors is not None and not rounding
            hypotheses[WHOLE] = bool(found.eigenvectors[0] == count if exactly else leading.shape[1] == count)  # type: ignore[index]
    if rounding and not has_flint() and len(V) <= EXACT_UP_TO:
        rounding.append(HELP)
    theorem = KINDS[kind][0]
    return Expectation(kind, theorem, False, hypotheses, tuple(rounding), values, count, positive, leading, dual)


def _is_one(found: Eigenvalues, same: AnyArray) -> bool:
    """Whether the eigenvalues that cannot be told apart are one, with its multiplicity."""
    if same.sum() == 1:
        return True
    return found.multiplicities is not None and bool(found.multiplicities[0] == same.sum())


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
    if is_exact(V) and not error:
        condition, positive = simple_eigenvector(V, complex(values[0]), B)
    else:
        bounded = Eigenvalues.with_bound(V)
        assert bounded.first is not None
        phi, size = np.real(bounded.first), float(np.abs(B).max()) or 1.0
        off = 2 * np.sqrt(d) * bounded.error / max(gap - 2 * bounded.error, np.finfo(np.float64).tiny)
        form = float(phi @ (B / size).astype(np.float64) @ phi)
        positive = form > d * (3 * off + off * off + error / size + 4 * d * UNIT)  # |B / size| <= d
        condition = float(np.linalg.norm(found.dual) * np.linalg.norm(found.leading[:, 0]))
    return positive, gap > ROUNDINGS * UNIT * size_of(V) * condition


def _form(Q: Any, K: Any, d: int) -> tuple[AnyArray, float]:
    """A positive multiple of Q^T K, as integers where these are few, else in floats, and a bound of the error."""
    Q, K = (np.eye(d) if M is None else np.asarray(to_numpy(M), np.float64) for M in (Q, K))
    if d * Q.size <= MOST_PRODUCTS:
        queries, keys = (np.array(over_one_denominator(M)[0], object) for M in (Q, K))
        return np.asarray(queries.T @ keys), 0.0
    Q, K = (np.ldexp(M, -int(np.frexp(np.abs(M).max())[1])) for M in (Q, K))  # so that no product leaves the range
    return np.asarray(Q.T @ K), float((len(Q) + 2) * UNIT * (np.abs(Q).T @ np.abs(K)).max() * 1.01)


def _is_definite(Q: Any, K: Any, d: int) -> tuple[bool, bool]:
    """Whether Q^T K is symmetric positive definite up to rounding, and whether it is symmetric exactly."""
    B, error = _form(Q, K, d)
    size = np.abs(B).max() or 1
    skew = np.abs(B - B.T).max() / size
    alike = (Q is None and K is None) or (Q is not None and K is not None and np.array_equal(to_numpy(Q), to_numpy(K)))
    exactly = alike or bool(skew == 0 and (not error or Q is None or K is None))
    doubled = B + B.T if not error else B + B.T - 2 * d * error * np.eye(d)
    return bool(skew <= _checks.SYMMETRY_TOL) and _checks.is_positive_definite(doubled), exactly


def _eigenspace(V: FloatArray, top: complex, multiplicity: int) -> tuple[FloatArray, FloatArray]:
    """A real basis of the leading eigenspace (of a complex pair, its plane), and the dual one, zero on the rest.

    Found from the null spaces of V - lambda I and its transpose; fewer columns where eigenvectors are missing.
    """
    right, left = _null(V, top, multiplicity), _null(V.T, top, multiplicity)
    if abs(np.imag(top)) > EQUAL * size_of(V):
        right, left = (np.linalg.qr(np.hstack([M.real, M.imag]))[0] for M in (right, left))
    right, left = right.real, left.real
    pairing = left.T @ right
    defective = right.shape != left.shape or np.linalg.cond(pairing) > 1e12  # left and right are orthogonal
    if defective:
        return right, left
    return right, np.asarray(left @ np.linalg.inv(pairing).T)


def _null(V: FloatArray, top: complex, most: int) -> AnyArray:
    """An orthonormal basis of the null space of V - top I."""
    shift = top if abs(np.imag(top)) > EQUAL * size_of(V) else np.real(top)
    _, sizes, rows = np.linalg.svd(V - shift * np.eye(len(V)))
    count = max(1, min(most, int((sizes <= NULL * float(np.linalg.norm(V, 2))).sum())))
    return np.asarray(rows[-count:].conj().T)
