"""Predictions for files of any size: a sweep over slices of the files, whose cells
write the predictions.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from errno import EDQUOT, ENOSPC
from functools import cached_property, lru_cache
from hashlib import sha256
from os import PathLike, strerror
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

import numpy as np

from hardmax._errors import InputError, ParameterError, needed_for
from hardmax._files import check_writable, written_whole
from hardmax._types import FloatArray, Progress
from hardmax.scale.design import Params
from hardmax.scale.executor import CONTINUE, Engine, check_engine
from hardmax.scale.slices import Slice, find_files, make_slices, read_slice
from hardmax.scale.store import FILE as MANIFEST
from hardmax.scale.store import Answer, Configuration, Manifest, has_hash, hash_file
from hardmax.scale.sweep import SweepTable, run
from hardmax.text.files import How
from hardmax.text.model import Model, answer_columns, predicted_classes
from hardmax.text.statistics import TokenSums, frame_of, logit_classes
from hardmax.text.storage import FILE, find_model, load_model
from hardmax.text.vocabulary import Encoded

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from distributed import Client

NAME = "predict_files"  # of the cell
SWEEP, COPIES, TOKENS = (
    "_sweep",
    "_texts",
    "_tokens",
)  # folders; programs that read Parquet folders skip such names
ABOUT = b"hardmax_tokens"  # metadata of a file of token sums


def output_paths(out: Path, number: int) -> tuple[Path, Path]:
    """Return the file of the predictions for a slice, and that of its token sums."""
    return (
        out / f"answers-{number:09d}.parquet",
        out / TOKENS / f"tokens-{number:09d}.parquet",
    )


@dataclass(frozen=True, repr=False)
class PredictedFiles:
    """Predictions for every text of some files, stored as Parquet in a folder. Its repr
    is a sentence.

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
        """Open the predictions in a folder, complete or not; a folder without any
        raises `ParameterError`.
        """
        return cls(SweepTable.open(Path(out) / SWEEP))

    @property
    def out(self) -> Path:
        """The folder."""
        return self.sweep.out.parent

    @cached_property
    def _done(self) -> list[dict[str, Any]]:
        """The slices that have predictions, in the order of the rows."""
        found = self.sweep.table().to_pylist() if self.sweep.rows else []
        return [row for row in found if row["error"] is None]

    @property
    def rows(self) -> int:
        """Number of texts that have a prediction."""
        return sum(row["stop"] - row["start"] for row in self._done)

    @property
    def complete(self) -> bool:
        """Whether every text has a prediction."""
        return len(self._done) == self.sweep.cells

    def __repr__(self) -> str:
        done, total = (
            len(self._done),
            "" if self.complete else f" of {self.sweep.cells:,}",
        )
        parts = f"{done:,}{total} part{'s' * (self.sweep.cells != 1)}"
        return f"<PredictedFiles: {self.rows:,} rows in {parts} in {self.out}>"

    def parts(self) -> list[Path]:
        """Return the files of predictions, in the order of the rows."""
        return [output_paths(self.out, row["number"])[0] for row in self._done]

    def __iter__(self) -> "Iterator[pa.RecordBatch]":
        import pyarrow.parquet as pq

        for path in self.parts():
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches()

    def table(self) -> "pa.Table":
        """Return all predictions as one Arrow table, which must fit in memory."""
        import pyarrow as pa

        self._check_rows()
        return pa.Table.from_batches(iter(self))

    def to_frame(self) -> "pd.DataFrame":
        """Return all predictions as a pandas table, which must fit in memory."""
        return self.table().to_pandas()

    def _check_rows(self) -> None:
        """Raise an error if there are no predictions, or files of predictions or token
        sums have changed.
        """
        if not self.rows:
            raise InputError(
                "A table needs at least one row. Got none. Call `predict_files` again"
                " to continue."
            )
        for row in self._done:
            if not _has_outputs(self.out, row):
                got = f"other files, or none, for slice {row['number']}"
                advice = "Call `predict_files` again, which computes it again."
                raise InputError(
                    f"The predictions in `{self.out}` must be unchanged. Got {got}."
                    f" {advice}"
                )

    def tokens(self) -> "pd.DataFrame":
        """Return the contributions of each token to the predictions, sorted by size.

        The columns are those of `HardmaxClassifier.contributions`: a token, the class
        `for` whose logit is meant, the `count` of texts with the token, `sum`, `mean`
        and `mean_abs` of its contributions, `share`, its part of the sum of all
        absolute contributions, and, unless texts have several labels, the same without
        `share` over the texts predicted as each class. Slices are added in order, so
        that the table does not depend on the workers.
        """
        with needed_for("`PredictedFiles.tokens`", None, "scale"):
            import pandas  # noqa: F401
            import pyarrow.parquet as pq
        self._check_rows()
        paths = [output_paths(self.out, row["number"])[1] for row in self._done]
        about = json.loads(pq.read_schema(paths[0]).metadata[ABOUT])
        size, outputs = about["vocabulary"], about["outputs"]
        by_group = [TokenSums(size, len(outputs)) for _ in about["groups"] or [""]]
        names = np.empty(size, object)
        for part in map(pq.read_table, paths):
            ids, answers, counts = (
                part[name].to_numpy() for name in ("id", "answer", "count")
            )
            found = [
                part[name].combine_chunks().flatten().to_numpy()
                for name in ("sum", "sum_abs")
            ]
            names[ids] = part["token"].to_numpy()
            for number, group in enumerate(by_group):
                rows = answers == number
                group.add_sums(
                    ids[rows],
                    counts[rows],
                    *(each.reshape(len(ids), -1)[rows] for each in found),
                )
        total = TokenSums(size, len(outputs))
        for group in by_group:
            total.add_sums(np.arange(size), group.count, group.sum, group.absolute)
        seen = np.flatnonzero(total.count)
        groups = dict(
            zip(about["groups"], by_group, strict=False)
        )  # none with several labels per text
        return frame_of({"": total} | groups, seen, names[seen].tolist(), outputs)


