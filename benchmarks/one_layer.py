"""One layer: exact sets against the float argmax of libraries, on tokens that suit us and on tokens that do not."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from benchmarks import data
from benchmarks.agreement import same_sets
from benchmarks.peers import ours, peer
from benchmarks.registry import Case, Method, size
from hardmax._types import FloatArray

PLANE: dict[str, float | None] = {
    "loop": None,
    "triple": None,
    "numpy": None,
    "torch": None,
    "faiss": None,
    "keops": None,
}
WHY = "chooses tokens that are not in the exact sets, by more than the rounding of its type"


@dataclass(frozen=True)
class Layer:
    """Tokens, peers, and how many times as fast ours is meant to be."""

    name: str
    kind: str
    n: int
    d: int
    peers: dict[str, float | None] = field(default_factory=dict)
    clouds: int = 0  # 0: one cloud as (n, d) floats of 64 bits; else (clouds, n, d) of 32

    @property
    def title(self) -> str:
        """The tokens, in words."""
        batch = f"{self.clouds} clouds: " if self.clouds else ""
        return f"{batch}{data.words(self.kind, self.n, self.d)}, one layer"

    def tokens(self, quick: bool) -> FloatArray:
        """Draw them; a small batch has fewer clouds, not smaller ones."""
        if not self.clouds:
            return data.tokens(self.kind, size(self.n, quick), self.d)
        clouds = size(self.clouds, quick)
        batch = data.tokens(self.kind, clouds * self.n, self.d).reshape(clouds, self.n, self.d)
        return np.asarray(batch, np.float32)

    def methods(self, quick: bool) -> list[Method]:
        """Ours and the peers."""
        make = partial(self.tokens, quick)
        return [ours(make), *(peer(name, make, times) for name, times in self.peers.items())]


LAYERS = [
    Layer("plane_gaussian", "gaussian", 10_000, 2, PLANE | {"triple": 5000.0, "faiss": 50.0, "keops": 60.0}),
    Layer("plane_circle", "sphere", 10_000, 2, PLANE),
    Layer("plane_clustered", "clustered", 10_000, 2, PLANE),
    Layer("plane_duplicated", "duplicated", 10_000, 2, PLANE),
    Layer("space_gaussian", "gaussian", 100_000, 3, {"faiss": 500.0, "keops": None}),
    Layer("space_ball", "ball", 100_000, 3, {"faiss": None}),
    Layer("space_sphere", "sphere", 100_000, 3, {"faiss": 20.0}),
    Layer("space_clustered", "clustered", 100_000, 3, {"faiss": None}),
    Layer("d16_gaussian", "gaussian", 10_000, 16, {"faiss": 3.0, "keops": 10.0, "torch": None}),
    Layer("d16_sphere", "sphere", 10_000, 16, {"faiss": None, "keops": None, "torch": None}),
    Layer("d16_clustered", "clustered", 10_000, 16, {"faiss": None, "keops": None, "torch": None}),
    Layer("d16_gaussian_large", "gaussian", 100_000, 16, {"faiss": 4.0, "keops": 10.0, "torch": None}),
    Layer("d16_sphere_large", "sphere", 100_000, 16, {"faiss": None, "torch": None}),
    Layer("d16_clustered_large", "clustered", 100_000, 16, {"faiss": None, "torch": None}),
    Layer("d128_gaussian", "gaussian", 10_000, 128, {"faiss": 2.5, "torch": None, "peak": 0.7}),
    Layer("d128_gaussian_large", "gaussian", 30_000, 128, {"faiss": 1.3, "torch": None, "peak": 0.7}),
    Layer("d128_sphere", "sphere", 10_000, 128, {"faiss": None, "torch": None, "peak": None}),
    Layer("d128_clustered", "clustered", 10_000, 128, {"faiss": None, "torch": None, "peak": None}),
    Layer("d768_gaussian", "gaussian", 20_000, 768, {"faiss": 1.1, "torch": None, "peak": 0.7}),
    Layer("batch_plane", "gaussian", 256, 2, {"torch": 25.0}, clouds=256),
    Layer("batch_d16", "gaussian", 256, 16, {"torch": 6.0}, clouds=256),
]
CASES = [Case(layer.name, layer.title, layer.methods, same_sets, WHY) for layer in LAYERS]
