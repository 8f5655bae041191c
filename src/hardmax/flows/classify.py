"""Classify self-attention by the spectrum of the value matrix V: which limit to expect
(arXiv 2305.05465).

A limit is called proved only if the hypotheses hold for the given floats as rational
numbers: multiplicities, realness and signs of the eigenvalues of V (`eigenvalues.py`),
symmetry and definiteness of Q^T K. If eigenvalues differ by less than `EQUAL_TOL`,
rounding may have separated them: the answer is then OPEN and names the limit without
rounding.
"""

from dataclasses import dataclass, replace

import numpy as np

from hardmax import _validation
from hardmax._errors import InputError, install_command
from hardmax._exact import UNIT, over_one_denominator
from hardmax._types import AnyArray, Array, FloatArray
from hardmax._validation import to_numpy
from hardmax.flows import eigenvalues
from hardmax.flows.coordinates import cache_per_rule
from hardmax.flows.eigenvalues import EQUAL_TOL, Eigenvalues, frobenius_norm
from hardmax.rules.self_attention import SelfAttention

IDENTITY_TOL = 1e-12  # distance of V from a multiple of the identity, relative to |V|
MAX_EXACT_PRODUCTS = 1 << 19  # integer products for Q^T K: a quarter of a second
# gap of a simple leading eigenvalue, in rounding errors of V times its condition number
MIN_GAP_ROUNDINGS = 2e3

PAPER = "arXiv 2305.05465"
DOMINANT = "all other eigenvalues are smaller in modulus than the leading one"
WHOLE = "the leading eigenvalue has as many eigenvectors as its multiplicity"
SEPARATED = "the leading eigenvalue is apart from the others by more than rounding"
DEFINITE = "Q^T K is symmetric positive definite"
FORM = "⟨Q phi, K phi⟩ > 0 for the leading eigenvector phi"
POSITIVE = "QK > 0"
UNMASKED = "attention is not causal"
NEGATIONS = {  # each hypothesis where it does not hold
    POSITIVE: "QK is not positive",
    DOMINANT: "another eigenvalue is as large in modulus as the leading one",
    WHOLE: "the leading eigenvalue has fewer eigenvectors than its multiplicity",
    SEPARATED: "rounding may have parted the leading eigenvalue from another one",
    DEFINITE: "Q^T K is not symmetric positive definite",
    FORM: (
        "⟨Q phi, K phi⟩ is not positive beyond rounding for the leading eigenvector phi"
    ),
    UNMASKED: "attention is causal",
}
PARTED = "rounding may have parted equal eigenvalues of V"
SKEWED = "Q^T K is symmetric only up to rounding"
UNDECIDED = "floats cannot tell the eigenvalues of V apart"
HELP = f"{install_command('exact')} to decide it"
LIMITS = {  # of each kind
    "boolean": (
        "Attention tends to a Boolean matrix: every token but at most one follows the"
        " smallest or the largest."
    ),
    "polytope": (
        "Rescaled tokens tend to points of a convex polytope that follow themselves:"
        " its vertices, as a rule."
    ),
    "hyperplanes": "Rescaled tokens tend to at most three parallel hyperplanes.",
    "product": (
        "Rescaled tokens tend to a polytope in the leading eigenspace, times the"
        " complementary subspace."
    ),
    "collapse": "Tokens collapse to 0.",
    "still": "Tokens do not move.",
    "complex": (
        "Rescaled tokens settle in the plane of the leading complex pair of"
        " eigenvalues."
    ),
    "unknown": "No theorem says where tokens end.",
}
NUMBERS = {"boolean": "2.1", "polytope": "3.1", "hyperplanes": "4.2", "product": "5.2"}
THEOREMS = {
    kind: f"Theorem {number} of {PAPER}" for kind, number in NUMBERS.items()
}  # which prove these limits
THEOREMS |= {"collapse": f"{PAPER}, on V = -I", "still": "V = 0"}
CONJECTURES = {"complex": f"conjecture in {PAPER}", "unknown": ""}


