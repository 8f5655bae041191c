"""Integrate many token sets at once with an embedded Runge-Kutta pair, each with its
own step sizes.

Small token sets run in compiled code from one saved time to the next, divided among
threads; of large ones each stage divides its rows. `Coordinates.rate` gives the
derivative without numba, in many dimensions, for rules of one's own and for held
attention.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from hardmax._arrays import match_array, stack
from hardmax._types import Array, FloatArray, IntArray
from hardmax._validation import to_numpy
from hardmax.flows import steps
from hardmax.flows.coordinates import Coordinates
from hardmax.flows.steps import State, Terms, find_pair
from hardmax.search.dispatch import NUMPY_CALL, use_compiled

# multiplications of a stage from which its rows are divided among threads
MIN_SHARED_ROWS = 2e7
PARTS = 64  # of the rows of a stage
# multiplications for the exponential of a pair of tokens, and beside it 2 d
WORK_PER_PAIR = 24
# beyond it BLAS is faster: 0.6 times as long with 500 tokens and d = 32
MAX_COMPILED_D = 16
USUAL_EVALUATIONS = 500  # of an integration
# of `rtol` for one step: the error of a trajectory stays below about 100 rtol
# (`flow_accuracy`)
RTOL_SHARE = 0.5
FIRST_STEP = 0.01  # relative change of the state
FIRST_STEP_AT_ZERO = 1e-6  # of a state that is 0: the one of SciPy
MIN_SPEED = 1e-300  # relative to the state; a slower one could overflow the first step
MIN_UNIT = 5e-324  # of the absolute tolerance, which may underflow to 0
FAILURES = (ValueError, FloatingPointError, np.linalg.LinAlgError)


class RungeKutta:
    """All token sets in the course of their integration from time 0."""

    def __init__(
        self,
        coordinates: Sequence[Coordinates],
        tokens: Sequence[FloatArray],
        name: str,
        end: float,
        max_steps: int,
    ) -> None:
        self.coordinates = coordinates
        self.pair = find_pair(name)
        self._name = name
        self._end = end
        self._max_steps = max_steps
        self.failed = [""] * len(tokens)
        starts = [chart.start(x) for chart, x in zip(coordinates, tokens, strict=True)]
        d = starts[0].shape[1]
        counts = np.array([len(x) for x in tokens])
        rows = np.array([len(start) for start in starts])
        stages = len(self.pair.C)
        self.state = State.empty(counts, rows, stages, d)
        self._sizes = np.zeros_like(self.state.units)
        for b, (chart, start) in enumerate(zip(coordinates, starts, strict=True)):
            self.state.y[b, : rows[b]] = start
            self._sizes[b, : rows[b]] = chart.sizes(start)
        # multiplications of a stage of each element
        self._work = counts * (counts * float(2 * d + WORK_PER_PAIR) + 2 * d * d)
        self._varies = coordinates[0].varies
        in_stages = self._varies or bool((self._work > MIN_SHARED_ROWS).all())
        kernel = "flow_rows" if in_stages else "flows"
        pairs = float((counts**2 + NUMPY_CALL).sum()) * USUAL_EVALUATIONS
        terms = coordinates[0].terms(d)
        if d > MAX_COMPILED_D or terms is None or not use_compiled(kernel, pairs):
            terms = None
        elif self._varies:
            shape = (len(tokens), stages, d, d)
            terms = terms._replace(forms=np.zeros(shape), values=np.zeros(shape))
        self._terms: Terms | None = terms
        self._spaces: dict[int, Any] = {}  # of compiled stages

    def allow(self, b: int, rtol: float, atol: float) -> None:
        """Set the tolerances of an element."""
        self.state.rtol[b] = RTOL_SHARE * rtol
        self.state.units[b] = np.maximum(atol * self._sizes[b], MIN_UNIT)

    def begin(self, b: int) -> None:
        """Evaluate the derivative, also after attention was held; the first time choose
        the first step.
        """
        state = self.state
        state.end[b] = state.t[b]
        self._run_stage(b, 0)
        state.K[b, self.pair.last] = state.K[b, 0]
        state.evaluations[b] += 1
        if not state.steps[b]:
            state.h[b] = self._choose_first_step(b)

    def _choose_first_step(self, b: int) -> float:
        rows = self.state.rows[b]
        size = float(abs(self.state.y[b, :rows]).max())
        speed = float(abs(self.state.K[b, 0, :rows]).max())
        if not np.isfinite(speed):
            self.failed[b] = "the velocity is not finite"
        if size == 0:
            return FIRST_STEP_AT_ZERO
        if not speed > MIN_SPEED * size:
            return self._end
        return min(self._end, FIRST_STEP * size / speed)

    def is_finite(self, b: int) -> bool:
        """Return whether the state of an element is finite."""
        return bool(np.isfinite(self.state.y[b, : self.state.rows[b]]).all())

    def _is_compiled(self, b: int) -> bool:
        return self._terms is not None and not self.coordinates[b].is_held

    def _is_shared(self, b: int) -> bool:
        """Return whether the rows of a stage are divided among threads."""
        return bool(self._work[b] > MIN_SHARED_ROWS)

    def advance(
        self, elements: Sequence[int], stops: FloatArray, counts: IntArray
    ) -> None:
        """Take steps of some elements, each at most up to its time in `stops` or its
        number of steps in `counts`.
        """
        compiled_elements = []
        for b in elements:
            if self._is_compiled(b) and not self._varies and not self._is_shared(b):
                compiled_elements.append(b)
            else:
                self._try(b)
        if compiled_elements:
            self._advance_compiled(np.array(compiled_elements), stops, counts)

    def _advance_compiled(
        self, elements: IntArray, stops: FloatArray, counts: IntArray
    ) -> None:
        from hardmax.flows import compiled
        from hardmax.search.threads import share

        terms = self._terms
        assert terms is not None
        too_short = np.zeros(len(self.failed), np.bool_)

        def work(part: IntArray) -> None:
            compiled.advance(
                elements[part],
                terms,
                self.state,
                self.pair.A,
                self.pair.C,
                self.pair.E,
                self.pair.exponent,
                stops,
                self._end,
                counts,
                too_short,
                self._max_steps,
            )

        total = float(self._work[elements].sum()) * USUAL_EVALUATIONS
        share(work, len(elements), total)
        for b in np.flatnonzero(too_short).tolist():
            self._stop(b)

    def _try(self, b: int) -> None:
        """Try one step of an element."""
        if not steps.choose_end(self.state, self._end, self.pair.last, b):
            self._stop(b)
            return
        try:
            self._run_stages(b)
        except FAILURES as error:
            self.failed[b] = str(error).rstrip(".")
            return
        self.state.evaluations[b] += self.pair.last
        self._settle(b, self._find_error(b))

    def _stop(self, b: int) -> None:
        """Record why no step is accepted, however short."""
        if self.failed[b]:
            return
        new = to_numpy(self.state.new[b])
        slopes = to_numpy(self.state.K[b, : self.pair.last + 1])
        if np.isfinite(new).all() and np.isfinite(slopes).all():
            self.failed[b] = "the step became too small"
        else:
            self.failed[b] = "tokens or their velocity left the range of floats"

    def _run_stages(self, b: int) -> None:
        for s in range(1, self.pair.last + 1):
            self._run_stage(b, s)

    def _find_error(self, b: int) -> float:
        if not self._is_compiled(b):
            return steps.find_error(self.state, self.pair.E, b)
        from hardmax.flows import compiled

        return compiled.find_error(self.state, self.pair.E, b)

    def _settle(self, b: int, error: float) -> None:
        steps.settle(self.state, error, self.pair.exponent, b)

    def _run_stage(self, b: int, s: int) -> None:
        """Evaluate stage s of the step that is tried, or a stage for dense output of
        the step that was done.
        """
        state = self.state
        rows = state.rows[b]
        if s > self.pair.last:
            point = state.old[b, :rows] + 0.0
            t = state.old_t[b]
        else:
            point = state.y[b, :rows] + 0.0
            t = state.t[b]
        h = float(state.end[b] - t)
        stage_t = t + self.pair.C[s] * h
        if self._is_compiled(b):
            self._run_compiled_stage(b, s, stage_t)
            return
        if s:
            # h goes first: products of coefficients and derivatives might overflow
            change = (h * self.pair.A[s, :s]) @ state.K[b, :s, :rows].reshape(s, -1)
            point += change.reshape(point.shape)
        if s == self.pair.last:
            state.new[b, :rows] = point
        state.K[b, s, :rows] = self.coordinates[b].rate(point, stage_t)

    def _run_compiled_stage(self, b: int, s: int, t: float) -> None:
        from hardmax.flows import compiled
        from hardmax.search.threads import share

        state = self.state
        terms = self._terms
        pair = self.pair
        assert terms is not None
        rows = int(state.rows[b])
        d = state.y.shape[2]
        if self._varies:
            form, values = self.coordinates[b].matrices(t, d)
            terms.forms[b, s] = form
            terms.values[b, s] = values
        if b not in self._spaces:
            # Only one at a time: that of a large set is large
            self._spaces = {b: compiled.make_space(state.tokens[b], rows, d)}
        space = self._spaces[b]
        compiled.begin_stage(terms, state, pair.A, pair.C, b, s, pair.last, space)
        parts = PARTS if self._is_shared(b) else 1
        groups = np.linspace(0, rows / compiled.LANES, parts + 1).astype(np.intp)
        bounds = groups * compiled.LANES
        bounds[-1] = rows
        work = partial(compiled.attend_rows, terms, state, b, s, space, bounds)
        share(work, parts, float(self._work[b]))

    def interpolate(self, b: int, times: FloatArray) -> Array:
        """Return the states of an element at times within its last step: (times, rows,
        d).
        """
        state = self.state
        rows = state.rows[b]
        end = state.y[b, :rows]
        if (times == state.t[b]).all():
            return stack([end] * len(times))
        last = self.pair.last
        stages = len(self.pair.C)
        for s in range(last + 1, stages):
            self._run_stage(b, s)
        state.evaluations[b] += stages - last - 1
        old = state.old[b, :rows]
        K = state.K[b, :, :rows].reshape(stages, -1)
        h = float(state.t[b]) - float(state.old_t[b])
        x = (times - float(state.old_t[b])) / h  # 0 to 1
        dense = self.pair.dense
        if self._name == "RK45":
            powers = h * x[:, None] ** np.arange(1, dense.shape[1] + 1)  # (times, 4)
            weights = match_array(powers @ dense.T, old)
            return (old.ravel() + weights @ K).reshape(-1, *old.shape)
        # The polynomial of DOP853 is a nested one in x and 1 - x, as in SciPy
        change = (end - old).ravel()
        coefficients = [
            change,
            h * K[0] - change,
            2 * change - h * (K[last] + K[0]),
            *(match_array(h * dense, old) @ K),
        ]
        states = []
        for share in x.tolist():
            y = 0.0 * change
            for i, coefficient in enumerate(reversed(coefficients)):
                y = (y + coefficient) * (share if i % 2 == 0 else 1 - share)
            states.append((y + old.ravel()).reshape(old.shape))
        return stack(states)
