"""Checks of texts and labels, and splits into rows to learn from and rows to hold out.

Equal texts, and rows of one group, are on the same side of every split: a text that is
learned and held out at the same time would make the reported accuracy too large.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress
from typing import Any, NamedTuple
from warnings import warn

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.utils.multiclass import check_classification_targets

from hardmax._errors import InputError, ParameterError, did_you_mean
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax._validation import as_array, is_missing, to_numpy
from hardmax.text.columns import RowText, join_columns
from hardmax.text.encoder import VectorText
from hardmax.text.files import join_names
from hardmax.text.model import Model, label_tuples
from hardmax.text.parameters import Parameters, check_parameters
from hardmax.text.tables import choose_column, left_out_note
from hardmax.text.tokenizer import Splitter, unspaced_note

MULTILABEL = (
    "For several labels per text pass a list of labels for each, or a matrix of 0"
    " and 1."
)
HEAD_ROWS = 100  # rows of a DataFrame that are read to find the column of texts
FOLDS = 5
MIN_ROWS = 5  # rows of a class from which some are held back for validation
MAX_SHOWN_ROWS = 5


class DuplicateWarning(UserWarning):
    """Warn of texts that occur more than once in the training data."""


class TrainingSet(NamedTuple):
    """Checked texts and labels of `fit`, without rows that are left out."""

    texts: Sequence[str]
    # (texts,) indices of `classes`; with several labels per text (texts, classes) of 0
    # and 1
    labels: IntArray
    classes: AnyArray  # (classes,) distinct labels in order
    weights: FloatArray | None  # (texts,) positive sample weights; None is 1 for each
    groups: (
        IntArray  # (texts,) rows with equal entries are on the same side of every split
    )
    given: IntArray  # (texts,) indices that restore the order of the caller
    multilabel: str = ""  # the form of several labels per text: "matrix" or "sets"

    def given_labels(self) -> list[Any]:
        """Return the label of each text in the order of the caller, a tuple for
        several.
        """
        labels = self.labels[self.given]
        return (
            label_tuples(labels, self.classes)
            if self.multilabel
            else self.classes[labels].tolist()
        )


def check_training_set(
    X: Any, y: Any, sample_weight: Any, groups: Any, parameters: Parameters
) -> TrainingSet:
    """Check the arguments of `fit` and the parameters; warn of rows, labels and texts
    that look wrong.
    """
    check_parameters(parameters)
    sets = find_label_sets(y)
    texts, labels, complete = _complete_rows(
        X, y if sets is None else sets.rows, parameters
    )
    if sets is None:
        check_classification_targets(labels)
    else:
        classes, labels = sets.to_matrix(labels)
    weights, rows = None, np.flatnonzero(complete)
    group_of_row = None if groups is None else check_groups(groups, len(complete))
    if sample_weight is not None:
        weights = check_weights(sample_weight, len(complete))[complete]
        some = np.flatnonzero(weights)
        texts, labels, weights, rows = (
            [texts[i] for i in some],
            labels[some],
            weights[some],
            rows[some],
        )
    if sets is None:
        classes, labels = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        got = f"only {classes.tolist()} in {len(labels)} texts: 1 class"
        raise ParameterError(
            "y", "hold at least two classes", got, "Check the column of labels."
        )
    if isinstance(parameters.class_weight, Mapping):
        _refuse_unknown(parameters.class_weight, classes, "class_weight")
    for sentence in (
        _case_note(classes),
        unspaced_note(texts) if parameters.tokenizer is None else "",
    ):
        if sentence:
            warn(sentence, UserWarning, stacklevel=3)
    numbers = number_texts(texts)
    if len(duplicates := find_duplicates(numbers)):
        found = duplicate_note(rows[duplicates].tolist(), len(texts), "at index")
        warn(found, DuplicateWarning, stacklevel=3)
    if group_of_row is not None:
        numbers = join_groups(numbers, group_of_row[rows])
    for c, name in enumerate(classes):
        own = np.flatnonzero(labels == c if sets is None else labels[:, c])
        if sets is not None and len(own) in (0, len(labels)):
            note = (
                f"Label {str(name)!r} is that of {len(own)} of {len(labels)} texts, as"
                " in every prediction."
            )
            warn(note, UserWarning, stacklevel=3)
        elif len(own) > 1 and len(np.unique(numbers[own])) == 1:
            why = f"all {len(own)} are equal or in one group"
            note = (
                f"No text of class {str(name)!r} can be held out, as {why}: its"
                " accuracy is not measured."
            )
            warn(note, UserWarning, stacklevel=3)
    # Sorted, so that the model does not depend on the order of the rows; without case,
    # as tokens have none.
    keys = [getattr(text, "digest", text) for text in texts]
    sizes = np.ones(len(keys)) if weights is None else weights
    cells = zip(keys, np.reshape(labels, (len(keys), -1)).tolist(), sizes, strict=True)
    rank = [(key.casefold(), key, *rest) for key, *rest in cells]
    order = np.array(sorted(range(len(keys)), key=rank.__getitem__), np.intp)
    weights, numbers = (
        None if weights is None else weights[order],
        _number_values(numbers[order].tolist()),
    )
    form, texts = "" if sets is None else sets.form, [texts[i] for i in order]
    return TrainingSet(
        texts, labels[order], classes, weights, numbers, np.argsort(order), form
    )


class LabelSets(NamedTuple):
    """Several labels of each text."""

    rows: AnyArray  # (texts,) tuples of labels, None where they are missing
    form: str  # "matrix" of 0 and 1, or "sets"
    classes: AnyArray | None  # of a matrix, one for each column

    def to_matrix(self, rows: AnyArray) -> tuple[AnyArray, IntArray]:
        """Return the labels in order, and a matrix of 0 and 1 for some of the rows."""
        stripped, every = [strip_labels(row) for row in rows], self.classes
        if every is None:
            every = (
                np.unique(_to_plain_array(list(chain.from_iterable(stripped))))
                if any(stripped)
                else np.empty(0)
            )
        return every, np.array([np.isin(every, row) for row in stripped], np.intp)


def find_label_sets(y: Any) -> LabelSets | None:
    """Return several labels of each text, of lists of labels or of a matrix of 0 and 1;
    None for one label per text.
    """
    names = list(y.columns) if hasattr(y, "columns") else None
    values = (
        y.toarray()
        if hasattr(y, "toarray")
        else y.to_numpy()
        if hasattr(y, "to_numpy")
        else to_numpy(y)
    )
    if (
        not hasattr(values, "__iter__")
        or isinstance(values, str | bytes)
        or np.ma.isMaskedArray(values)
    ):
        return None
    rows = np.empty(len(values), object)
    several = [
        isinstance(each, Collection) and not isinstance(each, str | bytes)
        for each in values
    ]
    rows[:] = [
        tuple(each) if has else None for each, has in zip(values, several, strict=True)
    ]
    widths, is_array = set(map(len, rows[several])), getattr(values, "ndim", 1) == 2
    if not widths or (is_array and widths == {1}):
        return None
    if others := [
        each
        for each, has in zip(values, several, strict=True)
        if not has and not is_missing(each)
    ]:
        raise ParameterError(
            "y",
            "hold a list of labels for each text",
            f"{others[0]!r} beside lists",
            MULTILABEL,
        )
    if any(
        isinstance(label, list | tuple | np.ndarray)
        for row in rows[several]
        for label in row
    ):
        raise ParameterError(
            "y", "hold labels, or lists of labels", "lists of lists", MULTILABEL
        )
    if (
        all(several)
        and len(widths) == 1
        and widths != {1}
        and set(chain.from_iterable(rows)) <= {0, 1}
    ):
        classes = np.arange(widths.pop()) if names is None else _to_plain_array(names)
        rows[:] = label_tuples(np.array(rows.tolist()), classes)
        return LabelSets(rows, "matrix", classes)
    if is_array:
        raise ParameterError(
            "y",
            "hold 0 and 1 where it is a matrix",
            f"shape {values.shape} with others",
            MULTILABEL,
        )
    return LabelSets(rows, "sets", None)


def check_known_sets(y: Any, texts: int, classes: AnyArray) -> IntArray:
    """Return a matrix of 0 and 1 for several labels of each text; raise an error for
    unknown labels.
    """
    sets = find_label_sets(y)
    if sets is None or len(sets.rows) != texts or None in sets.rows.tolist():
        raise ParameterError(
            "y",
            f"hold several labels for each of the {texts} texts",
            "others",
            MULTILABEL,
        )
    if sets.classes is None or len(sets.classes) != len(classes):
        _refuse_unknown(strip_labels(chain.from_iterable(sets.rows)), classes, "y")
        sets = sets._replace(classes=classes)
    return sets.to_matrix(sets.rows)[1]


def number_texts(texts: Sequence[str]) -> IntArray:
    """Return (texts,) integers, the same for texts that differ in case, spaces, markup
    and punctuation only.
    """
    words = Splitter(punctuation=False).words
    keys = (
        (
            text.digest
            if isinstance(text, VectorText)
            else " ".join(words(text)) or text.strip()
        )
        for text in texts
    )
    return _number_values(list(keys))


def find_duplicates(numbers: IntArray) -> IntArray:
    """Return the rows whose number occurs in an earlier row."""
    return np.setdiff1d(
        np.arange(len(numbers)), np.unique(numbers, return_index=True)[1]
    )


def duplicate_note(rows: Sequence[int], texts: int, name: str) -> str:
    """Return a sentence about duplicates in some rows, whose numbers are called `name`."""
    listed = ", ".join(map(str, rows[:MAX_SHOWN_ROWS])) + (
        ", ..." if len(rows) > MAX_SHOWN_ROWS else ""
    )
    found = (
        f"{len(rows)} of {texts} texts are duplicates of an earlier text, apart from"
        " case, spaces, markup and"
    )
    return (
        f"{found} punctuation ({name} {listed}). Equal texts are held out together, so"
        " that accuracy is measured on other texts."
    )


def check_groups(groups: Any, rows: int) -> IntArray:
    """Return (rows,) integers, the same within a group; a row whose group is missing is
    a group of its own.
    """
    must = f"hold one group for each of the {rows} texts"
    advice = "Pass a sequence as long as the texts, such as a column of the same table."
    shape = as_array(groups, "groups", must, advice).shape
    if shape != (rows,):
        raise ParameterError("groups", must, f"shape {shape}", advice)
    values = list(to_numpy(groups))
    return _number_values(
        [(row,) if is_missing(value) else value for row, value in enumerate(values)]
    )


def join_groups(first: IntArray, second: IntArray) -> IntArray:
    """Return (rows,) integers, the same for rows that are connected by equal entries of
    `first` or `second`.
    """
    size = len(
        first
    )  # of a graph with a node for each value of `first`, then of `second`, and an edge for each row
    links = coo_array(
        (np.ones(size, bool), (first, size + _number_values(second.tolist()))),
        (2 * size, 2 * size),
    )
    return _number_values(
        connected_components(links, directed=False)[1][first].tolist()
    )


def folds(labels: IntArray, groups: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield rows held out and the others, so that every class is among the others; the
    same at every call.

    Groups go to the fold with the fewest rows of their classes, large groups first. A
    class that is in one group alone is never held out.
    """
    random = np.random.default_rng([0, 30_000])
    order = np.concatenate(
        [
            random.permutation(np.flatnonzero(labels == label))
            for label in np.unique(labels)
        ]
    )
    fold = _assign_folds(list(dict.fromkeys(groups[order].tolist())), labels, groups)[
        groups
    ]
    for k in range(FOLDS):
        if (fold == k).any():
            yield np.flatnonzero(fold == k), np.flatnonzero(fold != k)


