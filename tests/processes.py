"""Processes that end with their test, also if it fails: one that is left can block the
whole suite.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATIENCE = 120.0  # seconds, for a machine under load


def wait_for(
    condition: Callable[[], object], child: "subprocess.Popen | None" = None
) -> None:
    """Wait until a condition holds; fail after PATIENCE, or if the process that should
    meet it has ended.
    """
    end = time.monotonic() + PATIENCE
    while not condition():
        assert child is None or child.poll() is None, (
            f"the process ended with {child and child.returncode}"
        )
        assert time.monotonic() < end, f"it did not happen in {PATIENCE:g} s"
        time.sleep(0.05)


@contextmanager
def ended(child: subprocess.Popen) -> Iterator[subprocess.Popen]:
    """Kill a process and its children when the block ends, also those that were stopped
    by a signal.
    """
    import psutil

    with child:
        try:
            yield child
        finally:
            with suppress(psutil.NoSuchProcess):
                for each in psutil.Process(child.pid).children(recursive=True):
                    each.kill()
            child.kill()


@contextmanager
def process(*arguments: str, path: Path | None = None) -> Iterator[subprocess.Popen]:
    """Start a Dask scheduler or worker as users do; `path` comes first in its
    PYTHONPATH.
    """
    folders = [path and str(path), str(ROOT / "src"), os.environ.get("PYTHONPATH")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with ended(
        subprocess.Popen([sys.executable, "-m", *arguments], env=env, **quiet)
    ) as child:
        yield child


@contextmanager
def occupied_port(port: int) -> Iterator[None]:
    """Listen on a port, unless another process does."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            listener.bind(("", port))
            listener.listen()
        yield
