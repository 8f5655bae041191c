"""Predictions for files of any size: a sweep over slices of the files, whose cells write the predictions."""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from errno import EDQUOT, ENOSPC
from functools import cached_property
from hashlib import sha256
from itertools import accumulate
from os import PathLike, strerror
from pathlib import Path
from typing import TYPE_CHECKING
from warnings import warn

import numpy as np

from hardmax._errors import InputError, ParameterError, needed_for
from hardmax._files import check_writable
from hardmax._types import Progress
from hardmax.scale.design import Design
from hardmax.scale.executor import CONTINUE, Engine, check_engine
from hardmax.scale.slice_predictor import ABOUT, TOKENS, SlicePredictor, answers_name, tokens_name
from hardmax.scale.slices import Slice, find_files, make_slices
from hardmax.scale.store import FILE as MANIFEST
from hardmax.scale.store import Configuration, Manifest, hash_file
from hardmax.scale.sweep import SweepTable, check_shared, run
from hardmax.text.files import How
from hardmax.text.statistics import TokenSums, frame_of, logit_classes
from hardmax.text.storage import FILE, find_model, load_model

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from distributed import Client

NAME = "predict_files"  # of the cell
SWEEP, COPIES = "_sweep", "_texts"  # folders; programs that read Parquet folders skip such names
MAX_LISTED = 3  # slices in an error message
ERROR_KIND = re.compile(r"^(Parameter|Input)Error: ")


@dataclass(frozen=True, repr=False)
class PredictedFiles:
    """Predictions for every text of some files, stored as Parquet in a folder. Its repr is a sentence.

    Iterating over it yields Arrow record batches in the order of the rows.

    Attributes
    ----------
    sweep : SweepTable
        The sweep over slices of the files that wrote the predictions.

    Examples
    --------
    >>> import hardmax as hm
    >>> predictions = hm.scale.PredictedFiles.open("scored")  # doctest: +SKIP
    >>> predictions.to_frame()["prediction"].value_counts()  # doctest: +SKIP
    """

    sweep: SweepTable

    @classmethod
    def open(cls, out: str | PathLike[str]) -> "PredictedFiles":
        """Open the predictions in a folder that `predict_files` wrote, complete or not.

        Parameters
        ----------
        out : path
            The folder.

        Returns
        -------
        PredictedFiles

        Raises
        ------
        ParameterError
            If the folder holds no predictions, or predictions of another version.
        """
        return cls(SweepTable.open(Path(out) / SWEEP))

    @property
    def out(self) -> Path:
        """The folder."""
        return self.sweep.out.parent

    @cached_property
    def _done(self) -> list[tuple[int, int]]:
        """(number, rows) of each slice that has predictions."""
        found = self.sweep.table().select(["number", "start", "stop", "error"]).to_pylist() if self.sweep.rows else []
        return [(row["number"], row["stop"] - row["start"]) for row in found if row["error"] is None]

    @property
    def rows(self) -> int:
        """Number of texts that have a prediction."""
        return sum(rows for _, rows in self._done)

    @property
    def complete(self) -> bool:
        """Whether every text has a prediction."""
        return len(self._done) == self.sweep.cells

    def __repr__(self) -> str:
        done, total = len(self._done), "" if self.complete else f" of {self.sweep.cells:,}"
        parts = f"{done:,}{total} part{'s' * (self.sweep.cells != 1)}"
        return f"<PredictedFiles: {self.rows:,} rows in {parts} in {self.out}>"

    def parts(self) -> list[Path]:
        """Return the files of predictions, in the order of the rows."""
        return [self.out / answers_name(number) for number, _ in self._done]

    def __iter__(self) -> "Iterator[pa.RecordBatch]":
        import pyarrow.parquet as pq

        for path in self.parts():
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches()

    def table(self) -> "pa.Table":
        """Return all predictions as one Arrow table, which must fit in memory."""
        import pyarrow as pa

        self._check_rows()
        return pa.Table.from_batches(iter(self)).replace_schema_metadata()

    def to_frame(self) -> "pd.DataFrame":
        """Return all predictions as a pandas table, which must fit in memory."""
        return self.table().to_pandas()

    def _check_rows(self) -> None:
        if not self.rows:
            raise InputError("A table needs at least one row. Got none. Call `predict_files` again to continue.")

    def tokens(self) -> "pd.DataFrame":
        """Return the contributions of each token to the predictions, sorted by size.

        The columns are those of `HardmaxClassifier.contributions`: a token, the class `for` whose logit is meant, the
        `count` of texts with the token, `sum`, `mean` and `mean_abs` of its contributions, `share`, its part of the
        sum of all absolute contributions, and the same, without `share`, over the texts predicted as each class.
        Slices are added in order, so that the table does not depend on the workers.
        """
        with needed_for("`PredictedFiles.tokens`", None, "scale"):
            import pandas  # noqa: F401
            import pyarrow.parquet as pq
        self._check_rows()
        sums: dict[str, TokenSums] = {}
        for number, _ in self._done:
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
                rows = np.flatnonzero(answers == label).reshape(outputs, -1)  # one block of rows per logit
                count, total, absolute = (column[rows] for column in columns)
                found.add_sums(ids[rows[0]], count[0], total.T, absolute.T)
        whole, every = TokenSums(size, outputs), np.arange(size)
        for found in sums.values():
            whole.add_sums(every, found.count, found.sum, found.absolute)
        seen = np.flatnonzero(whole.count)
        return frame_of({"": whole} | sums, seen, names[seen].tolist(), logit_classes(classes))


