"""`python -m benchmarks [NAME ...]`"""

import platform
import sys

import numpy as np
from rich.console import Console
from rich.table import Table

import hardmax
from benchmarks import flows, layers  # noqa: F401  register their benchmarks
from benchmarks.registry import BENCHMARKS, measure

console = Console()
console.print(f"hardmax {hardmax.__version__}, Python {platform.python_version()}, NumPy {np.__version__}")
for name in sys.argv[1:] or BENCHMARKS:
    table = Table(title=f"{name}: {BENCHMARKS[name].title}", title_justify="left", box=None)
    for column in ("method", "best seconds", "times the first"):
        table.add_column(column)
    for method, seconds, ratio in measure(BENCHMARKS[name]):
        table.add_row(method, f"{seconds:.4g}", f"{ratio:.4g}")
    console.print(table)
