"""Faults that the suite must see, one small slip each; `python tests/faults.py` seeds them.

fault.py    what a fault is
engine.py   classes, sets, arithmetics, certificates, limits
kernels.py  the search for the largest products
flows.py    rules, integrators, spectra, statements
text.py     the classifier and its explanations
tools.py    control, clustering, commands, files, checks
"""

from tests.seeded import engine, flows, kernels, text, tools
from tests.seeded.fault import Fault

FAULTS: tuple[Fault, ...] = (*engine.FAULTS, *kernels.FAULTS, *flows.FAULTS, *text.FAULTS, *tools.FAULTS)
