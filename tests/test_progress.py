"""Progress: a bar on terminals and in notebooks, occasional lines in logs, and no loss
read in between.
"""

import io
import sys
from types import SimpleNamespace

import pytest

from hardmax import _display
from hardmax._display import FIRST_LINE, MIN_UPDATE, NEXT_LINE, progress_bar
from hardmax.text.classifier import training_bar
from hardmax.text.model import Epoch


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Unread:
    """A loss on a GPU: reading it would synchronize."""

    def __float__(self) -> float:
        raise AssertionError("the loss was read")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in a list so that tests can change it."""
    now = [100.0]
    monkeypatch.setattr(_display, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_a_terminal_shows_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar("Texts"):
        pass
    assert (
        "None" not in sys.stderr.getvalue()
    )  # before the first call there is no count
    with progress_bar("Texts") as progress:
        progress(3, 10)
    assert "Texts" in sys.stderr.getvalue()
    assert "3/10" in sys.stderr.getvalue()


def test_a_terminal_shows_loss_and_accuracy(
    monkeypatch: pytest.MonkeyPatch, clock
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    calls = []
    with training_bar(lambda *call: calls.append(call)) as report:
        report(20, 40, 0.5, None)
        report(21, 40, Unread(), None)  # not every step
        clock[0] += MIN_UPDATE
        report(40, 40, 0.25, Epoch(0, 0.25, 0.3, 0.875))
    assert (
        "loss 0.450  validation accuracy 0.875" in sys.stderr.getvalue()
    )  # 0.8 of the old loss, 0.2 of the new
    assert [call[:2] for call in calls] == [(20, 40), (21, 40), (40, 40)]


def test_a_log_gets_occasional_lines(monkeypatch: pytest.MonkeyPatch, clock) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_bar("Texts") as progress, training_bar(lambda *_: None) as report:
        progress(3, 10)
        report(20, 40, Unread(), None)
        assert sys.stderr.getvalue() == ""
        clock[0] += FIRST_LINE
        progress(4, 10)
        progress(5, 10)
        report(21, 4000, 0.5, Epoch(0, 0.25, 0.3, 0.875))
        report(22, 4000, Unread(), None)
        clock[0] += NEXT_LINE
        progress(6, 10)
    training = "Training: 21 of 4,000  loss 0.500  validation accuracy 0.875"
    assert sys.stderr.getvalue().splitlines() == [
        "Texts: 4 of 10",
        training,
        "Texts: 6 of 10",
    ]


def test_a_notebook_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipywidgets")
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    with progress_bar("Texts") as progress:
        progress(3, 10)
    assert len(shown) >= 1
