"""How a visitor wants points clustered and drawn, as plain data that is checked."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from hardmax._errors import ParameterError

HOW = {"found": "Found", "cut": "Cut the tree", "fit": "Fit so many"}  # the number of clusters, and how a page says it
METRICS = ("euclidean", "cosine")
BOUNDS = {"number": (1, 30), "neighbours": (2, 50), "noise": (0, 1000), "across": (-1, 1999), "up": (-1, 1999)}
USUAL_NOISE = 20.0


@dataclass(frozen=True)
class Settings:
    """How to cluster, and where to draw."""

    how: str = "found"
    number: int = 4  # of clusters, unless it is found
    neighbours: int = 10
    metric: str = "euclidean"
    noise: float = 0.0  # how many times thinner is in no cluster; 0: every point is in one
    across: int = -1  # columns to draw by; -1: as the points are, or along principal axes
    up: int = -1
    apart: bool = False  # whether these two are drawn alone, and points clustered by the others

    @classmethod
    def checked(cls, **data: Any) -> "Settings":
        """These settings, or the sentence on what is wrong with them."""
        known = {name: type(value) for name, value in asdict(cls()).items()}
        for name, value in data.items():
            if name not in known:
                raise ParameterError("settings", f"have no other names than {', '.join(known)}", repr(name)[:40])
            kinds = (int, float) if known[name] in (int, float) else (known[name],)
            if not isinstance(value, kinds) or (isinstance(value, bool) and known[name] is not bool):
                raise ParameterError(name, f"be of the kind {known[name].__name__}", repr(value)[:40])
        made = cls(**{name: known[name](value) for name, value in data.items() if _is_finite(value, name)})
        for name, (least, most) in BOUNDS.items():
            if not least <= getattr(made, name) <= most:
                raise ParameterError(name, f"be from {least} to {most}", getattr(made, name))
        if made.how not in HOW or made.metric not in METRICS:
            raise ParameterError("settings", f"name one of {', '.join((*HOW, *METRICS))}", made.how)
        if 0 < made.noise <= 1:
            raise ParameterError("noise", "be 0 or above 1", made.noise)
        return made

    def changed(self, **values: Any) -> "Settings":
        return Settings.checked(**asdict(self) | values)

    @property
    def drawn(self) -> list[int]:
        """Columns to draw by, or none."""
        return [self.across, self.up] if self.across >= 0 and self.up >= 0 else []


def _is_finite(value: Any, name: str) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        raise ParameterError(name, "be finite", value)
    return True


def parameters(settings: Settings, number: int | None) -> dict[str, Any]:
    """What differs from how `HardmaxClustering` is made."""
    given: dict[str, Any] = {"n_clusters": number, "n_neighbors": settings.neighbours, "metric": settings.metric}
    given["noise"] = settings.noise or None
    usual = {"n_clusters": None, "n_neighbors": 10, "metric": "euclidean", "noise": None}
    return {name: value for name, value in given.items() if value != usual[name]}
