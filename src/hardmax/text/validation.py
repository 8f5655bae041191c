"""Checks of texts and labels, and splits into rows to learn from and rows to hold out.

Equal texts, and rows of one group, are on the same side of every split: a text that is learned and held out at the same
time would make the reported accuracy too large.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any
from warnings import warn

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from hardmax._errors import InputError, ParameterError, did_you_mean
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax._validation import as_array, to_numpy
from hardmax.text.tables import TEXT_NAMES, is_missing, left_out_note
from hardmax.text.tokenizer import Splitter

MULTILABEL = "For several labels per text use OneVsRestClassifier(HardmaxClassifier()) of scikit-learn."
HEAD_ROWS = 100  # rows of a DataFrame that are read to find the column of texts
MAX_SHOWN_NAMES = 6
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
    """Return a sentence about each class that is never held out, because all its rows are in one group."""
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


def hold_out(labels: IntArray, part: float, seed: int, groups: IntArray | None = None) -> IntArray:
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


def check_texts(X: Any, column: str | None = None) -> list[str]:
    """Return a list of strings, with "" for missing texts; raise an error for anything else."""
    texts = _as_list(X, column)
    missing = [i for i, text in enumerate(texts) if not isinstance(text, str) and is_missing(text)]
    if missing:
        counted = f"{len(missing)} of {len(texts)} texts are missing; they count as empty texts."
        warn(counted, UserWarning, stacklevel=3)
        texts = ["" if is_missing(text) else text for text in texts]
    return _check_strings(texts)


def complete_rows(X: Any, y: Any, column: str | None = None) -> tuple[list[str], AnyArray, BoolArray]:
    """Return texts and labels of the rows that have both, and a mask of these rows."""
    texts = _as_list(X, column)
    labels = check_labels(y, len(texts))
    masked = np.ma.getmaskarray(labels) if np.ma.isMaskedArray(labels) else np.zeros(len(texts), bool)
    missing = masked | [is_missing(text) or is_missing(label) for text, label in zip(texts, labels, strict=True)]
    if missing.all():
        got = f"{len(texts)}, all without"
        raise ParameterError(("X", "y"), "hold at least one row with a text and a label", got, "Check the columns.")
    if missing.any():
        warn(left_out_note(int(missing.sum()), len(texts)), UserWarning, stacklevel=3)
        texts = list(compress(texts, ~missing))
        labels = labels[~missing] if isinstance(labels, np.ndarray) else list(compress(labels, ~missing))
    spaced = [label for label in labels if isinstance(label, str) and label != label.strip()]
    if spaced:
        note = f"Removed the spaces around {len(spaced)} of {len(labels)} labels: {spaced[0]!r}"
        warn(f"{note} becomes {spaced[0].strip()!r}.", UserWarning, stacklevel=3)
    return _check_strings(texts), _to_plain_array(labels), ~missing


def _as_list(X: Any, column: str | None) -> list[Any]:
    if isinstance(X, str | bytes):
        raise ParameterError("X", "be a list of texts", "a single one", "Put it in brackets: [text].")
    if hasattr(X, "columns") and hasattr(X, "items"):  # a DataFrame
        X = _text_column(X, column)
    if hasattr(X, "ndim") and X.ndim != 1:
        advice = "Reshape your data or pass a single column."
        raise ParameterError("X", "be one-dimensional, one text per entry", f"shape {tuple(X.shape)}", advice)
    if not hasattr(X, "__len__") or not hasattr(X, "__iter__"):
        raise ParameterError("X", "be a list of texts", type(X).__name__)
    if not len(X):
        raise ParameterError("X", "hold at least one text", "none: 0 sample(s) while a minimum of 1 is required")
    return list(X)


def _text_column(X: Any, column: str | None) -> Any:
    """Return the column of a DataFrame that holds the texts."""
    if column is not None:
        if column not in X.columns:
            advice = did_you_mean(str(column), map(str, X.columns), f"It has {_join_names(X.columns)}.")
            raise ParameterError("text_column", "be a column of the DataFrame", repr(column), advice)
        return X[column]
    found = [
        (name, values) for name, values in X.items() if any(isinstance(one, str) for one in values.head(HEAD_ROWS))
    ]
    if len(found) != 1:
        names = [name for name, _ in found]
        got = f"a DataFrame with {f'{_join_names(names)}, {len(names)} of them' if names else 'none'}"
        advice = f'Name it: `text_column="{_guess_column(found)}"`.' if names else ""
        raise ParameterError("X", "have one column of texts", got, advice)
    return found[0][1]


def _guess_column(columns: list[tuple[Any, Any]]) -> Any:
    """Return the column with a usual name, or the one with the longest values."""
    usual = [pair for pair in columns if str(pair[0]).strip().casefold() in TEXT_NAMES]
    return max(usual or columns, key=lambda pair: sum(len(str(value)) for value in pair[1].head(HEAD_ROWS)))[0]


def _join_names(names: Any) -> str:
    return ", ".join(map(str, list(names)[:MAX_SHOWN_NAMES]))


def _check_strings(texts: list[Any]) -> list[str]:
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            got = f"{type(text).__name__} at index {i}: {str(text)[:40]!r}"
            raise ParameterError("X", "hold strings only", got, "Convert it to str, or leave that row out.")
    return texts


def check_labels(y: Any, texts: int) -> Any:
    """Return the labels as an array; raise an error unless there is one per text."""
    if y is None:
        raise InputError("requires y to be passed, but the target y is None. Pass a label for each text.")
    must = f"hold one label for each of the {texts} texts"
    shape = as_array(y.data if np.ma.isMaskedArray(y) else y, "y", must, f"Match them. {MULTILABEL}").shape
    if shape != (texts,):
        raise ParameterError("y", must, f"shape {shape}", MULTILABEL if shape[:1] == (texts,) else "Match them.")
    return to_numpy(y)


def _to_plain_array(labels: Any) -> AnyArray:
    """Return labels as an array of strings, numbers or booleans."""
    if np.ma.isMaskedArray(labels):
        labels = labels.data
    if not (isinstance(labels, np.ndarray) and labels.dtype.kind in "biuf"):
        labels = _to_one_kind(list(labels), getattr(labels, "dtype", None))
    if labels.dtype.kind == "f":
        labels = labels.astype(np.float64)
        if not np.isfinite(labels).all():
            place = int(np.flatnonzero(~np.isfinite(labels))[0])
            raise ParameterError("y", "be finite", f"{labels[place]} at index {place}", "Leave these rows out.")
    return np.asarray(labels)


def check_weights(sample_weight: Any, texts: int) -> FloatArray:
    """Return the weights of the texts as floats; at least one must be positive."""
    must, advice = f"hold a number, 0 or larger, for each of the {texts} texts", "Match them."
    array = as_array(sample_weight, "sample_weight", must, advice)
    if array.shape != (texts,) or array.dtype.kind not in "biuf":
        raise ParameterError("sample_weight", must, f"{array.dtype} of shape {array.shape}", advice)
    weights = array.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        got = f"{array[wrong[0]]} at index {wrong[0]}, {len(wrong)} such values in all"
        raise ParameterError("sample_weight", must, got, "Use 0 to leave a text out.")
    if not weights.any():
        raise ParameterError("sample_weight", must, "zero for all of them", "Leave it out.")
    return weights


def check_weighted_labels(class_weight: Any, classes: AnyArray) -> None:
    """Raise an error for class weights of unknown labels."""
    known = set(classes.tolist())
    unknown = [label for label in class_weight if label not in known] if isinstance(class_weight, Mapping) else []
    if unknown:
        advice = did_you_mean(str(unknown[0]), map(str, classes.tolist()), "Use the values that `y` has.")
        must = f"name labels of `y`, {', '.join(map(repr, classes.tolist()[:6]))}"
        raise ParameterError("class_weight", must, repr(unknown[0]), advice)


def check_known_labels(labels: list[Any], classes: AnyArray) -> AnyArray:
    """Return labels as an array, all of them labels of the model."""
    known = classes.tolist()
    unknown = [label for label in labels if is_missing(label) or label not in known]
    if unknown:
        must = f"hold labels of the model: {', '.join(map(repr, known[:MAX_SHOWN_NAMES]))}"
        got = f"{len(unknown)} of {len(labels)} that are not, the first {unknown[0]!r}"
        advice = did_you_mean(str(unknown[0]), map(str, known), "Rename them, or leave these rows out.")
        raise ParameterError("y", must, got, advice)
    return classes[[known.index(label) for label in labels]]


def case_note(classes: AnyArray) -> str:
    """Return a sentence about labels that differ in case only, or nothing."""
    alike: dict[str, list[str]] = {}
    for label in classes.tolist() if classes.dtype.kind == "U" else ():
        alike.setdefault(label.casefold(), []).append(label)
    found = [" and ".join(map(repr, each)) for each in alike.values() if len(each) > 1]
    if not found:
        return ""
    return f"Labels that differ only in case are different classes: {_join_names(found)}. Rename equal ones."


def strip_labels(labels: Iterable[Any]) -> list[Any]:
    """Return labels without spaces around them."""
    return [label.strip() if isinstance(label, str) else label for label in labels]


def _to_one_kind(labels: list[Any], dtype: Any) -> AnyArray:
    """Return Python objects, such as those of a pandas column, as an array of one kind."""
    labels = strip_labels(label.item() if isinstance(label, np.generic) else label for label in labels)
    numbers = [isinstance(label, int | float) and not isinstance(label, bool) for label in labels]  # are one kind
    kinds = {"float" if number else type(label).__name__ for number, label in zip(numbers, labels, strict=True)}
    made = np.array(labels) if len(kinds) == 1 and kinds <= {"str", "bool", "float"} else None
    whole = all(isinstance(label, int) for label in labels)
    if made is None or getattr(dtype, "kind", None) in ("m", "M") or (whole and made.dtype.kind not in "biu"):
        got = " and ".join(sorted({type(label).__name__ for label in labels}) if made is None else [str(made.dtype)])
        must = "hold labels of one kind: text, numbers or booleans"
        several = any(isinstance(label, Collection) and not isinstance(label, str | bytes) for label in labels)
        raise ParameterError("y", must, got, MULTILABEL if several else "Convert them, say with str.")
    if made.tolist() != labels:
        raise ParameterError("y", "hold strings that do not end in NUL", "a string that does", "Strip them.")
    return made
