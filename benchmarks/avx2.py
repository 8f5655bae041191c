"""`python -m benchmarks.avx2 ...` is `python -m benchmarks ...` without AVX-512, where there is one to do without."""

import os
import subprocess
import sys

from benchmarks.vectors import ALONE, instructions


def main(arguments: list[str]) -> int:
    """Run the benchmarks in a process that is told so."""
    if instructions() != "AVX-512":
        print(f"This processor has no AVX-512: python -m benchmarks itself measures with {instructions()}.")
        return 0
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, env=os.environ | ALONE, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
