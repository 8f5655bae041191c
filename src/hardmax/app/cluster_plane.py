"""Clusters in the plane: stars lead, crosses are in none, and a click shows who follows the same leader."""

from collections.abc import Callable
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, CustomJS, HoverTool, PanTool, TapTool, WheelZoomTool
from bokeh.plotting import figure

from hardmax.app.clusters import Clusters, placed
from hardmax.draw import style

HOVER = """<div style="font: 13px system-ui, sans-serif; color: #1b1f24"><b>@name</b><br>@cluster<br>@leader
<br>strength @strength{0.00}</div>"""
FAINT = 0.25  # of points that are not of the cluster that was clicked
STAR, DOT, HEIGHT = 20.0, 9.0, 560  # pixels


class ClusterPlane:
    """The picture; whoever makes it hears which point was clicked, or -1."""

    def __init__(self, on_click: Callable[[int], None], *, dark: bool) -> None:
        self._on_click, self._setting = on_click, False
        self._rows = np.zeros(0, np.intp)  # which point each row of the source is: leaders last, so above the others
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

    def show(self, found: Clusters, chosen: int, *, anew: bool) -> None:
        """Draw clusters, and who follows the leader of the point that is chosen; `anew` shows everything."""
        points, (across, up), equal = placed(found.points, found.settings)
        labels, leaders, n = found.labels, found.leaders, len(found.labels)
        colours = np.array([*style.ranked_colours(found.sizes), style.REST], object)[labels]
        leads = np.isin(np.arange(n), leaders)
        small = DOT * np.sqrt(style.marker_size(n) / style.SIZE) + 1.5
        chosen_label = int(labels[chosen]) if chosen >= 0 else -1
        seen = (labels == chosen_label) if chosen_label >= 0 else np.ones(n, bool)
        names = [found.points.name(i) for i in range(n)]
        led_by = [f"led by {names[leaders[label]]}" if label >= 0 else "follows nobody" for label in labels.tolist()]
        self._rows = rows = np.argsort(leads, kind="stable")
        columns: dict[str, Any] = {
            "x": points[:, 0],
            "y": points[:, 1],
            "colour": colours,
            "edge": np.where(leads | (np.arange(n) == chosen), self._edge, colours),
            "marker": np.where(leads, "star", np.where(labels < 0, "x", "circle")).astype(object),
            "size": np.where(leads, STAR, small * np.where(np.arange(n) == chosen, 1.8, 1)),
            "alpha": np.where(seen | leads, 1.0, FAINT),
            "name": np.array(names, object),
            "cluster": np.array([f"cluster {c}" if c >= 0 else "in no cluster" for c in labels.tolist()], object),
            "leader": np.array(["leads" if led else said for led, said in zip(leads, led_by, strict=True)], object),
            "strength": found.strengths,
        }
        self._setting = True
        try:
            self.source.data = {name: column[rows] for name, column in columns.items()}
            self.source.selected.indices = []
            self.stars.data = {name: columns[name][leaders] for name in self.stars.column_names}
        finally:
            self._setting = False
        self._draw_lines(points, labels, leaders, chosen_label)
        self.figure.xaxis.axis_label, self.figure.yaxis.axis_label = across, up
        self.figure.match_aspect = equal
        if anew:
            self.figure.tags = [len(self.figure.tags or []) % 2 * "again" or "seen"]

    def _draw_lines(self, points: Any, labels: Any, leaders: Any, label: int) -> None:
        """From all followers of a leader to it."""
        ends = np.flatnonzero(labels == label) if label >= 0 else np.zeros(0, np.intp)
        to = np.repeat(points[leaders[label]][None], len(ends), axis=0) if len(ends) else np.zeros((0, 2))
        if len(ends):
            self._followers.glyph.line_alpha = max(0.05, min(0.6, 40 / len(ends)))
        self.lines.data = {"x0": points[ends, 0], "y0": points[ends, 1], "x1": to[:, 0], "y1": to[:, 1]}
