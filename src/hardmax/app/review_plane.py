"""A head of a text in its plane as SVG: words, leaders, the mean, and the line that decides."""

from collections.abc import Iterator, Sequence

import numpy as np
from markupsafe import Markup

from hardmax._types import FloatArray
from hardmax.app.review_accounts import Plane
from hardmax.draw.style import AGAINST, BESIDE_WORDS, FOR, REST, ranked_colours

SIDE, GAP, TOP = 250, 22, 24  # of a panel and around it, in units of the picture
MARGIN = 0.16  # of the width, for names
LETTER = 6.4  # width of a letter of a name
MOST_NAMES = 8
SQUARE = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
STAR = "0,-8 2.1,-2.6 7.6,-2.5 3.2,1 4.7,6.5 0,3.3 -4.7,6.5 -3.2,1 -7.6,-2.5 -2.1,-2.6"


def frame(plane: Plane) -> tuple[FloatArray, float]:
    """The middle of what is shown, (2,), and half the length of its side."""
    points = plane.points.reshape(-1, 2)
    low, high = points.min(axis=0), points.max(axis=0)
    return (low + high) / 2, (float((high - low).max()) / 2 or 1.0) * (1 + 2 * MARGIN)


def crosses(plane: Plane) -> bool:
    """Whether the decision line can be seen."""
    middle, half = frame(plane)
    return bool(len(crossing(SQUARE * half + middle, plane.normal, plane.offset)))


def plane_svg(plane: Plane) -> str:
    """Panels for some layers, all on one scale."""
    middle, half = frame(plane)
    width = len(plane.layers) * (SIDE + GAP) - GAP
    panels = Markup("").join(
        Markup('<g transform="translate({} {})">{}</g>').format(k * (SIDE + GAP), TOP, _panel(plane, k, middle, half))
        for k in range(len(plane.layers))
    )
    return str(
        Markup(
            '<svg viewBox="0 0 {} {}" role="img" aria-label="Words of a head in its plane, layer by layer" '
            'style="width:100%;max-width:{}px;height:auto;font:12px system-ui,sans-serif">{}</svg>'
        ).format(width, SIDE + TOP + 2, width, panels)
    )


def _panel(plane: Plane, k: int, middle: FloatArray, half: float) -> Markup:
    def seen(points: FloatArray) -> FloatArray:
        """(..., 2) places in the panel, whose second coordinate goes down."""
        return (points - middle) / (2 * half) * [SIDE, -SIDE] + SIDE / 2

    corners = SQUARE * half + middle
    places, layer = seen(plane.points[k]), plane.layers[k]
    parts = [
        Markup('<text x="0" y="-8" fill="var(--hm-text, #1a1a1a)">{}</text>').format(f"layer {layer}"),
        _side(seen(clipped(corners, plane.normal, plane.offset)), f"var(--hm-for, {FOR})"),
        _side(seen(clipped(corners, -plane.normal, -plane.offset)), f"var(--hm-against, {AGAINST})"),
        *_line(seen(crossing(corners, plane.normal, plane.offset))),
        *_tokens(plane, places),
        _mean(seen(plane.means[k])),
        *_names(plane, places),
        Markup('<rect width="{0}" height="{0}" fill="none" stroke="var(--hm-line, #999)"/>').format(SIDE),
    ]
    return Markup("").join(parts)


def clipped(corners: FloatArray, normal: FloatArray, offset: float) -> FloatArray:
    """(m, 2) corners of the part of a convex polygon where normal . z + offset is positive, or 0."""
    found = []
    for corner, inside, cut in _edges(corners, normal, offset):
        found += [corner] if inside else []
        found += [cut] if cut is not None else []
    return np.array(found).reshape(-1, 2)


def crossing(corners: FloatArray, normal: FloatArray, offset: float) -> FloatArray:
    """(2, 2) the ends of the line normal . z + offset = 0 in a convex polygon; (0, 2) where it does not cross it."""
    return np.array([cut for _, _, cut in _edges(corners, normal, offset) if cut is not None]).reshape(-1, 2)


