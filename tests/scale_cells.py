"""Cells for the tests of sweeps, good and bad. They travel to workers by value: no worker has this folder."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np


def draw(params: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """A number that nothing but the seed and the number of the cell decides."""
    return {"sum": params["a"] + params["b"], "drawn": float(rng.normal())}


def slowly(params: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    time.sleep(0.1)
    return draw(params, rng)


def misbehave(params: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """What is asked for by name."""
    kind = params["kind"]
    if kind == "raises":
        raise ValueError("no such thing")
    if kind == "exits":
        raise SystemExit(3)
    if kind == "hangs":
        time.sleep(1000)
    if kind == "kills its process":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "leaves a process and dies":
        if not os.fork():
            time.sleep(1000)
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "returns no dict":
        return 3  # type: ignore[return-value]
    if kind == "returns a parameter":
        return {"kind": 1}
    if kind == "returns an object":
        return {"x": object()}
    if kind == "returns NaN":
        return {"x": np.float64("nan"), "drawn": float(rng.normal())}
    if kind == "returns other columns":
        return {"others": np.array([1, 2]), "drawn": float(rng.normal())}
    return {"x": np.int64(1), "drawn": float(rng.normal())}


def kill_worker(params: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Cell 5 takes its worker along, as one does that fills the memory of the machine."""
    if params["a"] == 5:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(1000)
    return {"drawn": float(rng.normal())}


def count_runs(params: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Leaves a line for each run, to see what is computed again."""
    with Path(params["log"]).open("a") as file:
        file.write(f"{params['a']}\n")
    return {"drawn": float(rng.normal())}


def start_another(params: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Starts a program that runs on by itself."""
    return {"pid": subprocess.Popen(["sleep", "1000"]).pid}


def threads(params: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    import numba
    from threadpoolctl import threadpool_info

    return {"numba": numba.get_num_threads(), "blas": max(pool["num_threads"] for pool in threadpool_info())}
