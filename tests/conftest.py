"""Settings for the whole suite."""

import os
import signal
import sys

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # so that commands under test hear Ctrl-C

# The suite runs one process a core; more threads in each would only wait for each other, those of OpenMP (torch,
# scikit-learn, FAISS) by turning a core in circles: training takes ten times as long. Set before NumPy loads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_THREADING_LAYER", "workqueue")  # asked how many threads it has, the other sets OpenMP's


@pytest.fixture(autouse=True)
def _as_many_threads_as_before():
    """Benchmarks give torch two threads, and so would every test after them have."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


@pytest.fixture(autouse=True)
def _compiled_code_at_once(request, monkeypatch):
    """Kernels run however small the input is, as if they were loaded; but for tests of when they are."""
    if "by_size" not in request.keywords:
        monkeypatch.setattr("hardmax.search.dispatch.is_loaded", lambda kernel: True)


@pytest.fixture
def without_numba(monkeypatch):
    """A function to call when compiled code shall be gone."""
    return lambda: monkeypatch.setattr("hardmax.search.dispatch.has_numba", lambda: False)


@pytest.fixture
def headless():
    """Pictures without a window, and none left over."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.use("Agg")
    yield
    plt.close("all")


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """The command line in an empty folder: exit code, standard output and standard error."""
    from hardmax.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("hardmax._display.FIRST_LINE", float("inf"))  # on a busy machine lines would come and go

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


SMALL_MODEL = {"n_heads": 4, "groups": 2, "ngram_range": (1, 2), "epochs": 30}


@pytest.fixture(scope="session")
def corpus():
    """Return made-up reviews with labels."""
    datasets = pytest.importorskip("hardmax.text.datasets")
    return datasets.reviews(600, seed=1)


@pytest.fixture(scope="session")
def fresh():
    """Return reviews that `fitted` has not seen."""
    datasets = pytest.importorskip("hardmax.text.datasets")
    return datasets.reviews(300, seed=2)


@pytest.fixture(scope="session")
def fitted(corpus):
    """Return a small trained classifier, which tests must not change."""
    classifier = pytest.importorskip("hardmax.text.classifier")
    return classifier.HardmaxClassifier(**SMALL_MODEL).fit(corpus.texts, corpus.labels)
