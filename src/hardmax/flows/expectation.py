"""What the spectrum of the value matrix lets one expect of self-attention, in words (arXiv 2305.05465)."""

from dataclasses import dataclass

from hardmax._types import AnyArray, FloatArray

PAPER = "arXiv 2305.05465"
DOMINANT = "all other eigenvalues are smaller in modulus than the leading one"
WHOLE = "the leading eigenvalue has as many eigenvectors as its multiplicity"
SEPARATED = "the leading eigenvalue is apart from the others by more than rounding"
DEFINITE = "Q^T K is symmetric positive definite"
FORM = "⟨Q phi, K phi⟩ > 0 for the leading eigenvector phi"
POSITIVE = "QK > 0"
UNMASKED = "attention is not causal"
PARTED = "rounding may have parted equal eigenvalues of V"
SKEWED = "Q^T K is symmetric only up to rounding"
UNDECIDED = "floats cannot tell the eigenvalues of V apart"
HELP = "pip install 'hardmax[exact]' to decide it"
NEGATED = {  # each hypothesis when it does not hold
    POSITIVE: "QK is not positive",
    DOMINANT: "another eigenvalue is as large in modulus as the leading one",
    WHOLE: "the leading eigenvalue has fewer eigenvectors than its multiplicity",
    SEPARATED: "rounding may have parted the leading eigenvalue from another one",
    DEFINITE: "Q^T K is not symmetric positive definite",
    FORM: "⟨Q phi, K phi⟩ is not positive beyond rounding for the leading eigenvector phi",
    UNMASKED: "attention is causal",
}
THEOREMS = {  # what each kind rests on
    "boolean": f"Theorem 2.1 of {PAPER}",
    "polytope": f"Theorem 3.1 of {PAPER}",
    "hyperplanes": f"Theorem 4.2 of {PAPER}",
    "product": f"Theorem 5.2 of {PAPER}",
    "collapse": f"{PAPER}, on V = -I",
    "still": "V = 0",
}
CONJECTURES = {"complex": f"conjecture in {PAPER}", "unknown": ""}
SENTENCES = {
    "boolean": "Attention tends to a Boolean matrix: every token but at most one follows the smallest or the largest.",
    "polytope": "Rescaled tokens tend to points of a convex polytope that follow themselves: its vertices, as a rule.",
    "hyperplanes": "Rescaled tokens tend to at most three parallel hyperplanes.",
    "product": "Rescaled tokens tend to a polytope in the leading eigenspace, times the complementary subspace.",
    "collapse": "Tokens collapse to 0.",
    "still": "Tokens do not move.",
    "complex": "Rescaled tokens settle in the plane of the leading complex pair of eigenvalues.",
    "unknown": "No theorem says where tokens end.",
}


@dataclass(frozen=True, eq=False, repr=False)
class Expectation:
    """What the spectrum of V lets one expect, as `classify` returns it. It prints as a sentence.

    Attributes
    ----------
    kind : str
        "boolean", "polytope", "hyperplanes", "product", "collapse", "complex", "still" or "unknown".
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
    proved : bool
        True when it is a theorem and every hypothesis was found to hold.

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
            array.setflags(write=False)  # it is kept for the next one who asks

    @property
    def theorem(self) -> str:
        """Which theorem says it, or nothing where none does."""
        return (THEOREMS | CONJECTURES)[self.kind]

    @property
    def missing(self) -> list[str]:
        """Hypotheses that do not hold."""
        return [NEGATED[name] for name, holds in self.hypotheses.items() if not holds]

    def __repr__(self) -> str:
        sentence = SENTENCES[self.kind]
        within = f"{sentence[0].lower()}{sentence[1:]}"
        missing = "; ".join([*self.missing, *self.rounding])
        if self.kind == "unknown":
            return f"OPEN: {missing}." if missing else f"OPEN: {within}"
        if missing:
            return f"OPEN: {missing}. Were it not so: {within} {self.theorem}."
        if not self.proved:
            return f"CONJECTURE: {within}"
        more = f" CONJECTURE: they tend to parallel subspaces of codimension {self.positive}."
        return f"{sentence} Proved: {self.theorem}.{more if self.kind == 'hyperplanes' and self.positive > 1 else ''}"
