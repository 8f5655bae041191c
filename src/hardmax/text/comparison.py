"""What makes the answers to two texts different: token by token, exactly."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hardmax._errors import ParameterError
from hardmax.text.model import Model

if TYPE_CHECKING:
    from pandas import DataFrame

    from hardmax.text.explanation import Explanation

SAID = 5  # tokens that the sentence names


class Change(NamedTuple):
    """A token, what it adds to the logit of the first text and of the second, and which of them have it.

    Attributes
    ----------
    token : str
        A word or a run of words.
    before, after : float, or (classes,) array
        What it adds to the logit of the first text and of the second.
    where : str
        Which of them have it.

    Examples
    --------
    >>> import hardmax as hm
    >>> explanation = hm.pretrained("imdb").explain("A wonderful film, but far too long.")
    >>> changes = explanation.counterfactual("A wonderful film, and short.").changes
    >>> {change.where for change in changes if change.token == "wonderful"}
    {'both'}
    """

    token: str
    before: Any
    after: Any
    where: str  # "first", "second" or "both"

    @property
    def change(self) -> Any:
        """`after` less `before`."""
        return self.after - self.before


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Two texts under one model: the changes of all tokens add up to that of the logit. It prints as a sentence.

    A token that both texts have may count more or less in the second, as others lead there.

    Attributes
    ----------
    first, second : Explanation
        Of each text.

    Examples
    --------
    >>> import hardmax as hm
    >>> explanation = hm.pretrained("imdb").explain("A wonderful film, but far too long.")
    >>> comparison = explanation.counterfactual("A dreadful film, but far too long.")
    >>> bool(comparison.change < 0)
    True
    >>> bool(abs(sum(one.change for one in comparison.changes) - comparison.change) < 1e-9)
    True
    """

    first: "Explanation"
    second: "Explanation"

    @property
    def change(self) -> Any:
        """Of the logit."""
        return self.second.logit - self.first.logit

    @property
    def changes(self) -> list[Change]:
        """Of every token, the largest first, seen from the answer to the first text."""
        first, second = self.first, self.second
        ids = np.union1d(first.ids, second.ids)
        shape = (len(ids), *first.contributions.shape[1:])
        before, after = np.zeros(shape), np.zeros(shape)
        before[np.searchsorted(ids, first.ids)] = first.contributions
        after[np.searchsorted(ids, second.ids)] = second.contributions
        here, there = np.isin(ids, first.ids), np.isin(ids, second.ids)
        order = np.argsort(-np.abs(first.signed(after - before)), kind="stable").tolist()
        names = first.model.vocabulary.names(ids)
        where = np.where(here & there, "both", np.where(here, "first", "second")).tolist()
        return [Change(names[i], before[i], after[i], where[i]) for i in order]

    def __repr__(self) -> str:
        first, second = self.first, self.second
        same = "the answer stays" if first.prediction == second.prediction else "the answer becomes"
        written = second.as_written | first.as_written
        parts = [f"{written[each.token]} {float(first.signed(each.change)):+.2f}" for each in self.changes[:SAID]]
        total = float(first.signed(self.change))
        most = f"; most by {', '.join(parts)}" if parts else ""
        return f"{same.capitalize()} {second.prediction}: {total:+.2f} for {first.prediction}{most}."

    def to_frame(self) -> "DataFrame":
        """A pandas DataFrame with a row for each token."""
        import pandas

        first = self.first
        rows = [
            (each.token, each.where, *(float(first.signed(part)) for part in (each.before, each.after, each.change)))
            for each in self.changes
        ]
        return pandas.DataFrame(rows, columns=["token", "where", "before", "after", "change"])


def compare(model: Model, first: "Explanation", second: "Explanation") -> Comparison:
    """Two explanations of one model."""
    if second.model is not model:
        raise ParameterError("text", "be a text, or explained by the same model", "one of another model")
    return Comparison(first, second)
