"""Which limit to expect of self-attention, from the spectrum of the value matrix (arXiv 2305.05465)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax import _checks
from hardmax._tensors import to_numpy
from hardmax._types import AnyArray, FloatArray
from hardmax.rules.self_attention import SelfAttention

PAPER = "arXiv 2305.05465"
EQUAL = 1e-7  # eigenvalues that close, relative to |V|, count as one
EXACT = 1e-12  # entries of V may miss a multiple of the identity by that, relative to |V|
NULL = 1e-10  # singular values of V - lambda I below that, relative to |V|, are zero
DOMINANT = "all other eigenvalues are smaller in modulus than the leading one"
WHOLE = "the leading eigenvalue has as many eigenvectors as its multiplicity"
SEPARATED = "the leading eigenvalue is apart from the others by more than rounding"
DEFINITE = "Q^T K is symmetric positive definite"
FORM = "⟨Q phi, K phi⟩ > 0 for the leading eigenvector phi"
UNMASKED = "attention is not causal"
NEGATED = {  # each hypothesis when it does not hold
    "QK > 0": "QK is not positive",
    DOMINANT: "another eigenvalue is as large in modulus as the leading one",
    WHOLE: "the leading eigenvalue has fewer eigenvectors than its multiplicity",
    SEPARATED: "rounding may have parted the leading eigenvalue from another one",
    DEFINITE: "Q^T K is not symmetric positive definite",
    FORM: "⟨Q phi, K phi⟩ is not positive for the leading eigenvector phi",
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
        if self.kind == "unknown":
            return f"OPEN: {said[0].lower()}{said[1:]}"
        if self.missing:
            return f"OPEN: {'; '.join(self.missing)}. Were it not so: {said[0].lower()}{said[1:]} {self.theorem}."
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
    d = len(V)
    given = {"V": V}
    given |= {name: _checks.check_weight(M, name, square=False) for name, M in (("Q", Q), ("K", K)) if M is not None}
    _checks.check_shapes({name: tuple(M.shape) for name, M in given.items()})
    Q, K = (np.asarray(to_numpy(given[name]), np.float64) if name in given else np.eye(d) for name in ("Q", "K"))
    return expectation(V, Q.T @ K, causal=causal)


def _of_rule(rule: SelfAttention) -> Expectation:
    d = rule.dimension
    if d is None or any(callable(weight) for weight in rule.weights):
        raise ValueError(
            "A rule to classify must have at least one matrix, and none that depends on time. "
            f"Got {rule!r}. Pass V itself, such as np.eye(2)."
        )
    return expectation(rule.value_matrix(d), rule.form(d), causal=rule.causal)


def expectation(V: FloatArray, B: FloatArray, *, causal: bool = False) -> Expectation:
    """The same for a checked V and B = Q^T K."""
    d, size = len(V), float(np.linalg.norm(V, 2))
    values = np.linalg.eigvals(V)
    values = values[np.lexsort((-values.imag, -values.real))]
    top = values[0]
    same = np.abs(values - top) <= EQUAL * size
    positive = int((values.real > EQUAL * size).sum())
    leading, dual = _eigenspace(V, top, int(same.sum()))
    hypotheses: dict[str, bool]
    if size == 0:
        kind, hypotheses = "still", {}
    elif abs(top.imag) > EQUAL * size:
        kind, hypotheses = ("complex" if top.real > EQUAL * size else "unknown"), {}
    elif d == 1 and V[0, 0] > 0:
        kind, hypotheses = "boolean", {"QK > 0": bool(B[0, 0] > 0)}
    elif same.all() and np.allclose(V, top.real * np.eye(d), rtol=0, atol=EXACT * size):
        kind, hypotheses = ("polytope" if top.real > 0 else "collapse"), {DEFINITE: _is_spd(B)}
    elif top.real <= EQUAL * size:
        kind, hypotheses = "unknown", {}
    else:
        smaller = bool((np.abs(values[~same]) < top.real - EQUAL * size).all())
        hypotheses = {DOMINANT: smaller}
        if same.sum() == 1:
            phi = leading[:, 0]
            separated = _is_separated(values, leading, dual, size)
            positive_form = bool(phi @ B @ phi > 1e-12 * np.linalg.norm(B, 2))
            kind, hypotheses = "hyperplanes", hypotheses | {FORM: positive_form, SEPARATED: separated}
        else:
            whole = leading.shape[1] == same.sum()
            kind, hypotheses = "product", hypotheses | {WHOLE: bool(whole), DEFINITE: _is_spd(B)}
    if causal:
        hypotheses = hypotheses | {UNMASKED: False}
    theorem, known, _ = KINDS[kind]
    proved = known and all(hypotheses.values())
    return Expectation(kind, theorem, proved, hypotheses, values, int(same.sum()), positive, leading, dual)


def _is_spd(B: FloatArray) -> bool:
    size = float(np.abs(B).max()) or 1.0
    symmetric = float(np.abs(B - B.T).max()) <= _checks.SYMMETRY_TOL * size
    return bool(symmetric and _checks.smallest_eigenvalue(B / size) > 0)


def _is_separated(values: AnyArray, leading: FloatArray, dual: FloatArray, size: float) -> bool:
    """Whether a simple leading eigenvalue is apart from the others by more than rounding may have moved it."""
    condition = float(np.linalg.norm(dual) * np.linalg.norm(leading))
    gap = float(np.abs(values[1:] - values[0]).min()) if len(values) > 1 else np.inf
    return gap > 1e3 * float(np.finfo(np.float64).eps) * size * condition


def _eigenspace(V: FloatArray, top: complex, multiplicity: int) -> tuple[FloatArray, FloatArray]:
    """A real basis of the leading eigenspace (of a complex pair, its plane), and the dual one, zero on the rest.

    Found from the null spaces of V - lambda I and its transpose; fewer columns where eigenvectors are missing.
    """
    right, left = _null(V, top, multiplicity), _null(V.T, top, multiplicity)
    if abs(np.imag(top)) > EQUAL * float(np.linalg.norm(V, 2)):
        right, left = (np.linalg.qr(np.hstack([M.real, M.imag]))[0] for M in (right, left))
    right, left = right.real, left.real
    pairing = left.T @ right
    defective = right.shape != left.shape or np.linalg.cond(pairing) > 1e12  # left and right are orthogonal
    if defective:
        return right, left
    return right, np.asarray(left @ np.linalg.inv(pairing).T)


def _null(V: FloatArray, top: complex, most: int) -> AnyArray:
    """An orthonormal basis of the null space of V - top I."""
    shift = top if abs(np.imag(top)) > 0 else np.real(top)
    _, sizes, rows = np.linalg.svd(V - shift * np.eye(len(V)))
    count = max(1, min(most, int((sizes <= NULL * float(np.linalg.norm(V, 2))).sum())))
    return np.asarray(rows[-count:].conj().T)
