"""The verb for corpora: a sweep over slices of files, whose cells write answers."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from errno import EDQUOT, ENOSPC
from hashlib import sha256
from itertools import accumulate
from os import PathLike, strerror
from pathlib import Path
from typing import TYPE_CHECKING
from warnings import warn

from hardmax._errors import InputError, ParameterError, needed_for
from hardmax._files import check_writable
from hardmax._types import Progress
from hardmax.scale.design import Design
from hardmax.scale.engine import GO_ON, Engine, check_engine
from hardmax.scale.manifest import FILE as MANIFEST
from hardmax.scale.manifest import Configuration, Manifest
from hardmax.scale.parts import sha256_of
from hardmax.scale.scored import SWEEP, Scored
from hardmax.scale.scoring import Scoring, answers_name, tokens_name
from hardmax.scale.slices import Slice, as_cells, files_of, guessed, slices_of
from hardmax.scale.sweep import run
from hardmax.text.files import How
from hardmax.text.storage import FILE, find_model, load_model

if TYPE_CHECKING:
    from distributed import Client

NAME = "predict_files"  # of the cell
MOST_TOLD = 3  # slices without answers
KIND = re.compile(r"^(Parameter|Input)Error: ")  # of errors that are sentences already


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
) -> Scored:
    """Answer every text of files that may be larger than memory, on every core or on a cluster, into a folder.

    Files are cut into slices of some seconds of work, and each slice has a Parquet file of answers: row 1 is the first
    text of a file, and the columns are those of `hardmax predict`. Called again with the same folder, it goes on where
    it stood; a part that was damaged is computed again, and slices of files that have changed since.

    In a script, call it below ``if __name__ == "__main__":``, since worker processes import the script.

    Parameters
    ----------
    files : path, or list of paths
        A .parquet, .csv, .tsv, .jsonl, .ndjson or .txt file, or a folder of such, which are taken in the order of their
        names. With a folder or a list the answers have a column `file`, and rows are counted in each.
    model : str or path
        A folder that `HardmaxClassifier.save` wrote, or the name of a model inside the package.
    out : path
        Folder for the answers. Workers on other machines must see it, and the files.
    text : str, optional
        The column of texts; unless said, the only one with a usual name, or the only one. Of JSON lines the first
        thousand tell which there are.
    explain : bool
        Whether to add a column `explanation`: for each text the list of its tokens with what each adds to the logit,
        or, with more than two classes, to the logit of every class. They are those of `HardmaxClassifier.explain_many`.
    at_least : float
        The prediction is "not sure" where its probability is smaller.
    delimiter, encoding : str, optional
        Of CSV, and of files of text, where they are not found out.
    engine : "local", address or distributed.Client
        Worker processes on this machine, or a Dask cluster.
    workers : int, optional
        How many worker processes there are with "local": one a core unless said.
    progress : callable, optional
        Called with (rows done, rows in all) after each part.
    started : callable, optional
        Called with the client when there is one.

    Returns
    -------
    Scored
        The answers, in the files of `out`.

    Raises
    ------
    ParameterError
        If there is no such file, model or column, a setting has no meaning, or `out` holds other answers.
    InputError
        If a part of a file cannot be read; the sentence says which.
    MissingExtra
        If Dask, PyArrow or what the model needs is not installed.

    Examples
    --------
    >>> import hardmax as hm
    >>> answers = hm.predict_files("reviews.parquet", out="scored", explain=True)  # doctest: +SKIP
    >>> answers.tokens().head()  # doctest: +SKIP
    """
    with needed_for("`hardmax.predict_files`", None, "scale"):
        import distributed  # noqa: F401
        import pyarrow  # noqa: F401
    if isinstance(at_least, bool) or not isinstance(at_least, int | float) or not 0 <= at_least <= 1:
        raise ParameterError("at_least", "be a probability, 0 to 1", repr(at_least))
    check_engine(engine, workers)
    folder, target = _model_folder(model), Path(out).resolve()
    check_writable(target, folder=True)
    cut = slices_of(files_of(files, target), text, How(delimiter, encoding))
    for sentence in guessed(cut, encoding):
        warn(sentence, UserWarning, stacklevel=2)
    cell = Scoring(str(target), str(folder), sha256_of(folder / FILE), bool(explain), float(at_least))
    source = sha256(json.dumps(cell.settings).encode()).hexdigest()[:12]
    configuration = Configuration(NAME, source, Design(cells=as_cells(cut)), 0, None)
    _begin(target / SWEEP, configuration)
    before = list(accumulate((part.rows for part in cut), initial=0))
    found = run(
        *(cell, configuration, target / SWEEP, engine, workers, progress, started),
        is_good=lambda path: _has_its_answers(path, target),
        weight=lambda interval: before[interval[1]] - before[interval[0]],
        failed=_stop_if_full,
    )
    _delete_others(target, len(cut))
    if found.errors:
        failed = [(row["number"], row["error"]) for row in found.table().to_pylist() if row["error"] is not None]
        raise InputError(_failure([(cut[number], error) for number, error in failed]))
    unseen = [name for part in cut if not (target / (name := answers_name(part.number))).exists()]
    if unseen:
        must, advice = "be a folder that the workers share with the client", "Choose one on a shared disk."
        raise ParameterError("out", must, f"{target}, where {unseen[0]} is not to be seen", advice)
    return Scored(found)


def _model_folder(model: object) -> Path:
    """The folder of a model, which can be read."""
    folder = find_model(model)  # type: ignore[arg-type]
    load_model(folder)  # a damaged one is refused before any work
    return folder.resolve()


def _begin(folder: Path, configuration: Configuration) -> None:
    """Refuse a folder with other answers; begin anew where a file has changed, since cells keep what still holds."""
    if not (folder / MANIFEST).exists():
        return
    with Manifest(folder) as manifest:
        found = manifest.configuration
        if found == configuration:
            return
        other = [
            *(["of another version of hardmax"] if found.version != configuration.version else []),
            *(["of another model, or with other options"] if found.source != configuration.source else []),
            *(["to other files"] if _files(found.design) != _files(configuration.design) else []),
        ]
        if other or replace(found, design=configuration.design) != configuration:
            must, got = "be empty, or hold the same answers", f"answers {' and '.join(other) or 'of another kind'}"
            raise ParameterError("out", must, got, "Choose another folder, or delete this one.")
        shutil.rmtree(folder)


def _files(design: Design) -> list[str]:
    return list(dict.fromkeys(cell["file"] for cell in design.cells or []))


def _has_its_answers(path: Path, out: Path) -> bool:
    """Whether every slice of a part of the sweep has its files as they were written; deletes those that are not."""
    import pyarrow.parquet as pq

    good = True
    for row in pq.read_table(path).to_pylist():
        if row["error"] is not None:
            good = False
            continue
        for name, digest in (
            (answers_name(row["number"]), row["answers_sha256"]),
            (tokens_name(row["number"]), row["tokens_sha256"]),
        ):
            if not (out / name).exists() or sha256_of(out / name) != digest:
                (out / name).unlink(missing_ok=True)
                good = False
    return good


def _stop_if_full(path: Path) -> None:
    """Stop where a slice found no room for its answers: the next ones would not either."""
    import pyarrow.parquet as pq

    for error in filter(None, pq.read_table(path, columns=["error"])["error"].to_pylist()):
        if any(strerror(number) in error for number in (ENOSPC, EDQUOT)):
            raise OSError(f"A worker could not write its answers. Got {error}. Make room for them. {GO_ON}")


def _delete_others(out: Path, slices: int) -> None:
    """Delete answers to slices that there are no more, and what killed workers have left half written."""
    for number, kind in ((answers_name, "answers-*.parquet"), (tokens_name, "_tokens/tokens-*.parquet")):
        ours = {out / number(each) for each in range(slices)}
        left = kind.replace("answers-", ".answers-").replace("/tokens-", "/.tokens-")
        for path in (*out.glob(kind), *out.glob(left)):
            if path not in ours:
                path.unlink(missing_ok=True)


def _failure(failed: list[tuple[Slice, str]]) -> str:
    told = "; ".join(f"{part.where}: {KIND.sub('', error).rstrip('.')}" for part, error in failed[:MOST_TOLD])
    more = f"; and {len(failed) - MOST_TOLD:,} more slices" if len(failed) > MOST_TOLD else ""
    return f"Every row must have an answer. Got none for {told}{more}. {GO_ON}"
