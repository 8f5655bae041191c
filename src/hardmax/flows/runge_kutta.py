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

MIN_SHARED_ROWS = (
    2e7  # multiplications of a stage from which its rows are divided among threads
)
PARTS = 64  # of the rows of a stage
WORK_PER_PAIR = (
    24  # multiplications for the exponential of a pair of tokens, and beside it 2 d
)
MAX_COMPILED_D = (
    16  # beyond it BLAS is faster: 0.6 times as long with 500 tokens and d = 32
)
USUAL_EVALUATIONS = 500  # of an integration
# of `rtol` for one step: the error of a trajectory stays below about 100 rtol
# (`flow_accuracy`)
RTOL_SHARE = 0.5
FIRST_STEP = 0.01  # relative change of the state
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
        starts = [each.start(x) for each, x in zip(coordinates, tokens, strict=True)]
        rows, d, batch = max(map(len, starts)), starts[0].shape[1], len(starts)
        self.coordinates, self.pair, self._name = coordinates, find_pair(name), name
        self._end, self._max_steps = end, max_steps
        shape, stages = (batch, rows, d), len(self.pair.C)
        counts = (
            np.array([len(x) for x in tokens]),
            np.array([len(start) for start in starts]),
        )
        y, old, new, units = (np.zeros(shape) for _ in range(4))
        for b, (each, start) in enumerate(zip(coordinates, starts, strict=True)):
            y[b, : len(start)], units[b, : len(start)] = start, each.sizes(start)
        K, times = np.zeros((batch, stages, rows, d)), np.zeros((batch, 3))
        self.state = State(
            *counts,
            units,
            np.zeros(batch),
            y,
            old,
            new,
            K,
            times,
            np.zeros(batch),
            np.zeros((batch, 4), np.intp),
        )
        self._sizes = units.copy()
        self.failed = [""] * batch
        self._effort = counts[0] * (
            counts[0] * float(2 * d + WORK_PER_PAIR) + 2 * d * d
        )
        self._terms: Terms | None = coordinates[0].terms(d)
        pairs = float((counts[0] ** 2 + NUMPY_CALL).sum()) * USUAL_EVALUATIONS
        in_stages = coordinates[0].varies or bool(
            (self._effort > MIN_SHARED_ROWS).all()
        )
        kernel = "flow_rows" if in_stages else "flows"
        if self._terms is not None and (
            d > MAX_COMPILED_D or not use_compiled(kernel, pairs)
        ):
            self._terms = None
        if self._terms is not None and coordinates[0].varies:
            matrices = np.zeros((batch, stages, d, d))
            self._terms = self._terms._replace(forms=matrices, values=matrices.copy())
        self._spaces: dict[int, Any] = {}

    def allow(self, b: int, rtol: float, atol: float) -> None:
        """Set the tolerances of an element."""
        self.state.rtol[b], self.state.units[b] = (
            RTOL_SHARE * rtol,
            np.maximum(atol * self._sizes[b], MIN_UNIT),
        )

    def begin(self, b: int) -> None:
        """Evaluate the derivative, also after attention was held; the first time choose
        the first step.
        """
        state = self.state
        rows, last = state.rows[b], self.pair.last
        state.times[b, 2] = state.times[b, 0]
        self._run_stage(b, 0)
        state.K[b, last] = state.K[b, 0]
        state.flags[b, 1] += 1
        if state.flags[b, 0]:
            return
        size, speed = (
            float(abs(state.y[b, :rows]).max()),
            float(abs(state.K[b, 0, :rows]).max()),
        )
        if not np.isfinite(speed):
            self.failed[b] = "the velocity is not finite"
        state.h[b] = (
            min(
                self._end,
                FIRST_STEP * size / speed if speed > 1e-300 * size else self._end,
            )
            if size
            else 1e-6
        )

    def is_finite(self, b: int) -> bool:
        """Return whether the state of an element is finite."""
        return bool(np.isfinite(self.state.y[b, : self.state.rows[b]]).all())

    def _is_compiled(self, b: int) -> bool:
        return self._terms is not None and not self.coordinates[b].is_held

    def advance(self, some: Sequence[int], stops: FloatArray, counts: IntArray) -> None:
        """Take steps of some elements, each at most up to its time in `stops` or its
        number of steps in `counts`.
        """
        alone = [
            b
            for b in some
            if not self._is_compiled(b)
            or self.coordinates[b].varies
            or self._is_shared(b)
        ]
        rest = np.setdiff1d(some, alone) if alone else np.asarray(some)
        for b in alone:
            self._try(b)
        if len(rest):
            from hardmax.flows import compiled
            from hardmax.search.threads import share

            assert self._terms is not None
            terms, pair, too_short = (
                self._terms,
                self.pair,
                np.zeros(len(self.failed), np.bool_),
            )

            def work(own: IntArray) -> None:
                compiled.advance(
                    rest[own],
                    terms,
                    self.state,
                    pair.A,
                    pair.C,
                    pair.E,
                    pair.exponent,
                    stops,
                    self._end,
                    counts,
                    too_short,
                    self._max_steps,
                )

            share(work, len(rest), float(self._effort[rest].sum()) * USUAL_EVALUATIONS)
            for b in np.flatnonzero(too_short).tolist():
                self._stop(b)

    def _is_shared(self, b: int) -> bool:
        return bool(self._effort[b] > MIN_SHARED_ROWS)

    def _try(self, b: int) -> None:
        """Try one step of an element."""
        state, last = self.state, self.pair.last
        if not steps.choose_end(state, self._end, last, b):
            self._stop(b)
            return
        try:
            self._run_stages(b)
        except FAILURES as error:
            self.failed[b] = str(error).rstrip(".")
            return
        state.flags[b, 1] += last
        self._settle(b, self._find_error(b))

    def _stop(self, b: int) -> None:
        """Record why no step is accepted, however short."""
        if self.failed[b]:
            return
        tried = (self.state.new[b], self.state.K[b, : self.pair.last + 1])
        finite = all(np.isfinite(to_numpy(values)).all() for values in tried)
        self.failed[b] = (
            "the step became too small"
            if finite
            else "tokens or their velocity left the range of floats"
        )

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
        state, (last, A, C, *_), rows = self.state, self.pair, self.state.rows[b]
        again = s > last
        start, t = (
            (state.old[b, :rows], state.times[b, 1])
            if again
            else (state.y[b, :rows], state.times[b, 0])
        )
        h = float(state.times[b, 2] - t)
        if self._is_compiled(b):
            self._run_compiled_stage(b, s, t + C[s] * h)
            return
        point = start + 0.0
        if s:
            # h goes first: products of coefficients and derivatives might overflow
            change = (h * A[s, :s]) @ state.K[b, :s, :rows].reshape(s, -1)
            point += change.reshape(start.shape)
        if s == last:
            state.new[b, :rows] = point
        state.K[b, s, :rows] = self.coordinates[b].rate(point, t + C[s] * h)

    def _run_compiled_stage(self, b: int, s: int, t: float) -> None:
        from hardmax.flows import compiled
        from hardmax.search.threads import share

        state, terms, pair, rows = (
            self.state,
            self._terms,
            self.pair,
            int(self.state.rows[b]),
        )
        assert terms is not None
        if self.coordinates[b].varies:
            terms.forms[b, s], terms.values[b, s] = self.coordinates[b].matrices(
                t, state.y.shape[2]
            )
        if b not in self._spaces:
            self._spaces = {
                b: compiled.make_space(state.tokens[b], rows, state.y.shape[2])
            }
        space = self._spaces[b]
        compiled.begin_stage(terms, state, pair.A, pair.C, b, s, pair.last, space)
        parts = PARTS if self._is_shared(b) else 1
        bounds = (
            np.linspace(0, rows / compiled.LANES, parts + 1).astype(np.intp)
            * compiled.LANES
        )
        bounds[-1] = rows
        work = partial(compiled.attend_rows, terms, state, b, s, space, bounds)
        share(work, parts, float(self._effort[b]))

    def interpolate(self, b: int, times: FloatArray) -> Array:
        """Return the states of an element at times within its last step: (times, rows,
        d).
        """
        state, (last, _, C, _, _, dense) = self.state, self.pair
        rows, old, t = (
            state.rows[b],
            state.old[b, : state.rows[b]],
            float(state.times[b, 1]),
        )
        h, end = float(state.times[b, 0]) - t, state.y[b, : state.rows[b]]
        if (times == state.times[b, 0]).all():
            return stack([end] * len(times))
        for s in range(last + 1, len(C)):
            self._run_stage(b, s)
        state.flags[b, 1] += len(C) - last - 1
        K, change = state.K[b, :, :rows].reshape(len(C), -1), (end - old).ravel()
        x = (times - t) / h
        if self._name == "RK45":
            powers = h * x[:, None] ** np.arange(1, dense.shape[1] + 1)  # (times, 4)
            weights = match_array(powers @ dense.T, old)
            return (old.ravel() + weights @ K).reshape(-1, *old.shape)
        F = [
            change,
            h * K[0] - change,
            2 * change - h * (K[last] + K[0]),
            *(match_array(h * dense, old) @ K),
        ]
        found = []
        for share in x.tolist():
            y = 0.0 * change
            for i, f in enumerate(reversed(F)):
                y = (y + f) * (share if i % 2 == 0 else 1 - share)
            found.append((y + old.ravel()).reshape(old.shape))
        return stack(found)