def hold_out(labels: IntArray, part: float, seed: int, groups: IntArray) -> IntArray:
    """Return the rows to validate with: about that part of every class, at random and
    in whole groups.

    Every class keeps rows to learn from; of a class of fewer than 5 rows none is held
    back.
    """
    random, held = (
        np.random.default_rng([seed, 20_000]),
        np.zeros(groups.max(initial=0) + 1, bool),
    )
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        wanted = (
            min(round(part * len(members)), len(members) - 1)
            if len(members) >= MIN_ROWS
            else 0
        )
        sizes, found = (
            np.bincount(groups[members], minlength=len(held)),
            int(held[groups[members]].sum()),
        )
        free = [
            group
            for group in dict.fromkeys(groups[members].tolist())
            if not held[group]
        ]
        for group in free:
            if found + sizes[group] <= wanted:
                held[group], found = True, found + sizes[group]
        if wanted and not found:
            held[min(free, key=lambda group: sizes[group])] = (
                True  # all groups are larger than that part
            )
    for label in np.unique(labels):
        inside = np.unique(groups[labels == label])
        if held[inside].all():
            held[inside] = False
    return np.flatnonzero(held[groups])


def _assign_folds(order: list[int], labels: IntArray, groups: IntArray) -> IntArray:
    """Return the fold of every group, -1 for groups that are never held out; `order`
    breaks ties.
    """
    in_class, sizes = np.bincount(labels), np.bincount(groups)
    codes, rows = np.unique(groups * len(in_class) + labels, return_counts=True)
    owners, classes = np.divmod(codes, len(in_class))
    alone = np.bincount(classes, minlength=len(in_class)) == 1  # classes in one group
    parts: dict[
        int, list[tuple[int, int]]
    ] = {}  # labels of each group, with the number of rows
    for group, label, count in zip(
        owners.tolist(), classes.tolist(), rows.tolist(), strict=True
    ):
        parts.setdefault(group, []).append((label, count))
    fold, counts, total = (
        np.full(len(sizes), -1),
        [[0] * len(in_class) for _ in range(FOLDS)],
        [0] * FOLDS,
    )
    for group in sorted(order, key=lambda group: -sizes[group]):
        if any(alone[label] for label, _ in parts[group]):
            continue
        weights = [
            (label, count / int(in_class[label])) for label, count in parts[group]
        ]
        crowded = [
            sum(counts[k][label] * weight for label, weight in weights)
            for k in range(FOLDS)
        ]
        k = fold[group] = min(range(FOLDS), key=lambda k: (crowded[k], total[k]))
        total[k] += int(sizes[group])
        for label, count in parts[group]:
            counts[k][label] += count
    for label in range(len(in_class)):
        inside = owners[classes == label]
        if len(np.unique(fold[inside])) == 1:
            fold[inside] = -1  # the class would be missing among the others
    return fold


