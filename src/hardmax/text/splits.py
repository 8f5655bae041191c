"""Splits of labelled texts into rows to learn from and rows to hold out.

Equal texts, and rows of one group, are on the same side of every split: a text that is learned and held out at the same
time would make the reported accuracy too large.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from hardmax._arrays import to_numpy
from hardmax._errors import ParameterError
from hardmax._types import AnyArray, IntArray
from hardmax._validation import as_array
from hardmax.text.tables import is_missing
from hardmax.text.text import Splitter

FOLDS = 5
MIN_ROWS = 5  # rows of a class from which some are held back for validation
MAX_SHOWN_ROWS = 5


class DuplicateWarning(UserWarning):
    """Warn of texts that occur more than once in the training data."""


def number_texts(texts: Sequence[str]) -> IntArray:
    """Return (texts,) integers, the same for texts that differ in case, spaces, markup and punctuation only.

    Examples
    --------
    >>> number_texts(["A good film.", "bad", "a  good film<br />"]).tolist()
    [0, 1, 0]
    """
    words = Splitter(punctuation=False).words
    return _number_values([" ".join(words(text)) or text.strip() for text in texts])


def find_duplicates(numbers: IntArray) -> IntArray:
    """Return the rows whose number occurs in an earlier row."""
    return np.setdiff1d(np.arange(len(numbers)), np.unique(numbers, return_index=True)[1])


def duplicate_note(shown: Sequence[int], count: int, rows: int, name: str) -> str:
    """Return a sentence about duplicates; `shown` has their row numbers, which are called `name`."""
    listed = ", ".join(map(str, shown[:MAX_SHOWN_ROWS])) + (", ..." if count > MAX_SHOWN_ROWS else "")
    return (
        f"{count} of {rows} texts are duplicates of an earlier text, apart from case, spaces, markup and punctuation "
        f"({name} {listed}). Equal texts are held out together, so that accuracy is measured on other texts."
    )


def unmeasured_notes(classes: AnyArray, labels: IntArray, groups: IntArray) -> list[str]:
    """Return a sentence about every class of several rows that are all in one group, and so are never held out."""
    notes = []
    for number, name in enumerate(classes):
        rows = np.flatnonzero(labels == number)
        if len(rows) > 1 and len(np.unique(groups[rows])) == 1:
            why = f"all {len(rows)} are equal or in one group"
            notes.append(f"No text of class {str(name)!r} can be held out, as {why}: its accuracy is not measured.")
    return notes


def check_groups(groups: Any, rows: int) -> IntArray:
    """Return (rows,) integers, the same within a group; a row whose group is missing is a group of its own."""
    must = f"hold one group for each of the {rows} texts"
    advice = "Pass a sequence as long as the texts, such as a column of the same table."
    shape = as_array(groups, "groups", must, advice).shape
    if shape != (rows,):
        raise ParameterError("groups", must, f"shape {shape}", advice)
    values = list(to_numpy(groups))
    return _number_values([(row,) if is_missing(value) else value for row, value in enumerate(values)])


def join_groups(first: IntArray, second: IntArray) -> IntArray:
    """Return (rows,) integers, the same for rows that are connected by equal entries of `first` or `second`."""
    rows, second = np.arange(len(first)), _number_values(second.tolist())
    # A graph whose nodes are the rows, then the values of `first`, then those of `second`.
    ends = np.concatenate([len(rows) + first, 2 * len(rows) + second])
    links = coo_array((np.ones(len(ends), bool), (np.tile(rows, 2), ends)), (3 * len(rows),) * 2)
    return _number_values(connected_components(links, directed=False)[1][: len(rows)].tolist())


def folds(labels: IntArray, seed: int, groups: IntArray | None = None) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield rows held out and the others, so that every class is among the others.

    Groups go to the fold with the fewest rows of their classes, large groups first. A class that is in one group alone
    is never held out.
    """
    groups = np.arange(len(labels)) if groups is None else groups
    random = np.random.default_rng([seed, 30_000])
    order = np.concatenate([random.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)])
    fold = _deal(_in_order(groups[order]), labels, groups)[groups]
    for k in range(FOLDS):
        if (fold == k).any():
            yield np.flatnonzero(fold == k), np.flatnonzero(fold != k)


