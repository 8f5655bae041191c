"""Many runs, one table: sweeps and corpora of texts, on this machine or on a Dask cluster.

Correctness lives in the files, not in the engine: a row follows from the cell, its parameters, the seed of the sweep
and its number, and a part is written whole or not at all. Dask is loaded when a sweep starts.
"""

from hardmax.scale.corpus import Scored, predict_files
from hardmax.scale.sweep import Sweep, sweep

__all__ = ["Scored", "Sweep", "predict_files", "sweep"]