def _number_values(values: Sequence[Any]) -> IntArray:
    """Return integers that number the distinct values in the order of their first
    occurrence.
    """
    known: dict[Any, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], np.intp)


def check_texts(
    X: Any, column: str | None = None, model: Model | None = None
) -> list[str]:
    """Return a list of strings, with "" for missing texts; raise an error for what a
    model cannot read.
    """
    names = model.columns.names if model is not None else ()
    texts = _as_list(X, column, names)
    if model is not None:
        context = model.context
        reads_vectors = context is not None and context.encoder.source is None
        if reads_vectors != isinstance(texts[0], VectorText):
            must, got = ("vectors", "texts") if reads_vectors else ("texts", "vectors")
            raise ParameterError(
                "X",
                f"be {must}, as the model was trained on {must}",
                got,
                "Pass the same kind.",
            )
        if context is not None:
            context.encoder.warn_of_cut(texts)
        for note in model.columns.find_notes(texts):
            warn(note, UserWarning, stacklevel=3)
    if missing := sum(not isinstance(text, str) for text in texts):
        counted = (
            f"{missing} of {len(texts)} texts are missing; they count as empty texts."
        )
        warn(counted, UserWarning, stacklevel=3)
    return [text if isinstance(text, str) else "" for text in texts]


def _complete_rows(
    X: Any, y: Any, parameters: Parameters
) -> tuple[list[str], AnyArray, BoolArray]:
    """Return texts and labels of the rows that have both, and a mask of these rows."""
    columns = None if parameters.columns is None else parameters.column_names
    texts = _as_list(X, parameters.text_column, columns)
    if isinstance(texts[0], VectorText) and parameters.encoder is not None:
        raise ParameterError(
            "encoder",
            "be left out where X holds vectors",
            repr(parameters.encoder)[:40],
        )
    labels = check_labels(y, len(texts))
    masked = (
        np.ma.getmaskarray(labels)
        if np.ma.isMaskedArray(labels)
        else np.zeros(len(texts), bool)
    )
    missing = masked | [
        is_missing(text) or is_missing(label)
        for text, label in zip(texts, labels, strict=True)
    ]
    if missing.all():
        got = f"{len(texts)}, all without"
        raise ParameterError(
            ("X", "y"),
            "hold at least one row with a text and a label",
            got,
            "Check the columns.",
        )
    if missing.any():
        warn(left_out_note(int(missing.sum()), len(texts)), UserWarning, stacklevel=4)
        texts = list(compress(texts, ~missing))
        labels = (
            labels[~missing]
            if isinstance(labels, np.ndarray)
            else list(compress(labels, ~missing))
        )
    spaced = [
        label for label in labels if isinstance(label, str) and label != label.strip()
    ]
    if spaced:
        note = (
            f"Removed the spaces around {len(spaced)} of {len(labels)} labels:"
            f" {spaced[0]!r}"
        )
        warn(f"{note} becomes {spaced[0].strip()!r}.", UserWarning, stacklevel=4)
    several = isinstance(labels[0], tuple)
    return texts, labels if several else _to_plain_array(labels), ~missing


