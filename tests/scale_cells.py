"""Cells for the tests of sweeps, good and bad. They are pickled by value, since workers
cannot import this folder.
"""

import os
import signal
import subprocess
import time
from multiprocessing import current_process
from pathlib import Path
from typing import Any

import numpy as np


def draw(params: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Return a number that depends on the seed and the index of the cell only."""
    return {"sum": params["a"] + params["b"], "drawn": float(rng.normal())}


def draw_slowly(params: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    time.sleep(0.1)
    return draw(params, rng)


def misbehave(params: dict[str, Any], rng: np.random.Generator) -> Any:
    """Fail in the way that `kind` names, or return a row."""
    match params["kind"]:
        case "raises":
            raise ValueError("no such thing")
        case "exits":
            raise SystemExit(3)
        case "hangs":
            time.sleep(1000)
        case "kills its process":
            os.kill(os.getpid(), signal.SIGKILL)
        case "leaves a process and dies":
            if not os.fork():
                time.sleep(1000)
            os.kill(os.getpid(), signal.SIGKILL)
        case "returns no dict":
            return 3
        case "returns a parameter":
            return {"kind": 1}
        case "returns an object":
            return {"x": object()}
        case "returns NaN":
            return {"x": np.float64("nan"), "drawn": float(rng.normal())}
        case "returns other columns":
            return {"others": np.array([1, 2]), "drawn": float(rng.normal())}
    return {"x": np.int64(1), "drawn": float(rng.normal())}


def kill_worker(params: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Kill the worker at a = 5, as a cell does that fills the memory of the machine."""
    if params["a"] == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"drawn": float(rng.normal())}


def log_run(params: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Write a line for each run, which shows the cells that are computed again."""
    with Path(params["log"]).open("a") as file:
        file.write(f"{params['a']}\n")
    return {"drawn": float(rng.normal())}


def start_another(params: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Start a program that does not end by itself."""
    time.sleep(params["rest"])
    return {"pid": subprocess.Popen(["sleep", "1000"]).pid}


def count_threads(params: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Count the threads of libraries, and return whether processes cannot be started by
    `multiprocessing`.
    """
    import numba
    from threadpoolctl import threadpool_info

    threads = {
        "numba": numba.get_num_threads(),
        "blas": max(pool["num_threads"] for pool in threadpool_info()),
    }
    return threads | {"is_daemonic": current_process().daemon}
