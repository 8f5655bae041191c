"""Calls of `simulate` that mypy must accept, and calls that it must refuse. Nothing
runs them; `make types` reads them.

An ignore that is not needed is an error there, so each of those below says that mypy
refuses its line.
"""

import numpy as np

import hardmax as hm

TOKENS = np.eye(2)


def accepted(
    heads: hm.MultiHead,
) -> tuple[hm.HardmaxTrajectory, list[hm.SmoothTrajectory]]:
    exact = hm.simulate(TOKENS, hm.Hardmax(0.5), layers=3, kernel="numpy", save="last")
    smooth = [
        hm.simulate(TOKENS, hm.Softmax(0.5), layers=3, mask=[True, False]),
        hm.simulate(TOKENS, hm.Compose([hm.SelfAttention(), hm.Normalize()]), layers=3),
        hm.simulate(TOKENS, hm.SelfAttention(), times=[0, 1, 2], rtol=1e-6),
        hm.simulate(TOKENS, hm.Sphere(1.0), times=2.0, method="rk4", dt=0.5),
        hm.simulate(TOKENS, heads, layers=3),  # heads may be layers or flows
        hm.simulate(TOKENS, heads, times=np.linspace(0, 1, 5), method="euler", dt=0.25),
    ]
    return exact, smooth


def refused() -> None:
    hm.simulate(TOKENS, hm.SelfAttention(), layers=3)  # type: ignore[call-overload]
    hm.simulate(TOKENS, hm.Sphere(1.0), layers=3)  # type: ignore[call-overload]
    hm.simulate(TOKENS, hm.SelfAttention(), times=1, layers=3)  # type: ignore[call-overload]
    hm.simulate(TOKENS, hm.SelfAttention())  # type: ignore[call-overload]
    hm.simulate(TOKENS, hm.Sphere(1.0), times=1, kernel="numpy")  # type: ignore[call-overload]
    hm.simulate(TOKENS, hm.Hardmax(0.5), times=[0, 1])  # type: ignore[call-overload]
    hm.simulate(TOKENS, hm.Softmax(0.5), times=[0, 1])  # type: ignore[call-overload]
    hm.simulate(TOKENS, hm.Softmax(0.5), layers=3, kernel="numpy")  # type: ignore[call-overload]
    hm.simulate(TOKENS, hm.Softmax(0.5), layers=3, rtol=1e-6)  # type: ignore[call-overload]
    hm.simulate(TOKENS, hm.Hardmax(0.5), layers=3, save="first")  # type: ignore[call-overload]
    hm.simulate(TOKENS, hm.Hardmax(0.5), layers=3, colour="red")  # type: ignore[call-overload]
