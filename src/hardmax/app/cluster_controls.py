"""The controls of the clusters: what they are, how they are grouped, and how they say what is set."""

from collections.abc import Awaitable, Callable
from functools import partial
from io import BytesIO
from typing import Any

import panel as pn

from hardmax.app.cluster_exports import FILE, KINDS
from hardmax.app.cluster_points import EXAMPLES, MOST_COLUMNS, Points
from hardmax.app.cluster_settings import BOUNDS, HOW, METRICS, USUAL_NOISE, Settings
from hardmax.app.clusters import Clusters
from hardmax.app.controls import COPY, MOST_BYTES
from hardmax.app.dropper import dropper
from hardmax.app.scene import MOST_TOKENS
from hardmax.app.slider import Slider
from hardmax.app.verdict import PARTS, note

OWN = "your own"
AS_THEY_ARE = "as the points are, or principal axes"
NOISE = "Points may be in no cluster"
APART = "Cluster by the other columns alone"
NOBODY = "nobody"
ABOUT = (
    f"Rows of numbers, at most {MOST_TOKENS:,} of {MOST_COLUMNS:,} and {MOST_BYTES // 10**6} MB. A header may come "
    "first, and names may be the first column. They are read on the machine that serves this page, and not kept."
)


class ClusterControls:
    """Widgets; whoever makes them listens to them."""

    def __init__(self, *, on_file: Callable[[str, bytes], None], download: Callable[[str], Awaitable[BytesIO]]) -> None:
        wide: dict[str, Any] = {"sizing_mode": "stretch_width", "margin": (4, 8)}
        group: dict[str, Any] = {"color": "primary", "variant": "outline", **wide}
        w: Any = pn.widgets  # whose types say that every value may be None
        self.example = w.Select(label="Points", options=list(EXAMPLES), value="moons", **wide)
        self.upload = dropper(MOST_BYTES, on_file, margin=(4, 8))
        self.paste = w.TextAreaInput(
            label="Or paste rows of numbers",
            placeholder="name, x, y\nA, 0.6, 0.8\nB, 1, 0",
            rows=4,
            max_length=MOST_BYTES,
            **wide,
        )
        self.use = w.Button(label="Use these", **wide)
        about = pn.pane.HTML(note(ABOUT), sizing_mode="stretch_width", margin=(0, 8), stylesheets=[PARTS])
        slim = {"stylesheets": [".bk-btn { padding: 6px 7px !important; }"]}
        self.how = w.RadioButtonGroup(
            label="How many clusters", options={said: how for how, said in HOW.items()}, value="found", **slim, **group
        )
        self.number = self._slider("Number of clusters", "number")
        self.neighbours = self._slider("Neighbours", "neighbours")
        self.metric = w.RadioButtonGroup(label="Metric", options=list(METRICS), value=METRICS[0], **group)
        self.noisy = w.CheckBoxGroup(label="Noise", options={NOISE: True}, value=[], **wide)
        self.noise = Slider(
            label="Where they are so many times thinner", start=2, end=100, step=1, value=USUAL_NOISE, **wide
        )
        self.across, self.up = (w.Select(label=name, options={}, **wide) for name in ("Across", "Up"))
        self.apart = w.CheckBoxGroup(label="Columns", options={APART: True}, value=[], **wide)
        self.follow = w.Select(label="Show who follows", options={NOBODY: -1}, value=-1, width=240, margin=(4, 8))
        self.whole = w.Button(label="Show all points", width=140, align="end", margin=(4, 8))
        self.code = w.TextAreaInput(label="As Python", rows=8, **wide)
        self.copy = w.Button(label="Copy", width=80, margin=(4, 8))
        self.copy.js_on_click(args={"code": self.code, "button": self.copy}, code=COPY)
        self.downloads = [
            w.FileDownload(
                callback=partial(download, kind), filename=f"{FILE}.{kind}", label=kind.upper(), width=86, margin=4
            )
            for kind in KINDS
        ]
        self.cards: dict[str, list[Any]] = {  # titles, and what is under them
            "Points": [self.example],
            "Points of your own": [self.upload, self.paste, self.use, about],
            "Clusters": [self.how, self.number, self.neighbours, self.metric, self.noisy, self.noise],
            "Axes": [self.across, self.up, self.apart],
            "Export": [pn.FlexBox(*self.downloads), self.code, self.copy],
        }

    @staticmethod
    def _slider(label: str, name: str) -> Slider:
        least, most = BOUNDS[name]
        return Slider(
            label=label,
            start=least,
            end=most,
            step=1,
            value=getattr(Settings(), name),
            sizing_mode="stretch_width",
            margin=(4, 8),
        )

    def show(self, points: Points, settings: Settings) -> None:
        """Let the controls say what is set."""
        names = list(EXAMPLES) if points.example else [OWN, *EXAMPLES]
        self.example.param.update(options=names, value=points.example or OWN)
        for widget, value in (
            (self.how, settings.how),
            (self.number, settings.number),
            (self.neighbours, settings.neighbours),
            (self.metric, settings.metric),
            (self.noisy, [True] if settings.noise else []),
            (self.noise, settings.noise or self.noise.value),
            (self.apart, [True] if settings.apart else []),
        ):
            if widget.value != value:
                widget.value = value
        self.number.visible, self.noise.visible = settings.how != "found", bool(settings.noise)
        options = {AS_THEY_ARE: -1} | {f"{r + 1}: {name}": r for r, name in enumerate(points.columns)}
        for widget, value in ((self.across, settings.across), (self.up, settings.up)):
            if widget.options != options or widget.value != value:
                widget.param.update(options=options, value=value)
        self.apart.visible = bool(settings.drawn) and points.X.shape[1] > 2

    def show_found(self, found: Clusters, chosen: int) -> None:
        """Let it be chosen by keyboard, too, whose followers are seen."""
        label = int(found.labels[chosen]) if chosen >= 0 else -1
        options = {NOBODY: -1} | {
            f"cluster {c}: {found.points.name(int(leader))[:40]}": c for c, leader in enumerate(found.leaders)
        }
        self.follow.param.update(options=options, value=label)
