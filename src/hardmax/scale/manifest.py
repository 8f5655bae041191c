"""The manifest of a sweep: `manifest.jsonl`, which the client alone writes, a line at a time.

The first line is the configuration. A line with `planned` says which cells a part is to hold, before it is asked for; a
line with `name` is a part that is done, with its hash. What a kill leaves of a last line is cut off.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from hardmax._errors import InputError, ParameterError
from hardmax._files import sync, written_whole
from hardmax._version import __version__
from hardmax.scale.design import Design
from hardmax.scale.parts import Part, part_name, sha256_of

FILE, FORMAT = "manifest.jsonl", "hardmax-sweep-1"
Interval = tuple[int, int]  # the first cell, and the one after the last


@dataclass(frozen=True)
class Configuration:
    """All that rows follow from: two sweeps with the same configuration have the same rows."""

    cell: str  # the name of the function
    source: str  # its hash, where it can be read
    design: Design
    seed: int
    time_limit: float | None
    version: str = __version__

    @cached_property
    def fingerprint(self) -> str:
        return sha256(self.to_json().encode()).hexdigest()[:12]

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT} | asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Configuration":
        values = json.loads(text)
        if values.pop("format") != FORMAT:
            raise KeyError("format")
        return cls(**values | {"design": Design(**values["design"])})

    def name_of(self, interval: Interval) -> str:
        """The file of the part with these cells."""
        return part_name(*interval, self.fingerprint)


class Manifest:
    """What a folder says of its sweep: the configuration, parts that were asked for, parts that are done."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)
        self._file: BinaryIO | None = None
        path = self.folder / FILE
        try:
            first, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            self.configuration = Configuration.from_json(first)
            entries = [json.loads(line) for line in lines if line.endswith("\n")]
        except FileNotFoundError:
            must, advice = "be the folder of a sweep", "Make one with: hardmax sweep leaders --out DIR"
            raise ParameterError(folder, must, f"one without {FILE}", advice) from None
        except (KeyError, TypeError, ValueError) as problem:
            raise InputError(f"`{path}` must be the manifest of a sweep. Got something else ({problem!r}).") from None
        self.parts = {part.name: part for part in (Part(**each) for each in entries if "name" in each)}
        self.planned: list[Interval] = [tuple(each["planned"]) for each in entries if "planned" in each]

    @classmethod
    def create(cls, folder: Path, configuration: Configuration) -> "Manifest":
        """The manifest of a folder, begun with this configuration if there is none."""
        if not (folder / FILE).exists():
            with written_whole(folder / FILE, once=True) as temporary:
                temporary.write_text(configuration.to_json() + "\n", encoding="utf-8")
        return cls(folder)

    def __enter__(self) -> "Manifest":
        """Open it for writing, in one process at a time."""
        try:
            import fcntl
        except ImportError:
            raise InputError("A sweep must run on Linux or macOS. Got another system.") from None
        file = (self.folder / FILE).open("r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise InputError(f"`{self.folder}` must be written by one sweep at a time. Got two. Wait for it.") from None
        whole = file.read().rfind(b"\n") + 1
        file.truncate(whole)
        file.seek(whole)
        self._file = file
        return self

    def __exit__(self, *_: object) -> None:
        assert self._file is not None
        self._file.close()

    def plan(self, interval: Interval) -> None:
        """Write down which cells a part is to hold: a sweep that is resumed asks for the same part, and may find it."""
        self.planned.append(interval)
        self._append({"planned": interval})

    def add(self, part: Part) -> None:
        """Write down a part that is done."""
        self.parts[part.name] = part
        self._append(part._asdict())
        assert self._file is not None
        os.fsync(self._file.fileno())

    def _append(self, entry: dict[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(entry).encode() + b"\n")
        self._file.flush()

    def forget_damaged(self, is_good: Callable[[Path], bool] | None = None) -> None:
        """Leave out parts whose files are gone, have another hash, or are not good otherwise, and delete those."""
        for part in list(self.parts.values()):
            path = self.folder / part.name
            whole = path.exists() and sha256_of(path) == part.sha256
            if not whole or (is_good is not None and not is_good(path)):
                path.unlink(missing_ok=True)
                del self.parts[part.name]

    def delete_others(self) -> None:
        """Delete files of parts that are not in the manifest, such as what killed workers have left half written."""
        for path in self.folder.glob("*.parquet"):
            if path.name not in self.parts and path.name.lstrip(".").startswith("part-"):
                path.unlink(missing_ok=True)
        sync(self.folder)

    @property
    def done(self) -> list[Part]:
        """Parts in the order of their cells."""
        return sorted(self.parts.values(), key=lambda part: part.start)

    def missing(self) -> tuple[list[Interval], list[Interval]]:
        """Cells of no part, as intervals: those that were asked for before, as they were, and what is left."""
        taken, asked = [(part.start, part.stop) for part in self.parts.values()], list[Interval]()
        for start, stop in sorted(self.planned, key=lambda interval: interval[1] - interval[0]):  # halves come first
            if all(stop <= first or last <= start for first, last in taken):
                taken.append((start, stop))
                asked.append((start, stop))
        free, at = list[Interval](), 0
        for start, stop in [*sorted(taken), (len(self.configuration.design),) * 2]:
            if at < start:
                free.append((at, start))
            at = max(at, stop)
        return sorted(asked), free