def _as_list(X: Any, column: str | None, columns: Collection[str] | None) -> list[Any]:
    """Return a list of strings and missing values; raise an error for anything else.

    With `columns` the strings have the values of these columns of a DataFrame.
    """
    if isinstance(X, str | bytes) or getattr(X, "ndim", 1) == 0:
        raise ParameterError(
            "X", "be a list of texts", "a single one", "Put it in brackets: [text]."
        )
    frame = X if hasattr(X, "columns") and hasattr(X, "items") else None
    if frame is not None:
        X = _text_column(frame, column, columns or ())
        if columns:
            X = join_columns(X, frame, columns)
        elif columns is None and len(frame.columns) > 1:
            others = join_names([str(name) for name in frame.columns if name != X.name])
            note = (
                f"Only column {X.name!r} of X is read. To read {others}, pass their"
                " names as `columns`, else ()."
            )
            warn(note, UserWarning, stacklevel=5)
    if hasattr(X, "__len__") and not len(X):
        raise ParameterError(
            "X",
            "hold at least one text",
            "none: 0 sample(s) while a minimum of 1 is required",
        )
    if (vectors := _as_vectors(X)) is not None:
        return vectors
    if hasattr(X, "ndim") and X.ndim != 1:
        advice = "Reshape your data or pass a single column."
        raise ParameterError(
            "X",
            "be one-dimensional, one text per entry",
            f"shape {tuple(X.shape)}",
            advice,
        )
    if not hasattr(X, "__len__") or not hasattr(X, "__iter__"):
        raise ParameterError("X", "be a list of texts", type(X).__name__)
    texts = list(X)  # by position: a pandas index may be anything
    for i, text in enumerate(texts):
        if not isinstance(text, str) and not is_missing(text):
            got = f"{type(text).__name__} at index {i}: {str(text)[:40]!r}"
            raise ParameterError(
                "X",
                "hold strings only",
                got,
                "Convert it to str, or leave that row out.",
            )
    if columns and not isinstance(texts[0], RowText):
        must, advice = (
            f"be a DataFrame with the columns {join_names(list(columns))}",
            "Or use hardmax predict --file.",
        )
        raise ParameterError("X", must, "texts alone", advice)
    return texts


