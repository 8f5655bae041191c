"""`hardmax predict FILES --out FOLDER/`: predictions for files of any size."""

import json as json_format
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from hardmax._errors import ParameterError
from hardmax.app.problems import respell
from hardmax.cli import output, texts
from hardmax.cli.options import option
from hardmax.cli.sweep import Engine, Workers, note_cluster


@dataclass(frozen=True, kw_only=True)
class FolderOptions:
    """Options that go with a folder as --out."""

    engine: Engine = "local"
    workers: Workers = None
    tokens: Annotated[
        Path | None,
        option("--tokens", "Write the contributions of each token: .csv, .jsonl, .parquet.", metavar="FILE"),
    ] = None

    def check_unused(self) -> None:
        """Raise an error for options that have no effect without a folder."""
        for name, default in (("engine", "local"), ("workers", None), ("tokens", None)):
            if getattr(self, name) != default:
                must, got = "go with a file or folder of texts, and with a folder as --out", "it without"
                raise ParameterError(name, must, got, "For example: hardmax predict big.parquet --out scored/")


def find_inputs(given: list[str] | None, path: str | None, out: list[Path] | None) -> list[str] | str | None:
    """Return the input files if --out is a folder; None if the arguments are texts, or --out is a file."""
    from hardmax.text.files import ENDINGS

    targets = out or []
    if len(targets) != 1 or not (targets[0].is_dir() or not targets[0].suffix):
        return None
    if path is not None:
        return None if given else path
    if given and all(Path(one).is_dir() or one.lower().endswith(ENDINGS) for one in given):
        return given[0] if len(given) == 1 else given
    return None


def predict_into_folder(
    files: list[str] | str,
    *,
    out: Path,
    model: str,
    how: texts.FileOptions,
    chosen: FolderOptions,
    explain: bool,
    at_least: float,
    keep: bool,
    json: bool,
) -> None:
    """Classify files into a folder with a progress bar, and print the number of rows."""
    from hardmax.scale import PredictedFiles, predict_files
    from hardmax.text.files import WRITABLE, write_frame

    table = output.check_files([chosen.tokens] if chosen.tokens else [], WRITABLE, name="tokens")
    for name, is_given in (("sheet", how.sheet), ("keep", keep)):
        if is_given:
            raise ParameterError(name, "go with a file as --out", "it with a folder", "Leave it out.")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            with output.progress_bar("Rows") as moved:
                result = predict_files(
                    files,
                    model,
                    out=out,
                    text=how.text,
                    explain=explain,
                    at_least=at_least,
                    delimiter=how.delimiter,
                    encoding=how.encoding,
                    engine=chosen.engine,
                    workers=chosen.workers,
                    progress=output.with_speed(moved, "rows"),
                    started=note_cluster,
                )
        except KeyboardInterrupt:
            try:
                output.note(f"Stopped. {PredictedFiles.open(out).rows:,} rows are kept. The same command continues.")
            except ParameterError:  # stopped before the first part
                output.note("Stopped. The same command continues.")
            raise
    for warning in caught:
        output.note(respell(str(warning.message), output.spell))
    for file in table:
        write_frame(result.tokens(), file)
    if json:
        print(json_format.dumps({"out": str(result.out), "rows": result.rows, "parts": len(result.parts())}))
        return
    parts = len(result.parts())
    output.say(f"{result.rows:,} rows have a prediction, in {parts:,} part{'s' * (parts != 1)} in {result.out}.")
    output.say_written(table)