@dataclass(frozen=True, eq=False, repr=False)
class Expectation:
    """The limit that the spectrum of V implies, as `classify` returns it. It prints as
    a sentence.

    Attributes
    ----------
    kind : str
        "boolean", "polytope", "hyperplanes", "product", "collapse", "complex", "still"
        or "unknown".
    hypotheses : dict
        Each hypothesis that was checked, and whether it holds.
    rounding : tuple of str
        Reasons why the given floats do not satisfy the theorem although they may do so
        up to rounding. Statements about trajectories, which are tested in floats, are
        tested all the same.
    eigenvalues : (d,) array
        Of V, the largest real part first.
    multiplicity : int
        Of the leading eigenvalue; 1 for each one of a complex pair.
    positive : int
        The number of eigenvalues with positive real part. With a simple leading one and
        k = `positive` >= 2, the paper conjectures clusters on parallel subspaces of
        codimension k.
    leading : (d, k) array
        A basis of the leading eigenspace; for a complex pair, of its plane.
    dual : (d, k) array
        The coordinates of z in that basis are dual.T @ z.
    proved : bool
        True if a theorem covers the kind and every hypothesis was found to hold.

    Examples
    --------
    >>> import hardmax as hm
    >>> expected = hm.classify(V=hm.matrix("paper-2d"))
    >>> expected.kind, expected.multiplicity, expected.positive
    ('hyperplanes', 1, 1)
    >>> expected.proved, expected.missing
    (True, [])
    """

    kind: str
    hypotheses: dict[str, bool]
    rounding: tuple[str, ...]
    eigenvalues: AnyArray
    multiplicity: int
    positive: int
    leading: FloatArray
    dual: FloatArray
    proved: bool = False

    def __post_init__(self) -> None:
        for array in (self.eigenvalues, self.leading, self.dual):
            array.setflags(write=False)  # `cache_per_rule` shares it

    @property
    def theorem(self) -> str:
        """The theorem for this kind; empty if there is none."""
        return (THEOREMS | CONJECTURES)[self.kind]

    @property
    def missing(self) -> list[str]:
        """Hypotheses that do not hold."""
        return [NEGATIONS[name] for name, holds in self.hypotheses.items() if not holds]

    def __repr__(self) -> str:
        sentence = LIMITS[self.kind]
        within = f"{sentence[0].lower()}{sentence[1:]}"
        missing = "; ".join([*self.missing, *self.rounding])
        if self.kind == "unknown":
            return f"OPEN: {missing}." if missing else f"OPEN: {within}"
        if missing:
            return f"OPEN: {missing}. Were it not so: {within} {self.theorem}."
        if not self.proved:
            return f"CONJECTURE: {within}"
        more = (
            " CONJECTURE: they tend to parallel subspaces of codimension"
            f" {self.positive}."
        )
        return (
            f"{sentence} Proved:"
            f" {self.theorem}.{more if self.kind == 'hyperplanes' and self.positive > 1 else ''}"
        )


