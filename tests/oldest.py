"""The oldest versions that pyproject.toml allows, as constraints for pip: `make
test-oldest` installs them.

PyTorch alone stays at the version of constraints.txt: older builds bring gigabytes for
GPUs.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMPANIONS = (
    "pyparsing<3.2",
    "click<8.2",
)  # what an old Matplotlib and an old Typer were made for
BOUND = re.compile(r"^(?P<name>[A-Za-z0-9_.-]+)(\[.*\])?>=(?P<version>[0-9.]+)")


def oldest() -> list[str]:
    """name==version for each lower bound; of several for one package, the highest
    counts.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [
        *project["dependencies"],
        *(line for name in extras if name != "docs" for line in extras[name]),
    ]
    found: dict[str, tuple[int, ...]] = {}
    for match in filter(None, map(BOUND.match, lines)):
        version = tuple(map(int, match["version"].split(".")))
        found[match["name"]] = max(version, found.get(match["name"], ()))
    pinned = (ROOT / "constraints.txt").read_text().splitlines()
    kept = [line for line in pinned if line and not line.startswith("#")]
    held = {line.split("==")[0] for line in kept}
    return [
        f"{name}=={'.'.join(map(str, version))}"
        for name, version in found.items()
        if name not in held
    ] + [
        *COMPANIONS,
        *kept,
    ]


if __name__ == "__main__":
    print(*oldest(), sep="\n")
