"""The atlas of statements, docs/atlas.md: `python docs/extensions/atlas.py` writes it
from `hardmax.theorems`.
"""

from pathlib import Path
from typing import Any

from hardmax import theorems

PAGE = Path(__file__).parents[1] / "atlas.md"
START = """# Atlas of statements

Every statement that this project tests or relies on. *Read* says how its source was read: in full, in excerpt, as an
abstract, or in a formal transcription. *Status* is proved in the paper, proved here, repaired, refuted, checked
(numbers only) or open. Names in code are functions of `hardmax.theorems`, unless they begin with `hm.` or are files;
[Theorems](theorems.md),
[Causal limits](causal-limits.md), [Control](control.md) and [Newer models](newer-models.md) have the proofs. The
auxiliary lemmas of the two seed papers (arXiv 2407.01602 and 2305.05465) have no rows of their own.
"""
HEAD = (
    "| statement | source | read | hypotheses | status | tested by | figure"
    " |\n|---|---|---|---|---|---|---|"
)
FULL, EXCERPT, ABSTRACT, FORMAL, OWN = (
    "in full",
    "excerpt",
    "abstract",
    "formal transcription",
    "this project",
)
SPD = "A symmetric positive definite, tokens distinct and nonzero"
TESTED: dict[
    str, list[tuple[str, str, str]]
] = {  # section: function, read, example of the gallery
    "Hardmax (arXiv 2407.01602 and this project)": [
        ("hull", FULL, "gathering"),
        ("norm", FULL, "gathering"),
        ("half_space", FULL, "figure1_half_space"),
        ("leaders", FULL, "leaders_are_vertices"),
        ("limit", FULL, "converge_to_a_finite_set"),
        ("theorem1", OWN, "exact_limits"),
        ("theorem2", OWN, "exact_limits"),
        ("theorem3", OWN, "exact_limits"),
        ("theorem4", OWN, "exact_ties"),
    ],
    "Causal hardmax (this project)": [
        ("c0", OWN, "a_decoders_tokens"),
        ("c1", OWN, "a_decoders_tokens"),
        ("c2", OWN, "a_decoders_tokens"),
    ],
    "Self-attention in time (arXiv 2305.05465)": [
        ("boolean", FULL, "attention_rank"),
        ("polytope", FULL, "polytope"),
        ("hyperplanes", FULL, "hyperplanes"),
        ("product", FULL, "product"),
        ("collapse", FULL, "spectrum_decides"),
        ("codimension", FULL, "codimension"),
        ("complex_pair", FULL, "spectrum_decides"),
    ],
    "The sphere (arXiv 2312.10794, 2411.04990)": [
        ("energy", EXCERPT, "phases_on_the_sphere"),
        ("renyi_displacement", EXCERPT, "renyi_centres"),
    ],
    "Frank-Wolfe (arXiv 2508.09628)": [
        ("frank_wolfe_targets", FORMAL, "frank_wolfe"),
        ("frank_wolfe_closed_form", FORMAL, "frank_wolfe"),
        ("frank_wolfe_rate_printed", FORMAL, "frank_wolfe"),
        ("frank_wolfe_rate", OWN, "frank_wolfe"),
    ],
}
OTHERS = [  # statement, source, read, hypotheses, status, function, example
    (
        "T and chain: certificates for tokens that follow tokens which move.",
        OWN,
        OWN,
        "as `hm.limit` checks",
        "proved here",
        "hm.limit",
        "exact_limits",
    ),
    (
        "Theorems 1 and 4, T and chain certify every start at some layer.",
        OWN,
        OWN,
        SPD,
        "refuted by eleven tokens; proved for almost every start (Theorem 3)",
        "hm.limit",
        "exact_limits",
    ),
    (
        "Under a sliding window, leaders lead for ever.",
        OWN,
        OWN,
        "window of at least 2",
        "refuted; such masks are refused",
        "hm.limit",
        "",
    ),
    (
        "C0 to C2 for a matrix that is not symmetric positive definite.",
        OWN,
        OWN,
        "causal mask, any A",
        "C1 proved here; C0 and C2 open",
        "hm.limit",
        "a_decoders_tokens",
    ),
    (
        "Robustness radius: smaller moves of the input change no set.",
        OWN,
        OWN,
        "Theorem 1 decides all",
        "proved here",
        "hm.limit",
        "exact_limits",
    ),
    (
        "Theorem 5: token i can lead for some A iff it is a vertex of the hull with 0.",
        OWN,
        OWN,
        "token not 0",
        "proved here",
        "hm.control.can_lead",
        "who_can_lead",
    ),
    (
        "Theorems 6 and 7: leader sets of independent tokens, and of rank-one A.",
        OWN,
        OWN,
        "see the page",
        "proved here",
        "hm.control.choose_A",
        "control_leaders",
    ),
    (
        (
            "Softmax at every temperature above 0 reaches consensus; clusters are"
            " metastable."
        ),
        OWN,
        OWN,
        "any A, normalised, constant step, no mask",
        "proved here",
        "hm.simulate",
        "temperature",
    ),
    (
        "(v, beta) of a text classifier are fixed up to a shift of v by a constant.",
        OWN,
        OWN,
        "hardmax layers",
        "proved here",
        "",
        "which_words_matter",
    ),
    (
        "Softmax follows hardmax from a certified beta on, at a certified distance.",
        OWN,
        OWN,
        "no ties; given tokens and layers",
        "proved here",
        "hm.temperature.certify",
        "certified_temperature",
    ),
    (
        "Mean-field bound sqrt(log(beta+1)/beta) e^{Ct} + e^{-ct}.",
        "arXiv 2605.10931",
        ABSTRACT,
        "",
        "proved in the paper",
        "",
        "",
    ),
    (
        (
            "A vertex v owns its cell iff <B v, w - v> < 0 for its neighbours w; for B"
            " = I: acute angles."
        ),
        "arXiv 2508.09628",
        FORMAL,
        "any B",
        "proved in the paper",
        "hm.cells",
        "frank_wolfe",
    ),
    (
        "Under (b) distances shrink exponentially: Pi_t is at most (1 - c)^t.",
        "arXiv 2508.09628",
        FORMAL,
        "gamma >= c > 0",
        "proved in the paper",
        "frank_wolfe_closed_form",
        "frank_wolfe",
    ),
    (
        "All angles of nearly orthogonal tokens follow one equation.",
        "arXiv 2312.10794",
        EXCERPT,
        "orthogonal start",
        "proved in the paper",
        "hm.common_angle",
        "predictions_on_the_sphere",
    ),
    (
        "Metastable clusters on the circle number argmax k^2 I_k(beta).",
        OWN,
        OWN,
        "many nearly uniform tokens",
        "derived, checked; off by one for some starts",
        "hm.circle_clusters",
        "predictions_on_the_sphere",
    ),
    (
        "At time beta tokens are within 2 beta^{-1/2} of the start of a Renyi centre.",
        "arXiv 2411.04990",
        EXCERPT,
        "causal, time beta for a time of order beta",
        "checked",
        "studies/newer_models.py",
        "renyi_centres",
    ),
    (
        "Causal flow with V = I: almost every start ends at the first token.",
        "arXiv 2411.04990",
        EXCERPT,
        "d at least 2",
        "proved in the paper",
        "hm.simulate",
        "renyi_centres",
    ),
    (
        (
            "Tokens in caps of size 2 eps stay until (eps/n) e^{(1-a) beta}, a the"
            " largest cosine between caps."
        ),
        "arXiv 2410.06833",
        EXCERPT,
        "tokens within eps of the centres of caps",
        "proved in the paper; checked",
        "tests/test_sphere_clusters.py",
        "predictions_on_the_sphere",
    ),
    (
        (
            "On the sphere, as beta tends to infinity, paths are e^{tVB} x, normalised,"
            " up to a change of time."
        ),
        OWN,
        OWN,
        "full support",
        "derived; checked on the circle",
        "tests/test_sphere_clusters.py",
        "",
    ),
]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _example(name: str) -> str:
    if not name:
        return ""
    (path,) = PAGE.parents[1].glob(f"examples/*/{name}.py")
    return f"{{doc}}`{name} <gallery/{path.parent.name}/{name}>`"


def make() -> str:
    """Return the page."""
    parts = [START]
    for section, rows in TESTED.items():
        parts.append(f"## {section}\n\n{HEAD}")
        for name, read, example in rows:
            statement: Any = getattr(theorems, name).statement
            hypotheses, status = statement.hypotheses, statement.status
            words = f"**{_cell(statement.name)}.** {_cell(statement.text)}"
            cells = (
                words,
                _cell(statement.reference),
                read,
                _cell(hypotheses),
                status,
                f"`{name}`",
                _example(example),
            )
            parts.append(f"| {' | '.join(cells)} |")
        parts.append("")
    parts.append(f"## Statements without a verdict\n\n{HEAD}")
    for text, source, read, hypotheses, status, function, example in OTHERS:
        tested = f"`{function}`" if function else ""
        cells = (
            _cell(text),
            source,
            read,
            _cell(hypotheses),
            status,
            tested,
            _example(example),
        )
        parts.append(f"| {' | '.join(cells)} |")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(make(), encoding="utf-8")
