"""`hardmax check-certificate`: check the proof of a limit with the standalone checker."""

import gzip
import json as json_format
import zlib
from pathlib import Path
from typing import Annotated

import typer

import hardmax as hm
from hardmax._errors import ParameterError
from hardmax._files import written_whole
from hardmax.certificate_checker import read_object
from hardmax.cli import options, output
from hardmax.cli.options import option

ENDINGS = (".json", ".gz")
Certificate = Annotated[
    Path | None,
    option(
        "--certificate", "Write the proof to a .json or .json.gz file.", metavar="FILE"
    ),
]


def check_certificate(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Certificate, a .json or .json.gz file."),
    ],
    sample: Annotated[
        int | None,
        option("--sample", "Test this many random tokens only: no proof.", min=1),
    ] = None,
    json: options.Json = False,
) -> None:
    """Check the proof of a limit that `hardmax limit --certificate FILE` wrote.

    The checker is a single file without dependencies, hardmax/certificate_checker.py.
    Exit code 1 if it rejects.
    """
    try:
        with (gzip.open if file.suffix == ".gz" else open)(
            file, "rt", encoding="utf-8"
        ) as stream:
            document = json_format.load(stream, object_pairs_hook=read_object)
    except (
        ValueError,
        RecursionError,
        EOFError,
        gzip.BadGzipFile,
        zlib.error,
    ) as problem:
        raise ParameterError(
            "file", "be a JSON document", f"{str(file)!r} ({problem})"
        ) from None
    report = hm.check_certificate(document, sample=sample)
    print(json_format.dumps(report._asdict())) if json else output.say(str(report))
    if not report.accepted:
        raise typer.Exit(1)


def write_certificate(limit: hm.Limit, path: Path) -> None:
    """Write the certificate of a limit, compressed if the name ends in .gz."""
    data = json_format.dumps(limit.certificate(), separators=(",", ":")).encode()
    with written_whole(path) as temporary:
        temporary.write_bytes(
            gzip.compress(data, mtime=0) if path.suffix == ".gz" else data
        )
