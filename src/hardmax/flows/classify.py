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
        proved = f"{sentence} Proved: {self.theorem}."
        if self.kind == "hyperplanes" and self.positive > 1:
            proved += (
                " CONJECTURE: they tend to parallel subspaces of codimension"
                f" {self.positive}."
            )
        return proved


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
    found = classify_values(rule, d)
    hypotheses = dict(found.hypotheses)
    rounding = list(found.rounding)
    if found.kind == "boolean":
        form = _find_form(rule, d)
        hypotheses[POSITIVE] = bool(form.B[0, 0] > form.error)
    elif found.kind in ("polytope", "collapse", "product"):
        hypotheses[DEFINITE] = _is_definite(rule, d)
        if hypotheses[DEFINITE] and not _is_symmetric(rule, d):
            rounding.append(SKEWED)
    elif found.kind in ("hyperplanes", "complex"):
        V = rule.value_matrix(d)
        positive, hypotheses[SEPARATED] = _check_simple(V, found, _find_form(rule, d))
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
    values = found.values
    top = values[0]
    near = EQUAL_TOL * found.size
    same = np.abs(values - top) <= near
    count = int(same.sum())
    mean = top + (values[same] - top).mean()  # a sum could overflow
    leading, dual = eigenvalues.find_eigenspace(V, mean, count)
    multiplicities = found.multiplicities
    parted = count > 1 and (multiplicities is None or multiplicities[0] != count)
    hypotheses: dict[str, bool] = {}
    rounding = []
    if not V.any():
        kind = "still"
    elif not _is_certain(found):
        kind = "unknown"
        rounding = [UNDECIDED]
    elif abs(top.imag) > near:
        others = values.real[~same & (np.abs(values - top.conjugate()) > near)]
        leads_alone = bool((others < top.real - near).all())
        kind = "complex" if top.real > near and leads_alone else "unknown"
    elif len(V) == 1:
        kind = "boolean" if top.real > 0 else "collapse"
    elif same.all() and _off_identity(V, top.real) <= IDENTITY_TOL * found.size:
        kind = "polytope" if top.real > 0 else "collapse"
        if _off_identity(V, V[0, 0]) > 0:
            rounding = [PARTED]
    elif top.real <= near:
        kind = "unknown"
    else:
        kind = "hyperplanes" if count == 1 else "product"
        hypotheses[DOMINANT] = bool((np.abs(values[~same]) < top.real - near).all())
        if parted:
            rounding = [PARTED]
        if count > 1:
            vectors = leading.shape[1]
            if found.eigenvectors is not None and not parted:
                vectors = found.eigenvectors[0]
            hypotheses[WHOLE] = bool(vectors == count)
    is_small = len(V) <= eigenvalues.MAX_EXACT_DIMENSION
    if rounding and is_small and not eigenvalues.has_flint():
        rounding.append(HELP)
    return Expectation(
        kind,
        hypotheses,
        tuple(rounding),
        values,
        multiplicity=count,
        positive=int((values.real > near).sum()),
        leading=leading,
        dual=dual,
    )


def _off_identity(V: FloatArray, value: float) -> float:
    """Return the largest entry of V - value I."""
    return float(np.abs(V - value * np.eye(len(V))).max())


def _is_certain(found: Eigenvalues) -> bool:
    """Return whether the kind cannot change within the error bound of the eigenvalues."""
    if found.multiplicities is not None:
        return True
    values = found.values
    top = values[0]
    near = EQUAL_TOL * found.size
    distances = np.abs(values - top)
    below = top.real - values.real
    # numbers that are compared with `near`
    edges = np.concatenate([distances, below, values.real, top.real - np.abs(values)])
    is_apart = bool((np.abs(np.abs(edges) - near) > 4 * found.error).all())
    # otherwise rounding decides which of several comes first
    others = np.minimum(distances, np.abs(values - top.conjugate())) > near
    one_leads = bool((below[others] > near).all())
    return found.error < near / 8 and one_leads and is_apart


