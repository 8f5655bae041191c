"""Control: choose A so that chosen tokens lead, and chosen tokens follow them.

`choose_A` decides it at layer 0 exactly, by a semidefinite programme. `steer` searches
for an A whose limit has the requested leaders. `can_lead` finds the tokens that can
lead at all. The solver is CVXPY with Clarabel, loaded on first use; `can_lead` needs
only SciPy.
"""

from hardmax.control.choose import choose_A
from hardmax.control.request import Clash, ControlResult, can_lead
from hardmax.control.steering import steer

__all__ = ["Clash", "ControlResult", "can_lead", "choose_A", "steer"]
