"""What a seeded fault is."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """A slip in one file: each `old` text stands there once and becomes `new`. `tests` name who ought to see it."""

    area: str
    name: str
    file: str  # below src/hardmax
    changes: tuple[tuple[str, str], ...]  # (old, new)
    tests: tuple[str, ...]  # files and node ids, as pytest takes them
    breaks: str

    def applied(self, text: str) -> str:
        """The text of the file with the slip in it."""
        for old, new in self.changes:
            if text.count(old) != 1 or old == new:
                raise ValueError(
                    f"A fault must change text that stands once in {self.file}. "
                    f"Got {old!r}, {text.count(old)} times. Mend the fault {self.name!r}."
                )
            text = text.replace(old, new)
        return text

    def seed(self, root: Path) -> None:
        """Make the slip in a copy of the repository."""
        path = root / "src" / "hardmax" / self.file
        path.write_text(self.applied(path.read_text(encoding="utf-8")), encoding="utf-8")


def slip(area: str, name: str, file: str, old: str, new: str, tests: str, breaks: str) -> Fault:
    """A fault with one change; `tests` with spaces between, each below tests/ and without its ".py"."""
    return Fault(area, name, file, ((old, new),), where(tests), breaks)


def where(tests: str) -> tuple[str, ...]:
    """Node ids: "test_states::test_x" is tests/test_states.py::test_x."""
    return tuple(f"tests/{file}.py{mark}{name}" for file, mark, name in (one.partition("::") for one in tests.split()))