@dataclass(frozen=True, eq=False)
class Form:
    """A positive multiple of Q^T K, within an error of each entry."""

    B: AnyArray  # (d, d) integers, or floats
    error: float  # 0 for integers


def _check_simple(V: FloatArray, found: Expectation, form: Form) -> tuple[bool, bool]:
    """Return for a simple leading eigenvalue whether ⟨phi, B phi⟩ > 0, and whether its
    gap is larger than rounding.

    Rounding of V by |E| moves the eigenvalue by up to |E| times its condition number.
    In floats, V is similar to D + E with |E| <= e, the error bound of the eigenvalues,
    so phi is within 2 sqrt(d) e / (gap - 2 e) of the computed one.
    """
    if found.multiplicity > 1:
        return False, False
    d = len(V)
    values = found.eigenvalues
    gap = float(np.abs(values[1:] - values[0]).min())
    if eigenvalues.is_exact(V) and not form.error:
        condition, positive = eigenvalues.examine_simple_eigenvalue(
            V, complex(values[0]), form.B
        )
    else:
        floats = eigenvalues.bound_eigenvalues(V)
        assert floats.first is not None
        phi = np.real(floats.first)
        size = float(np.abs(form.B).max()) or 1.0
        tiny = np.finfo(np.float64).tiny
        off = 2 * np.sqrt(d) * floats.error / max(gap - 2 * floats.error, tiny)
        value = float(phi @ (form.B / size).astype(np.float64) @ phi)
        # |B / size| <= d
        rounding = d * (3 * off + off * off + form.error / size + 4 * d * UNIT)
        positive = value > rounding
        condition = float(
            np.linalg.norm(found.dual) * np.linalg.norm(found.leading[:, 0])
        )
    return positive, gap > MIN_GAP_ROUNDINGS * UNIT * frobenius_norm(V) * condition


def _find_form(rule: SelfAttention, d: int) -> Form:
    """Find Q^T K in integers if it is small, else in floats."""
    Q = rule.matrix("Q", d)
    K = rule.matrix("K", d)
    if d * Q.size <= MAX_EXACT_PRODUCTS:
        queries = np.array(over_one_denominator(Q)[0], object)
        keys = np.array(over_one_denominator(K)[0], object)
        return Form(np.asarray(queries.T @ keys), 0.0)
    # No product overflows
    Q = np.ldexp(Q, -int(np.frexp(np.abs(Q).max())[1]))
    K = np.ldexp(K, -int(np.frexp(np.abs(K).max())[1]))
    largest = (np.abs(Q).T @ np.abs(K)).max()
    return Form(np.asarray(Q.T @ K), float((len(Q) + 2) * UNIT * largest * 1.01))


def _skewness(B: AnyArray) -> float:
    """Return the largest entry of B - B^T relative to that of B."""
    return np.abs(B - B.T).max() / (np.abs(B).max() or 1)


def _is_definite(rule: SelfAttention, d: int) -> bool:
    """Return whether Q^T K is symmetric positive definite up to rounding."""
    form = _find_form(rule, d)
    if _skewness(form.B) > _validation.SYMMETRY_TOL:
        return False
    doubled = form.B + form.B.T
    if form.error:
        doubled = doubled - 2 * d * form.error * np.eye(d)
    return _validation.is_positive_definite(doubled)


def _is_symmetric(rule: SelfAttention, d: int) -> bool:
    """Return whether Q^T K is symmetric exactly."""
    if rule.Q is None and rule.K is None:
        return True
    both = rule.Q is not None and rule.K is not None
    if both and np.array_equal(to_numpy(rule.Q), to_numpy(rule.K)):
        return True
    form = _find_form(rule, d)
    exact = not form.error or not both
    return bool(_skewness(form.B) == 0 and exact)
