"""The state of one cloud at one layer, in the arithmetic that the rule asks for."""

from hardmax.states.base import State

__all__ = ["State"]
