"""Clusters in words: a sentence, a table, and who follows whom. Whatever a person wrote is escaped here."""

from base64 import b64encode

import numpy as np
from markupsafe import Markup

from hardmax._display import count
from hardmax._types import IntArray
from hardmax.app.clusters import Clusters
from hardmax.draw.style import ranked_colours

MOST_ROWS = 30  # clusters in the table
SHORT = 40  # characters of a name

CSS = """
.swatch { display: inline-block; width: 0.8em; height: 0.8em; border-radius: 2px; margin-right: 0.4em;
  border: 1px solid var(--hm-line); vertical-align: -0.05em; }
.hm-scroll { overflow-x: auto; } .hm-scroll:focus-visible { outline: 3px solid var(--hm-focus); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
h2 { font-size: 15px; margin: 12px 0 4px; } img { width: 100%; }
td { vertical-align: top; overflow-wrap: anywhere; }
"""


def _short(found: Clusters, i: int) -> str:
    """A name for a table; of a point without one its number."""
    name = found.points.names[i] if found.points.names else str(i)
    return name if len(name) <= SHORT else f"{name[: SHORT - 1]}…"


def _listed(found: Clusters, points: IntArray) -> str:
    return ("; " if found.points.names else ", ").join(_short(found, i) for i in points.tolist())


def status(found: Clusters) -> str:
    """How many clusters there are, how that was found, and what else is to be said."""
    said = [Markup('<p class="hm-status" role="status">{}</p>').format(found.status)]
    d = found.points.X.shape[1]
    if found.settings.drawn:
        said.append(Markup("<p>Drawn by two of {} columns.</p>").format(d))
    elif d > 2:
        said.append(Markup("<p>Points of {} columns, drawn along their two principal axes.</p>").format(d))
    if found.points.note:
        said.append(Markup("<p>{}</p>").format(found.points.note))
    return str(Markup("").join(said))


def table(found: Clusters) -> str:
    """Size, leader, mean strength and exemplars of each cluster, the largest first."""
    sizes, colours = found.sizes, ranked_colours(found.sizes)
    order = np.argsort(-sizes, kind="stable")[:MOST_ROWS]
    rows = []
    for c in order.tolist():
        rows.append(
            Markup(
                '<tr><td><span class="swatch" style="background: {}"></span>{}</td><td class="number">{:,}</td>'
                '<td>{}</td><td class="number">{:.2f}</td><td>{}</td></tr>'
            ).format(
                colours[c],
                c,
                int(sizes[c]),
                _short(found, int(found.leaders[c])),
                float(found.strengths[found.labels == c].mean()) if sizes[c] else 0.0,
                _listed(found, found.exemplars[c][1:]),
            )
        )
    more = f"The {MOST_ROWS} largest of {len(sizes)}. " if len(sizes) > MOST_ROWS else ""
    grey = "Grey: the smaller clusters. " if len(sizes) > len(set(colours)) else ""
    head = Markup(
        '<th scope="col">cluster</th><th scope="col" class="number">points</th><th scope="col">leader</th>'
        '<th scope="col" class="number">mean strength</th><th scope="col">others that stand for it</th>'
    )
    made = Markup(
        '<div class="hm-scroll" role="region" aria-label="Clusters" tabindex="0"><table><thead><tr>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>"
    ).format(head, Markup("").join(rows))
    return str(made + (Markup("<p>{}{}</p>").format(more, grey) if more or grey else Markup("")))


def followed(found: Clusters, chosen: int) -> str:
    """Of the point that was clicked: whom it follows, who does as well, and who stands for them."""
    if chosen < 0:
        return "<p>Stars lead, crosses are in no cluster. Click a point to see who follows the same leader.</p>"
    name, label = found.points.name, int(found.labels[chosen])
    if label < 0:
        return str(Markup("<p><b>{}</b> is in no cluster.</p>").format(name(chosen)))
    leader, others = int(found.leaders[label]), found.exemplars[label][1:]
    who = f"follows {name(leader)}, with strength {found.strengths[chosen]:.2f}"
    followers = count(int(found.sizes[label]) - 1, "follower")
    line = "<p><b>{}</b> {}: cluster {}, with {}. {}</p>"
    stand = f"With {name(leader)} these stand for it: {_listed(found, others)}." if len(others) else ""
    return str(Markup(line).format(name(chosen), "leads" if leader == chosen else who, label, followers, stand))


def tree(found: Clusters, svg: bytes) -> str:
    """The picture of the tree, and what it shows."""
    said = f"The tree of clusters, cut where {len(found.leaders)} are left"
    source = f"data:image/svg+xml;base64,{b64encode(svg).decode()}"
    return str(Markup('<h2>The tree</h2><img src="{}" alt="{}">').format(source, said))
