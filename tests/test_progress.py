"""Bars are for terminals and notebooks; a log sees a line now and then, and no loss is read in between."""

import io
import sys
from types import SimpleNamespace

import pytest

from hardmax import _display
from hardmax._display import FIRST_LINE, MIN_UPDATE, NEXT_LINE, progress_bar
from hardmax.text.fitting import training_bar
from hardmax.text.model import Epoch


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Unread:
    """A loss on a GPU: reading it would wait for it."""

    def __float__(self) -> float:
        raise AssertionError("the loss was read")


def test_a_terminal_sees_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar("Texts") as moved:
        pass
    assert "None" not in sys.stderr.getvalue()  # of what is not counted yet
    with progress_bar("Texts") as moved:
        moved(3, 10)
    assert "Texts" in sys.stderr.getvalue()
    assert "3/10" in sys.stderr.getvalue()


def test_a_terminal_sees_loss_and_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    clock = [100.0]
    monkeypatch.setattr(_display, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    calls = []
    with training_bar(lambda *call: calls.append(call)) as report:
        report(20, 40, 0.5, None)
        report(21, 40, Unread(), None)  # not every step
        clock[0] += MIN_UPDATE
        report(40, 40, 0.25, Epoch(0, 0.25, 0.3, 0.875))
    shown = sys.stderr.getvalue()
    assert "loss 0.450  validation accuracy 0.875" in shown  # 0.8 of what it was, 0.2 of what is new
    assert [call[:2] for call in calls] == [(20, 40), (21, 40), (40, 40)]


def test_a_log_sees_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    clock = [100.0]
    monkeypatch.setattr(_display, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with progress_bar("Texts") as moved, training_bar(lambda *_: None) as report:
        moved(3, 10)
        report(20, 40, Unread(), None)
        assert sys.stderr.getvalue() == ""  # what is quick leaves no line, and no loss is read for it
        clock[0] += FIRST_LINE
        moved(4, 10)
        moved(5, 10)
        report(21, 4000, 0.5, Epoch(0, 0.25, 0.3, 0.875))
        report(22, 4000, Unread(), None)
        clock[0] += NEXT_LINE
        moved(6, 10)
    assert sys.stderr.getvalue().splitlines() == [
        "Texts: 4 of 10",
        "Training: 21 of 4,000  loss 0.500  validation accuracy 0.875",
        "Texts: 6 of 10",
    ]


def test_a_notebook_sees_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipywidgets")
    import rich.console

    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: True)
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    with progress_bar("Texts") as moved:
        moved(3, 10)
    assert len(shown) >= 1
