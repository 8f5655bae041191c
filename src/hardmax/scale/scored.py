"""Answers to a corpus in the files of a folder, and the table of its tokens."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hardmax._errors import InputError, needed_for
from hardmax.scale.scoring import ABOUT, answers_name, tokens_name
from hardmax.scale.sweep import Sweep
from hardmax.text.statistics import TokenSums, frame_of, logit_classes

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

SWEEP = "_sweep"  # folder, which programs that read the answers pass over


@dataclass(frozen=True, repr=False)
class Scored:
    """Answers to every text of a corpus, in the files of a folder. It prints as a sentence.

    Iterating over it gives Arrow record batches in the order of the rows.

    Attributes
    ----------
    sweep : Sweep
        The sweep over slices of the corpus that wrote them.

    Examples
    --------
    >>> import hardmax as hm
    >>> answers = hm.scale.Scored.open("scored")  # doctest: +SKIP
    >>> answers.to_frame()["prediction"].value_counts()  # doctest: +SKIP
    """

    sweep: Sweep

    @classmethod
    def open(cls, out: str | PathLike[str]) -> "Scored":
        """The answers in a folder that `predict_files` wrote, whether or not it came to its end.

        Parameters
        ----------
        out : path
            The folder.

        Returns
        -------
        Scored

        Raises
        ------
        ParameterError
            If it holds no answers, or those of another version.
        """
        return cls(Sweep.open(Path(out) / SWEEP))

    @property
    def out(self) -> Path:
        """The folder."""
        return self.sweep.out.parent

    @cached_property
    def _slices(self) -> list[tuple[int, int]]:
        """Numbers of the slices that have answers, and of their rows."""
        done = self.sweep.table().select(["number", "rows", "error"]).to_pylist() if self.sweep.rows else []
        return [(row["number"], row["rows"]) for row in done if row["error"] is None]

    @property
    def rows(self) -> int:
        """How many texts have an answer."""
        return sum(rows for _, rows in self._slices)

    @property
    def complete(self) -> bool:
        """Whether all have."""
        return len(self._slices) == self.sweep.cells

    def __repr__(self) -> str:
        done, of = len(self._slices), "" if self.complete else f" of {self.sweep.cells:,}"
        parts = f"{done:,}{of} part{'s' * (self.sweep.cells != 1)}"
        return f"<Scored: {self.rows:,} rows in {parts} in {self.out}>"

    def parts(self) -> list[Path]:
        """The files of answers, in the order of the rows."""
        return [self.out / answers_name(number) for number, _ in self._slices]

    def __iter__(self) -> "Iterator[pa.RecordBatch]":
        import pyarrow.parquet as pq

        for path in self.parts():
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches()

    def table(self) -> "pa.Table":
        """All answers as one Arrow table, for corpora that fit in memory."""
        import pyarrow as pa

        if not self.rows:
            raise InputError("A table needs at least one row. Got none. Call `predict_files` again: it goes on.")
        return pa.Table.from_batches(iter(self)).replace_schema_metadata()

    def to_frame(self) -> "pd.DataFrame":
        """The same as a pandas table."""
        return self.table().to_pandas()

    def tokens(self) -> "pd.DataFrame":
        """Which tokens carry the answers, as `HardmaxClassifier.contributions` has it; those that do most first.

        A row has a token, the class `for` whose logit the sums are, `count`, in how many texts it stands, over these
        `sum`, `mean` and `mean_abs` of its contributions, and `share`, its part of all sizes together; then all but
        that over the texts that were answered with each class. Sums of slices are added in the order of slices,
        one after the other, so that the table is the same to the last bit whatever the workers did.
        """
        with needed_for("`Scored.tokens`", None, "scale"):
            import pandas  # noqa: F401
            import pyarrow.parquet as pq
        if not self.rows:
            raise InputError("A table needs at least one row. Got none. Call `predict_files` again: it goes on.")
        sums: dict[str, TokenSums] = {}
        for number, _ in self._slices:
            part = pq.read_table(self.out / tokens_name(number), page_checksum_verification=True)
            about = json.loads(part.schema.metadata[ABOUT])
            classes, size = np.array(about["classes"]), about["vocabulary"]
            outputs = len(logit_classes(classes))
            if not sums:
                names = np.empty(size, object)
                sums = {f"answered_{label}": TokenSums(size, outputs) for label in classes.tolist()}
            ids, answers = part["id"].to_numpy(), part["answer"].to_numpy()
            names[ids] = part["token"].to_numpy()
            columns = [part[name].to_numpy() for name in ("count", "sum", "sum_abs")]
            for label, found in zip(classes.tolist(), sums.values(), strict=True):
                rows = np.flatnonzero(answers == label).reshape(outputs, -1)  # logits one after the other, in each
                count, total, absolute = (column[rows] for column in columns)
                found.add_sums(ids[rows[0]], count[0], total.T, absolute.T)
        whole, every = TokenSums(size, outputs), np.arange(size)
        for found in sums.values():
            whole.add_sums(every, found.count, found.sum, found.absolute)
        seen = np.flatnonzero(whole.count)
        return frame_of({"": whole} | sums, seen, names[seen].tolist(), logit_classes(classes))
