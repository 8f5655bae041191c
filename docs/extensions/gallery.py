"""The gallery: the order of its groups, and a time limit for each example."""

import os
import signal
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sphinx_gallery.scrapers import figure_rst
from sphinx_gallery.sorting import ExampleTitleSortKey, ExplicitOrder

from extensions import live
from hardmax.draw.movies import Movie
from hardmax.draw.pages import Page

GROUPS = ("see_it", "prove_it", "explain_texts", "cluster", "control", "flows", "speed")
MIN_RATIO, MAX_RATIO = 0.9, 1.6  # width by height of a thumbnail
THUMBNAIL = (400, 280)  # pixels
GAP = 12  # pixels on both sides of a cut: wider than the space between two words
MIN_FRAME = (
    0.35  # of the height of the panels: a column with more ink is the frame of a panel
)
MIN_PANELS = 0.55  # of the height of a figure with one row of panels
MAX_SECONDS = 120  # per example, on two cores, including the compilation of kernels

FIRST = (  # the first example of each group
    *(
        "gathering.py",
        "converge_to_a_finite_set.py",
        "explain_a_review.py",
        "moons_and_blobs.py",
    ),
    *("who_can_lead.py", "spectrum_decides.py", "a_million_tokens.py"),
)


class SimplestFirst(ExampleTitleSortKey):
    """Sort one chosen example of a group first, then the others by title."""

    def __call__(self, filename: Any) -> str:
        """Return the sort key of an example."""
        return "" if Path(filename).name in FIRST else super().__call__(filename)


def settings() -> dict[str, Any]:
    """Return the configuration of sphinx-gallery, which runs an example again only if
    its file has changed.
    """
    return {
        "examples_dirs": "../examples",
        "gallery_dirs": "gallery",
        "subsection_order": ExplicitOrder([f"../examples/{group}" for group in GROUPS]),
        "within_subsection_order": SimplestFirst,
        "filename_pattern": r"\.py$",
        "abort_on_example_error": True,
        "reset_modules": ("matplotlib", limited),
        "reset_modules_order": "both",
        "parallel": os.cpu_count() or 1,
        "write_computation_times": False,  # that page loads scripts from another host
        "min_reported_time": 0,
        "show_signature": False,
        "remove_config_comments": True,
        "copyfile_regex": r".*\.rst",
        "doc_module": ("hardmax",),
        "backreferences_dir": "gallery/backreferences",
        "image_scrapers": ("matplotlib", shown),
        "matplotlib_animations": False,
        "thumbnail_size": THUMBNAIL,
    }


def crop_thumbnails(app: Any) -> None:
    """Replace the thumbnails of wide figures by their left panels, which stay readable."""
    for thumbnail in Path(app.srcdir, "gallery").glob("*/images/thumb/*_thumb.png"):
        source = thumbnail.parents[1] / thumbnail.name.replace("_thumb.png", "_001.png")
        if source.is_file():
            with Image.open(source) as image:
                if image.width > MAX_RATIO * image.height:
                    picture = crop(image)
                    picture.thumbnail(THUMBNAIL)
                    picture.save(thumbnail)


def crop(image: Image.Image) -> Image.Image:
    """Return the left panels of a figure with one row, without titles and legends that
    the cut crosses.
    """
    least, most = round(MIN_RATIO * image.height), round(MAX_RATIO * image.height)
    ink = np.asarray(image.convert("L")) < 250
    bands = _runs(ink.any(axis=1))  # rows with ink: titles, panels, legends
    panels = max(bands, key=len)
    filled = ink[panels].mean(axis=0)  # of each column
    gaps = [gap for gap in _runs(filled == 0) if least <= gap.mean() <= most]
    if not gaps or len(panels) < MIN_PANELS * image.height:
        return image.convert("RGB")
    framed = [gap for gap in gaps if filled[gap[0] - 1] > MIN_FRAME]
    right = int(max(framed or gaps, key=len).mean())
    torn = [
        band
        for band in bands
        if band is not panels and ink[band, right - GAP : right + GAP].any()
    ]
    top = max((band[-1] + 1 for band in torn if band[-1] < panels[0]), default=0)
    bottom = min(
        (band[0] for band in torn if band[0] > panels[-1]), default=image.height
    )
    return image.convert("RGB").crop((0, int(top), right, int(bottom)))


def _runs(mask: Any) -> list[Any]:
    """Return the arrays of adjacent indices at which a mask is True."""
    found = np.flatnonzero(mask)
    return [
        run
        for run in np.split(found, np.flatnonzero(np.diff(found) > 1) + 1)
        if len(run)
    ]


def limited(conf: dict[str, Any], name: str, when: str) -> None:
    """Start the time limit before an example, and stop it afterwards."""

    def stop(number: int, frame: Any) -> None:
        raise TimeoutError(f"{Path(name).name} must end within {MAX_SECONDS} seconds.")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(MAX_SECONDS if when == "before" else 0)


def shown(block: Any, variables: dict[str, Any], conf: dict[str, Any]) -> str:
    """Return RST that shows the movies and pages that an example assigned to names
    since the last block.
    """
    names = variables["example_globals"]
    seen = names.setdefault("__shown__", set())
    found = {
        id(thing): thing
        for thing in names.values()
        if isinstance(thing, Movie | Page) and id(thing) not in seen
    }
    seen.update(found)
    return "".join(_rst(thing, variables, conf) for thing in found.values())


def _rst(thing: Movie | Page, variables: dict[str, Any], conf: dict[str, Any]) -> str:
    source = Path(variables["src_file"])
    if isinstance(thing, Movie):
        image = Path(next(variables["image_path_iterator"])).with_suffix(thing.ending)
        thing.save(image)
        return figure_rst([str(image)], conf["src_dir"])
    # Do not take a name from `image_path_iterator` for a page: sphinx-gallery expects
    # an image of that name.
    name = f"{source.parent.name}-{source.stem}-{sha256(thing.encode()).hexdigest()[:8]}.html"
    live.write(thing, Path(conf["src_dir"]) / "static" / "live" / name)
    frame = live.frame(f"../../_static/live/{name}", source.stem.replace("_", " "))
    return f"\n.. raw:: html\n\n    {frame}\n\n"
