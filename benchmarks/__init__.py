"""Speed as ratios to peers, measured in one run: `python -m benchmarks`.

`registry` defines a case, `runner` measures it, `report` writes results and tables. The
other files hold the cases, one file per family. What is measured without a peer, such
as curves and accuracies, is in `studies/`.
"""

from benchmarks import (
    attention,
    classifier,
    clustering,
    engine,
    first_call,
    flows,
    search,
)
from benchmarks.registry import Case, Method, Result, Row, Target
from benchmarks.runner import measure

__all__ = ["CASES", "FLOWS", "Case", "Method", "Result", "Row", "Target", "measure"]

FAMILIES = (search, engine, attention, classifier, clustering, flows, first_call)
CASES: dict[str, Case] = {
    case.name: case for family in FAMILIES for case in family.CASES
}
FLOWS = tuple(
    name for name, case in CASES.items() if case.in_one_process
)  # `python -m benchmarks flows`
