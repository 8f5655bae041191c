"""Docstrings are written to be read as text: signs that mean something else to
reStructuredText are escaped.
"""

import re
from pathlib import Path
from typing import Any

from extensions import names
from extensions.reference import CODE, escape


def told_apart(
    app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Escape signs outside of code, in the lines of one docstring."""
    example = False
    for i, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            parts = CODE.split(escape(line))
            parts[1::2] = [linked(app, part) for part in parts[1::2]]
            lines[i] = "".join(parts)


def linked(app: Any, code: str) -> str:
    """A name in backticks as a link, if it has a place in the reference."""
    found = names.mentions(Path(app.srcdir) / "reference").get(code.strip("`"))
    return code if found is None else f":py:obj:`{code.strip('`')} <{found}>`"


def without_routing(
    app: Any, what: str, name: str, thing: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what scikit-learn adds to estimators for its own purposes."""
    return True if re.search(r"\bset_\w+_request$|get_metadata_routing", name) else None


def without_signature(
    app: Any, what: str, name: str, thing: Any, *rest: Any
) -> tuple[str, None] | None:
    """Leave out how a result is made: results are not made by hand, and their fields
    are below.
    """
    text = thing.__doc__ or ""
    return (
        ("", None)
        if what == "class"
        and "\n    Attributes\n" in text
        and "\n    Parameters\n" not in text
        else None
    )


def setup(app: Any) -> dict[str, bool]:
    """Before numpydoc reads the sections."""
    app.connect("autodoc-process-docstring", told_apart, priority=100)
    app.connect("autodoc-skip-member", without_routing)
    app.connect("autodoc-process-signature", without_signature)
    return {"parallel_read_safe": True}
