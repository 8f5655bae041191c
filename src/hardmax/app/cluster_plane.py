"""Clusters in the plane: stars lead, crosses are in none, and a click shows who follows the same leader."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from bokeh.models import ColumnDataSource, CustomJS, HoverTool, PanTool, TapTool, WheelZoomTool
from bokeh.plotting import figure

from hardmax._types import IntArray
from hardmax.app.clusters import Clusters, placed
from hardmax.draw import style

HOVER = """<div style="font: 13px system-ui, sans-serif; color: #1b1f24"><b>@name</b><br>@cluster<br>@leader
<br>strength @strength{0.00}</div>"""
FAINT = 0.25  # of points that are not of the cluster that was clicked
STAR, DOT, HEIGHT = 20.0, 9.0, 560  # pixels


class Drawing(NamedTuple):
    """Columns of what is drawn."""

    rows: IntArray  # which point each is: leaders last, so above the others
    points: dict[str, Any]
    stars: dict[str, Any]
    lines: dict[str, Any]  # from followers to their leader
    axes: tuple[str, str]
    equal: bool  # whether both have one scale


class ClusterPlane:
    """The picture; whoever makes it hears which point was clicked, or -1."""

    def __init__(self, on_click: Callable[[int], None], *, dark: bool) -> None:
        self._on_click, self._setting = on_click, False
        self._rows = np.zeros(0, np.intp)
        ink, line, edge = ("#e8ebef", "#3a424c", "#e8ebef") if dark else ("#1b1f24", "#e3e7ec", style.EDGE)
        self.source = ColumnDataSource({name: [] for name in (*"xy", "colour", "marker", "size", "alpha", "edge")})
        self.stars = ColumnDataSource({name: [] for name in (*"xy", "colour", "marker", "size", "edge")})
        self.lines = ColumnDataSource({name: [] for name in ("x0", "y0", "x1", "y1")})
        wheel = WheelZoomTool()
        self.figure: Any = figure(
            name="clusters",
            tools=[PanTool(), wheel],
            toolbar_location=None,
            sizing_mode="stretch_width",
            height=HEIGHT,
            background_fill_color=None,
            border_fill_color=None,
            outline_line_color=line,
            match_aspect=True,
        )
        plot = self.figure
        plot.toolbar.active_scroll = wheel
        self._edge = edge
        look: dict[str, Any] = {"fill_color": "colour", "line_color": "edge", "size": "size", "marker": "marker"}
        points = plot.scatter("x", "y", source=self.source, fill_alpha="alpha", line_alpha="alpha", **look)
        points.nonselection_glyph = points.selection_glyph = None
        self._followers = plot.segment("x0", "y0", "x1", "y1", source=self.lines, line_color=ink, line_width=1)
        plot.scatter("x", "y", source=self.stars, **look)  # above the lines to them
        plot.add_tools(HoverTool(renderers=[points], tooltips=HOVER, limit=1))
        plot.add_tools(TapTool(renderers=[points], mode="replace"))
        for axis in (*plot.xaxis, *plot.yaxis):
            axis.axis_label_text_color = axis.major_label_text_color = ink
            axis.axis_line_color = axis.major_tick_line_color = axis.minor_tick_line_color = line
            axis.axis_label_text_font_style = "normal"
        plot.grid.grid_line_color = line
        plot.grid.grid_line_alpha = 0.6
        plot.js_on_change("tags", CustomJS(code="cb_obj.reset.emit()"))  # so that other points are seen whole
        self.source.selected.on_change("indices", self._clicked)

    def _clicked(self, attribute: str, old: list[int], new: list[int]) -> None:
        """Hear what a browser says, which may be forged."""
        good = [i for i in new if isinstance(i, int) and 0 <= i < len(self._rows)]
        if not self._setting:
            self._on_click(int(self._rows[good[-1]]) if good else -1)

    def drawing(self, found: Clusters, chosen: int) -> Drawing:
        """What to show of clusters, and of who follows the leader of the point that is chosen."""
        points, axes, equal = placed(found.points, found.settings)
        labels, leaders, n = found.labels, found.leaders, len(found.labels)
        colours = np.array([*style.ranked_colours(found.sizes), style.REST], object)[labels]
        leads, is_chosen = np.isin(np.arange(n), leaders), np.arange(n) == chosen
        small = DOT * np.sqrt(style.marker_size(n) / style.SIZE) + 1.5
        label = int(labels[chosen]) if chosen >= 0 else -1
        seen = (labels == label) if label >= 0 else np.ones(n, bool)
        names = [found.points.name(i) for i in range(n)]
        led_by = [f"led by {names[leaders[c]]}" if c >= 0 else "follows nobody" for c in labels.tolist()]
        columns: dict[str, Any] = {
            "x": points[:, 0],
            "y": points[:, 1],
            "colour": colours,
            "edge": np.where(leads | is_chosen, self._edge, colours),
            "marker": np.where(leads, "star", np.where(labels < 0, "x", "circle")).astype(object),
            "size": np.where(leads, STAR, small * np.where(is_chosen, 1.8, 1)),
            "alpha": np.where(seen | leads, 1.0, FAINT),
            "name": np.array(names, object),
            "cluster": np.array([f"cluster {c}" if c >= 0 else "in no cluster" for c in labels.tolist()], object),
            "leader": np.array(["leads" if led else said for led, said in zip(leads, led_by, strict=True)], object),
            "strength": found.strengths,
        }
        rows = np.argsort(leads, kind="stable")
        ends = np.flatnonzero(labels == label) if label >= 0 else np.zeros(0, np.intp)
        to = np.repeat(points[leaders[[label]]], len(ends), axis=0)
        lines = {"x0": points[ends, 0], "y0": points[ends, 1], "x1": to[:, 0], "y1": to[:, 1]}
        stars = {name: columns[name][leaders] for name in self.stars.column_names}
        return Drawing(rows, {name: column[rows] for name, column in columns.items()}, stars, lines, axes, equal)

    def show(self, drawn: Drawing, *, anew: bool) -> None:
        """Draw it; `anew` shows everything."""
        self._rows, self._setting = drawn.rows, True
        try:
            self.source.data = drawn.points
            self.source.selected.indices = []
        finally:
            self._setting = False
        self.stars.data, self.lines.data = drawn.stars, drawn.lines
        self._followers.glyph.line_alpha = max(0.05, min(0.6, 40 / max(1, len(drawn.lines["x0"]))))
        self.figure.xaxis.axis_label, self.figure.yaxis.axis_label = drawn.axes
        self.figure.match_aspect = drawn.equal
        if anew:
            self.figure.tags = [] if self.figure.tags else ["seen whole"]
