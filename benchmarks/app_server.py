"""Apps in processes of their own: `hardmax app` itself, and one that says how many sessions it holds when asked.

The second is `python -m benchmarks.app_server`: a line to its standard input is answered by a number.
"""

import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from benchmarks.machine import ROOT
from benchmarks.memory import resident

COMMAND = ("hardmax.cli.main", "app", "--port", "0", "--no-browser")
COUNTING = ("benchmarks.app_server",)
LATE = 120.0  # seconds in which it must be there


@dataclass
class App:
    """One that runs."""

    address: str
    process: "subprocess.Popen[str]"
    said: IO[str]  # its standard error

    @property
    def megabytes(self) -> float:
        return resident("VmRSS", self.process.pid) / 1e3

    @property
    def sessions(self) -> int:
        """How many there are; only of an app that counts."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    @property
    def complaints(self) -> int:
        """How many errors it has said by itself."""
        self.said.seek(0)
        return len(re.findall(r"^Traceback|ERROR", self.said.read(), re.MULTILINE))


@contextmanager
def running(module: tuple[str, ...] = COMMAND) -> Iterator[App]:
    """An app, for a while."""
    command = [sys.executable, "-u", "-m", *module]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, cwd=ROOT
        )
        assert process.stdout is not None
        try:
            late = threading.Timer(LATE, process.kill)
            late.start()
            line = process.stdout.readline()
            late.cancel()
            found = re.search(r"http://localhost:(\d+)/", line)
            if found is None:
                said.seek(0)
                raise RuntimeError(f"The app did not start: {line}{said.read()}")
            yield App(f"http://127.0.0.1:{found[1]}", process, said)
        finally:
            process.kill()  # it holds nothing that is worth a farewell
            process.communicate()


def main() -> None:
    """Serve, and count."""
    from hardmax.app.app import serve

    server = serve()
    server.start()

    def answer() -> None:
        for _ in sys.stdin:
            print(len(server.get_sessions()), flush=True)

    threading.Thread(target=answer, daemon=True).start()
    print(f"http://localhost:{server.port}/", flush=True)
    server.io_loop.start()


if __name__ == "__main__":
    main()
