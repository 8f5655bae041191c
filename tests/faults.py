"""Does the suite see a slip? Seed faults into a copy of the source, and count those that some test notices.

    python tests/faults.py [NAME_OR_AREA ...]   all faults, or some; fails below 90 %
    python tests/faults.py --list               what there is
    python tests/faults.py -j 2                 in two processes, each with a copy of its own

Each fault changes a line or two of one file, and names the tests that ought to fail then. These run on the clean copy
first, where they must pass. The faults themselves are in tests/seeded/.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from subprocess import DEVNULL, PIPE, STDOUT, TimeoutExpired, run

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # as a script only tests/ is there

from tests.seeded import FAULTS  # noqa: E402
from tests.seeded.fault import Fault  # noqa: E402

NEEDED = ("src", "tests", "docs", "examples", "pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff")
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".hypothesis", "*.egg-info")
LIMIT = 240  # seconds for the tests of one fault: a loop without end is seen, too
LEAST = 0.9  # of all faults
CAUGHT, NOT_CAUGHT = "caught", "NOT CAUGHT"


@dataclass(frozen=True)
class Copy:
    """A copy of the repository to make slips in."""

    root: Path

    @classmethod
    @contextmanager
    def made(cls) -> Iterator["Copy"]:
        """A fresh one, removed at the end."""
        with tempfile.TemporaryDirectory(prefix="hardmax-faults-") as folder:
            for name in NEEDED:
                source, target = ROOT / name, Path(folder, name)
                if source.is_dir():
                    shutil.copytree(source, target, ignore=LEFT_OUT)
                elif source.exists():
                    shutil.copy2(source, target)
            yield cls(Path(folder))

    def test(self, tests: Sequence[str], limit: float = LIMIT) -> tuple[int, str]:
        """The exit code of pytest and what it said; 124 where it ran out of time."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | {
            "PYTHONPATH": str(self.root / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",  # a stored module counts as new if time and length agree
            "NUMBA_CACHE_DIR": str(self.root / "numba"),  # stored kernels are named by the hash of all kernels
        }
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
        try:
            done = run(
                command, cwd=self.root, env=environment, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, timeout=limit
            )
        except TimeoutExpired:
            return 124, f"No end within {limit} s."
        return done.returncode, done.stdout.decode(errors="replace")

    def outcome(self, fault: Fault) -> str:
        """Seed a fault, run its tests, and undo it."""
        path = self.root / "src" / "hardmax" / fault.file
        clean, times = path.read_bytes(), path.stat()
        try:
            fault.seed(self.root)
            code, said = self.test(fault.tests)
        except ValueError as error:
            return f"error: {error}"
        finally:
            path.write_bytes(clean)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # stored kernels of the clean file stay valid
        if code in (1, 2, 124):  # a test failed, or nothing could be imported, or there was no end
            return CAUGHT
        return NOT_CAUGHT if code == 0 else f"error: pytest ended with {code}. {said.strip().splitlines()[-1]}"


def chosen(names: Sequence[str]) -> list[Fault]:
    """The faults of these names and areas; all where none is given."""
    unknown = set(names) - {fault.name for fault in FAULTS} - {fault.area for fault in FAULTS}
    if unknown:
        raise SystemExit(f"A fault must be named as --list has it. Got {sorted(unknown)[0]!r}.")
    return [fault for fault in FAULTS if not names or fault.name in names or fault.area in names]


def outcomes(faults: Sequence[Fault], copies: Sequence[Copy]) -> Iterator[tuple[Fault, str, float]]:
    """Each fault, what became of it, and in how many seconds; as many at a time as there are copies."""
    idle: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        idle.put(copy)

    def one(fault: Fault) -> tuple[Fault, str, float]:
        copy, start = idle.get(), time.perf_counter()
        try:
            return fault, copy.outcome(fault), time.perf_counter() - start
        finally:
            idle.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        yield from pool.map(one, faults)


def main(arguments: Sequence[str] | None = None) -> int:
    """Seed the faults, say which are seen, and how many."""
    parser = argparse.ArgumentParser(description="Seed faults into a copy of the source, and say which are caught.")
    parser.add_argument("names", nargs="*", metavar="NAME_OR_AREA")
    parser.add_argument("--list", action="store_true", help="list the faults")
    parser.add_argument("-j", type=int, default=1, metavar="N", help="processes")
    given = parser.parse_args(arguments)
    faults = chosen(given.names)
    if given.list:
        for fault in faults:
            print(f"{fault.area:12} {fault.name:38} {fault.file:28} {fault.breaks}")
        return 0
    with ExitStack() as stack:
        copies = [stack.enter_context(Copy.made()) for _ in range(max(1, given.j))]
        code, said = copies[0].test(sorted({test for fault in faults for test in fault.tests}), 10 * LIMIT)
        if code:
            print(said)
            print("The tests must pass on the clean copy. They do not.")
            return 1
        caught = 0
        for fault, outcome, seconds in outcomes(faults, copies):
            caught += outcome == CAUGHT
            print(f"{outcome:11} {seconds:5.1f} s  {fault.area:12} {fault.name}: {fault.breaks}", flush=True)
    print(f"{caught} of {len(faults)} faults caught ({100 * caught / len(faults):.0f} %)")
    return int(caught < LEAST * len(faults))


if __name__ == "__main__":
    sys.exit(main())