def _as_vectors(X: Any) -> list[VectorText] | None:
    """Return vectors in place of texts: of an (N, d) array, or of N arrays of shape (n,
    d); None for anything else.
    """
    X = X.to_numpy() if hasattr(X, "to_numpy") else to_numpy(X)
    is_array = isinstance(X, np.ndarray) and X.ndim in (2, 3) and X.dtype.kind in "iuf"
    first = (
        to_numpy(X[0]) if isinstance(X, list | tuple | np.ndarray) and len(X) else None
    )
    if not is_array and not (
        isinstance(first, np.ndarray) and first.dtype.kind in "iuf"
    ):
        return None
    found = [np.atleast_2d(np.asarray(to_numpy(each))) for each in X]
    must = (
        "be texts, an (N, d) array, or a list of (n, d) arrays of finite float32"
        " numbers"
    )
    for i, each in enumerate(found):
        fits = (
            each.ndim == 2
            and each.dtype.kind in "iuf"
            and 0 < each.shape[1] == found[0].shape[-1]
        )
        if not fits or not np.abs(each).max(initial=0) <= np.finfo(np.float32).max:
            raise ParameterError(
                "X",
                must,
                f"{each.dtype} of shape {each.shape} at index {i}",
                "Check that array.",
            )
    return [VectorText.of(each) for each in found]


