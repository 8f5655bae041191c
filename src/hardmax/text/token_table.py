"""Which tokens carry the answers in a collection of texts: sums over all of them, in one pass.

Sums of some of the texts can be added to those of others, so that a collection may be larger than memory.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import ParameterError, needed_for
from hardmax._types import AnyArray, BoolArray, FloatArray, IntArray
from hardmax.text.model import Model, contributions, in_parts, sums_by_text

if TYPE_CHECKING:
    from pandas import DataFrame


class TokenSums:
    """Counts and sums of each token, over some of the texts."""

    def __init__(self, tokens: int, outputs: int) -> None:
        self.count = np.zeros(tokens, np.int64)
        self.sum, self.absolute = np.zeros((2, tokens, outputs))

    def add(self, ids: AnyArray, terms: FloatArray) -> None:
        """Add what tokens contribute, each as often as it comes: (m,) numbers and (m, outputs) contributions."""
        self.count += np.bincount(ids, minlength=len(self.count))
        for output, column in enumerate(terms.T):
            self.sum[:, output] += np.bincount(ids, column, len(self.count))
            self.absolute[:, output] += np.bincount(ids, np.abs(column), len(self.count))

    def add_sums(self, ids: IntArray, count: IntArray, total: FloatArray, absolute: FloatArray) -> None:
        """Add sums over other texts, of tokens that come once each: (m,) numbers, (m,) counts, (m, outputs) sums."""
        self.count[ids] += count
        self.sum[ids] += total
        self.absolute[ids] += absolute


def token_table(model: Model, texts: Sequence[str], labels: Sequence[Any] | None) -> "DataFrame":
    """The table of `HardmaxClassifier.contributions`."""
    with needed_for("`contributions`", "pandas", "text"):
        import pandas  # noqa: F401

    if labels is not None and len(labels) != len(texts):
        raise ParameterError("labels", f"hold one label for each of the {len(texts)} texts", str(len(labels)))
    truth = None if labels is None else np.asarray(labels)
    groups = {} if truth is None else _groups(model, truth)
    tokens, outputs = len(model.weights.embedding), model.weights.outputs
    names = ("", *groups, *(("right", "wrong") if truth is not None else ()))
    sums = {name: TokenSums(tokens, outputs) for name in names}
    start = 0
    for some in in_parts(texts):
        encoded = model.vocabulary.encode(some)
        terms = contributions(model.weights, encoded)
        owners = np.repeat(np.arange(len(encoded)), encoded.sizes)
        sums[""].add(encoded.ids, terms)
        if truth is not None:
            here = slice(start, start + len(some))
            right = model.decide(model.weights.bias + sums_by_text(terms, encoded)) == truth[here]
            parts: dict[str, BoolArray] = {name: mask[here] for name, mask in groups.items()}
            for name, mask in (parts | {"right": right, "wrong": ~right}).items():
                rows = mask[owners]
                sums[name].add(encoded.ids[rows], terms[rows])
        start += len(some)
    seen = np.flatnonzero(sums[""].count)
    return frame_of(sums, seen, model.vocabulary.names(seen), logit_classes(model.classes))


def logit_classes(classes: AnyArray) -> list[Any]:
    """The class that each logit speaks for: with two classes there is one, of the second."""
    return classes.tolist() if len(classes) > 2 else classes.tolist()[1:]


def frame_of(
    sums: Mapping[str, TokenSums], seen: IntArray, names: Sequence[str], classes: Sequence[Any]
) -> "DataFrame":
    """A table of the tokens that are `seen`, under their `names`; those that do most first.

    The sums under "" are those of all texts, others are of the texts that their name says. `share` is the part of a
    token in what all tokens say together, sizes added.
    """
    import pandas

    tables = []
    for output, label in enumerate(classes):
        columns: dict[str, Any] = {"token": names, "for": label}
        for name, found in sums.items():
            ending = f"_{name}" if name else ""
            count, total = found.count[seen], found.sum[seen, output]
            with np.errstate(invalid="ignore"):
                columns |= {f"count{ending}": count, f"sum{ending}": total, f"mean{ending}": total / count}
                columns[f"mean_abs{ending}"] = (absolute := found.absolute[seen, output]) / count
                if not name:
                    columns["share"] = absolute / absolute.sum()
        tables.append(pandas.DataFrame(columns))
    table = pandas.concat(tables, ignore_index=True)
    order = np.argsort(-np.abs(table["sum"].to_numpy()), kind="stable")
    return table.iloc[order].reset_index(drop=True)


def _groups(model: Model, truth: AnyArray) -> dict[str, BoolArray]:
    """Which texts have each label."""
    unknown = [label for label in np.unique(truth).tolist() if label not in model.classes.tolist()]
    if unknown:
        must = f"be those of the model: {', '.join(map(str, model.classes.tolist()))}"
        raise ParameterError("labels", must, repr(unknown[0]), "Rename them.")
    return {f"in_{label}": truth == label for label in model.classes.tolist()}
