"""The page of the command line, written by Typer from the commands themselves."""

import subprocess
import sys
from pathlib import Path
from typing import Any


def setup(app: Any) -> dict[str, bool]:
    """Write the page before Sphinx looks for pages."""
    app.connect("config-inited", lambda app, config: write(Path(app.srcdir) / "reference" / "command-line.md"))
    return {"parallel_read_safe": True}


def write(page: Path) -> None:
    """Write the page, if it is not that already: Sphinx reads again what is newer."""
    command = [sys.executable, "-m", "typer", "hardmax.cli.main", "utils", "docs", "--name", "hardmax"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if not page.is_file() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")
