"""Control: choose A so that chosen tokens lead, and chosen tokens follow them.

`choose_A` decides it at layer 0, where the question is a semidefinite programme and the answer exact. `steer` looks for
an A whose limit has the leaders wanted, which is a search. `can_lead` says which tokens can lead at all. The solver is
CVXPY with Clarabel, loaded at the first use; `can_lead` needs SciPy alone.
"""

from hardmax.control.choose import choose_A
from hardmax.control.result import Clash, ControlResult
from hardmax.control.steering import steer
from hardmax.control.vertices import can_lead

__all__ = ["Clash", "ControlResult", "can_lead", "choose_A", "steer"]
