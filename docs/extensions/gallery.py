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
MAX_SECONDS = 120  # per example, on two cores, including the compilation of kernels

FIRST = (  # the first example of each group
    *("gathering.py", "converge_to_a_finite_set.py", "explain_a_review.py", "moons_and_blobs.py"),
    *("who_can_lead.py", "spectrum_decides.py", "a_million_tokens.py"),
)


class SimplestFirst(ExampleTitleSortKey):
    """Sort one chosen example of a group first, then the others by title."""

    def __call__(self, filename: Any) -> str:
        """Return the sort key of an example."""
        return "" if Path(filename).name in FIRST else super().__call__(filename)


def settings() -> dict[str, Any]:
    """Return the configuration of sphinx-gallery, which runs an example again only if its file has changed."""
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
    """Let thumbnails of wide figures show the left panels, which stay readable."""
    for thumbnail in Path(app.srcdir, "gallery").glob("*/images/thumb/*_thumb.png"):
        source = thumbnail.parents[1] / thumbnail.name.replace("_thumb.png", "_001.png")
        if source.is_file():
            with Image.open(source) as image:
                if image.width > MAX_RATIO * image.height:
                    picture = image.convert("RGB").crop((0, 0, _width(image), image.height))
                    picture.thumbnail(THUMBNAIL)
                    picture.save(thumbnail)


def _width(image: Image.Image) -> int:
    """Return the width of the left part of a figure: up to the widest gap between panels, if there is one."""
    least, most = round(MIN_RATIO * image.height), round(MAX_RATIO * image.height)
    rows = np.asarray(image.convert("L"))[image.height // 8 : image.height * 3 // 4]  # without titles and legends
    gaps = np.flatnonzero((rows[:, least:most] > 250).all(axis=0))
    gap = max(np.split(gaps, np.flatnonzero(np.diff(gaps) > 1) + 1), key=len)  # adjacent white columns
    return int(least + gap.mean()) if len(gap) else most


def limited(conf: dict[str, Any], name: str, when: str) -> None:
    """Start the time limit before an example, and stop it afterwards."""

    def stop(number: int, frame: Any) -> None:
        raise TimeoutError(f"{Path(name).name} must end within {MAX_SECONDS} seconds.")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(MAX_SECONDS if when == "before" else 0)


def shown(block: Any, variables: dict[str, Any], conf: dict[str, Any]) -> str:
    """Return RST that shows the movies and pages that an example assigned to names since the last block."""
    names = variables["example_globals"]
    seen = names.setdefault("__shown__", set())
    found = {id(thing): thing for thing in names.values() if isinstance(thing, Movie | Page) and id(thing) not in seen}
    seen.update(found)
    return "".join(_rst(thing, variables, conf) for thing in found.values())


def _rst(thing: Movie | Page, variables: dict[str, Any], conf: dict[str, Any]) -> str:
    source = Path(variables["src_file"])
    if isinstance(thing, Movie):
        image = Path(next(variables["image_path_iterator"])).with_suffix(thing.ending)
        thing.save(image)
        return figure_rst([str(image)], conf["src_dir"])
    # Do not take a name from `image_path_iterator` for a page: sphinx-gallery expects an image of that name.
    name = f"{source.parent.name}-{source.stem}-{sha256(thing.encode()).hexdigest()[:8]}.html"
    live.write(thing, Path(conf["src_dir"]) / "static" / "live" / name)
    frame = live.frame(f"../../_static/live/{name}", source.stem.replace("_", " "))
    return f"\n.. raw:: html\n\n    {frame}\n\n"