def predict_files(
    files: str | PathLike[str] | Sequence[str | PathLike[str]],
    model: str | PathLike[str] = "imdb",
    *,
    out: str | PathLike[str],
    text: str | None = None,
    encoder: str | PathLike[str] | None = None,
    explain: bool = False,
    at_least: float = 0.0,
    delimiter: str | None = None,
    encoding: str | None = None,
    engine: Engine = "local",
    workers: int | None = None,
    progress: Progress | None = None,
    started: "Callable[[Client], object] | None" = None,
) -> PredictedFiles:
    """Classify every text of files that may be larger than memory, on all cores or on a
    cluster, into a folder.

    Files are cut into slices of a few seconds of work, and each slice gets a Parquet
    file of predictions: row 1 is the first text of a file, and the columns are those of
    `hardmax predict` without the strongest words. The same call on the same folder
    continues an interrupted run; damaged predictions, and those for files that have
    changed, are computed again. CSV, JSON lines and text files are copied to Parquet in
    `out` while the call runs. Columns that the model reads beside the texts are found
    in every file by their names.

    In a script, call it below ``if __name__ == "__main__":``, because worker processes
    import the script.

    Parameters
    ----------
    files : path, or list of paths
        A .parquet, .csv, .tsv, .jsonl, .ndjson or .txt file, or a folder of such files,
        read in the order of their names. With a folder or a list the predictions have a
        column `file`, and rows are counted per file.
    model : str or path
        A folder that `HardmaxClassifier.save` wrote, or the name of a model inside the
        package.
    out : path
        Folder for the predictions. Workers on other machines must have access to it,
        and to Parquet files.
    text : str, optional
        The column of texts; the default is the only column with a usual name, or the
        only one. The columns of JSON lines are the keys of the first 1,000 lines.
    encoder : path, optional
        Folder of the encoder that the model was trained with; "minilm" is found without
        it.
    explain : bool
        Whether to add a column `explanation`: for each text the list of its tokens with
        the contribution of each to the logit, or, with more than two classes or several
        labels, to the logit of each, as in `HardmaxClassifier.explain_many`.
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
        If there is no such file, model or column, an option is invalid, or `out` holds
        other predictions.
    InputError
        If a part of a file cannot be read; the message names it.

    Examples
    --------
    >>> import hardmax as hm
    >>> predictions = hm.predict_files("reviews.parquet", out="scored", explain=True)  # doctest: +SKIP
    >>> predictions.tokens().head()  # doctest: +SKIP
    """
    with needed_for("`hardmax.predict_files`", None, "scale"):
        import distributed  # noqa: F401
        import pyarrow  # noqa: F401
    check_engine(engine, workers)
    folder, target = find_model(model).resolve(), Path(out).resolve()
    if encoder is not None and not isinstance(encoder, str | PathLike):
        raise ParameterError(
            "encoder",
            "be a folder or a name, as worker processes load it",
            type(encoder).__name__,
        )
    source = (
        None
        if encoder is None
        else str(Path(encoder).resolve() if Path(encoder).is_dir() else encoder)
    )
    loaded = load_model(
        folder, encoder=source
    ).model  # refuse a damaged model before any work
    answer_columns(
        loaded, np.empty((0, loaded.weights.outputs)), np.empty(0, np.intp), at_least
    )  # checks `at_least`
    check_writable(target, folder=True)
    settings = (hash_file(folder / FILE), bool(explain), float(at_least))
    found_files = find_files(files, target)
    known = [*settings, *(str(path.resolve()) for path, _ in found_files)]
    digest = sha256(json.dumps(known).encode()).hexdigest()[:12]
    try:
        slices, notes = make_slices(
            found_files,
            text,
            How(delimiter, encoding),
            target / COPIES,
            loaded.columns.names,
        )
        for note in notes:
            warn(note, UserWarning, stacklevel=2)
        configuration = Configuration(
            NAME, digest, [asdict(part) for part in slices], 0, None
        )
        kept = _find_kept(target, configuration)
        _delete_others(target, kept)

        def report(manifest: Manifest, answers: Sequence[Answer]) -> None:
            if progress is not None:
                done = [
                    each
                    for found in manifest.parts.values()
                    for each in slices[found.start : found.stop]
                ]
                progress(
                    sum(each.rows for each in done), sum(each.rows for each in slices)
                )
            for error in filter(None, (error for _, _, error in answers)):
                if any(
                    strerror(number) in error for number in (ENOSPC, EDQUOT)
                ):  # the next slices would fail, too
                    got = (
                        f"A worker could not write its predictions. Got {error}. Free"
                        " some disk space."
                    )
                    raise OSError(f"{got} {CONTINUE}")

        cell = SlicePredictor(str(target), str(folder), *settings, kept, source)
        found = run(
            cell, configuration, target / SWEEP, engine, workers, report, started
        )
    finally:
        shutil.rmtree(target / COPIES, ignore_errors=True)
        if target.is_dir() and not any(target.iterdir()):
            target.rmdir()
    _delete_others(target, range(len(slices)))
    if found.errors:
        first = next(
            row for row in found.table().to_pylist() if row["error"] is not None
        )
        got = (
            f"none for {found.errors:,} slices, the first with"
            f" {slices[first['number']].where}"
        )
        raise InputError(
            f"Every row must have a prediction. Got {got}:"
            f" {first['error'].rstrip('.')}. {CONTINUE}"
        )
    return PredictedFiles(found)


