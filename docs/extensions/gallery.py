"""The gallery: its groups in the order of the readers, and a limit on the seconds that an example may take."""

import signal
from hashlib import sha256
from pathlib import Path
from typing import Any

from sphinx_gallery.scrapers import figure_rst
from sphinx_gallery.sorting import ExampleTitleSortKey, ExplicitOrder

from extensions import live
from hardmax.draw.movies import Movie
from hardmax.draw.pages import Page

GROUPS = ("see_it", "prove_it", "explain_texts", "cluster", "control", "flows", "speed")
MOST_SECONDS = 120  # of one example, on a machine with two cores, where compiled code may have to be made first

FIRST = (  # in each group: where to begin
    *("gathering.py", "converge_to_a_finite_set.py", "explain_a_review.py", "moons_and_blobs.py"),
    *("who_can_lead.py", "spectrum_decides.py", "a_million_tokens.py"),
)


class SimplestFirst(ExampleTitleSortKey):
    """One example of a group first, then the others by title."""

    def __call__(self, filename: Any) -> str:
        """Return what to sort by."""
        return "" if Path(filename).name in FIRST else super().__call__(filename)


def settings() -> dict[str, Any]:
    """What sphinx-gallery wants. It runs an example again only if its file has changed."""
    return {
        "examples_dirs": "../examples",
        "gallery_dirs": "gallery",
        "subsection_order": ExplicitOrder([f"../examples/{group}" for group in GROUPS]),
        "within_subsection_order": SimplestFirst,
        "filename_pattern": r"\.py$",
        "abort_on_example_error": True,
        "reset_modules": ("matplotlib", limited),
        "reset_modules_order": "both",
        "show_memory": True,
        "write_computation_times": False,  # their page would load scripts of another host
        "min_reported_time": 0,
        "show_signature": False,
        "remove_config_comments": True,
        "copyfile_regex": r".*\.rst",
        "doc_module": ("hardmax",),
        "backreferences_dir": "gallery/backreferences",
        "image_scrapers": ("matplotlib", shown),
        "matplotlib_animations": False,
        "thumbnail_size": (400, 280),
    }


def limited(conf: dict[str, Any], name: str, when: str) -> None:
    """Start the clock before an example, and stop it after."""

    def late(number: int, frame: Any) -> None:
        raise TimeoutError(f"{Path(name).name} must end within {MOST_SECONDS} seconds.")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(MOST_SECONDS if when == "before" else 0)


def shown(block: Any, variables: dict[str, Any], conf: dict[str, Any]) -> str:
    """Show the movies and pages that an example has made since the last block: those it keeps under a name."""
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
    # A page is no image: asking for the name of one would promise its file.
    name = f"{source.parent.name}-{source.stem}-{sha256(thing.encode()).hexdigest()[:8]}.html"
    live.write(thing, Path(conf["src_dir"]) / "static" / "live" / name)
    frame = live.frame(f"../../_static/live/{name}", source.stem.replace("_", " "))
    return f"\n.. raw:: html\n\n    {frame}\n\n"
