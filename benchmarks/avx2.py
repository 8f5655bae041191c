"""`python -m benchmarks.avx2 ...` runs `python -m benchmarks ...` with every library restricted to AVX2."""

import os
import subprocess
import sys

from benchmarks.machine import AVX2_ONLY, instructions


def main(arguments: list[str]) -> int:
    """Run the benchmarks in a restricted process, if the processor has AVX-512."""
    if instructions() != "AVX-512":
        print(f"This processor has no AVX-512: python -m benchmarks itself measures with {instructions()}.")
        return 0
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, env=os.environ | AVX2_ONLY, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
