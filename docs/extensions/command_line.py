"""The page of the command line, written by Typer from the commands themselves, with
tables in the place of lists.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ENTRY = re.compile(r"^\* `(?P<name>[^`]*)`: (?P<help>.*)$")
DEFAULT = re.compile(r"  \[default: (.*?)(?:; \d*<?=?x[<>]=?\d*)?\]$")
OPTION = re.compile(
    r"(?<![\w`-])--[A-Za-z][\w-]*"
)  # in prose, where -- would become a dash
TRY = "Try: "  # how an example of a command begins
HEADING = re.compile(r"^#+ `(hardmax[^`]*)`$")
# what follows the first paragraph of a command; of the page itself, usage and options
FOLDED = re.compile(
    r"^(?P<shown>#+ `hardmax [^`]*`\n\n(?:[^\n]+\n)+\n|(?=\*\*Usage\*\*))"
    r"(?P<folded>.*?)(?=^#+ `hardmax|^\*\*Commands\*\*|\Z)",
    re.MULTILINE | re.DOTALL,
)
START = """# The command line

Every command with its arguments and options. [How to](../how-to/index.md) uses them in whole tasks.
"""


def setup(app: Any) -> dict[str, bool]:
    """Write the page before Sphinx looks for pages."""
    app.connect(
        "config-inited",
        lambda app, config: write(Path(app.srcdir) / "reference" / "command-line.md"),
    )
    return {"parallel_read_safe": True}


def write(page: Path) -> None:
    """Write the page, if it is not that already: Sphinx reads again what is newer."""
    command = [
        sys.executable,
        "-m",
        "typer",
        "hardmax.cli.main",
        "utils",
        "docs",
        "--name",
        "hardmax",
    ]
    text = tabulated(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )
    if not page.is_file() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")


def tabulated(text: str) -> str:
    """Typer's page with its lists of options, arguments and commands as tables, and
    options in prose as code.
    """
    lines = text.replace("# `hardmax`\n", START, 1).splitlines()
    summaries, inside, made = _summaries(lines), False, list[str]()
    program, listed = "hardmax", ""
    for line in lines:
        inside ^= line.startswith("```")
        heading, entry = HEADING.match(line), ENTRY.match(line)
        program = heading[1] if heading else program
        listed = (
            line.strip("*:")
            if line.startswith("**") and line.endswith("**:")
            else listed
        )
        if line.startswith(TRY):
            made += ["For example:", "", "```console"]
            made += [
                f"$ {example}" for example in line.removeprefix(TRY).split(", then ")
            ] + ["```"]
        elif entry is None or inside:
            made.append(line if inside or line.startswith("```") else _as_code(line))
        elif listed == "Commands":
            full = f"{program} {entry['name']}"
            link = f"[`{entry['name']}`](#{re.sub(r'[^a-z0-9 -]', '', full.lower()).replace(' ', '-')})"
            made += _row(
                made, ("Command", "What it does"), (link, _as_code(summaries[full]))
            )
        elif entry["name"] != "--help":
            default = DEFAULT.search(entry["help"])
            meaning = DEFAULT.sub("", entry["help"]).replace(
                "  [required]", " Required."
            )
            shown = f"`{default[1].strip('()')}`" if default else ""
            name = entry["name"].removeprefix(" / ").replace(" range>", ">")
            made += _row(
                made,
                (listed[:-1], "Meaning", "Default"),
                (f"`{name}`", _as_code(meaning), shown),
            )
    return FOLDED.sub(
        r"\g<shown>:::{dropdown} Usage and options\n\n\g<folded>:::\n\n",
        "\n".join(made) + "\n",
    )


def _summaries(lines: list[str]) -> dict[str, str]:
    """The first paragraph of each command."""
    found = {}
    for i, line in enumerate(lines):
        if heading := HEADING.match(line):
            rest = lines[i + 2 :]
            found[heading[1]] = " ".join(rest[: rest.index("")])
    return found


def _row(made: list[str], head: tuple[str, ...], cells: tuple[str, ...]) -> list[str]:
    """A row of a table, after its head if it is the first."""
    row = f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    begins = not made[-1].startswith("|")
    return (
        [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", row]
        if begins
        else [row]
    )


def _as_code(line: str) -> str:
    parts = re.split(r"(`[^`]*`)", line)
    parts[::2] = [OPTION.sub(r"`\g<0>`", part) for part in parts[::2]]
    return "".join(parts)