def predict_files(
    files: str | PathLike[str] | Sequence[str | PathLike[str]],
    model: str | PathLike[str] = "imdb",
    *,
    out: str | PathLike[str],
    text: str | None = None,
    explain: bool = False,
    at_least: float = 0.0,
    delimiter: str | None = None,
    encoding: str | None = None,
    engine: Engine = "local",
    workers: int | None = None,
    progress: Progress | None = None,
    started: "Callable[[Client], object] | None" = None,
) -> PredictedFiles:
    """Classify every text of files that may be larger than memory, on all cores or on a cluster, into a folder.

    Files are cut into slices of a few seconds of work, and each slice gets a Parquet file of predictions: row 1 is the
    first text of a file, and the columns are those of `hardmax predict`. The same call on the same folder continues an
    interrupted run; damaged parts, and slices of files that have changed, are computed again. CSV, JSON lines and text
    files are copied to Parquet in `out` while the call runs.

    In a script, call it below ``if __name__ == "__main__":``, because worker processes import the script.

    Parameters
    ----------
    files : path, or list of paths
        A .parquet, .csv, .tsv, .jsonl, .ndjson or .txt file, or a folder of such files, read in the order of their
        names. With a folder or a list the predictions have a column `file`, and rows are counted per file.
    model : str or path
        A folder that `HardmaxClassifier.save` wrote, or the name of a model inside the package.
    out : path
        Folder for the predictions. Workers on other machines must have access to it, and to Parquet files.
    text : str, optional
        The column of texts; the default is the only column with a usual name, or the only one. The columns of JSON
        lines are the keys of the first 1,000 lines.
    explain : bool
        Whether to add a column `explanation`: for each text the list of its tokens with the contribution of each to the
        logit, or, with more than two classes, to the logit of every class, as in `HardmaxClassifier.explain_many`.
    at_least : float
        The prediction is "not sure" if its probability is smaller.
    delimiter, encoding : str, optional
        Of CSV, and of text formats; the default is detection.
    engine : "local", address or distributed.Client
        Worker processes on this machine, or a Dask cluster.
    workers : int, optional
        Number of worker processes with "local"; the default is one per core.
    progress : callable, optional
        Called with (rows done, rows in total) after each part.
    started : callable, optional
        Called with the client when it is connected.

    Returns
    -------
    PredictedFiles
        The predictions, in the files of `out`.

    Raises
    ------
    ParameterError
        If there is no such file, model or column, an option is invalid, or `out` holds other predictions.
    InputError
        If a part of a file cannot be read; the message names it.
    MissingExtra
        If Dask, PyArrow or a dependency of the model is not installed.

    Examples
    --------
    >>> import hardmax as hm
    >>> predictions = hm.predict_files("reviews.parquet", out="scored", explain=True)  # doctest: +SKIP
    >>> predictions.tokens().head()  # doctest: +SKIP
    """
    with needed_for("`hardmax.predict_files`", None, "scale"):
        import distributed  # noqa: F401
        import pyarrow  # noqa: F401
    if isinstance(at_least, bool) or not isinstance(at_least, int | float) or not 0 <= at_least <= 1:
        raise ParameterError("at_least", "be a probability, 0 to 1", repr(at_least))
    check_engine(engine, workers)
    folder, target = find_model(model).resolve(), Path(out).resolve()
    load_model(folder)  # refuse a damaged model before any work
    check_writable(target, folder=True)
    cell = SlicePredictor(str(target), str(folder), hash_file(folder / FILE), bool(explain), float(at_least))
    source = sha256(json.dumps(cell.settings).encode()).hexdigest()[:12]
    found_files = find_files(files, target)
    try:
        slices, notes = make_slices(found_files, text, How(delimiter, encoding), target / COPIES)
        for note in notes:
            warn(note, UserWarning, stacklevel=2)
        configuration = Configuration(NAME, source, Design(cells=[asdict(part) for part in slices]), 0, None)
        _check_folder(target / SWEEP, configuration)
        rows_before = list(accumulate((part.rows for part in slices), initial=0))
        found = run(
            *(cell, configuration, target / SWEEP, engine, workers, progress, started),
            is_good=lambda path: _has_predictions(path, target),
            weight=lambda interval: rows_before[interval[1]] - rows_before[interval[0]],
            on_errors=_raise_if_disk_full,
        )
    finally:
        shutil.rmtree(target / COPIES, ignore_errors=True)
        if target.is_dir() and not any(target.iterdir()):
            target.rmdir()
    _delete_others(target, len(slices))
    if found.errors:
        failed = [(row["number"], row["error"]) for row in found.table().to_pylist() if row["error"] is not None]
        raise InputError(_describe_failures([(slices[number], error) for number, error in failed]))
    for part in slices:
        check_shared(target, answers_name(part.number))
    return PredictedFiles(found)


