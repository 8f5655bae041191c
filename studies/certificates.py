"""Size of certificates, and CPU seconds to write and check them, over n, for Gaussian
tokens in the plane.

python -m studies.certificates prints the table of the page "Check a proof yourself";
with numbers, rows of these n.
"""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory
from time import process_time
from typing import Annotated

import numpy as np
import typer

import hardmax as hm
from hardmax import certificate_checker

MAX_WHOLE = 3000  # tokens that are all compared
SAMPLE = 100
SIZES = [100, 1000, 3000, 10_000, 100_000, 1_000_000]
NODE = """
import {{ check }} from "{module}";
import {{ readFileSync }} from "node:fs";
const report = check(readFileSync("{file}", "utf-8"));
if (!report.accepted) throw new Error(report.reason);
"""


def run(*command: str) -> str:
    """Run a command, and return its CPU seconds as text."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = getrusage(RUSAGE_CHILDREN)
    return f"{after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.1f}"


def print_row(n: int, causal: bool, folder: Path) -> None:
    rule, checker = hm.Hardmax(0.5, causal=causal), certificate_checker.__file__
    limit = hm.limit(np.random.default_rng(0).normal(size=(n, 2)), rule)
    start = process_time()
    text = json.dumps(limit.certificate(), separators=(",", ":")).encode()
    written, file = process_time() - start, folder / "proof.json"
    file.write_bytes(text)
    packed = len(gzip.compress(text, mtime=0))
    whole = script = "-"
    if n <= MAX_WHOLE:
        module = (Path(checker).parent / "viewer" / "certificate.js").as_uri()
        whole = run(sys.executable, checker, str(file))
        script = run(
            "node",
            "--input-type=module",
            "--eval",
            NODE.format(module=module, file=file),
        )
    sampled = run(sys.executable, checker, str(file), "--sample", str(SAMPLE))
    sizes = f"{len(text) / 1e6:.2f} | {packed / 1e6:.2f} | {len(text) / n:.0f}"
    mask = "causal" if causal else "none"
    print(
        f"| {n:,} | {mask} | {limit.layer} | {sizes} | {written:.1f} | {whole} |"
        f" {script} | {sampled} |",
        flush=True,
    )


def main(
    sizes: Annotated[
        list[int] | None, typer.Argument(metavar="N", help="Numbers of tokens.")
    ] = None,
) -> None:
    """Print the table."""
    columns = [
        "MB",
        "MB, gzip",
        "bytes per token",
        "write, s",
        "Python, s",
        "Node.js, s",
        f"sample of {SAMPLE}, s",
    ]
    print(f"| n | mask | layers | {' | '.join(columns)} |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    with TemporaryDirectory() as folder:
        for n in sizes or SIZES:
            for causal in (False, True):
                print_row(n, causal, Path(folder))


if __name__ == "__main__":
    typer.run(main)