def _text_column(X: Any, column: str | None, columns: Collection[str]) -> Any:
    """Return the column of a DataFrame that holds the texts."""
    names = [str(name) for name in X.columns]
    if all(getattr(kind, "kind", "O") in "iuf" for kind in X.dtypes):
        advice = (
            "For vectors pass `frame.to_numpy()`. The columns are:"
            f" {join_names(names)}."
        )
        raise ParameterError(
            "text_column", "name a column of texts", "columns of numbers alone", advice
        )
    heads = ((str(name), values.head(HEAD_ROWS)) for name, values in X.items())
    others = [
        name
        for name, values in heads
        if not any(isinstance(value, str) for value in values)
    ] + list(columns)
    return X.iloc[
        :,
        names.index(
            choose_column(names, column, "the DataFrame", "text_column", (), others)
        ),
    ]


def check_labels(y: Any, texts: int, name: str = "y") -> Any:
    """Return the labels as a list or an array; raise an error unless there is one per
    text.
    """
    if y is None:
        raise InputError(
            "requires y to be passed, but the target y is None. Pass a label for each"
            " text."
        )
    must = f"hold one label for each of the {texts} texts"
    shape = as_array(
        y.data if np.ma.isMaskedArray(y) else y, name, must, f"Match them. {MULTILABEL}"
    ).shape
    if shape != (texts,):
        raise ParameterError(
            name,
            must,
            f"shape {shape}",
            MULTILABEL if shape[:1] == (texts,) else "Match them.",
        )
    if isinstance(y, Sequence) or np.ma.isMaskedArray(y):
        return y
    return np.asarray(to_numpy(y))  # by position: a pandas index may be anything


