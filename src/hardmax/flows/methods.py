"""How to integrate: which methods there are, with which settings, and at which times they save."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hardmax import _checks
from hardmax._errors import ParameterError
from hardmax._tensors import to_numpy
from hardmax._types import AnyArray, Array, FloatArray

ADAPTIVE = ("DOP853", "RK45", "RK23", "Radau", "BDF", "LSODA")
FIXED = ("euler", "rk4")
MOST_STEPS, MOST_FIXED_STEPS = 10_000, 1_000_000  # unless said

Times: TypeAlias = float | Sequence[float] | Array


@dataclass(frozen=True)
class Method:
    """A method by name, with tolerances or a step length."""

    name: str
    rtol: float
    atol: float
    dt: float | None
    max_steps: int

    @property
    def adaptive(self) -> bool:
        """Whether the method controls its error."""
        return self.name in ADAPTIVE

    @classmethod
    def checked(
        cls, method: str | None, rtol: float | None, atol: float | None, dt: float | None, max_steps: int | None
    ) -> "Method":
        """A method from the arguments of `simulate`; None is what is usual."""
        name = "DOP853" if method is None else method
        if name not in (*ADAPTIVE, *FIXED):
            must = f"be one of {', '.join((*ADAPTIVE, *FIXED))}"
            raise ParameterError("method", must, repr(name), "DOP853 suits nearly everything.")
        fixed = name in FIXED
        for setting, value in (("rtol", rtol), ("atol", atol)):
            if value is not None and fixed:
                got = f"{value!r} with {name!r}, whose steps have the length `dt`"
                raise ParameterError(setting, "go with a method that controls its error", got, "Leave it out.")
        rtol = _checks.check_positive(1e-8 if rtol is None else rtol, "rtol", "1e-8 is usual.")
        atol = _checks.check_positive(1e-13 if atol is None else atol, "atol", "1e-13 is usual.")
        if (dt is None) == fixed:
            need = "needs `dt`, the length of its steps" if fixed else "chooses its own steps"
            got = f'{"none" if fixed else dt}: "{name}" {need}'
            raise ParameterError("dt", f"go with the methods {' and '.join(FIXED)}", got)
        if dt is not None:
            dt = float(_checks.check_positive(dt, "dt", "0.1 is usual."))
        usual = MOST_FIXED_STEPS if fixed else MOST_STEPS
        most = usual if max_steps is None else _checks.check_count(max_steps, "max_steps", least=1)
        return cls(name, float(rtol), float(atol), dt, most)

    def times(self, times: Times) -> AnyArray:
        """When to save, increasing from 0 or later; a number T is 0 to T in 100 steps, or in steps of length `dt`."""
        try:
            array = np.asarray(to_numpy(times))
        except ValueError:
            array = np.full(1, np.nan)
        good = array.dtype.kind in "iuf" and array.ndim <= 1 and array.size > 0
        array = array.astype(np.float64) if good else np.full(1, np.nan)
        end_alone = array.ndim == 0
        if end_alone:
            array = np.linspace(0, array, 101) if np.isfinite(array) else np.full(1, np.nan)
        if not np.isfinite(array).all() or array[0] < 0 or (np.diff(array) <= 0).any():
            must = "be a positive number, or numbers that start at 0 or later and increase"
            raise ParameterError("times", must, _checks.shortened(times), "Try `times=np.linspace(0, 15, 101)`.")
        if self.dt is None:
            return array
        steps = self._steps(array[-1:] if end_alone else array)
        return self.dt * np.arange(steps + 1) if end_alone else array

    def _steps(self, times: FloatArray) -> int:
        """How many fixed steps there are: they must meet the times to save exactly, and not be too many."""
        assert self.dt is not None
        steps = times / self.dt
        off = np.abs(steps - np.rint(steps))
        if off.max() > 1e-6 * max(1.0, float(steps[-1]) * 1e-3):
            worst = float(times[int(off.argmax())])
            must, got = "be multiples of `dt`, which steps of one length meet", f"{worst:.6g} with `dt={self.dt:g}`"
            fitting = worst / max(1, np.ceil(worst / self.dt))
            raise ParameterError("times", must, got, f"Use `dt={fitting:.6g}`, or multiples of `dt` for `times`.")
        if steps[-1] > self.max_steps:
            must = f"need at most `max_steps={self.max_steps}` steps"
            got = f"{steps[-1]:.3g} steps of {self.dt:g} to {times[-1]:g}"
            raise ParameterError("dt", must, got, "Use a larger `dt`, or raise `max_steps`.")
        return int(np.rint(steps[-1]))