def classify(
    Q: Array | SelfAttention = None,
    K: Array = None,
    V: Array = None,
    *,
    causal: bool = False,
) -> Expectation:
    """Find the limit of x_i' = sum_j P_ij V x_j that the spectrum of V implies.

    Parameters
    ----------
    Q, K : (k, d) arrays, optional
        None is the identity. Q may also be a `SelfAttention`, whose matrices and mask
        are then used.
    V : (d, d) array, optional
        None is the identity.
    causal : bool
        Whether tokens attend only to those before them; no theorem covers that.

    Returns
    -------
    Expectation
        It prints as a sentence; `kind` names the limit and `proved` says whether a
        theorem covers it.

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
            "A rule to classify must have at least one matrix, and none that depends"
            f" on time. Got {rule!r}. Pass `V` itself, such as `V=np.eye(2)`."
        )
    return classify_rule(rule, rule.dimension)


@cache_per_rule
def classify_rule(rule: SelfAttention, d: int) -> Expectation:
    """Classify a rule with constant matrices for tokens of dimension d."""
    found, V = classify_values(rule, d), rule.value_matrix(d)
    hypotheses, rounding = dict(found.hypotheses), list(found.rounding)
    if found.kind == "boolean":
        B, error = _form(rule, d)
        hypotheses[POSITIVE] = bool(B[0, 0] > error)
    elif found.kind in ("polytope", "collapse", "product"):
        definite, symmetric = _check_definite(rule, d)
        hypotheses[DEFINITE] = definite
        rounding += [SKEWED] if definite and not symmetric else []
    elif found.kind in ("hyperplanes", "complex"):
        positive, hypotheses[SEPARATED] = _check_simple(V, found, *_form(rule, d))
        if found.kind == "hyperplanes":
            hypotheses[FORM] = positive
    if rule.causal:
        hypotheses[UNMASKED] = False
    proved = found.kind in THEOREMS and all(hypotheses.values()) and not rounding
    return replace(
        found, proved=proved, hypotheses=hypotheses, rounding=tuple(rounding)
    )


@cache_per_rule
def classify_values(rule: SelfAttention, d: int) -> Expectation:
    """Find the kind and the hypotheses on V from the spectrum of V alone, without Q, K
    and the mask.
    """
    V = rule.value_matrix(d)
    found = eigenvalues.find_eigenvalues(V)
    values, near, top = found.values, EQUAL_TOL * found.size, found.values[0]
    same = np.abs(values - top) <= near
    count, positive = int(same.sum()), int((values.real > near).sum())
    mean = top + (values[same] - top).mean()  # a sum could overflow
    leading, dual = eigenvalues.find_eigenspace(V, mean, count)
    hypotheses: dict[str, bool] = {}
    one = count == 1 or (
        found.multiplicities is not None and found.multiplicities[0] == count
    )
    rounding = [] if one else [PARTED]
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
    elif (
        same.all()
        and np.abs(V - top.real * np.eye(len(V))).max() <= IDENTITY_TOL * found.size
    ):
        kind = "polytope" if top.real > 0 else "collapse"
        rounding = [] if np.array_equal(V, V[0, 0] * np.eye(len(V))) else [PARTED]
    elif top.real <= near:
        kind, rounding = "unknown", []
    else:
        kind = "hyperplanes" if count == 1 else "product"
        hypotheses[DOMINANT] = bool((np.abs(values[~same]) < top.real - near).all())
        if count > 1:
            exact = found.eigenvectors is not None and not rounding
            hypotheses[WHOLE] = bool(
                found.eigenvectors[0] == count  # type: ignore[index]
                if exact
                else leading.shape[1] == count
            )
    if (
        rounding
        and not eigenvalues.has_flint()
        and len(V) <= eigenvalues.MAX_EXACT_DIMENSION
    ):
        rounding.append(HELP)
    return Expectation(
        kind, hypotheses, tuple(rounding), values, count, positive, leading, dual
    )


def _is_certain(found: Eigenvalues) -> bool:
    """Return whether the kind cannot change within the error bound of the eigenvalues."""
    if found.multiplicities is not None:
        return True
    values, top, near = found.values, found.values[0], EQUAL_TOL * found.size
    below = top.real - values.real
    edges = np.concatenate(
        [np.abs(values - top), below, values.real, top.real - np.abs(values)]
    )
    away = np.minimum(np.abs(values - top), np.abs(values - top.conjugate())) > near
    one_leads = bool(
        (below[away] > near).all()
    )  # otherwise rounding decides which of several comes first
    apart = bool((np.abs(np.abs(edges) - near) > 4 * found.error).all())
    return found.error < near / 8 and one_leads and apart


def _check_simple(
    V: FloatArray, found: Expectation, B: AnyArray, error: float
) -> tuple[bool, bool]:
    """Return for a simple leading eigenvalue whether ⟨phi, B phi⟩ > 0, and whether its
    gap is larger than rounding.

    Rounding of V by |E| moves the eigenvalue by up to |E| times its condition number.
    In floats, V is similar to D + E with |E| <= e, the error bound of the eigenvalues,
    so phi is within 2 sqrt(d) e / (gap - 2 e) of the computed one.
    """
    values, d = found.eigenvalues, len(V)
    gap = float(np.abs(values[1:] - values[0]).min())
    if found.multiplicity > 1:
        return False, False
    if eigenvalues.is_exact(V) and not error:
        condition, positive = eigenvalues.examine_simple_eigenvalue(
            V, complex(values[0]), B
        )
    else:
        floats = eigenvalues.bound_eigenvalues(V)
        assert floats.first is not None
        phi, size = np.real(floats.first), float(np.abs(B).max()) or 1.0
        off = (
            2
            * np.sqrt(d)
            * floats.error
            / max(gap - 2 * floats.error, np.finfo(np.float64).tiny)
        )
        form = float(phi @ (B / size).astype(np.float64) @ phi)
        positive = form > d * (
            3 * off + off * off + error / size + 4 * d * UNIT
        )  # |B / size| <= d
        condition = float(
            np.linalg.norm(found.dual) * np.linalg.norm(found.leading[:, 0])
        )
    return positive, gap > MIN_GAP_ROUNDINGS * UNIT * frobenius_norm(V) * condition


def _form(rule: SelfAttention, d: int) -> tuple[AnyArray, float]:
    """Return a positive multiple of Q^T K and an error bound: in integers (error 0) if
    small, else in floats.
    """
    Q, K = (
        np.eye(d) if M is None else np.asarray(to_numpy(M), np.float64)
        for M in (rule.Q, rule.K)
    )
    if d * Q.size <= MAX_EXACT_PRODUCTS:
        queries, keys = (np.array(over_one_denominator(M)[0], object) for M in (Q, K))
        return np.asarray(queries.T @ keys), 0.0
    Q, K = (
        np.ldexp(M, -int(np.frexp(np.abs(M).max())[1])) for M in (Q, K)
    )  # no product overflows
    return np.asarray(Q.T @ K), float(
        (len(Q) + 2) * UNIT * (np.abs(Q).T @ np.abs(K)).max() * 1.01
    )


def _check_definite(rule: SelfAttention, d: int) -> tuple[bool, bool]:
    """Return whether Q^T K is symmetric positive definite up to rounding, and whether
    it is symmetric exactly.
    """
    (B, error), Q, K = _form(rule, d), rule.Q, rule.K
    size = np.abs(B).max() or 1
    skew = np.abs(B - B.T).max() / size
    alike = (Q is None and K is None) or (
        Q is not None and K is not None and np.array_equal(to_numpy(Q), to_numpy(K))
    )
    exact = alike or bool(skew == 0 and (not error or Q is None or K is None))
    doubled = B + B.T if not error else B + B.T - 2 * d * error * np.eye(d)
    return (
        bool(skew <= _validation.SYMMETRY_TOL)
        and _validation.is_positive_definite(doubled),
        exact,
    )
