"""Speed as ratios to real peers, measured in one run: what `hardmax bench` prints.

A case is a list of methods that answer the same question. Each runs in a process of its own (`worker`), in turns with
the others (`measure`), and a ratio is printed only if its answer agrees with ours (`agreement`).
"""

from hardmax.bench import classifier, clustering, control, first_call, flows, layers, limits, one_layer, ties, training
from hardmax.bench.measure import measure
from hardmax.bench.registry import Case, Method, Target
from hardmax.bench.results import Result, Row

__all__ = ["CASES", "Case", "Method", "Result", "Row", "Target", "measure"]

CASES = {
    case.name: case
    for family in (one_layer, limits, ties, training, classifier, clustering, control, layers, flows, first_call)
    for case in family.CASES
}
