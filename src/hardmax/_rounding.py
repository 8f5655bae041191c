"""Bounds as text: rounded in the direction in which they stay bounds. The text, read as a float, is compared."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from math import isfinite


def format_down(bound: float, digits: int) -> str:
    """Return a lower bound with some significant digits: the printed number is never larger.

    Examples
    --------
    >>> format_down(0.01058, 2), format_down(1.0, 2), format_down(-0.01052, 2)
    ('0.01', '1', '-0.011')
    """
    return _format(bound, digits, ROUND_FLOOR)


def format_up(bound: float, digits: int) -> str:
    """Return an upper bound with some significant digits: the printed number is never smaller.

    Examples
    --------
    >>> format_up(0.01051, 2), format_up(0.1, 2), format_up(float("inf"), 2)
    ('0.011', '0.1', 'inf')
    """
    return _format(bound, digits, ROUND_CEILING)


def _format(bound: float, digits: int, rounding: str) -> str:
    if not isfinite(bound):
        return str(bound)
    return f"{float(Context(prec=digits, rounding=rounding).create_decimal(Decimal(repr(float(bound))))):.{digits}g}"