def _find_kept(out: Path, configuration: Configuration) -> frozenset[int]:
    """Return the slices with the same input and unchanged predictions, forget others;
    refuse other predictions.
    """
    import pyarrow.parquet as pq

    kept, folder, cells = set[int](), out / SWEEP, configuration.design
    if not (folder / MANIFEST).exists():
        return frozenset()
    found = Manifest(folder).configuration
    if replace(found, design=cells) != configuration:
        must, got = (
            "be empty, or hold the same predictions",
            "those of another model, version, files or options",
        )
        raise ParameterError(
            "out", must, got, "Choose another folder, or delete this one."
        )
    with Manifest(folder) as manifest:
        for part in manifest.parts.values():
            rows = pq.read_table(folder / part.name).to_pylist()
            same = [
                row
                for row in rows
                if row["number"] < len(cells)
                and cells[row["number"]].items() <= row.items()
            ]
            good = {
                row["number"]
                for row in same
                if row["error"] is None and _has_outputs(out, row)
            }
            kept |= good
            if len(good) < len(rows):
                (folder / part.name).unlink()
        if found != configuration:  # a file has changed
            shutil.rmtree(folder)
    return frozenset(kept)


def _has_outputs(out: Path, row: Params) -> bool:
    """Return whether the files of a slice have the hashes of its row."""
    answers, tokens = output_paths(out, row["number"])
    return has_hash(answers, row["answers_sha256"]) and has_hash(
        tokens, row["tokens_sha256"]
    )


def _delete_others(out: Path, slices: Iterable[int]) -> None:
    """Delete predictions for other slices, and temporary files of killed workers."""
    ours = {path for number in slices for path in output_paths(out, number)}
    for pattern in ("answers-*.parquet", ".answers-*.parquet", f"{TOKENS}/*.parquet"):
        for path in set(out.glob(pattern)) - ours:
            path.unlink(missing_ok=True)


