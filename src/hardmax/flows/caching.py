"""What follows from the matrices of a rule, computed once for each rule and dimension."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from hardmax.rules.self_attention import SelfAttention

Result = TypeVar("Result")


def once_per_rule(find: Callable[[SelfAttention, int], Result]) -> Callable[[SelfAttention, int], Result]:
    """Decorate a function of a rule and a dimension so that it keeps its results as long as the rule lives."""
    known: WeakKeyDictionary[SelfAttention, dict[tuple[int, ...], Result]] = WeakKeyDictionary()

    @wraps(find)
    def found(rule: SelfAttention, d: int) -> Result:
        results = known.setdefault(rule, {})
        key = (d, *(getattr(weight, "_version", 0) for weight in rule.weights))  # a tensor may change in place
        if key not in results:
            results[key] = find(rule, d)
        return results[key]

    return found
