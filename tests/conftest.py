"""Settings for the whole suite."""

import os

# The suite runs one process a core; more threads in each would only wait for each other. Set before NumPy loads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