def _to_plain_array(given: Any) -> AnyArray:
    """Return labels, such as those of a pandas column, as an array of strings, finite
    numbers or booleans.
    """
    found = given.data if np.ma.isMaskedArray(given) else given
    if not (isinstance(found, np.ndarray) and found.dtype.kind in "biuf"):
        labels = strip_labels(
            label.item() if isinstance(label, np.generic) else label for label in found
        )
        numbers = [
            isinstance(label, int | float) and not isinstance(label, bool)
            for label in labels
        ]  # are one kind
        kinds = {
            float if number else type(label)
            for number, label in zip(numbers, labels, strict=True)
        }
        made = np.array(labels) if kinds in ({str}, {bool}, {float}) else None
        is_time = getattr(getattr(found, "dtype", None), "kind", None) in ("m", "M")
        too_large = (
            made is not None
            and all(isinstance(x, int) for x in labels)
            and made.dtype.kind not in "biu"
        )
        if made is None or is_time or too_large:
            names = {type(label).__name__ for label in labels}
            got = " and ".join(sorted(names) if made is None else [str(made.dtype)])
            must = "hold labels of one kind: text, numbers or booleans"
            several = any(
                isinstance(label, Collection) and not isinstance(label, str | bytes)
                for label in labels
            )
            raise ParameterError(
                "y", must, got, MULTILABEL if several else "Convert them, say with str."
            )
        if made.tolist() != labels:
            raise ParameterError(
                "y",
                "hold strings that do not end in NUL",
                "a string that does",
                "Strip them.",
            )
        found = made
    if found.dtype.kind == "f":
        found = found.astype(np.float64)
        if len(wrong := np.flatnonzero(~np.isfinite(found))):
            got = f"{found[wrong[0]]} at index {wrong[0]}"
            raise ParameterError("y", "be finite", got, "Leave these rows out.")
    return np.asarray(found)


def check_weights(sample_weight: Any, texts: int) -> FloatArray:
    """Return the weights of the texts as floats; at least one must be positive."""
    must, advice = (
        f"hold a number, 0 or larger, for each of the {texts} texts",
        "Match them.",
    )
    array = as_array(sample_weight, "sample_weight", must, advice)
    if array.shape != (texts,) or array.dtype.kind not in "biuf":
        raise ParameterError(
            "sample_weight", must, f"{array.dtype} of shape {array.shape}", advice
        )
    weights = array.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        got = f"{array[wrong[0]]} at index {wrong[0]}, {len(wrong)} such values in all"
        raise ParameterError("sample_weight", must, got, "Use 0 to leave a text out.")
    if not weights.any():
        raise ParameterError(
            "sample_weight", must, "zero for all of them", "Leave it out."
        )
    return weights


def check_known_labels(
    y: Any, texts: int, classes: AnyArray, name: str = "y"
) -> AnyArray:
    """Return one label for each text as an array; raise an error for labels that the
    model does not have.
    """
    labels = strip_labels(check_labels(y, texts, name))
    _refuse_unknown(labels, classes, name)
    known = classes.tolist()
    return classes[[known.index(label) for label in labels]]


def _refuse_unknown(labels: Collection[Any], classes: AnyArray, name: str) -> None:
    """Raise an error for labels that are not among the classes."""
    known = classes.tolist()
    unknown = [label for label in labels if is_missing(label) or label not in known]
    if unknown:
        must = (
            "hold labels of the training data only:"
            f" {join_names(list(map(repr, known)))}"
        )
        got = f"{len(unknown)} of {len(labels)} that are not, the first {unknown[0]!r}"
        advice = did_you_mean(
            str(unknown[0]), map(str, known), "Rename them, or leave them out."
        )
        raise ParameterError(name, must, got, advice)


def _case_note(classes: AnyArray) -> str:
    """Return a sentence about labels that differ in case only, or nothing."""
    alike: dict[str, list[str]] = {}
    for label in classes.tolist() if classes.dtype.kind == "U" else ():
        alike.setdefault(label.casefold(), []).append(label)
    found = [" and ".join(map(repr, each)) for each in alike.values() if len(each) > 1]
    if not found:
        return ""
    return (
        f"Labels that differ only in case are different classes: {join_names(found)}."
        " Rename equal ones."
    )


def strip_labels(labels: Iterable[Any]) -> list[Any]:
    """Return labels without spaces around them."""
    return [label.strip() if isinstance(label, str) else label for label in labels]