def held_back(labels: IntArray, part: float, seed: int, groups: IntArray | None = None) -> IntArray:
    """Return the rows to validate with: about that part of every class, at random and in whole groups.

    Every class keeps rows to learn from; of a class of fewer than 5 rows none is held back.
    """
    groups = np.arange(len(labels)) if groups is None else groups
    random, held = np.random.default_rng([seed, 20_000]), np.zeros(groups.max(initial=0) + 1, bool)
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        wanted = min(round(part * len(members)), len(members) - 1) if len(members) >= MIN_ROWS else 0
        sizes, found = np.bincount(groups[members], minlength=len(held)), int(held[groups[members]].sum())
        free = [group for group in _in_order(groups[members]).tolist() if not held[group]]
        for group in free:
            if found + sizes[group] <= wanted:
                held[group], found = True, found + sizes[group]
        if wanted and not found:
            held[min(free, key=lambda group: sizes[group])] = True  # all groups are larger than that part
    for label in np.unique(labels):
        inside = np.unique(groups[labels == label])
        if held[inside].all():
            held[inside] = False
    return np.flatnonzero(held[groups])


def split_rows(groups: IntArray, part: float, seed: int) -> tuple[IntArray, IntArray]:
    """Return about that part of the rows, and the others, at random and in whole groups."""
    rows = np.random.default_rng(seed).permutation(len(groups))
    order = _in_order(groups[rows])
    ends = np.cumsum(np.bincount(groups)[order])
    first = np.isin(groups[rows], order[ends <= round(part * len(groups))])
    return rows[first], rows[~first]


def _deal(order: IntArray, labels: IntArray, groups: IntArray) -> IntArray:
    """Return the fold of every group, -1 for groups that are never held out; `order` breaks ties."""
    in_class, sizes = np.bincount(labels), np.bincount(groups)
    codes, rows = np.unique(groups * len(in_class) + labels, return_counts=True)
    owners, classes = np.divmod(codes, len(in_class))
    alone = np.bincount(classes, minlength=len(in_class)) == 1  # classes in one group
    parts: dict[int, list[tuple[int, int]]] = {}  # labels of each group, with the number of rows
    for group, label, count in zip(owners.tolist(), classes.tolist(), rows.tolist(), strict=True):
        parts.setdefault(group, []).append((label, count))
    fold, counts, total = np.full(len(sizes), -1), [[0] * len(in_class) for _ in range(FOLDS)], [0] * FOLDS
    for group in order[np.argsort(-sizes[order], kind="stable")].tolist():
        if any(alone[label] for label, _ in parts[group]):
            continue
        weights = [(label, count / int(in_class[label])) for label, count in parts[group]]
        crowded = [sum(counts[k][label] * weight for label, weight in weights) for k in range(FOLDS)]
        k = fold[group] = min(range(FOLDS), key=lambda k: (crowded[k], total[k]))
        total[k] += int(sizes[group])
        for label, count in parts[group]:
            counts[k][label] += count
    for label in range(len(in_class)):
        inside = owners[classes == label]
        if len(np.unique(fold[inside])) == 1:
            fold[inside] = -1  # the class would be missing among the others
    return fold


def _in_order(groups: IntArray) -> IntArray:
    """Return the distinct entries in the order of their first occurrence."""
    return groups[np.sort(np.unique(groups, return_index=True)[1])]


def _number_values(values: Sequence[Any]) -> IntArray:
    """Return integers that number the distinct values in the order of their first occurrence."""
    known: dict[Any, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], np.intp)