def _check_folder(folder: Path, configuration: Configuration) -> None:
    """Refuse a folder with other predictions; forget the sweep if a file has changed, since cells keep valid files."""
    if not (folder / MANIFEST).exists():
        return
    with Manifest(folder) as manifest:
        found = manifest.configuration
        if found == configuration:
            return
        other = [
            *(["of another version of hardmax"] if found.version != configuration.version else []),
            *(["of another model, or with other options"] if found.source != configuration.source else []),
            *(["for other files"] if _file_names(found.design) != _file_names(configuration.design) else []),
        ]
        if other or replace(found, design=configuration.design, part_cells=configuration.part_cells) != configuration:
            must, got = "be empty, or hold the same predictions", f"some {' and '.join(other) or 'of another kind'}"
            raise ParameterError("out", must, got, "Choose another folder, or delete this one.")
        shutil.rmtree(folder)


def _file_names(design: Design) -> list[str]:
    return list(dict.fromkeys(cell["file"] for cell in design.cells or []))


def _has_predictions(path: Path, out: Path) -> bool:
    """Return whether every slice of a part of the sweep has its files unchanged; delete those that have changed."""
    import pyarrow.parquet as pq

    is_good = True
    for row in pq.read_table(path).to_pylist():
        if row["error"] is not None:
            is_good = False
            continue
        for name, digest in (
            (answers_name(row["number"]), row["answers_sha256"]),
            (tokens_name(row["number"]), row["tokens_sha256"]),
        ):
            if not (out / name).exists() or hash_file(out / name) != digest:
                (out / name).unlink(missing_ok=True)
                is_good = False
    return is_good


def _raise_if_disk_full(path: Path) -> None:
    """Stop the sweep if a slice of a part could not be written: the next ones could not either."""
    import pyarrow.parquet as pq

    for error in filter(None, pq.read_table(path, columns=["error"])["error"].to_pylist()):
        if any(strerror(number) in error for number in (ENOSPC, EDQUOT)):
            raise OSError(f"A worker could not write its predictions. Got {error}. Free some disk space. {CONTINUE}")


def _delete_others(out: Path, slices: int) -> None:
    """Delete predictions for slices that no longer exist, and temporary files of killed workers."""
    ours = {out / name(each) for each in range(slices) for name in (answers_name, tokens_name)}
    for pattern in ("answers-*.parquet", ".answers-*.parquet", f"{TOKENS}/tokens-*.parquet", f"{TOKENS}/.tokens-*"):
        for path in set(out.glob(pattern)) - ours:
            path.unlink(missing_ok=True)


def _describe_failures(failed: list[tuple[Slice, str]]) -> str:
    listed = "; ".join(f"{part.where}: {ERROR_KIND.sub('', error).rstrip('.')}" for part, error in failed[:MAX_LISTED])
    more = f"; and {len(failed) - MAX_LISTED:,} more slices" if len(failed) > MAX_LISTED else ""
    return f"Every row must have a prediction. Got none for {listed}{more}. {CONTINUE}"
