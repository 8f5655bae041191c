"""One method in a process of its own, so that memory and threads are its own."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.machine import ROOT, environment
from benchmarks.memory import with_peak
from benchmarks.registry import Answer, Method, wall

TURN = 0.05  # seconds for which short runs are repeated


class Worker(Protocol):
    """What `measure` asks of a method, wherever it runs."""

    def ready(self) -> None:
        """Wait until it is prepared."""

    def run(self) -> tuple[float, float | None]:
        """Take a turn: seconds of its best run, and the peak in MB at the first run."""

    def finish(self) -> tuple[Answer, dict[str, Any]]:
        """Answer and facts of the last run; ends the worker."""

    def stop(self) -> None:
        """End the worker, whatever it is doing."""


class Local:
    """A method in this process."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self._first = True
        self._result: Any = None

    def ready(self) -> None:
        """Prepare it."""
        self._run = self.method.prepare()

    def run(self) -> tuple[float, float | None]:
        """Run against the clock; short runs several times, since others have had the caches in between."""
        self._result = None  # frees what the last run left
        own = self.method.seconds is wall  # else the work is done elsewhere, or other work is timed
        (seconds, self._result), peak = with_peak(self._timed) if self._first and own else (self._timed(), None)
        if self.method.peak is not None:
            peak = self.method.peak(self._result)
        self._first = False
        spent = seconds
        while own and spent < TURN:
            self._result = None
            again, self._result = self._timed()
            seconds, spent = min(seconds, again), spent + again
        return self.method.seconds(seconds, self._result), peak

    def finish(self) -> tuple[Answer, dict[str, Any]]:
        """Read the answer off the last result."""
        return self.method.answer(self._result), self.method.facts(self._result)

    def stop(self) -> None:
        """Nothing to end."""

    def _timed(self) -> tuple[float, Any]:
        start = time.perf_counter()
        result = self._run()
        return time.perf_counter() - start, result


class Child:
    """A method of a registered case in a fresh process."""

    def __init__(self, case: str, method: str, quick: bool, folder: Path) -> None:
        self._name = f"{case}, {method}"
        self._answer = folder / f"{id(self)}.npz"
        command = [sys.executable, "-m", "benchmarks.serve", case, method, str(int(quick))]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | environment(),
            cwd=ROOT,
        )

    def ready(self) -> None:
        """Wait until imports and small runs are done."""
        self._ask("ready")

    def run(self) -> tuple[float, float | None]:
        """Run once."""
        seconds, peak = self._ask("run")
        return seconds, peak

    def finish(self) -> tuple[Answer, dict[str, Any]]:
        """Fetch the answer and end the process."""
        facts = self._ask("finish", str(self._answer))
        with np.load(self._answer, allow_pickle=False) as arrays:
            answer = dict(arrays)
        self._answer.unlink()
        self.stop()
        return answer, facts

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, *request: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"{self._name}: its process ended. It may have run out of memory.")
        reply = json.loads(line)
        if "error" in reply:
            raise RuntimeError(f"{self._name}: {reply['error']}")
        return reply["value"]