@dataclass(frozen=True)
class SlicePredictor:
    """The cell of the sweep: it writes the predictions and token sums of a slice, and
    returns the hashes of the files.

    Its fields, the slice and the version determine the files.
    """

    out: str
    model: str  # folder
    sha256: str  # of the file in it that holds the hashes of all others
    explain: bool
    at_least: float
    kept: frozenset[int] = frozenset()  # slices that have their files
    encoder: str | None = (
        None  # folder; the file of the model holds the hashes of its contents
    )

    def __call__(self, params: Params, rng: np.random.Generator) -> dict[str, Any]:
        part = Slice(**params)
        paths = output_paths(Path(self.out), part.number)
        if part.number not in self.kept:
            for path, table in zip(paths, self.predict(part), strict=True):
                _write(table, path)
        return dict(
            zip(("answers_sha256", "tokens_sha256"), map(hash_file, paths), strict=True)
        )

    def predict(self, part: Slice) -> tuple["pa.Table", "pa.Table"]:
        """Return the table of predictions and the table of token sums."""
        import pyarrow as pa

        model, names = load_once(self.model, self.sha256, self.encoder)
        texts, n_groups = (
            read_slice(part, model.columns.names),
            1 if model.multilabel else len(model.classes),
        )
        sums = TokenSums(
            n_groups * model.tokens, model.weights.outputs
        )  # by predicted class and token
        scores, known, explained = [], [], []
        for _, encoded, terms, logits, _ in model.explain_parts(texts):
            scores.append(logits)
            known.append(encoded.sizes - len(model.columns))
            groups = (
                np.zeros(len(encoded), np.intp)
                if model.multilabel
                else predicted_classes(logits)
            )
            sums.add(
                np.repeat(groups, encoded.sizes) * model.tokens + encoded.ids, terms
            )
            if self.explain:
                explained.append(_make_explanations(encoded, terms, names))
        answered = answer_columns(
            model, np.concatenate(scores), np.concatenate(known), self.at_least
        )
        columns = {} if part.name is None else {"file": pa.repeat(part.name, part.rows)}
        columns |= {
            "row": pa.array(range(part.start + 1, part.stop + 1), pa.int64()),
            **answered,
        }
        if self.explain:
            columns["explanation"] = pa.chunked_array(explained)
        return pa.table(columns), _make_sums_table(model, sums, names)


@lru_cache(maxsize=1)
def load_once(
    folder: str, digest: str, encoder: str | None
) -> tuple[Model, "pa.Array"]:
    """Return a model and the names of all its tokens, once per process."""
    import pyarrow as pa

    if hash_file(Path(folder) / FILE) != digest:
        raise InputError(
            f"`{folder}` must hold the same model for every worker. Got another one."
            " Copy it."
        )
    model = load_model(Path(folder), encoder=encoder).model
    return model, pa.array(model.names(np.arange(model.tokens)), pa.string())


def _make_explanations(
    encoded: Encoded, terms: FloatArray, names: "pa.Array"
) -> "pa.Array":
    """Return for each text its tokens in order, each with its contribution to the
    logit, or to each logit.
    """
    import pyarrow as pa

    values = pa.array(terms.ravel())
    if terms.shape[1] > 1:
        starts = np.arange(0, terms.size + 1, terms.shape[1], dtype=np.int32)
        values = pa.ListArray.from_arrays(starts, values)
    pairs = pa.StructArray.from_arrays(
        [names.take(pa.array(encoded.ids)), values], ["token", "contribution"]
    )
    return pa.ListArray.from_arrays(pa.array(encoded.starts.astype(np.int32)), pairs)


def _make_sums_table(model: Model, sums: TokenSums, names: "pa.Array") -> "pa.Table":
    """Return a row for each token and each predicted class `answer`, by its index, with
    sums for each logit.

    With several labels per text there is one group of texts, 0.
    """
    import pyarrow as pa

    seen = np.flatnonzero(sums.count)
    answers, ids = np.divmod(seen, model.tokens)
    columns = {
        "id": pa.array(ids, pa.int32()),
        "token": names.take(pa.array(ids)),
        "answer": pa.array(answers),
    }
    columns |= {"count": pa.array(sums.count[seen])}
    for name, found in (("sum", sums.sum), ("sum_abs", sums.absolute)):
        columns[name] = pa.FixedSizeListArray.from_arrays(
            found[seen].ravel(), found.shape[1]
        )
    classes = model.classes.tolist()
    about: dict[str, Any] = {"vocabulary": len(names), "groups": [], "outputs": classes}
    if not model.multilabel:
        about |= {
            "groups": [f"answered_{label}" for label in classes],
            "outputs": logit_classes(model.classes),
        }
    return pa.table(columns).replace_schema_metadata({ABOUT: json.dumps(about)})


def _write(table: "pa.Table", path: Path) -> None:
    """Write a file atomically; keep the file of another worker. Dictionary encoding
    pays only for texts.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [field.name for field in table.schema if pa.types.is_string(field.type)]
    with written_whole(path, once=True) as temporary:
        pq.write_table(
            table,
            temporary,
            compression="zstd",
            use_dictionary=[*texts, "explanation.list.element.token"],
        )
