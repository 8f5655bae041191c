"""`hardmax predict FILES --out FOLDER/`: answers to a corpus of any size."""

import json as json_format
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from hardmax._errors import ParameterError
from hardmax.app.problems import respell
from hardmax.cli import output, texts
from hardmax.cli.options import UNSAID, option
from hardmax.cli.sweep import Engine, Workers, say_cluster


@dataclass(frozen=True, kw_only=True)
class CorpusOptions:
    """What goes with a folder as --out."""

    engine: Engine = "local"
    workers: Workers = None
    tokens: Annotated[
        Path | None,
        option("--tokens", "Write which tokens carry the answers: .csv, .jsonl, .parquet.", metavar="FILE", **UNSAID),
    ] = None

    def refuse_alone(self) -> None:
        """Refuse options that do nothing without a folder."""
        for name, default in (("engine", "local"), ("workers", None), ("tokens", None)):
            if getattr(self, name) != default:
                must, got = "go with a file or folder of texts, and with a folder as --out", "it without"
                raise ParameterError(name, must, got, "Such as: hardmax predict big.parquet --out scored/")


def corpus_files(given: list[str] | None, path: str | None, out: list[Path] | None) -> list[str] | str | None:
    """The files that are meant where the answers shall be a folder; None where texts are meant, or one file."""
    from hardmax.text.files import ENDINGS

    targets = out or []
    if len(targets) != 1 or not (targets[0].is_dir() or not targets[0].suffix):
        return None
    if path is not None:
        return None if given else path
    if given and all(Path(one).is_dir() or one.lower().endswith(ENDINGS) for one in given):
        return given[0] if len(given) == 1 else given
    return None


def predict_corpus(
    files: list[str] | str,
    *,
    out: Path,
    model: str,
    how: texts.FileOptions,
    chosen: CorpusOptions,
    explain: bool,
    at_least: float,
    keep: bool,
    json: bool,
) -> None:
    """Score files into a folder, with a bar, and say how it ended."""
    from hardmax.scale import Scored, predict_files
    from hardmax.scale.manifest import FILE
    from hardmax.scale.scored import SWEEP
    from hardmax.text.files import WRITABLE, write_frame

    table = output.check_files([chosen.tokens] if chosen.tokens else [], WRITABLE, name="tokens")
    for name, said in (("sheet", how.sheet), ("keep", keep)):
        if said:
            raise ParameterError(name, "go with a file as --out", "it with a folder", "Leave it out.")
    with warnings.catch_warnings(record=True) as told:
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
                    started=say_cluster,
                )
        except KeyboardInterrupt:
            if (out / SWEEP / FILE).exists():
                output.note(f"Stopped. {Scored.open(out).rows:,} rows are kept. The same command goes on from there.")
            raise
    for warning in told:
        output.note(respell(str(warning.message), output.spell))
    for file in table:
        write_frame(result.tokens(), file)
    if json:
        print(json_format.dumps({"out": str(result.out), "rows": result.rows, "parts": len(result.parts())}))
        return
    parts = len(result.parts())
    output.say(f"{result.rows:,} rows have an answer, in {parts:,} part{'s' * (parts != 1)} in {result.out}.")
    output.say_written(table)