def _edges(
    corners: FloatArray, normal: FloatArray, offset: float
) -> Iterator[tuple[FloatArray, bool, FloatArray | None]]:
    """For every edge its first corner, whether that is inside, and where the line cuts it."""
    values = corners @ normal + offset
    for i in range(len(corners)):
        j = (i + 1) % len(corners)
        inside = bool(values[i] >= 0)
        cut = None
        if inside != bool(values[j] >= 0):
            cut = corners[i] + (corners[j] - corners[i]) * values[i] / (values[i] - values[j])
        yield corners[i], inside, cut


def _side(corners: FloatArray, colour: str) -> Markup:
    listed = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return (
        Markup('<polygon points="{}" fill="{}" fill-opacity="0.12"/>').format(listed, colour) if listed else Markup("")
    )


def _line(ends: FloatArray) -> Iterator[Markup]:
    if len(ends):
        style = 'stroke="var(--hm-text, #444)" stroke-dasharray="5 4"'
        drawn = Markup(f'<line x1="{{:.1f}}" y1="{{:.1f}}" x2="{{:.1f}}" y2="{{:.1f}}" {style}/>')
        yield drawn.format(*ends.ravel().tolist())


def _tokens(plane: Plane, places: FloatArray) -> Iterator[Markup]:
    """Dots in the colour of whom they follow, one for each pixel; leaders as stars above them."""
    leaders = np.flatnonzero(plane.leads)
    sizes = np.bincount(plane.follows[plane.follows >= 0], minlength=len(places))[leaders]
    colours = dict(zip(leaders.tolist(), ranked_colours(sizes, BESIDE_WORDS), strict=True))
    edge = 'stroke="var(--hm-background, #fff)" stroke-width="0.8"'
    taken = set()
    for i in np.flatnonzero(~plane.leads).tolist():
        spot = (*np.round(places[i]).astype(int).tolist(), int(plane.follows[i]))
        if spot not in taken:
            taken.add(spot)
            colour = colours.get(int(plane.follows[i]), REST)
            dot = Markup(f'<circle cx="{{:.1f}}" cy="{{:.1f}}" r="4" fill="{{}}" {edge}><title>{{}}</title></circle>')
            yield dot.format(*places[i].tolist(), colour, plane.words[i])
    for i in leaders.tolist():
        star = Markup(f'<polygon points="{STAR}" transform="translate({{:.1f}} {{:.1f}})" fill="{{}}" {edge}>')
        yield star.format(*places[i].tolist(), colours[i]) + Markup("<title>{}</title></polygon>").format(
            plane.words[i]
        )


def _mean(place: Sequence[float] | FloatArray) -> Markup:
    cross = '<path d="M-5,-5 5,5 M5,-5 -5,5" transform="translate({:.1f} {:.1f})" stroke="{}" stroke-width="{}"/>'
    x, y = float(place[0]), float(place[1])
    halo = Markup(cross).format(x, y, "var(--hm-background, #fff)", 5)
    return halo + Markup(cross).format(x, y, "var(--hm-text, #1a1a1a)", 2.5)


def _names(plane: Plane, places: FloatArray) -> Iterator[Markup]:
    """Leaders by name, those that most follow first, as long as names do not cover each other."""
    leaders = np.flatnonzero(plane.leads)
    followers = np.bincount(plane.follows[plane.follows >= 0], minlength=len(places))
    taken: list[tuple[float, float, float]] = []  # left, right, height
    for i in sorted(leaders.tolist(), key=lambda leader: -int(followers[leader]))[:MOST_NAMES]:
        half = LETTER * len(plane.words[i]) / 2
        x = min(max(float(places[i, 0]), half + 3), SIDE - half - 3)
        above = places[i, 1] <= SIDE / 2
        y = float(places[i, 1]) + (-12 if above else 20)
        if any(x - half < right and left < x + half and abs(y - height) < 14 for left, right, height in taken):
            continue
        taken.append((x - half, x + half, y))
        yield Markup(
            '<text x="{:.1f}" y="{:.1f}" text-anchor="middle" fill="var(--hm-text, #1a1a1a)" paint-order="stroke" '
            'stroke="var(--hm-background, #fff)" stroke-width="3" stroke-linejoin="round">{}</text>'
        ).format(x, y, plane.words[i])
