"""The README for the package index: relative links get the public address in
`[project.urls]` of pyproject.toml.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"\]\((?!https?:|#)([^)]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Set `readme` from README.md."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Replace relative targets of links and pictures by addresses below `Source`."""
        address = metadata["urls"]["Source"].rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = LINK.sub(rf"]({address}/blob/main/\1)", text)
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": re.sub(r"(!\[[^]]*\]\([^)]*)/blob/", r"\1/raw/", text),
        }
