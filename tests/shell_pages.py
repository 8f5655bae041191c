"""Shell sessions of a page of the docs: what it says to type is run, and what it shows is compared.

In a page, a block ```{code-block} python with a caption is a file of that name. A line of a ```console block that
begins with `$` is a command, and the lines below it are what it prints. Commands without `$`, in ```sh blocks, are not
run.
"""

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hardmax.cli.main import main

HOME = "/home/ada"  # stands in pages for the folder in which commands run
FILE = re.compile(r"```\{code-block\} \w+\n:caption: (\S+)\n\n(.*?)```", re.DOTALL)
SESSION = re.compile(r"```console\n(.*?)```", re.DOTALL)


def files(page: str) -> dict[str, str]:
    """Name and content of every file that a page makes."""
    return dict(FILE.findall(page))


def commands(page: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a page, and the lines that it shows below."""
    for block in SESSION.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            first, *shown = part.splitlines()
            yield first, shown


def run(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """Exit code of a command in a folder, and what it prints: `hardmax`, `echo` into it, or `python`."""
    *before, line = line.split(" | ", 1)
    if before:
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(shlex.split(before[0])[1:]) + "\n"))
    program, *arguments = shlex.split(line)
    assert program in ("hardmax", "python"), f"no page may ask a test to run {program}"
    if program == "hardmax":
        code, printed = main(arguments), capsys.readouterr()
        out = printed.out + printed.err
    else:
        command, environment = [sys.executable, *arguments], os.environ | {"MPLBACKEND": "Agg"}
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
        code, out = done.returncode, done.stdout + done.stderr
    return code, out.replace(str(folder), HOME)


def number_free(line: str) -> str:
    """A line without numbers, bars and space at its end."""
    return re.sub(r"[-+]?[\d.,]*\d[\d.,]*", "#", line.replace("█", "")).rstrip()


def agrees(printed: str, shown: list[str]) -> bool:
    """Whether every line that is shown is printed, but for numbers; their order may differ between machines."""
    lines = [number_free(line) for line in printed.splitlines()]
    return all(number_free(line) in lines for line in shown if line.strip() not in ("", "..."))
