"""Sweeps over parameters and predictions for large files, on this machine or on a Dask
cluster.

A row depends only on the cell, its parameters, the seed of the sweep and its index, and
parts are written atomically, so that results do not depend on the workers. Dask is
imported when a sweep starts.
"""

from hardmax.scale.predict_files import PredictedFiles, predict_files
from hardmax.scale.sweep import SweepTable, sweep

__all__ = ["PredictedFiles", "SweepTable", "predict_files", "sweep"]
