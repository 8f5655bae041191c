"""Speed as ratios to real peers, measured in one run: what `python -m benchmarks` prints.

A case is a list of methods that answer the same question. Each runs in a process of its own (`worker`), in turns with
the others (`measure`), and a ratio is printed only if its answer agrees with ours (`agreement`).
"""

from benchmarks import (
    batches,
    classifier,
    clustering,
    control,
    first_call,
    flows,
    layers,
    limits,
    one_layer,
    ties,
    training,
)
from benchmarks.measure import measure
from benchmarks.registry import Case, Method, Target
from benchmarks.results import Result, Row

__all__ = ["CASES", "Case", "Method", "Result", "Row", "Target", "measure"]

CASES = {
    case.name: case
    for family in (
        one_layer,
        limits,
        batches,
        ties,
        training,
        classifier,
        clustering,
        control,
        layers,
        flows,
        first_call,
    )
    for case in family.CASES
}
