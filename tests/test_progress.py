"""Bars are for terminals; in a pipe nothing is written, and no loss is read."""

import io
import sys

import pytest

from hardmax._progress import progress_bar, training_bar
from hardmax.sentiment.model import Epoch


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
        moved(3, 10)
    assert "Texts" in sys.stderr.getvalue()
    assert "3/10" in sys.stderr.getvalue()


def test_a_terminal_sees_loss_and_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    calls = []
    with training_bar(lambda *call: calls.append(call)) as report:
        report(1, 40, Unread(), None)  # not every step
        report(20, 40, 0.5, None)
        report(40, 40, 0.25, Epoch(0, 0.25, 0.3, 0.875))
    shown = sys.stderr.getvalue()
    assert "loss 0.450  validation accuracy 0.875" in shown  # 0.8 of what it was, 0.2 of what is new
    assert [call[:2] for call in calls] == [(1, 40), (20, 40), (40, 40)]


def test_a_pipe_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    calls = []
    with progress_bar("Texts") as moved, training_bar(lambda *call: calls.append(call)) as report:
        moved(3, 10)
        report(20, 40, Unread(), None)
    assert sys.stderr.getvalue() == ""
    assert len(calls) == 1
