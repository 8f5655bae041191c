"""What a run of `Hardmax` leaves behind for one cloud, and how that is kept in files."""

from dataclasses import dataclass

import numpy as np
import scipy  # whose parts load when they are used

from hardmax._types import AnyArray, IntArray
from hardmax.search.sets import Classes, Sets
from hardmax.trajectories.storage import Arrays, from_text, require, to_text


@dataclass(frozen=True, eq=False)
class Cloud:
    """Sets and leaders of one cloud, by classes of equal tokens."""

    classes: Classes
    sets: tuple[Sets, ...]  # one for each saved layer
    emerged: IntArray  # (m,) layer from which a class leads, or -1
    settled: IntArray  # (m,) layer from which it is decided, or -1
    real: IntArray  # (n - padding,) positions of the real tokens in the input

    def spread(self, values: IntArray, n: int) -> IntArray:
        """One value a class to one a token, -1 for padding."""
        full = np.full(n, -1)
        full[self.real] = values[self.classes.labels]
        return full

    def matrix(self, index: int, n: int) -> "scipy.sparse.csr_array":
        """Attention over tokens at one saved layer: (n, n), uniform on C_i."""
        m, labels = len(self.classes), self.classes.labels
        over_classes = self.sets[index].matrix(self.classes.counts) / self.classes.counts  # (m, m)
        place = scipy.sparse.csr_array((np.ones(len(labels)), (self.real, labels)), shape=(n, m))
        matrix = scipy.sparse.csr_array(place @ over_classes @ place.T)
        matrix.sort_indices()
        return matrix

    def arrays(self) -> dict[str, AnyArray]:
        return {
            "rows": to_text(self.classes.rows),
            "labels": self.classes.labels,
            "first": self.classes.first,
            "emerged": self.emerged,
            "settled": self.settled,
            "real": self.real,
            "sizes": np.stack([sets.sizes for sets in self.sets]),
            "members": np.concatenate([sets.members for sets in self.sets]),
        }

    @classmethod
    def from_arrays(cls, file: Arrays, prefix: str, shape: tuple[int, int], saved: IntArray) -> "Cloud":
        """The cloud of n tokens of dimension d whose arrays have names with this prefix; each of them is checked."""
        arrays = {name.removeprefix(prefix): file[name] for name in file if name.startswith(prefix)}
        _check(arrays, *shape, saved)
        rows, labels, members = arrays["rows"], arrays["labels"], arrays["members"]
        classes = Classes(from_text(rows), labels, arrays["first"], np.bincount(labels))
        parts = zip(arrays["sizes"], np.split(members, np.cumsum(arrays["sizes"].sum(axis=1))[:-1]), strict=True)
        sets = tuple(Sets(np.r_[0, np.cumsum(sizes)].astype(np.intp), part) for sizes, part in parts)
        return cls(classes, sets, arrays["emerged"], arrays["settled"], arrays["real"])


def _check(cloud: Arrays, n: int, d: int, saved: IntArray) -> None:
    """Refuse arrays that do not fit each other: they are indices, so nothing is used unchecked."""
    rows, labels, sizes, members = (cloud[name] for name in ("rows", "labels", "sizes", "members"))
    right = rows.ndim == 2 and rows.shape[1] == d and rows.dtype.kind in "fU" and len(rows) > 0
    require(right, "`rows` must be tokens")
    require(rows.dtype.kind == "U" or np.isfinite(rows).all(), "`rows` must be finite")
    m = len(rows)
    for name, length, least, most in (
        ("real", len(labels), 0, n - 1),
        ("labels", len(labels), 0, m - 1),
        ("first", m, 0, len(labels) - 1),
        ("emerged", m, -1, saved[-1]),
        ("settled", m, -1, saved[-1]),
        ("members", len(members), 0, m - 1),
    ):
        _check_indices(cloud[name], name, (length,), least, most)
    _check_indices(sizes, "sizes", (len(saved), m), 1, m)
    require((np.diff(cloud["real"]) > 0).all(), "`real` must increase")
    require(np.array_equal(labels[cloud["first"]], np.arange(m)), "`first` must be a token of each class")
    require(sizes.sum() == len(members), "`members` must be as many as `sizes` says")
    starts = np.cumsum(sizes)[:-1]  # the first member of every set but the first: there the next may be smaller
    require((np.delete(np.diff(members), starts - 1) > 0).all(), "`members` of a set must increase")


def _check_indices(array: AnyArray, name: str, shape: tuple[int, ...], least: int, most: int) -> None:
    require(array.dtype.kind in "iu" and array.shape == shape, f"`{name}` must be whole numbers of shape {shape}")
    require(not array.size or (array.min() >= least and array.max() <= most), f"`{name}` must lie in [{least}, {most}]")
