"""Faults."""

from tests.seeded.fault import Fault

FAULTS: tuple[Fault, ...] = ()
