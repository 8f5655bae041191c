"""Settings for the whole suite."""

import os
import shutil
import signal
import sys

import pytest

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # shells start background jobs like this
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # commands under test must receive Ctrl-C

# The suite runs one process per core. More threads per process compete for the cores,
# and threads of OpenMP (torch, scikit-learn, FAISS) spin while they wait: training
# takes ten times as long. Set before NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault(
    "NUMBA_THREADING_LAYER", "workqueue"
)  # the OpenMP layer changes the number of threads


@pytest.fixture(autouse=True)
def _restore_torch_threads():
    """Restore the number of threads of torch, which benchmarks change."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


@pytest.fixture(autouse=True)
def _use_compiled_kernels(request, monkeypatch):
    """Run compiled kernels for inputs of any size, except in tests of the size from
    which they are loaded.
    """
    if "by_size" not in request.keywords:
        monkeypatch.setattr("hardmax.search.dispatch.is_loaded", lambda kernel: True)


def pytest_addoption(parser):
    parser.addoption(
        "--certificates",
        action="store_true",
        help="Check the certificate of every limit of a test.",
    )


@pytest.fixture(autouse=True)
def _check_certificates(request, monkeypatch):
    """With --certificates, let both checkers verify the certified limits that a test
    makes.
    """
    if not request.config.getoption("--certificates"):
        yield
        return
    from tests import certificates

    limits = certificates.collect_limits(monkeypatch)
    yield
    request.node.user_properties.append(
        ("certificates", len(certificates.assert_accepted(limits)))
    )


def pytest_terminal_summary(terminalreporter, config):
    """State how many certificates were checked; the numbers come from the workers with
    their reports.
    """
    if config.getoption("--certificates"):
        ends = [
            report
            for report in terminalreporter.stats.get("", [])
            if report.when == "teardown"
        ]
        numbers = [
            dict(report.user_properties).get("certificates", 0) for report in ends
        ]
        checkers = (
            "one checker, as there is no Node.js"
            if shutil.which("node") is None
            else "both checkers"
        )
        terminalreporter.line(
            f"{sum(numbers)} certificates accepted by {checkers}, in {len(numbers)}"
            " tests"
        )


@pytest.fixture
def without_numba(monkeypatch):
    """Return a function that disables compiled code."""
    return lambda: monkeypatch.setattr(
        "hardmax.search.dispatch.has_numba", lambda: False
    )


@pytest.fixture(params=[False, True])
def numba(request, without_numba):
    """Run a test without and with compiled code."""
    if not request.param:
        without_numba()


@pytest.fixture
def headless():
    """Draw without a window, and close all figures afterwards."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.use("Agg")
    yield
    plt.close("all")


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Return a function that runs a command in an empty folder: exit code, standard
    output, standard error.
    """
    from hardmax.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(
        "hardmax._display.FIRST_LINE", float("inf")
    )  # progress lines depend on the load

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture(scope="module")
def chromium():
    """Start Chromium for all tests of a file."""
    from tests import browser

    with browser.started() as found:
        yield found


@pytest.fixture(scope="module")
def client():
    """Start two workers of Dask for all tests of a file."""
    from hardmax.scale.executor import connect
    from tests.processes import occupied_port

    with (
        occupied_port(8787),
        connect("local", 2) as found,
    ):  # the default port of Dask's dashboard
        yield found


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
